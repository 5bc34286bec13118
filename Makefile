# Everything sets itself up in .venv: `make demo` and `make test` are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
NATIVE := CMakeLists.txt $(wildcard src/native/*)

.PHONY: demo test test-slow check native sanitize fuzz arm64 bench format clean

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

$(STAMPS)/test $(STAMPS)/check $(STAMPS)/bench: $(STAMPS)/%: $(STAMPS)/install
	$(BIN)/pip install --quiet --group $*
	@touch $@

demo: $(STAMPS)/install
	@$(BIN)/python examples/demo.py

test: $(STAMPS)/test native
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -m slow

# The core's own tests, under the address and undefined-behaviour sanitizers.
native: $(STAMPS)/build
	$(BIN)/cmake -S . -B build/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DBUSHEL_NATIVE_TESTS=ON \
	  -DBUSHEL_WERROR=ON -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=all" > build/native.log 2>&1 \
	  || (cat build/native.log; exit 1)
	$(BIN)/cmake --build build/native
	$(BIN)/ctest --test-dir build/native --output-on-failure

check: $(STAMPS)/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror src/native/*.cpp src/native/*.h tests/native/*.cpp

format: $(STAMPS)/check
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/clang-format -i src/native/*.cpp src/native/*.h tests/native/*.cpp

bench: $(STAMPS)/bench
	$(BIN)/python benchmarks/read.py
	$(BIN)/python benchmarks/write.py
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/batches.py
	$(BIN)/python benchmarks/shuffle_quality.py
	$(BIN)/python benchmarks/many_shards.py
	$(BIN)/python benchmarks/rivals.py

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
