# Everything a newcomer or CI runs. Needs CPython >= 3.11 and make; each target sets up what it needs in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo test check suite lint types typecompleteness contracts embedding package opencl tinygrad xdsl coverage matrix bench bench-cpu soak mutants gpu gpu-bench gpu-kit clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

# One environment, filled in layers; a layer is installed once, and again when pyproject.toml changes.
$(VENV)/.ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vyre needs CPython >= 3.11. Fix: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.run: $(VENV)/.ready pyproject.toml
	$(PIP) install --editable ".[cli,metrics,cpu]"
	@touch $@

$(VENV)/.dev: $(VENV)/.run pyproject.toml
	$(PIP) install --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev pyproject.toml
	$(PIP) install --group bench
	@touch $@

$(VENV)/.peers: $(VENV)/.bench pyproject.toml
	$(PIP) install --group peers
	@touch $@

$(VENV)/.soak: $(VENV)/.dev pyproject.toml
	$(PIP) install --group soak
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev pyproject.toml
	$(PIP) install --group mutants
	@touch $@

$(VENV)/.tinygrad: $(VENV)/.run pyproject.toml
	$(PIP) install --group tinygrad-data
	@touch $@

# Where torch does not install, the files of tinygrad's tests that need it are counted as not run.
$(VENV)/.tinygrad-tests: $(VENV)/.tinygrad pyproject.toml
	$(PIP) install --group tinygrad-tests
	-$(PIP) install --group torch
	@touch $@

$(VENV)/.xdsl: $(VENV)/.run pyproject.toml
	$(PIP) install --group xdsl
	@touch $@

demo: $(VENV)/.run ## run real kernels on data found on this machine and check every answer
	$(BIN)/vyre demo

# Bytecode is kept whatever the environment says: else every process that a test starts compiles all modules anew.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(JOBS)

test: $(VENV)/.dev ## a part of every area of the test-suite, in a few minutes; its last line says what it left out
	$(PYTEST) --dist worksteal --quick

CHECKS := lint types typecompleteness contracts embedding array-compiler package

check: $(VENV)/.dev ## what CI runs: all that runs no test, JOBS at once, then the test-suite
	+$(MAKE) --jobs=$(JOBS) $(CHECKS)
	+$(MAKE) suite

suite: $(VENV)/.dev ## the whole test-suite
	$(PYTEST) --dist worksteal

lint: $(VENV)/.dev ## ruff: format and rules; the lines of each package against tests/data/size-budget.toml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tests.size_budget

types: $(VENV)/.dev ## mypy --strict on src, tests, and examples/array_compiler, xdsl and opencl_backend
	$(BIN)/mypy

typecompleteness: $(VENV)/.dev ## basedpyright: at least 99 % of the public types are known to every type checker
	$(BIN)/python -m benchmarks.type_completeness

contracts: $(VENV)/.dev ## import-linter: the layers, and who may import what
	$(BIN)/lint-imports --no-cache

embedding: $(VENV)/.dev ## type-check a stand-in compiler against the built wheel
	bash examples/embedding/check.sh $(BIN)/python

array-compiler: $(VENV)/.dev ## type-check a compiler of arrays against the built wheel, and run its tests there
	bash examples/array_compiler/check.sh $(BIN)/python

package: $(VENV)/.dev ## build the sdist and the wheel from it, and run vyre from that wheel alone
	bash tests/package.sh $(BIN)/python

opencl: $(VENV)/.dev ## check the OpenCL example as an installed package; SECONDS=n for `vyre conform`
	bash examples/opencl_backend/check.sh $(BIN)/python $(or $(SECONDS),120)

# TESTS is a checkout of tinygrad. TESTS_FLAGS, such as --devices cpu --files test_ops, chooses a part. tinygrad takes a variable
# PYTHON of the environment, which make passes on, for a number that chooses a device.
ifdef TESTS
tinygrad: $(VENV)/.tinygrad-tests
	env -u PYTHON $(BIN)/python examples/tinygrad/run_tests.py $(TESTS) $(TESTS_FLAGS)
else
tinygrad: $(VENV)/.tinygrad ## train a network with tinygrad on vyre; TESTS=CHECKOUT runs tinygrad's own tests there
	env -u PYTHON $(BIN)/python examples/tinygrad/mlp.py
endif

# TESTS is a checkout of LLVM, of which mlir/test is read; mlir-opt writes its modules in the generic form. TESTS_FLAGS, such as
# --backends cpu --only Dialect/SCF, chooses a part.
xdsl: $(VENV)/.xdsl ## run MLIR modules, parsed by xDSL, on vyre and in NumPy; TESTS=CHECKOUT takes those of MLIR's own tests
	$(BIN)/python examples/xdsl/run_modules.py $(if $(TESTS),--tests $(TESTS)) $(TESTS_FLAGS)

bench: $(VENV)/.bench ## measure against the alternatives, both sides in one run; vyre replay judges the evidence that this writes
	$(BIN)/python -m benchmarks

bench-cpu: $(VENV)/.peers ## measure the CPU backend against C, numba, Warp, Taichi and, where Debian has it, PoCL
	$(BIN)/python -m benchmarks --suite cpu

# SECONDS is the time for random cases of all kinds; without it, what has an end of its own runs too, for hours.
ifdef SECONDS
soak: $(VENV)/.soak
	PYTHONPATH=tests $(BIN)/python -m support.fuzzing.timed_soak --seconds $(SECONDS) --out benchmarks/results/timed-soak.json
else
soak: $(VENV)/.soak ## long runs: fuzzing, exhaustive proofs; SECONDS=600 runs random cases of all kinds for that time
	VYRE_SOAK=1 $(PYTEST) tests/property tests/fault/test_exits.py tests/fault/test_disk_faults.py \
		tests/fault/test_tuning_store_faults.py tests/fault/test_cpu_sessions.py tests/fault/test_cpu_store_faults.py \
		tests/fault/test_interrupts.py tests/fault/test_cuda_interrupts.py tests/fault/test_persistent_ends.py \
		tests/fault/test_resident_work_faults.py tests/fault/test_cuda_faults.py \
		tests/unit/reference/test_large_buffers.py tests/contract/test_ptxas_gate.py tests/unit/analysis/test_typed_indices.py \
		tests/unit/app/persistent/test_persistent_jobs.py tests/unit/domain/laws/test_checker.py \
		tests/unit/domain/egraph/test_against_egglog.py tests/unit/domain/laws/test_mutants.py \
		tests/unit/domain/optimize/test_saturation.py tests/unit/app/device_passes/test_device_passes.py \
		tests/unit/cpu/llvm tests/unit/forms/test_text.py tests/unit/protocols/test_protocols.py \
		tests/filetests/test_machine_code.py tests/contract/test_conform.py
	PYTHONPATH=tests $(BIN)/python -m support.ptx_interpreter.campaign --out benchmarks/results/ptx-interpreter.json
	PYTHONPATH=tests $(BIN)/python -m support.storms.persistent_soak --out benchmarks/results/persistent-soak.json
	PYTHONPATH=tests $(BIN)/python -m support.storms.storm_soak --out benchmarks/results/storms.json
	PYTHONPATH=tests $(BIN)/python -m support.egraphs.soak --out benchmarks/results/egraph-soak.json
	PYTHONPATH=tests $(BIN)/python -m support.fuzzing.readers --count 33000 --out benchmarks/results/reader-fuzzing.json
	$(BIN)/python -m benchmarks.correct_rounding
	$(BIN)/python -m benchmarks.narrow_rounding
	$(BIN)/python -m benchmarks.cpu_functions
endif

POLICY_TESTS := tests/unit/policies tests/unit/analysis $(wildcard tests/property/test_p*_*.py) tests/property/test_hazards.py \
	tests/unit/testing/test_vector_files.py

coverage: $(VENV)/.dev ## every branch of the policies, by their own tests
	$(BIN)/python -m pytest -q --cov --cov-report=term $(POLICY_TESTS)

matrix: ## a quick part of the tests on every CPython from 3.11 to 3.14 that is here; MATRIX_FLAGS=--install fetches others
	$(PYTHON) -m tests.matrix --jobs $(JOBS) $(MATRIX_FLAGS)

mutants: $(VENV)/.mutants ## long run: change every line of the policies and see a test fail
	$(BIN)/python -m benchmarks.mutants --jobs $(JOBS)

# The GPU runs say so and succeed where there is no GPU; GPU_FLAGS=--require-gpu makes that a failure.
# VYRE_AMBIENT=1 takes the interpreter at hand and its packages: no virtual environment, no installation.
GPU_OUT    ?= benchmarks/results
GPU_BUDGET ?= 540
GPU_FLAGS  ?=
ifdef VYRE_AMBIENT
GPU_READY  :=
GPU_PYTHON := PYTHONPATH=src$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON)
else
GPU_READY  := $(VENV)/.run
GPU_PYTHON := $(BIN)/python
endif

gpu: $(GPU_READY) ## prove the CUDA backend on the GPU of this machine, if it has one
	$(GPU_PYTHON) -m tests.gpu_runs check --out $(GPU_OUT) --budget $(GPU_BUDGET) $(GPU_FLAGS)

gpu-bench: $(GPU_READY) ## measure it there, beside cuda.core, CuPy, Numba and Triton where they are installed
	$(GPU_PYTHON) -m tests.gpu_runs bench --out $(GPU_OUT) --budget $(GPU_BUDGET) $(GPU_FLAGS)

# For a GPU machine without a network: python3.12 -m pip install --no-index --no-deps --target DIR .gpukit/*.whl, and
# .gpukit/if-missing/*.whl where NumPy or the CUDA bindings are missing too; then PYTHONPATH=DIR make gpu VYRE_AMBIENT=1.
KIT        := .gpukit
KIT_PYTHON ?= 3.12
KIT_FETCH   = $(PIP) download --no-deps --only-binary=:all: --implementation cp --python-version $(KIT_PYTHON) \
	$(foreach glibc,2_28 2_27 2_24 2_17,--platform manylinux_$(glibc)_x86_64) --platform manylinux2014_x86_64

gpu-kit: $(VENV)/.run ## collect wheels for a GPU machine without a network, in .gpukit/
	rm -rf $(KIT)
	$(PIP) wheel --no-deps --wheel-dir $(KIT) .
	$(KIT_FETCH) --dest $(KIT) structlog dependency-injector blake3 platformdirs filelock
	$(KIT_FETCH) --dest $(KIT)/if-missing numpy cuda-bindings cuda-pathfinder
	git rev-parse --short=12 HEAD > $(KIT)/revision
	@ls -s $(KIT) $(KIT)/if-missing

clean: ## remove what the other targets made
	rm -rf $(VENV) $(KIT) demo-output build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
