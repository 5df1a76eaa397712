# Two commands for a newcomer: `make demo` and `make test`. Both need Python 3.10+ and nothing else.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test hostile lint check check-fast large-extras speed clean

demo: $(VENV)/.ready-demo
	$(VENV)/bin/diffor demo --force

test: $(VENV)/.ready-dev
	@echo "The tests take about ten minutes on two cores."
	$(VENV)/bin/pytest -n auto --dist worksteal

lint: $(VENV)/.ready-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test

# Lint, and the tests of what changed since main: two minutes.
BASE ?= $(shell git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
check-fast: lint
	$(VENV)/bin/python tests/support/changed_tests.py $(BASE) | xargs -r $(VENV)/bin/pytest -n auto --dist worksteal -q

# HOSTILE times as many faults, kills, odd tables, folders and requests as `make test` plays: hours.
HOSTILE ?= 100
hostile: $(VENV)/.ready-dev
	$(VENV)/bin/pytest tests/hostile --hostile $(HOSTILE)

# What some tests need and `make test` does without: Ray and MLflow.
large-extras: $(VENV)/.ready-dev
	$(PIP) --editable '.[dev,mlflow,ray]'

speed: $(VENV)/.ready-dev
	$(VENV)/bin/python benchmarks/latency.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "DiffoR needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready-demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plots,parquet]'
	touch $@

$(VENV)/.ready-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.ready-demo
