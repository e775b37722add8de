# make demo   train a graph network on measured data, compare it with fingerprints, predict a file
# make test   lint, types, tests
# make lint   lint and formatting alone
# make bench  measure the numbers of the README (long)
# Each makes .venv first where it is missing, or older than what it is made from.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Small networks on many threads are slower than on two.
export OMP_NUM_THREADS ?= 2

.PHONY: demo test lint types bench install

demo: $(INSTALLED)
	rm -rf runs/demo
	$(BIN)/zoo train freesolv --out runs/demo
	$(BIN)/zoo predict runs/demo/bundle examples/molecules.csv -o runs/demo/molecules.csv
	@cat runs/demo/molecules.csv

test: lint types
	$(BIN)/pytest

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(INSTALLED)
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python benchmarks/run.py

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "scizoo needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
