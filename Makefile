# Two commands for a newcomer: `make demo` and `make test`. Both need Python 3.10+ and nothing else.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test hostile docs lint check check-fast large-extras speed clean

demo: $(VENV)/.ready-demo
	$(VENV)/bin/diffor demo --force

test: $(VENV)/.ready-dev
	@echo "The tests take about ten minutes on two cores."
	$(VENV)/bin/pytest -n auto --dist worksteal

# The site, in site/: code of pages is run, warnings are errors, nothing is fetched.
docs: $(VENV)/.ready-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "Open site/index.html in a browser."

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
	$(VENV)/bin/pytest tests/hostile --hostile $(HOSTILE) -s

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
	$(PIP) --no-deps dlordinal  # asks for torchvision, which the parity tests need nothing of and which replaces torch
	touch $@ $(VENV)/.ready-demo

$(VENV)/.ready-docs: $(VENV)/.ready-dev
	$(PIP) --editable '.[dev,docs]'
	touch $@
