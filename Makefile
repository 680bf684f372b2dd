# What a newcomer types: `make` alone lists it. Needs Python 3.11 to 3.13 and GNU make, neither root nor a display.

VENV   ?= .venv
PYTHON ?= python3
JOBS   ?= 2
PYTEST ?=
SECONDS ?= 600
SEED   ?= 0

bin     := $(VENV)/bin
ready   := $(VENV)/ready
locks   := requirements/run.txt requirements/dev.txt requirements/cluster.txt
pip     := $(bin)/python -m pip install --quiet --disable-pip-version-check
compile := $(bin)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --no-header $(UPGRADE) --constraints requirements/pins.in pyproject.toml
version  = import sys; print("%d.%d" % sys.version_info[:2])

# `ready` is written last and holds the Python version: without it the environment is half made.
# A finished environment keeps its Python until PYTHON= asks for another.
has   := $(if $(wildcard $(bin)/python),$(shell cat $(ready) 2>/dev/null))
asked := $(if $(filter file,$(origin PYTHON)),$(has),$(shell $(PYTHON) -c '$(version)' 2>/dev/null))
whole := $(and $(has),$(filter $(has),$(asked)))

.PHONY: help setup check test test-long chaos lint demo docs lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup      make $(VENV) with offdyn and everything it needs (PYTHON=python3.12 chooses the Python)"
	@echo "make check      setup, lint, then the tests that train nothing: the inner loop, three minutes"
	@echo "make test       setup, then the test suite in $(JOBS) processes (JOBS=4, PYTEST='-k hopper' change that)"
	@echo "make test-long  setup, then the suite with the slow tests too"
	@echo "make demo       setup, then a study of a minute and its report"
	@echo "make chaos      setup, then kills, damage and nonsense for ten minutes (SECONDS=3600, SEED=1 change that)"
	@echo "make lint       setup, then ruff and mypy"
	@echo "make docs       setup, then the documentation site: site/index.html"
	@echo "make lock       make requirements/*.txt anew (UPGRADE=--upgrade takes the newest versions)"
	@echo "make clean      remove caches and build outputs; $(VENV) and results stay"

setup: $(ready)
	@echo "setup: $(VENV) is ready (Python $$(cat $(ready)))"

$(ready): requirements/dev.txt pyproject.toml
ifeq ($(whole),)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	  found=$$($(PYTHON) -V 2>&1) || found='not installed'; \
	  echo "setup: offdyn needs Python 3.11, 3.12 or 3.13, but $(PYTHON) is $$found." >&2; \
	  echo "setup: name another one: make setup PYTHON=python3.12" >&2; exit 1; }
	@[ ! -e "$(VENV)" ] || [ "$(VENV)" = .venv ] || [ -e "$(VENV)/pyvenv.cfg" ] || { \
	  echo "setup: $(VENV) exists and is no virtual environment; remove it or choose another VENV=" >&2; exit 1; }
	@echo "setup: making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv --clear $(VENV)
endif
	@rm -f $@
	@echo "setup: installing requirements/dev.txt (about 250 MB to download the first time)"
	@$(pip) --require-hashes -r requirements/dev.txt
	@echo "setup: installing offdyn from this folder"
	@$(pip) --no-deps --no-build-isolation -e .
	@$(bin)/python -c '$(version)' > $@

ifeq ($(whole),)
.PHONY: $(ready)
endif

check: lint
	$(bin)/python -m pytest -n $(JOBS) -m "not slow and not trains" $(PYTEST)

test: setup
	$(bin)/python -m pytest -n $(JOBS) -m "not slow" $(PYTEST)

test-long: setup
	$(bin)/python -m pytest -n $(JOBS) $(PYTEST)

lint: setup
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

chaos: setup
	$(bin)/python -m tests.chaos --seconds $(SECONDS) --seed $(SEED) --jobs $(JOBS)

demo: setup
	$(bin)/offdyn study run demo --out demo
	$(bin)/offdyn report demo --out demo/report

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(bin)/python -m mkdocs build --strict
	@echo "docs: open site/index.html"

lock: setup
	$(compile) --output-file requirements/run.txt
	$(compile) --constraints requirements/run.txt --extra render --extra slurm --extra optuna --extra onnx --extra wandb --extra lerobot --extra docs --extra dev \
	  --output-file requirements/dev.txt
	$(compile) --constraints requirements/dev.txt --extra ray --extra slurm --output-file requirements/cluster.txt
	@echo "lock: wrote $(locks); make setup installs them"

clean:
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find offdyn tests benchmarks results -name __pycache__ -type d -prune -exec rm -rf {} +
