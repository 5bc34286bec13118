# Everything sets itself up in .venv: `make demo` and `make test` are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
NATIVE := CMakeLists.txt $(wildcard src/native/*.* src/native/bindings/*)
# Tests start hundreds of processes, and each would compile bushel again.
export PYTHONDONTWRITEBYTECODE :=
CXX_SOURCES := $(foreach folder,src/native src/native/bindings tests/native,$(wildcard $(folder)/*.cpp $(folder)/*.h))

.PHONY: demo test coverage test-scripts test-slow test-view test-frameworks check typed docs native tsan fuzz fuzz-files arm64 wheels bench format clean

$(STAMPS)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bushel needs Python 3.11 or later; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build: $(STAMPS)/pip pyproject.toml
	$(BIN)/pip install --quiet --group build
	@touch $@

$(STAMPS)/install: $(STAMPS)/build $(NATIVE) pyproject.toml
	$(BIN)/pip install --quiet --no-build-isolation --editable .
	@cp $$($(BIN)/python -c 'import bushel._native as n, pathlib; print(pathlib.Path(n.__file__).parent)')/_native.pyi src/bushel/
	@touch $@

$(STAMPS)/test $(STAMPS)/view $(STAMPS)/check $(STAMPS)/typed $(STAMPS)/bench $(STAMPS)/demo: $(STAMPS)/%: $(STAMPS)/install
	$(BIN)/pip install --quiet --group $*
	@touch $@

# The demo trains: the frameworks come with it.
demo: $(STAMPS)/demo
	@$(BIN)/python examples/demo.py

test: $(STAMPS)/test native
	$(BIN)/python -m pytest -n auto --durations=10 -m "not slow and not scripts"

# Branches that tests take, by room: TESTS=tests/records looks at some of them. What is printed is printed even if a test fails.
coverage: $(STAMPS)/test
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest -n auto -m "not slow and not scripts" $(TESTS); status=$$?; \
	  $(BIN)/coverage combine --quiet && $(BIN)/coverage json --quiet && $(BIN)/python tests/coverage_by_room.py build/coverage/report.json; \
	  exit $$status

# Every fault in scripts, and every correct script, in real runs: forked from processes that have imported TensorFlow.
test-scripts: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto -m scripts tests/checking

test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -m slow

# The page in a real browser, which is the system's Chromium; without one the tests are skipped and say so.
test-view: $(STAMPS)/view
	$(BIN)/python -m pytest tests/viewing/test_browser.py

# torch, JAX and their helpers are large: they have an environment of their own, which borrows everything else.
FRAMEWORKS := .venv-frameworks

$(FRAMEWORKS)/stamp: $(STAMPS)/test
	$(BIN)/python -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/python -c 'import pathlib, sys, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "borrowed.pth").write_text(f"import site; site.addsitedir({sys.argv[1]!r})\n")' \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	$(FRAMEWORKS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(FRAMEWORKS)/bin/pip install --quiet --group frameworks
	@touch $@

PYTEST_WITH_THEM = PATH="$(abspath $(BIN)):$$PATH" $(FRAMEWORKS)/bin/python -m pytest

# Apart: a process in which JAX runs must not fork, and workers of torch are forked.
test-frameworks: $(FRAMEWORKS)/stamp
	$(PYTEST_WITH_THEM) -n auto tests/frameworks/torch
	$(PYTEST_WITH_THEM) -n auto tests/frameworks/jax
	$(PYTEST_WITH_THEM) -n auto tests/training/test_options.py tests/training/test_resume.py -k other_backends
	$(PYTEST_WITH_THEM) tests/docs -k torch
	$(PYTEST_WITH_THEM) tests/docs -k jax

CMAKE = $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DBUSHEL_WERROR=ON -DCMAKE_BUILD_TYPE=None
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all

# The core's own tests, and the fuzz targets' seeds, under the address and undefined-behaviour sanitizers.
native: $(STAMPS)/build
	@$(CMAKE) -B build/native -DBUSHEL_NATIVE_TESTS=ON -DCMAKE_CXX_FLAGS="-O1 -g1 $(SANITIZE)" > /dev/null
	$(BIN)/cmake --build build/native
	$(BIN)/ctest --test-dir build/native/tests/native --output-on-failure

# The same tests with an eye on what threads do to each other.
tsan: $(STAMPS)/build
	@$(CMAKE) -B build/tsan -DBUSHEL_NATIVE_TESTS=ON -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=thread" > /dev/null
	$(BIN)/cmake --build build/tsan --target native_tests
	$(BIN)/ctest --test-dir build/tsan/tests/native --output-on-failure --exclude-regex replay

# MINUTES=30 fuzzes each target for so long, instead of half a minute.
FUZZ_SECONDS ?= $(if $(MINUTES),$(shell expr $(MINUTES) \* 60),30)
FUZZED_FILES := index manifest contract csv table json gzip
FUZZED := scan example texts json jpeg png headers
SEEDS_scan := records
SEEDS_example := example sequence
SEEDS_texts := texts
SEEDS_json := json
SEEDS_jpeg := jpeg
SEEDS_png := png
SEEDS_headers := jpeg png

define newline


endef

fuzz: $(STAMPS)/build $(STAMPS)/test
	@command -v clang++ > /dev/null || { echo "make fuzz needs clang and its runtime: apt install clang libclang-rt-dev"; exit 1; }
	@$(CMAKE) -B build/fuzz -DBUSHEL_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ \
	  -DCMAKE_CXX_FLAGS="-O1 -g -fsanitize=fuzzer-no-link $(SANITIZE)" > /dev/null
	$(BIN)/cmake --build build/fuzz
	@mkdir -p $(foreach target,$(FUZZED),build/fuzz/corpus/$(target))
	$(foreach target,$(FUZZED),cd build/fuzz && tests/native/fuzz_$(target) -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	  corpus/$(target) $(addprefix ../../tests/golden/fuzz_seeds/,$(SEEDS_$(target)))$(newline))
	@$(MAKE) --no-print-directory fuzz-files

# What is read in Python, and compared with zlib, Arrow and Python's own readers.
fuzz-files: $(STAMPS)/build $(STAMPS)/test
	$(foreach target,$(FUZZED_FILES),$(BIN)/python tests/test_hostile_files.py $(target) $(FUZZ_SECONDS)$(newline))

# The same tests of the core on the other architecture, emulated.
arm64: $(STAMPS)/build
	@command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null || \
	  { echo "make arm64 needs a cross compiler and an emulator: apt install g++-aarch64-linux-gnu qemu-user"; exit 1; }
	@$(CMAKE) -B build/arm64 -DBUSHEL_NATIVE_TESTS=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CXX_FLAGS="-O2 -static" -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64 > /dev/null
	$(BIN)/cmake --build build/arm64
	$(BIN)/ctest --test-dir build/arm64/tests/native --output-on-failure

# Wheels for Linux on x86-64, each tested where there is no compiler.
wheels:
	packaging/wheels

check: $(STAMPS)/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)

# The code of the documentation, as mypy --strict and pyright see it.
typed: $(STAMPS)/typed
	$(BIN)/python tests/docs/typed_pages.py

format: $(STAMPS)/check
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/clang-format -i $(CXX_SOURCES)

# The site has an environment of its own: it reads the sources, and needs nothing of what they need.
DOCS := .venv-docs

$(DOCS)/stamp: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(DOCS)/bin/pip install --quiet --group docs
	@touch $@

docs: $(DOCS)/stamp
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet
	@echo "the site is in build/site: open build/site/index.html"

# QUICK=1: so small that the figures say nothing, to see that each runs.
bench: $(STAMPS)/bench
	$(BIN)/python benchmarks/every.py $(if $(QUICK),--quick)

clean:
	rm -rf build dist $(VENV) $(FRAMEWORKS) $(DOCS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
