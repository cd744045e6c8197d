# The verbs: demo, test, lint, fuzz, test-lowest, test-newest, bench, docs, reproduce. Each makes its own virtual environment
# first, in .venv; test-lowest in .venv-lowest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml

.PHONY: demo test lint fuzz test-lowest test-newest bench docs reproduce reproduce-full clean

demo: $(VENV)/installed
	$(BIN)/unmix demo -o demo

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Spoils files of every kind for FUZZ_SECONDS, then searches for examples that break a promise: FUZZ_EXAMPLES random ones for
# each of some thirty tests.
FUZZ_SECONDS ?= 600
FUZZ_EXAMPLES ?= 200
fuzz: $(VENV)/developed
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest tests -m hypothesis --hypothesis-profile=search

# With the lowest versions that pyproject.toml declares; what they depend on in turn is as new as can be, as with pip. All
# tests but those of the browser and of the pages: the one drives a page that no library draws, the other reads text.
test-lowest: $(LOWEST)/built
	$(LOWEST)/bin/python -m pytest --ignore tests/test_report_browser.py --ignore tests/test_docs.py

# With the newest released versions of everything, which the ordinary environment then has.
test-newest: $(VENV)/developed
	$(INSTALL) --upgrade --upgrade-strategy eager --no-build-isolation --editable '.[dev]'
	$(BIN)/python -m pytest

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
	$(INSTALL) $(BUILD_TOOLS)
	$(INSTALL) --no-build-isolation --editable '.[all]'
	touch $@

$(VENV)/developed: $(VENV)/installed
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

$(VENV)/documented: $(VENV)/installed
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@

# `uv` reads the versions from pyproject.toml; only wheels, since an old source may not compile on a new machine. The objects are
# compiled in a folder of their own, so that those of .venv stay valid.
$(LOWEST)/built: $(NATIVE)
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check uv $(BUILD_TOOLS)
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --only-binary :all: \
		-r pyproject.toml --extra dev
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings=build-dir=build/lowest --editable .
	$(LOWEST)/bin/uv pip list --python $(LOWEST)/bin/python
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build demo docs/_build
