# Everything a newcomer or CI runs. Needs CPython >= 3.11 and make; each target sets up what it needs in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types contracts embedding bench soak clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# One environment, filled in layers; a layer is installed once, and again when pyproject.toml changes.
$(VENV)/.ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vyre needs CPython >= 3.11. Fix: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.run: $(VENV)/.ready pyproject.toml
	$(PIP) install --editable ".[cli,metrics]"
	@touch $@

$(VENV)/.dev: $(VENV)/.run pyproject.toml
	$(PIP) install --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev pyproject.toml
	$(PIP) install --group bench
	@touch $@

$(VENV)/.soak: $(VENV)/.dev pyproject.toml
	$(PIP) install --group soak
	@touch $@

demo: $(VENV)/.run ## run real kernels on data found on this machine and check every answer
	$(BIN)/vyre demo

test: $(VENV)/.dev ## the whole test-suite
	$(BIN)/python -m pytest -q -n $(JOBS)

check: lint types contracts embedding test ## what CI runs

lint: $(VENV)/.dev ## ruff: format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## mypy --strict on src and tests
	$(BIN)/mypy

contracts: $(VENV)/.dev ## import-linter: the layers, and who may import what
	$(BIN)/lint-imports --no-cache

embedding: $(VENV)/.dev ## type-check a stand-in compiler against the built wheel
	bash examples/embedding/check.sh $(BIN)/python

bench: $(VENV)/.bench ## measure against the alternatives, both sides in one run
	$(BIN)/python -m benchmarks

soak: $(VENV)/.soak ## long runs: fuzzing, exhaustive proofs
	VYRE_SOAK=1 $(BIN)/python -m pytest -q -n $(JOBS) tests/property
	$(BIN)/python -m benchmarks.correct_rounding

clean: ## remove what the other targets made
	rm -rf $(VENV) demo-output build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
