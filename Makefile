# Every target sets up what it needs, in its own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Compiled modules are kept, whatever the shell says: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-portable fuzz lint bench results clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/h2gcn demo

test: export OMP_WAIT_POLICY ?= PASSIVE
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal

# What is computed as on other machines, in random order: one of three threads that has
# AVX2, and a plain processor. What this machine computes on one thread, `test` has seen.
COMPUTE := $(BIN)/python -m pytest -m numerics --random-order -n auto --dist worksteal
test-portable: export OMP_WAIT_POLICY ?= PASSIVE
test-portable: $(READY)
	H2GCN_TEST_THREADS=3 MKL_CBWR=AVX2 ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell $(COMPUTE)
	MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Prescott $(COMPUTE)

# Damaged and hostile files, many times as many as in the tests; H2GCN_FUZZ says how many each.
fuzz: export H2GCN_FUZZ ?= 2000
fuzz: $(READY)
	$(BIN)/python -m pytest tests/fuzz -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# About an hour on two quiet cores, most of it in epoch and growth; wants $H2GCN_DATA and
# 12 GB of memory. Every script alone has --help, and options to run a part of it.
bench: export OMP_WAIT_POLICY ?= PASSIVE
bench: $(READY)
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/epoch.py
	$(BIN)/python benchmarks/epoch_profile.py
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/orders.py
	$(BIN)/python benchmarks/rings.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/growth.py --model h2gcn-2 --epochs 2
	$(BIN)/python benchmarks/caps.py
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/new_nodes.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/generator.py
	$(BIN)/python benchmarks/runner.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/own_graphs.py

# docs/results.md, its figures and the README's part, docs/frontier.md, out of results/;
# nothing is run.
results: $(READY)
	$(BIN)/python paper/results_page.py
	$(BIN)/python paper/frontier_page.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
