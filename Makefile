# One front door. `make` alone lists the verbs; a verb's line is the text behind `##`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
# The set-up is done when this file is there: its name tells what was installed.
# Spark's classes are archived for the jars and the processors as they are: others need another archive.
SCALA := $(wildcard rs_assets/spark/processor/scala/*.scala)
STAMP := .venv/.setup-$(shell cat requirements.lock pyproject.toml rs_assets/spark/jars.lock rs_assets/testing/servers/kafka.lock | cksum | tr -d ' ')
export DAGSTER_HOME ?= $(CURDIR)/.dagster
# Dagster stops its children by signals, which a shell in the background leaves ignored; only GNU's `env` can undo that.
SIGNALS = $(shell env --default-signal=INT true 2>/dev/null && echo env --default-signal=INT,HUP,QUIT)

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP)  ## install everything into .venv: Python packages, Java if there is none, jars

# After a change of the processors: without the archive each start takes some seconds longer.
CLASSES := .venv/.classes-$(shell cat $(SCALA) rs_assets/spark/jars.lock requirements.lock | cksum | tr -d ' ')
$(CLASSES): | $(STAMP)
	@printf 'classes of Spark, by running a small pipeline (a minute, 205 MB): ' && $(BIN)/python -m rs_assets.cli.setup.rehearsal
	@rm -f .venv/.classes-* && touch $@

.PHONY: run
run: setup $(CLASSES) dagster-home sample-log  ## run the example pipeline access_log through Dagster and show its results
	@$(BIN)/rs-assets run access_log

.PHONY: kafka-demo
kafka-demo: setup dagster-home  ## run the example order_totals over a Kafka broker of its own; ARGS="--keep" leaves it
	@$(BIN)/python -m pipelines.kafka_demo $(ARGS)

.PHONY: ui
ui: setup dagster-home sample-log  ## open Dagster with the pipelines' assets, jobs, sensors and schedules
	@$(SIGNALS) $(BIN)/rs-assets ui

# Two workers, each with a Spark of its own. What ARGS choose runs in one process: for few tests a second Spark costs more
# than it gives.
WORKERS ?= 2
SPREAD := -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=30 --durations-min=8
# The two tiers: what exceeds the budget of its file (tests/durations.py) or is marked `long` runs in `make verify` alone.
EVERYTHING := -m "long or not long"

.PHONY: test
test: setup  ## run the tests and the examples in the docstrings, a quarter of an hour; ARGS="-k window" chooses
	@$(SIGNALS) $(BIN)/pytest $(or $(ARGS),--brief $(SPREAD))

.PHONY: verify
verify: setup  ## run all tests, long ones too, with a table of what each fault led to; for nights and releases
	@RS_REQUIRE_SERVERS=1 $(SIGNALS) $(BIN)/pytest $(EVERYTHING) $(or $(ARGS),$(SPREAD))

.PHONY: durations
durations: setup  ## run all tests and record how long each file takes in tests/durations.json, on an idle machine
	@$(SIGNALS) $(BIN)/pytest $(EVERYTHING) --record $(or $(ARGS),$(SPREAD))

.PHONY: check
check: setup  ## run tests that need no Java, in about a minute
	@$(SIGNALS) $(BIN)/pytest $(SPREAD) tests/topology tests/checkpoint tests/state tests/project tests/torture --plain -q $(ARGS)

.PHONY: torture
torture: setup  ## kill it at every change of a file, or do what people do (FAULTS.md); SEED=7 or POINT=12 repeat one
	@$(BIN)/python -W ignore -m tests.torture \
	  $(or $(ARGS),$(if $(SEED),histories --seed $(SEED) --told),$(if $(POINT),crashes --point '$(POINT)'),crashes)

.PHONY: bench
bench: setup  ## run the benchmarks and write BENCHMARKS.md
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: lint
lint: setup  ## check style, format, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: functions
functions: setup  ## make docs/functions.md from the tables of functions
	@$(BIN)/python -m rs_assets.expressions.functions.document docs/functions.md

# In an environment of its own: nothing else needs what it needs.
.PHONY: docs
docs:  ## make a site of the pages in build/site, which needs no network; open build/site/index.html
	@test .venv-docs/.done -nt docs/site/requirements.lock || { rm -rf .venv-docs && $(PYTHON) -m venv .venv-docs && \
	  .venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	  --requirement docs/site/requirements.lock && touch .venv-docs/.done; }
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml
	@echo build/site/index.html

.PHONY: wheel
wheel: setup  ## make the wheel in dist, for projects of your own
	@$(BIN)/python -m hatchling build -t wheel -d dist

.PHONY: lock
lock: setup  ## renew the lock files from pyproject.toml; UV="--upgrade" takes newer versions
	@$(BIN)/uv pip compile pyproject.toml --quiet --all-extras --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" --output-file requirements.lock $(UV) > /dev/null
	@$(BIN)/uv pip compile --quiet --group pyproject.toml:docs --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" --output-file docs/site/requirements.lock $(UV) > /dev/null

.PHONY: clean
clean:  ## remove what the tools leave; keeps .venv, .rs (data) and .dagster (run history)
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist spark-warehouse metastore_db derby.log
	@find rs_assets pipelines resources tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The input of the example; written once.
.PHONY: sample-log
sample-log:
	@$(BIN)/python -m pipelines.access_log_data

.PHONY: dagster-home
dagster-home:
	@mkdir -p "$(DAGSTER_HOME)"
	@cmp -s dagster.yaml "$(DAGSTER_HOME)/dagster.yaml" || cp dagster.yaml "$(DAGSTER_HOME)/dagster.yaml"

# pip and not uv: pip reads the mirror, certificates and proxy that the user configured for it.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else f"error: Python 3.11 to 3.13 is needed, $(PYTHON) is {sys.version.split()[0]}: make setup PYTHON=python3.12")'
	@echo "[1/9] virtual environment in .venv"
	@$(PYTHON) -m venv .venv
	@echo "[2/9] Python packages of requirements.lock, checked by hash (1.7 GB on disk, a minute or more)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes --requirement requirements.lock
	@echo "[3/9] this project, and its modules compiled"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib rs_assets pipelines resources || true
	@printf '[4/9] Java: ' && $(BIN)/python -m rs_assets.spark.java
	@printf '[5/9] jars: ' && $(BIN)/python -m rs_assets.spark.jars
	@printf '[6/9] processors: ' && $(BIN)/python -m rs_assets.spark.processor.library
	@printf '[7/9] classes of Spark, by running a small pipeline (a minute, 205 MB): ' && $(BIN)/python -m rs_assets.cli.setup.rehearsal
	@rm -f .venv/.classes-* && touch $(CLASSES)
	@printf '[8/9] Kafka for tests and the demo: ' && $(BIN)/python -m rs_assets.testing.servers.kafka
	@echo "[9/9] servers for tests, if this system has packages of Debian; without them their tests are skipped"
	@$(BIN)/python -m rs_assets.testing.servers.mariadb_packages || true
	@$(BIN)/python -m rs_assets.testing.servers.redis fetch || true
	@$(BIN)/python -m rs_assets.testing.servers.mqtt || true
	@rm -f .venv/.setup-* && touch $@
