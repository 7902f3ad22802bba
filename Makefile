# Each target makes what it needs; a second run is fast. Only Python 3.11+, make and a package index are required.
# `make test-kube` also wants Go; where there is none, it comes from the package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Random order and two workers: a test that leans on another one fails here first.
PYTEST := $(BIN)/pytest -n 2
NO_KUBE := --ignore=tests/kube -m "not soak"
# Packages and our own modules are compiled when they are installed: where the environment keeps Python from writing bytecode
# (PYTHONDONTWRITEBYTECODE), every process would compile a thousand modules again, for a second or two.
INSTALL := $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python
INSTALL_SELF := $(INSTALL) --no-deps --no-build-isolation --editable .

.PHONY: help demo check test test-kube test-browser soak world worlds-alike bench docs format kube-up kube-down requirements changelog clean venv
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# ------------------------------------------------------------------------------------------------- environment

$(BIN)/uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is too old; Pumice needs Python 3.11 or newer: run 'make PYTHON=/path/to/python3.11'"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "make: $(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

$(VENV)/core.stamp: $(BIN)/uv requirements/core.txt pyproject.toml
	@test -e $(VENV)/dev.stamp || $(INSTALL) --require-hashes -r requirements/core.txt
	@$(INSTALL_SELF)
	@touch $@

$(VENV)/dev.stamp: $(BIN)/uv requirements/dev.txt pyproject.toml
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@$(INSTALL_SELF)
	@touch $@ $(VENV)/core.stamp

$(VENV)/docs.stamp: $(VENV)/core.stamp requirements/docs.txt
	@$(INSTALL) --require-hashes -r requirements/docs.txt
	@touch $@

$(VENV)/browser.stamp: $(VENV)/dev.stamp requirements/browser.txt
	@$(INSTALL) --require-hashes -r requirements/browser.txt
	@touch $@

$(VENV)/bytecode.stamp: $(BIN)/uv $(shell find src -name '*.py')
	@$(BIN)/python -m compileall -q -j 0 src
	@touch $@

venv: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## everything a developer needs, in .venv

# ------------------------------------------------------------------------------------------------- people's targets

demo: $(VENV)/core.stamp $(VENV)/bytecode.stamp  ## the story of the README, on this machine, in under a minute
	@$(BIN)/pumice demo

check: $(VENV)/dev.stamp  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp  ## write the formatter's opinion into the files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## all tests that need no Go tool chain
	$(PYTEST) $(NO_KUBE)

test-kube: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## tests on the real kube-apiserver, etcd, kubectl and KWOK
	tools/kube/packages
	$(BIN)/python tools/kube/environments.py
	$(BIN)/python tools/kube/build.py
	$(BIN)/pytest tests/kube -m "not soak"

test-browser: $(VENV)/browser.stamp $(VENV)/bytecode.stamp  ## the dashboard in Debian's Chromium; pictures of its pages into build/pictures
	tools/kube/packages chromium=chromium
	$(PYTEST) tests/browser

soak: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## the long rounds: crash tests, big random tests
	$(BIN)/python tools/kube/build.py
	$(BIN)/pytest -m soak

world: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## play one world again: make world PROFILE=storm SEED=7
	$(BIN)/python -m pumice.sim.worlds --profile $(or $(PROFILE),all) --seed $(or $(SEED),1)

OTHER_PYTHON ?= python3.13
OTHER := build/other-python
DIGESTS := -m pumice.sim.worlds --worlds $(or $(WORLDS),18) --digests

worlds-alike: $(VENV)/core.stamp  ## the same worlds under two Pythons, byte for byte: make worlds-alike OTHER_PYTHON=python3.13
	@test -x $(OTHER)/bin/python || $(OTHER_PYTHON) -m venv $(OTHER)
	@$(UV) pip install --quiet --python $(OTHER)/bin/python --require-hashes -r requirements/core.txt
	$(BIN)/python $(DIGESTS) > build/digests-of-this-python
	PYTHONPATH=src $(OTHER)/bin/python $(DIGESTS) > build/digests-of-the-other
	cmp build/digests-of-this-python build/digests-of-the-other
	@$(BIN)/python -V; $(OTHER)/bin/python -V; echo "the same $(or $(WORLDS),18) worlds under both"

bench: $(VENV)/dev.stamp $(VENV)/bytecode.stamp  ## the benchmarks, one JSON line each, and which got worse than bench/ratios.json
	$(BIN)/python -m bench

docs: $(VENV)/docs.stamp  ## the site, into site/
	$(BIN)/zensical build --clean --strict

kube-up: $(VENV)/dev.stamp  ## a real control plane with pretend nodes, for trying things
	$(BIN)/python tools/kube/build.py
	$(BIN)/python tools/kube/control_plane.py up

kube-down: $(VENV)/dev.stamp  ## stop what kube-up started
	$(BIN)/python tools/kube/control_plane.py down

# ------------------------------------------------------------------------------------------------- maintenance

COMPILE = $(UV) pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate --python-version 3.11

requirements: $(BIN)/uv  ## newest versions into the hash-pinned files
	$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.txt
	$(COMPILE) pyproject.toml requirements/core.in -o requirements/core.txt
	$(COMPILE) pyproject.toml requirements/dev.in -o requirements/dev.txt
	$(COMPILE) requirements/docs.in -o requirements/docs.txt
	$(COMPILE) requirements/browser.in -o requirements/browser.txt
	$(COMPILE) requirements/torchx.in -o requirements/torchx.txt

changelog: $(VENV)/dev.stamp  ## fragments of changes/ into CHANGELOG.md (at a release)
	$(BIN)/towncrier build --yes

clean:  ## remove what the targets made
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
