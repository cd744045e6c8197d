# The verbs: demo, test, lint, bench, docs, reproduce. Each makes its own virtual environment first, in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml

.PHONY: demo test lint bench docs reproduce reproduce-full clean

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

# The papers' figures and tables; NAMES="swimmer plsi" makes some of them.
reproduce: $(VENV)/developed
	$(INSTALL) --no-build-isolation --editable '.[bench]'
	$(BIN)/python -m reproduce $(NAMES)

reproduce-full: $(VENV)/developed
	$(INSTALL) --no-build-isolation --editable '.[bench]'
	$(BIN)/python -m reproduce --full $(NAMES)

# Runs the tutorials, so their results are those of this library. Warnings are errors, and nothing is fetched.
docs: $(VENV)/documented
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	@echo "look at docs/_build/html/index.html"

# Build tools live in the environment, not in an isolated one, so that the compiled objects in build/ stay valid.
$(VENV)/installed: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
	$(INSTALL) --no-build-isolation --editable '.[all]'
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

$(VENV)/documented: $(VENV)/installed
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build demo docs/_build
