# The four verbs: demo, test, lint, bench. Each makes its own virtual environment first, in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
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
	$(BIN)/pip install --quiet '.[bench]'
	$(BIN)/python -m benchmarks

$(VENV)/installed: $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build demo
