# Every target sets up what it needs, in .venv; what is there already is left alone.
PYTHON ?= python3
# Which torch, when .venv is made: any requirement, or the path of a wheel. It is kept.
TORCH ?= $(shell grep '^torch==' constraints.txt)
# Bytecode is written when a module is first imported; compiling all of it takes a minute.
PIP := .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c .venv/constraints.txt
PYTEST := .venv/bin/python -m pytest -n auto
# Bytecode is kept, whatever the shell says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# Threads that wait leave the cores to others, which is right where several compete.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test slow portable fuzz lint lock bench results clean

# The environment is built up in steps: a target waits for no package that it does not use.
.venv/torch:
	$(PYTHON) -m venv .venv
	sed '/^torch==/d' constraints.txt > .venv/constraints.txt
	$(PIP) --upgrade pip
	$(PIP) '$(TORCH)'
	touch $@

.venv/core: .venv/torch pyproject.toml constraints.txt
	sed '/^torch==/d' constraints.txt > .venv/constraints.txt
	$(PIP) --build-constraint constraints.txt --editable .
	touch $@

.venv/test: .venv/core
	$(PIP) --build-constraint constraints.txt --editable '.[all]' --group test
	touch $@

.venv/slow: .venv/test
	$(PIP) --build-constraint constraints.txt --editable '.[all,ray]' --group slow
	touch $@

.venv/lint: .venv/test
	$(PIP) --group lint
	touch $@

.venv/bench: .venv/test
	$(PIP) --group benchmarks
	touch $@

demo: .venv/core
	.venv/bin/h2gcn demo

test: .venv/test
	$(PYTEST) -m 'not slow' --dist worksteal --durations=15

# What needs Ray, a browser, a server, other processes, benchmark files or more than two
# seconds; tests that share such a resource share a process.
slow: .venv/slow
	$(PYTEST) -m slow --dist loadgroup --durations=15

# What computes, as on another machine: three threads, and a processor without AVX.
portable: .venv/test
	H2GCN_TEST_THREADS=3 MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Prescott \
	$(PYTEST) -m 'portable and not slow' --dist worksteal --random-order

# Damaged and hostile files, thousands of them; then new examples for every property.
fuzz: .venv/slow
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) tests/fuzz --dist worksteal
	HYPOTHESIS_PROFILE=random $(PYTEST) -m hypothesis --ignore=tests/fuzz --dist worksteal

lint: .venv/lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/codespell -D - -D .ci/spelling.txt
	.venv/bin/validate-pyproject pyproject.toml
	.venv/bin/sp-repo-review --show err .
	.venv/bin/zizmor --quiet --offline .

# Newest versions of everything but torch, which pyproject.toml chooses. CUDA's libraries
# belong to one build of torch, so that they are not in the list.
lock: .venv/lint
	echo '# What make installs; make lock writes this file.' > .venv/locked
	.venv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras --group dev --no-header --no-annotate \
	| grep -vE '^(cuda|nvidia|triton)' >> .venv/locked
	mv .venv/locked constraints.txt

# About an hour on two quiet cores, most of it in epoch and growth; wants $H2GCN_DATA and
# 12 GB of memory. Every script alone has --help, and options to run a part of it.
bench: .venv/bench
	.venv/bin/python benchmarks/fit.py
	.venv/bin/python benchmarks/epoch.py
	.venv/bin/python benchmarks/spmm.py
	.venv/bin/python benchmarks/rings.py
	.venv/bin/python benchmarks/growth.py
	.venv/bin/python benchmarks/growth.py --model h2gcn-2 --epochs 2
	.venv/bin/python benchmarks/caps.py
	.venv/bin/python benchmarks/large.py
	.venv/bin/python benchmarks/new_nodes.py
	.venv/bin/python benchmarks/store.py
	.venv/bin/python benchmarks/models.py
	.venv/bin/python benchmarks/generator.py
	.venv/bin/python benchmarks/runner.py
	.venv/bin/python benchmarks/serving.py
	.venv/bin/python benchmarks/own_graphs.py

# docs/results.md, its figures and the README's part, docs/frontier.md, out of results/;
# nothing is run.
results: .venv/test
	.venv/bin/python paper/results_page.py
	.venv/bin/python paper/frontier_page.py

clean:
	rm -rf .venv .nox .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist site
	find . -name __pycache__ -prune -exec rm -rf {} +
