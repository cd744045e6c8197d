# The verbs: demo, test, lint, fuzz, sanitize, test-lowest, test-newest, bench, docs, reproduce. Each makes its own virtual environment
# first, in .venv; test-lowest in .venv-lowest, sanitize in build/sanitize-*.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
# To set up: `uv` if there is one, else pip. Nothing is compiled to bytecode beforehand; whatever is imported is, then. Kernels are
# compiled for this machine, and the baseline beside them, which tests compare with; wheels have them for every machine.
SETUP := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python --reinstall-package unmix,$(INSTALL) --no-compile) \
	--no-build-isolation
AND_BASELINE := '--config-settings=cmake.define.UNMIX_ISAS=native;baseline'
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmake>=3.21' ninja
NATIVE := $(wildcard native/*) CMakeLists.txt pyproject.toml

.PHONY: demo test lint fuzz sanitize test-lowest test-newest bench docs reproduce reproduce-full clean

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

# The kernels compiled to watch themselves, for what is outside arrays or undefined and then for races of threads, and all tests that
# drive them closely. Only what the kernels do is reported: the interpreter is not compiled so, and has leaks and races of its own.
sanitize: sanitize-address sanitize-thread
SANITIZED := $(addprefix tests/test_,kernels.py kernel_arguments.py kernel_threads.py variational_kernels.py allocation.py \
	streamed.py differences.py)
sanitize-%: build/sanitize-%/installed
	rm -f build/sanitize-$*/report*
	LD_PRELOAD="$$($(CXX) -print-file-name=lib$(RUNTIME_$*).so) $$($(CXX) -print-file-name=libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0:log_path=$(CURDIR)/build/sanitize-$*/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(CURDIR)/build/sanitize-$*/report \
	TSAN_OPTIONS=ignore_noninstrumented_modules=1:report_signal_unsafe=0:log_path=$(CURDIR)/build/sanitize-$*/report \
		build/sanitize-$*/bin/python -m pytest $(SANITIZED)
	! cat build/sanitize-$*/report* 2> /dev/null

# With the lowest versions that pyproject.toml declares; what they depend on in turn is as new as can be, as with pip. All
# tests but those of the browser and of the pages: the one drives a page that no library draws, the other reads text.
test-lowest: $(LOWEST)/built
	$(LOWEST)/bin/python -m pytest --ignore tests/test_report_browser.py --ignore tests/test_docs.py

# With the newest released versions of everything, which the ordinary environment then has.
test-newest: $(VENV)/developed
	$(INSTALL) --upgrade --upgrade-strategy eager --no-build-isolation $(AND_BASELINE) --editable '.[dev]'
	$(BIN)/python -m pytest

bench: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m benchmarks

# The papers' figures and tables; NAMES="swimmer plsi" makes some of them.
reproduce: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m reproduce $(NAMES)

reproduce-full: $(VENV)/developed
	$(SETUP) $(AND_BASELINE) --editable '.[bench]'
	$(BIN)/python -m reproduce --full $(NAMES)

# Runs the tutorials, so their results are those of this library. Warnings are errors, and nothing is fetched.
docs: $(VENV)/documented
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
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

# `uv` reads the versions from pyproject.toml; only wheels, since an old source may not compile on a new machine. The objects are
# compiled in a folder of their own, so that those of .venv stay valid.
$(LOWEST)/built: $(NATIVE)
	rm -rf $(LOWEST) && $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check uv $(BUILD_TOOLS)
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --only-binary :all: \
		-r pyproject.toml --extra dev
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--config-settings=build-dir=build/lowest $(AND_BASELINE) --editable .
	$(LOWEST)/bin/uv pip list --python $(LOWEST)/bin/python
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build demo docs/_build
