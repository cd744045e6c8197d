# The four verbs: demo, test, lint, bench. Each makes its own virtual environment first, in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml

.PHONY: demo test lint bench clean

demo: $(VENV)/installed
	$(BIN)/unmix demo -o demo

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/developed
	$(INSTALL) --no-build-isolation --editable '.[bench]'
	$(BIN)/python -m benchmarks

# Build tools live in the environment, not in an isolated one, so that the compiled objects in build/ stay valid.
$(VENV)/installed: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
	$(INSTALL) --no-build-isolation --editable '.[all]'
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build demo
