# make doctor   sets everything up and examines the environment it has made
# make test     sets everything up and runs the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# The tests start gpuenv a thousand times: without compiled modules each start takes a second longer.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := doctor
.PHONY: doctor test eval answers compiler lint types network-test test-long test-faults test-matrix test-gpu
.PHONY: bench bench-doctor bench-check bench-install bench-matrix bench-image test-docker test-docker-newer docs build clean fuzz
.PHONY: audit learn test-fresh test-pythons test-lowest test-newest

doctor: $(VENV)/installed ## Examine the environment that this makefile has made.
	@$(BIN)/gpuenv doctor --python $(VENV) || true

test: compiler $(VENV)/installed-dev ## Run the tests that need neither a GPU, nor an engine, nor a network.
	$(BIN)/python -m pytest -n 2 -q

eval: $(VENV)/installed-dev ## Score the explanations of error texts from public reports, and list every miss.
	@$(BIN)/python -m tests.eval.score

learn: $(VENV)/installed-dev ## Weigh the words of all texts with a known cause anew, and tell how texts fare that are left out.
	@$(BIN)/python -c 'import sklearn' 2>/dev/null || $(PIP_INSTALL) --editable '.[learn]'
	@$(BIN)/python -m tests.eval.learn
	@$(BIN)/python -m tests.eval.learn --left-out

bench-matrix: $(VENV)/installed-dev ## What loading and resolving cost, as ratios.
	$(BIN)/python -m pytest -n 0 -q -s -m slow tests/matrix/test_cost.py

test-matrix: $(VENV)/installed-dev ## Measure the shipped rows a second time; needs a package index and about 6 GB of downloads.
	$(BIN)/python -m pytest -n 0 -q -m "network and slow" tests/refresh

answers: $(VENV)/installed-dev ## Write the table of the resolver's answers anew; read what has changed in it.
	$(BIN)/python -m tests.matrix.table

compiler:
	@command -v $${CC:-cc} >/dev/null || { echo "make test needs a C compiler: apt install gcc (or name one with CC=...)"; exit 1; }

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

test-long: compiler $(VENV)/installed-dev $(VENV)/pytest-7.4.0 ## Run the tests that run whole programs many times over.
	$(BIN)/python -m pytest -n 2 -q -m "long and not gpu and not docker and not network and not slow"

network-test: $(VENV)/installed-dev ## Run the tests with the real wheels of CuPy; needs a package index.
	$(BIN)/python -m pytest -q -m network

test-faults: compiler $(VENV)/installed-dev ## Every return code, crash and hang of every function; installs killed at 200 points.
	$(BIN)/python -m pytest -n 2 -q -m slow

# Seconds for each target under each engine; FUZZ_TARGETS names some of them.
FUZZ_SECONDS ?= 180
FUZZ_TARGETS ?=
fuzz: $(VENV)/installed-dev ## Feed the readers of what others write with spoilt inputs: an hour in all.
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP_INSTALL) --editable '.[fuzz]' \
		|| echo "atheris cannot be installed for this Python: hypothesis runs alone"
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

audit: $(VENV)/installed-dev ## Known faults of the dependencies: clean, vulnerable, or not audited (exit code 3).
	@$(BIN)/python -c 'import pip_audit' 2>/dev/null || $(PIP_INSTALL) --editable '.[audit]'
	@$(BIN)/python -m tests.audit

# Its own checks need no environment here, so that it runs in any checkout.
test-fresh: ## make doctor and make test on bare Debian 12 and 13, as root and as a user; root, debootstrap, an index.
	$(PYTHON) -m tests.support.fresh

test-pythons: $(VENV)/installed-dev ## The pure core and recorded machines under Python 3.10 to 3.13; 3.14 is resolved for.
	@$(BIN)/python -m tests.support.across pythons

test-lowest: $(VENV)/installed-dev ## The tests with the lowest dependencies that pyproject.toml allows.
	@$(BIN)/python -m tests.support.across lowest

test-newest: $(VENV)/installed-dev ## The tests with the newest ones.
	@$(BIN)/python -m tests.support.across newest

# GPU_PYTHON has CuPy and NumPy besides pytest and what gpuenv needs; nothing is installed here.
GPU_PYTHON ?= $(PYTHON)
test-gpu: ## Run the tests that need an NVIDIA GPU; all that was seen goes into smoke-gpu.json.
	$(GPU_PYTHON) -m pytest -v --durations=10 -m gpu tests/gpu

bench-doctor: compiler $(VENV)/installed-dev ## Median and worst time of the doctor on every machine and scenario.
	$(BIN)/python -m tests.scenarios.timing

bench: compiler $(VENV)/installed-dev ## Time, memory and size beside others; needs a package index.
	$(BIN)/python -m tests.bench

bench-check: compiler $(VENV)/installed-dev ## The same, and fail where a budget is not kept or a ratio is worse than recorded.
	$(BIN)/python -m tests.bench --check

test-docker: $(VENV)/installed-dev ## Build real images with an engine of the tests' own; needs root, an engine and a package index.
	$(BIN)/python -m pytest -n 0 -q -m docker tests/image

# An engine of another suite of Debian beside this machine's own; nothing of it is installed.
ENGINE_SUITE ?= sid
test-docker-newer: .cache/engines/$(ENGINE_SUITE)/usr/sbin/dockerd $(VENV)/installed-dev ## The same builds by a newer engine, and its own check of the Dockerfiles.
	GPUENV_TEST_ENGINES=$(CURDIR)/.cache/engines/$(ENGINE_SUITE) \
		$(BIN)/python -m pytest -n 0 -q -m docker tests/image/docker/test_reproducible.py

.cache/engines/%/usr/sbin/dockerd: | $(VENV)/installed-dev
	$(BIN)/python -m tests.image.docker.fetch $* .cache/engines/$*

bench-image: $(VENV)/installed-dev ## Size and build time of each kind of image beside a plain pip install; likewise.
	$(BIN)/python -m tests.image.docker.bench

docs: $(VENV)/installed-dev ## Write the reference pages that are made from the code.
	$(BIN)/python -m tools.facts_page > gpuenv/docs/facts.md

bench-install: $(VENV)/installed-dev ## What gpuenv install costs over bare uv and pip; needs a package index.
	$(BIN)/python tests/install/bench.py

build: $(VENV)/installed-dev ## Build the wheel.
	$(BIN)/python -m hatchling build -d dist

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "gpuenv needs Python 3.10 or newer, and there is no $(PYTHON): apt install python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "gpuenv needs Python 3.10 or newer; $$($(PYTHON) --version 2>&1) is too old: name another one with PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/installed $@

# The oldest pytest that the plug-in works with, beside the newest.
$(VENV)/pytest-%: | $(VENV)/installed-dev
	@$(PIP_INSTALL) --target $@ pytest==$*

clean:
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
