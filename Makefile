# Everything a person needs: `make reproduce` reruns the papers, `make test` checks the kit. Each makes .venv first.
# PYTHON=python3.12 chooses an interpreter, PIP_FLAGS="..." goes to every pip call, ARGS="..." to the command.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
PIP_FLAGS ?=
ARGS ?=
BIN := .venv/bin

# One thread per process, stand-ins for data, and no file of this user's: what the committed outputs were made with.
PINNED := PPKIT_SOURCE=standin OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
          NUMBA_CACHE_DIR=$(CURDIR)/.cache/numba PYTHONHASHSEED=0 JUPYTER_PREFER_ENV_PATH=1 PYTHONPATH=tests/helpers
# A record trains and reduces lattices until a processor's last digits show, so it is executed and compared under the same instructions
# (`ppkit execute` sets them, too: environment.INSTRUCTIONS). The lessons are not, they show the same everywhere.
INSTRUCTIONS := ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell MKL_CBWR=COMPATIBLE MKL_ENABLE_INSTRUCTIONS=AVX2 \
                NPY_DISABLE_CPU_FEATURES=X86_V4,AVX512_ICL,AVX512_SPR
LOWERED := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Nehalem MKL_ENABLE_INSTRUCTIONS=SSE4_2 NUMBA_CPU_NAME=generic
# The limit only guards against a cell that hangs for ever; seconds are printed, never judged: budgets are `make bench`'s.
NBVAL := -p notebook_times -p notebook_kernels --nbval --nbval-cell-timeout 1800 --nbval-kernel-startup-timeout 600 -q
# It starts processes of its own, so it gets both cores.
SYSTEM := notebooks/records/zhou2021_system.ipynb
REAL_DATA := $(wildcard ../shared/data)

.PHONY: help first reproduce paper check lint test test-unit test-lessons test-papermill test-records test-lowered test-batch \
        test-one-parameter test-forked test-paper-cells test-real lab breaking data site \
        test-browser fit-standins bench clean environment slides

help:
	@echo "make first       one card transaction read out of one gradient: a first result in seconds"
	@echo "make reproduce   rerun every notebook, quick profile; then open runs/latest/index.html"
	@echo "make paper       the same at the papers' own sizes (long)"
	@echo "make environment  only .venv, from requirements.lock"
	@echo "make lint        format and lint, as before a commit"
	@echo "make check       format, lint, contracts, types, doctests and the quick unit tests: two minutes"
	@echo "make test        unit tests, doctests, every notebook's values"
	@echo "make lab         JupyterLab on copies of the lessons, in work/"
	@echo "make breaking    which notebook notices which bug of 'ppkit break' (an hour); ARGS='masks' for one"
	@echo "make site        the read-only site from what is committed; then open build/site/index.html"
	@echo "make slides      a deck of slides for each narrative; then open build/slides/1_dpstgd.html"
	@echo "make test-browser  a lesson in JupyterLab and the site in a Chromium, where there is one"
	@echo "make data        which real data files are here, and how to get the others"
	@echo "make fit-standins  fit and measure the stand-ins on the real files that are here (a quarter of an hour);"
	@echo "                   with ARGS='--measure lending' that one is measured again and keeps its parameters"
	@echo "make bench       our speed beside the peers' (figures/bench.json)"
	@echo "make clean       remove .venv and caches; runs/ stays"

first: environment
	OMP_NUM_THREADS=1 $(BIN)/ppkit first

reproduce: environment
	$(BIN)/ppkit reproduce $(ARGS)

paper: environment
	$(BIN)/ppkit reproduce --profile paper $(ARGS)

lab: environment
	$(BIN)/ppkit lab $(ARGS)

# Plain nbval beside a copy with each bug; it writes the table in docs/breaking.md.
breaking: environment
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.breaking $(ARGS)

# It executes no notebook and needs no network; a warning of Sphinx fails it.
site: environment
	$(PINNED) $(BIN)/python -m tools.site build/site

# The wheel of a theme for Sphinx brings reveal.js; nothing else of it is used, and the decks need no network.
REVEAL := .cache/reveal
slides: environment
	test -d $(REVEAL) || $(BIN)/python -m pip install $(PIP_FLAGS) -q --no-deps --require-hashes --target $(REVEAL) \
	  -r tools/slides/requirements.lock
	$(BIN)/python -m tools.slides $(REVEAL)/sphinx_revealjs/_static/revealjs build/slides

data: environment
	$(BIN)/ppkit data status

fit-standins: environment
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.standins $(ARGS)

# Layers, doctests and the unit tests that start no process and are not marked slow: for the person at work.
check: environment lint
	$(PINNED) $(BIN)/python -m pytest -p no:nbval -q --doctest-modules -n 2 --dist worksteal -m "not processes and not slow" tests ppkit spnn_system tools

# Of it .pre-commit-config.yaml runs ruff.
lint: environment
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

test: environment lint
	$(MAKE) -j 2 --output-sync=target test-lessons test-papermill
	$(MAKE) test-records
	$(MAKE) -j 2 --output-sync=target test-lowered test-batch
	$(MAKE) test-unit

test-unit: environment
	$(PINNED) $(BIN)/python -m pytest -p no:nbval -q --doctest-modules --durations=8 -n 2 --dist loadfile tests ppkit spnn_system tools

# As a reader would: plain pytest and plain papermill, with no plugin and no variable of ours.
test-lessons: environment
	$(BIN)/pytest --nbval -q notebooks/*.ipynb

# The parts with another seed; the narratives by README's own commands, each of which must show another table.
test-papermill: environment
	mkdir -p .cache/papermill
	for lesson in notebooks/0*.ipynb notebooks/5_*.ipynb; do \
	  $(BIN)/papermill --no-progress-bar $$lesson .cache/papermill/$$(basename $$lesson) -p SEED 1 || exit 1; \
	done
	sed -n 's/^papermill \(notebooks[^ ]*\) out.ipynb \(-p [^#]*[^# ]\).*/\1 \2/p' README.md | \
	while read -r narrative parameter; do \
	  run=.cache/papermill/$$(basename $$narrative); \
	  $(BIN)/papermill --no-progress-bar $$narrative $$run $$parameter < /dev/null || exit 1; \
	  $(BIN)/python tests/helpers/changed_tables.py $$narrative $$run || exit 1; \
	done

test-records: environment
	$(PINNED) $(INSTRUCTIONS) $(BIN)/python -m pytest $(NBVAL) -n 2 notebooks/records notebooks/solutions --ignore=$(SYSTEM)
	$(PINNED) $(INSTRUCTIONS) $(BIN)/python -m pytest $(NBVAL) $(SYSTEM)

test-lowered: environment
	$(PINNED) $(LOWERED) $(BIN)/python -m pytest $(NBVAL) notebooks/01b_dpstgd_training.ipynb

test-batch: test-one-parameter test-forked test-paper-cells
	$(MAKE) test-real

test-one-parameter: environment
	PPKIT_SOURCE=standin $(BIN)/ppkit reproduce wang2018 -p SEED 1 --fresh --runs .cache/runs

# Cells that only the paper profile runs, at sizes that take a minute.
test-paper-cells: environment
	PPKIT_SOURCE=standin OMP_NUM_THREADS=1 $(BIN)/ppkit reproduce wang2018 --profile paper -p N_ROWS 20000 -p N_SEEDS 2 -p N_ROUNDS 6 \
	  -p N_JOBS 1 --fresh --runs .cache/small
	PPKIT_SOURCE=standin OMP_NUM_THREADS=1 $(BIN)/ppkit reproduce wu2020 --profile paper -p N_RUNS 2 -p N_LENDING 3000 -p N_FRAUD 1000 \
	  --fresh --runs .cache/small

# Two records on forked kernels show what is committed, which fresh kernels made.
test-forked: environment
	PPKIT_SOURCE=standin OMP_NUM_THREADS=1 $(INSTRUCTIONS) $(BIN)/ppkit reproduce kanodia2020 wang2018 --warm --jobs 1 --fresh --runs .cache/forked
	$(BIN)/python tools/same_outputs.py notebooks/records .cache/forked/latest/notebooks kanodia2020 wang2018

test-real: environment
ifneq ($(REAL_DATA),)
	PPKIT_REAL_DATA=$(REAL_DATA) $(PINNED) $(BIN)/python -m pytest -q tests -k "real_development"
	PPKIT_DATA=$(REAL_DATA) $(BIN)/ppkit reproduce 00_start_here --fresh --runs .cache/runs
	$(BIN)/python tests/helpers/gzip_real_data.py $(REAL_DATA) .cache/gzipped
	PPKIT_DATA=.cache/gzipped $(BIN)/ppkit reproduce 00_start_here --fresh --runs .cache/runs
	rm -rf .cache/gzipped
	PPKIT_DATA=$(REAL_DATA) $(BIN)/ppkit reproduce wang2018 -p DATASET creditcard --fresh --runs .cache/runs
else
	@echo "no ../shared/data here: the checks on real rows are left out"
endif

# The driver of the browser has a lock and an environment of its own; CHROMIUM=PATH names a browser.
CHROMIUM ?= $(shell for name in chromium chromium-browser google-chrome; do \
              command -v $$name && break; done)
test-browser: environment site
ifneq ($(CHROMIUM),)
	$(PYTHON) -m venv .venv/browser
	.venv/browser/bin/python -m pip install $(PIP_FLAGS) -q -r tests/browser/requirements.lock
	$(PINNED) .venv/browser/bin/python tests/browser/lab_in_chromium.py \
	  $(BIN)/ppkit $(CHROMIUM) $(ARGS)
	$(PINNED) .venv/browser/bin/python tests/browser/site_in_chromium.py build/site $(CHROMIUM) $(ARGS)
else
	@echo "no Chromium here: JupyterLab and the site are not tried in a browser (CHROMIUM=PATH names one)"
endif

# Peers have a lock of their own and an environment of their own, beside the kit's.
bench: environment
	@PIP_FLAGS='$(PIP_FLAGS)' $(PYTHON) tools/environment.py .venv/bench benchmarks/requirements.lock
	.venv/bench/bin/python -m pip install $(PIP_FLAGS) -q --no-deps crypten==0.4.1
	.venv/bench/bin/python benchmarks $(ARGS)

clean:
	rm -rf .venv .cache build .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +

environment:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ppkit needs Python 3.11 or newer, $(PYTHON) is not: try make PYTHON=python3.11"; exit 1; }
	@PIP_FLAGS='$(PIP_FLAGS)' $(PYTHON) tools/environment.py
