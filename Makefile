# Everything a person needs: `make reproduce` reruns the papers, `make test` checks the kit. Each makes .venv first.
# PYTHON=python3.12 chooses an interpreter, PIP_FLAGS="..." goes to every pip call, ARGS="..." to ppkit reproduce.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
PIP_FLAGS ?=
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip

# One thread per process, stand-ins for data, and no file of this user's: what the committed outputs were made with.
PINNED := PPKIT_SOURCE=standin OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
          NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba PYTHONHASHSEED=0 JUPYTER_PREFER_ENV_PATH=1 PYTHONPATH=tests
LOWERED := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Nehalem MKL_ENABLE_INSTRUCTIONS=SSE4_2 NUMBA_CPU_NAME=generic
NBVAL := -p notebook_times --nbval --nbval-cell-timeout 120 -q
# It starts processes of its own, so it gets both cores.
SYSTEM := notebooks/05_spnn_network.ipynb
REAL_DATA := $(wildcard ../shared/data)

.PHONY: help reproduce paper test test-unit test-notebooks test-lowered test-batch test-papermill test-real lab data \
        test-browser fit-standins bench clean environment

help:
	@echo "make reproduce   rerun every notebook, quick profile; then open runs/latest/index.html"
	@echo "make paper       the same at the papers' own sizes (long)"
	@echo "make test        unit tests, doctests, every notebook's values"
	@echo "make lab         JupyterLab on copies of the lessons, in work/"
	@echo "make test-browser  a lesson in JupyterLab in a Chromium, where there is one"
	@echo "make data        which real data files are here, and how to get the others"
	@echo "make fit-standins  fit and measure the stand-ins on the real files that are here (half an hour)"
	@echo "make bench       our speed beside the peers' (figures/bench.json)"
	@echo "make clean       remove .venv and caches; runs/ stays"

reproduce: environment
	$(BIN)/ppkit reproduce $(ARGS)

paper: environment
	$(BIN)/ppkit reproduce --profile paper $(ARGS)

lab: environment
	$(BIN)/ppkit lab $(ARGS)

data: environment
	$(BIN)/ppkit data status

fit-standins: environment
	OMP_NUM_THREADS=1 $(BIN)/ppkit data fit-standins $(ARGS)

# Two single-threaded lanes where nothing is timed; the notebooks' budgets are measured with nothing else running.
test: environment
	$(MAKE) test-notebooks
	$(MAKE) -j 2 --output-sync=target test-lowered test-batch
	$(MAKE) test-unit

test-unit: environment
	$(PINNED) $(BIN)/python -m pytest -q --doctest-modules --durations=8 -n 2 --dist loadfile tests ppkit

test-notebooks: environment
	$(PINNED) $(BIN)/python -m pytest $(NBVAL) --notebook-budgets -n 2 --dist loadscope notebooks $(addprefix --ignore=,$(SYSTEM))
	$(PINNED) $(BIN)/python -m pytest $(NBVAL) --notebook-budgets $(SYSTEM)

test-lowered: environment
	$(PINNED) $(LOWERED) $(BIN)/python -m pytest $(NBVAL) notebooks/01_dpstgd.ipynb

test-batch: test-papermill
	$(MAKE) test-real

test-papermill: environment
	PPKIT_SOURCE=standin $(BIN)/ppkit reproduce 01_dpstgd -p SEED 1 --fresh --runs .cache/runs

test-real: environment
ifneq ($(REAL_DATA),)
	PPKIT_REAL_DATA=$(REAL_DATA) $(PINNED) $(BIN)/python -m pytest -q tests -k "real_development"
	PPKIT_DATA=$(REAL_DATA) $(BIN)/ppkit reproduce 00_start_here --fresh --runs .cache/runs
	$(BIN)/python tests/gzip_real_data.py $(REAL_DATA) .cache/gzipped
	PPKIT_DATA=.cache/gzipped $(BIN)/ppkit reproduce 00_start_here --fresh --runs .cache/runs
	rm -rf .cache/gzipped
	PPKIT_DATA=$(REAL_DATA) $(BIN)/ppkit reproduce 01_dpstgd -p DATASET creditcard --fresh --runs .cache/runs
else
	@echo "no ../shared/data here: the checks on real rows are left out"
endif

# The driver of the browser has a lock and an environment of its own; CHROMIUM=PATH names a browser.
CHROMIUM ?= $(shell for name in chromium chromium-browser google-chrome; do \
              command -v $$name && break; done)
test-browser: environment
ifneq ($(CHROMIUM),)
	$(PYTHON) -m venv .venv/browser
	.venv/browser/bin/python -m pip install $(PIP_FLAGS) -q -r tests/browser/requirements.lock
	$(PINNED) .venv/browser/bin/python tests/browser/lab_in_chromium.py \
	  $(BIN)/ppkit $(CHROMIUM) $(ARGS)
else
	@echo "no Chromium here: JupyterLab is not tried in a browser (CHROMIUM=PATH names one)"
endif

# Peers have a lock of their own and an environment of their own, beside the kit's.
bench: environment
	$(PYTHON) -m venv .venv/bench
	.venv/bench/bin/python -m pip install $(PIP_FLAGS) -q -r requirements.lock -r benchmarks/requirements.lock
	.venv/bench/bin/python -m pip install $(PIP_FLAGS) -q --no-deps -e . crypten==0.4.1
	.venv/bench/bin/python benchmarks

clean:
	rm -rf .venv .cache build .pytest_cache *.egg-info
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +

# .venv/made-from holds what the environment was made from: place, interpreter, lock and ranges (not the settings of
# tools further down in pyproject.toml); another content makes it anew.
environment:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ppkit needs Python 3.11 or newer, $(PYTHON) is not: try make PYTHON=python3.11"; exit 1; }
	@made_from=$$($(PYTHON) -c 'import sys; print(sys.version, sys.platform)'; \
	  echo "$(CURDIR)"; cat requirements.lock; sed '/^\[tool/,$$d' pyproject.toml); \
	if [ "$$made_from" = "$$(cat .venv/made-from 2>/dev/null)" ] && $(BIN)/python -c '' 2>/dev/null; then exit 0; fi; \
	echo "Making .venv (once; a few minutes, most of it PyTorch)"; \
	$(PYTHON) -m venv --clear .venv; \
	if $(PYTHON) -c 'import sys, platform as p; sys.exit((sys.platform, p.machine(), p.python_implementation(), sys.version_info[:2]) != ("linux", "x86_64", "CPython", (3, 11)))'; then \
	  $(PIP) install $(PIP_FLAGS) -q "$$(grep '^torch==' requirements.lock)"; \
	  $(PIP) install $(PIP_FLAGS) -q -r requirements.lock; \
	  $(PIP) install $(PIP_FLAGS) -q --no-deps -e .; \
	else \
	  echo "No exact pins for this system: taking the newest that pyproject.toml allows"; \
	  $(PIP) install $(PIP_FLAGS) -q -e .; \
	fi; \
	echo "$$made_from" > .venv/made-from
