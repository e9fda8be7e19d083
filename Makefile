# `make run` and `make test` work on a new machine: both first install the pinned packages into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test test-slow test-browser test-gpu check docs release-check bench mutants clean
.DEFAULT_GOAL := run

# The file .venv/.ready is newer than both files after an installation, so that the next call installs nothing.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"adaptkry needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

run: $(READY)
	$(BIN)/adaptkry demo

# Two worker processes with one thread each: half the time of one process on 2 cores.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow or distributed"

test-browser: $(READY)
	$(BIN)/python -m pytest -rs -m browser tests/report

test-gpu: $(READY)
	$(BIN)/python -m pytest -rs -m gpu

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The site, in site/: it is built without network, and every warning is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Build the release, check it, and run the commands of its wheel in a new environment.
release-check: $(READY)
	$(BIN)/python -m benchmarks.release_check

bench: $(READY)
	$(BIN)/python -m benchmarks.basis
	$(BIN)/python -m benchmarks.density
	$(BIN)/python -m benchmarks.ensemble
	$(BIN)/python -m benchmarks.fit_overhead
	$(BIN)/python -m benchmarks.results_page

# Some 20 minutes: bugs that the tests must notice (tests/mutants.toml). For some of them: make mutants ONLY=graphs/splits
mutants: $(READY)
	$(BIN)/python -m benchmarks.mutants --jobs 2 --out results/mutants.jsonl $(ONLY)

clean:
	rm -rf .venv
