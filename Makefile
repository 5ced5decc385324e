# Everything runs in .venv, made on first use. Needs GNU make, git and Python 3.11 or newer with venv.
#
#   make run [ARGS='--since 2026-11-01']   read this machine's transcripts and write every view as CSV
#   make check                             everything that CI asks; the tests are a part of it

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WHEEL := build/wheel
GENERATED_DOCS = $(shell grep -rlF '[[[cog' README.md CONTRIBUTING.md docs --include='*.md' 2>/dev/null)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run test check lint type layers sql docs-check wheel fmt docs golden sample bench clean

help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Installed again only when what is declared has changed.
$(VENV)/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/run.stamp $@

run: $(VENV)/run.stamp ## read the transcripts of this machine, or the sample, and write every view as CSV
	$(BIN)/agentlens run --sample-if-empty $(ARGS)

test: $(VENV)/dev.stamp ## tests with branch coverage
	$(BIN)/python -m pytest -n 2 -q --cov --cov-report=term $(ARGS)

check: test lint type layers sql docs-check wheel ## everything that CI asks
	@echo 'all checks passed'

lint: $(VENV)/dev.stamp ## format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(VENV)/dev.stamp ## types
	$(BIN)/mypy

layers: $(VENV)/dev.stamp ## imports run downward only
	$(BIN)/lint-imports

sql: $(VENV)/dev.stamp ## style of the SQL
	$(BIN)/sqlfluff lint sql

docs-check: $(VENV)/dev.stamp ## generated parts of the docs are up to date
	$(if $(GENERATED_DOCS),$(BIN)/python -m cogapp --check --diff $(GENERATED_DOCS),@echo 'no generated docs')

wheel: $(VENV)/dev.stamp ## the wheel works in an empty environment, away from the checkout
	rm -rf $(WHEEL)
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt $(WHEEL)/*.whl
	cd $(WHEEL) && venv/bin/agentlens --help >/dev/null && venv/bin/agentlens schema >/dev/null

fmt: $(VENV)/dev.stamp ## put code and SQL in form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/sqlfluff fix sql

docs: $(VENV)/dev.stamp ## write the generated parts of the docs
	$(if $(GENERATED_DOCS),$(BIN)/python -m cogapp -r $(GENERATED_DOCS),@echo 'no generated docs')

golden: $(VENV)/dev.stamp ## write the golden files anew; read their diff, it is a promise that changes
	$(BIN)/python -m pytest -q --update-golden tests

sample: ## write data/sample anew
	$(PYTHON) -m benchmarks.make_sample data/sample/home

bench: $(VENV)/dev.stamp ## speed and memory on a made corpus, beside ccusage where it is installed
	$(BIN)/python -m benchmarks.bench $(ARGS)

clean: ## remove what was made, the environment too
	rm -rf $(VENV) build dist .coverage .coverage.* .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
