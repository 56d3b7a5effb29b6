# make doctor   creates .venv and examines it
# make test     creates .venv and runs the tests
# make help     lists every target
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# The tests start gpuenv a thousand times; without bytecode each start takes a second longer.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := doctor
.PHONY: help doctor test lint types build clean compiler
.PHONY: test-long test-faults test-network test-matrix test-docker test-slurm test-fleet test-fresh test-pythons test-gpu
.PHONY: eval learn fuzz bench bench-fleet bench-image audit answers docs-site picture man

help: ## List the targets.
	@sed -nE 's/^([a-z][a-z-]*):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | sort | expand -t 22

doctor: $(VENV)/installed ## Create .venv and examine it (the default).
	@$(BIN)/gpuenv doctor --python $(VENV) || true

test: compiler $(VENV)/installed-dev ## Run the tests that need no GPU, no container engine and no network.
	$(BIN)/python -m pytest -n 2 -q

eval: $(VENV)/installed-dev ## Score explanations of error texts from public reports; list every miss.
	@$(BIN)/python -m tests.eval.score

learn: $(VENV)/installed-dev ## Train the text classifier, and score it by cross-validation.
	@$(BIN)/python -c 'import sklearn' 2>/dev/null || $(PIP_INSTALL) --editable '.[learn]'
	@$(BIN)/python -m tools.train_classifier

test-matrix: $(VENV)/installed-dev ## Measure the shipped matrix rows again; needs a package index, 6 GB of downloads.
	$(BIN)/python -m pytest -n 0 -q -m network tests/refresh

answers: $(VENV)/installed-dev ## Rewrite the table of the resolver's results; review its changes.
	$(BIN)/python -m tests.matrix.table

compiler: ## Check that a C compiler is installed.
	@command -v $${CC:-cc} >/dev/null || { echo "make test needs a C compiler: apt install gcc (or select one with CC=...)"; exit 1; }

lint: $(VENV)/installed-dev ## Run ruff.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev ## Run mypy.
	$(BIN)/mypy

test-long: compiler $(VENV)/installed-dev $(VENV)/pytest-7.4.0 ## Run the tests that start programs many times.
	$(BIN)/python -m pytest -n 2 -q -m "long and not gpu and not docker and not network and not slow and not slurm and not fleet"

test-network: $(VENV)/installed-dev ## Run the tests with real CuPy wheels; needs a package index.
	$(BIN)/python -m pytest -q -m network --ignore tests/refresh

test-faults: compiler $(VENV)/installed-dev ## Inject every return code, crash and hang; kill installs at 200 points.
	$(BIN)/python -m pytest -n 2 -q -m "slow and not network and not docker"

# Seconds for each target and fuzzer; FUZZ_TARGETS selects targets.
FUZZ_SECONDS ?= 180
FUZZ_TARGETS ?=
fuzz: $(VENV)/installed-dev ## Fuzz the parsers of foreign input; takes an hour.
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP_INSTALL) --editable '.[fuzz]' \
		|| echo "atheris cannot be installed for this Python: running hypothesis only"
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

audit: $(VENV)/installed-dev ## Check the dependencies for known vulnerabilities (exit code 3: not audited).
	@$(BIN)/python -c 'import pip_audit' 2>/dev/null || $(PIP_INSTALL) --editable '.[audit]'
	@$(BIN)/python -m tests.audit

# Needs no .venv, so it runs in any checkout.
test-fresh: ## Run doctor and test on bare Debian 12 and 13; needs root and debootstrap.
	$(PYTHON) -m tests.support.bare_systems

test-pythons: compiler $(VENV)/installed-dev ## Run the core tests with Python 3.10 to 3.13, and all with the lowest dependencies.
	@$(BIN)/python -m tests.support.python_versions

# GPU_PYTHON needs CuPy, NumPy, pytest and the dependencies of gpuenv; nothing is installed.
GPU_PYTHON ?= $(PYTHON)
test-gpu: ## Run the tests that need an NVIDIA GPU; results go to smoke-gpu.json.
	$(GPU_PYTHON) -m pytest -v --durations=10 -m gpu tests/gpu

bench: compiler $(VENV)/installed-dev ## Compare time and size with other tools and uv, and check budgets; needs a package index.
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.install

bench-fleet: $(VENV)/installed-dev ## Time fleet report for 100 to 100,000 nodes; needs 12 GB of disk.
	$(BIN)/python -m tests.fleet.benchmark

# The newer engine, of another Debian suite, is unpacked but not installed.
ENGINE_SUITE ?= sid
test-docker: .cache/engines/$(ENGINE_SUITE)/usr/sbin/dockerd $(VENV)/installed-dev ## Build real images with Debian's engine and a newer one; needs root, dockerd and a package index.
	$(BIN)/python -m pytest -n 0 -q -m docker tests/image
	GPUENV_TEST_ENGINES=$(CURDIR)/.cache/engines/$(ENGINE_SUITE) \
		$(BIN)/python -m pytest -n 0 -q -m docker tests/image/docker/test_reproducible.py \
		tests/image/docker/test_faults.py::test_the_message_names_the_cause_of_a_failed_command

test-slurm: compiler $(VENV)/installed-dev ## Run the recipes and fleet collect on a Slurm of eight simulated nodes; needs root, slurm-wlm and munge.
	$(BIN)/python -m pytest -n 0 -q -m slurm tests/recipes tests/fleet

test-fleet: compiler $(VENV)/installed-dev ## Collect from Dask workers, an SSH server and kubectl; needs root, openssh-server and kubectl.
	$(BIN)/python -m pytest -n 0 -q -m fleet tests/fleet

.cache/engines/%/usr/sbin/dockerd: | $(VENV)/installed-dev
	$(BIN)/python -m tests.image.docker.fetch $* .cache/engines/$*

bench-image: $(VENV)/installed-dev ## Compare size and build time of images with a plain pip install; as test-docker.
	$(BIN)/python -m tests.image.docker.bench

docs-site: $(VENV)/installed-dev ## Build the documentation site in docs/_build/html; warnings are errors.
	@$(BIN)/python -c 'import sphinx, myst_parser, pydata_sphinx_theme' 2>/dev/null || $(PIP_INSTALL) --editable '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

picture: compiler $(VENV)/installed-dev ## Draw docs/_static/doctor.svg, the report of a simulated machine.
	$(BIN)/python -m tools.doctor_picture

man: $(VENV)/installed-dev ## Generate the manual page from the command line.
	$(BIN)/python -m tools.man_page > man/gpuenv.1

build: $(VENV)/installed-dev ## Build the source distribution and the wheel, and check them for publishing.
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m twine check --strict dist/*

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "gpuenv needs Python 3.10 or newer, and $(PYTHON) was not found: apt install python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "gpuenv needs Python 3.10 or newer; $$($(PYTHON) --version 2>&1) is too old: select another one with PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/installed $@

# The oldest supported pytest, next to the newest.
$(VENV)/pytest-%: | $(VENV)/installed-dev
	@$(PIP_INSTALL) --target $@ pytest==$*

clean: ## Remove .venv, builds and caches.
	rm -rf $(VENV) dist docs/_build docs/reference/generated .mypy_cache .pytest_cache .ruff_cache .hypothesis
