# Every target creates .venv and installs what it needs.
# A stamp file in .venv marks an installation as done until pyproject.toml or constraints.txt changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
# Tests of one file stay in one process, since they share fitted models.
PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadfile

# The build environment uses the tested versions too: older pips read the first variable, newer ones the second.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check
# Constrains what is installed, not what builds it: the build of lightfm-next needs an older setuptools.
PIP_INSTALL_OWN_BUILD := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Libraries on docs/coming-from.md that are in the extra bench; lightfm-next needs a C compiler.
COMPARED := implicit lightfm-next

.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-all fuzz mutants stress lint format docs bench vendor clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CORE)  ## fit PMvGE on a real data set and show what it learned
	$(BIN)/python -m pmvge demo

test: $(DEV)  ## run the quick tests, on all cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' $(PARALLEL)

test-slow: $(DEV)  ## run the long tests: processes, kills, fuzzing, journeys, browser, slow fits
	$(BIN)/python -m pytest -m slow

test-all: $(DEV)  ## run all tests and measure which lines and branches they cover
	$(BIN)/python tests/measure_coverage.py

fuzz: $(DEV)  ## read 10,000 damaged files, for at most ten minutes, and send requests to the server
	$(BIN)/python tests/fuzz/run.py
	PMVGE_FUZZ=1 $(BIN)/python -m pytest -s tests/serving/test_fuzz.py

mutants: $(DEV)  ## mutate the core and check that a test fails for each mutant
	$(BIN)/python tests/mutation/run.py

stress: $(DEV)  ## run the stress, leak and kill tests at full length
	PMVGE_STRESS=1 $(BIN)/python -m pytest tests/model/test_stress.py tests/model/test_leaks.py tests/cli/test_kills.py tests/serving/test_stress.py

lint: $(DEV)  ## check format, style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV)  ## format the code and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DEV)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

vendor:  ## bundle the libraries of the explorer's page with npm
	cd tools/vendor && npm ci --no-audit --no-fund && npm run build

bench: $(DEV)  ## measure speed and recovery
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/recovery.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/journey.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/busy.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/explorer.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/wide.py
	$(BIN)/python benchmarks/search.py

clean:  ## remove .venv, caches and built files
	rm -rf $(VENV) dist mutants site .coverage* .benchmarks .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'pmvge needs Python 3.11 or newer: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/pip
	@echo 'Installing pmvge into $(VENV); the first time may take some minutes.'
	$(PIP_INSTALL) --editable .
	@touch $@

$(DEV): $(CORE)
	$(PIP_INSTALL) --editable '.[baselines,dev,docs,export,serve,tune]'
	@for library in $(COMPARED); do $(PIP_INSTALL_OWN_BUILD) $$library \
		|| echo "$$library could not be installed: its tests will be skipped" >&2; done
	@touch $@
