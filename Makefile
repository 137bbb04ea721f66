# Everything runs from .venv, which is made from the lock file on first use.
PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv/demo-installed
STAMP := .venv/installed
# As pip does: behind a company's TLS proxy its certificate is in the system's store alone.
export UV_SYSTEM_CERTS ?= true
UPGRADE ?= --upgrade
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header

TESTS := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --durations 30
# In the order of names: whole nights begin first, and the many short tests of statistics come late.
SLOWLY := $(TESTS) --no-loadscope-reorder

PEER := tests.benchmarks.peer_
SITTERS := flows.study.exam:privaudit \
	$(PEER)jax_privacy:jax_privacy_from_gdp $(PEER)jax_privacy:jax_privacy_one_run \
	$(PEER)privacyguard:privacyguard_eps $(PEER)privacyguard:privacyguard_eps_lb \
	$(if $(METER),$(PEER)privacy_meter:privacy_meter_best_threshold)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-system statistics-passed test-soak docs site lint lock audit sbom benchmarks clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Make .venv with the pinned dependencies

$(DEMO): infra/demo.lock infra/build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and "privaudit needs Python 3.11 or newer, this is %d.%d: give make PYTHON=..." % v)'
	@echo "Installing the $$(grep -c '^[a-z].*==' infra/demo.lock) pinned packages of the demo into .venv, once: 1.7 GB on disk."
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r infra/build.lock
	$(BIN)/uv pip install --python .venv --require-hashes --no-deps --no-build-isolation -r infra/demo.lock
	$(BIN)/uv pip install --quiet --python .venv --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMP): requirements.lock $(DEMO)
	@echo "Installing what tests and checks need besides, $$(grep -c '^[a-z].*==' requirements.lock) pinned packages in all: 3.3 GB on disk."
	$(BIN)/uv pip install --python .venv --require-hashes --no-build-isolation -r requirements.lock
	@touch $@

demo: $(DEMO)  ## Audit three models on 14 real days: table and report in demo/
	$(BIN)/privaudit demo

test: $(STAMP)  ## Run the quick tests
	$(TESTS) -m "not slow and not soak"

test-slow: $(STAMP)  ## Run the slow tests: more statistics, faults, nights and browsers
	$(SLOWLY) -m "slow and not soak"

test-system: $(STAMP)  ## Run the slow tests but the statistics of what makes figures
	$(SLOWLY) -m "slow and not statistics and not soak"

statistics-passed: $(STAMP)  ## Note that this state of the figures passed test-slow and landed: .ci/run then runs test-system
	$(BIN)/python -m tests.support.tiers passed

test-soak: $(STAMP)  ## Repeat seeded faults and hostile inputs (hours)
	$(BIN)/python -m pytest -m soak

lint: $(STAMP)  ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(STAMP)  ## Write the pages of docs/ that are made from the code
	$(BIN)/python -m tests.support.dictionary
	$(BIN)/python -m tests.support.papers
	$(BIN)/python -m tests.support.reference_pages

site: docs  ## Build docs/ as a site in site/, offline; a broken link fails
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs site
	@echo "Open site/index.html in a browser."

lock: $(STAMP)  ## Resolve the dependencies anew into the lock files (UPGRADE= keeps what is locked)
	$(COMPILE) $(UPGRADE) --extra demo --extra studies --group dev pyproject.toml --output-file requirements.lock
	$(COMPILE) $(UPGRADE) --no-annotate --extra cluster --extra demo --extra studies --constraint requirements.lock pyproject.toml \
		--output-file infra/requirements.lock
	$(COMPILE) $(UPGRADE) --no-annotate --extra demo --override infra/demo.in --constraint requirements.lock pyproject.toml \
		--output-file infra/demo.lock
	$(COMPILE) $(UPGRADE) --no-annotate infra/build.in --output-file infra/build.lock

audit: $(STAMP)  ## Look the locked packages up in a database of vulnerabilities, if one answers
	$(BIN)/python infra/audit_dependencies.py

sbom: .venv-image/installed  ## Write sbom.json (CycloneDX) and licences.csv of what the image holds
	$(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment \
		--output-reproducible --pyproject pyproject.toml --of JSON --output-file sbom.json \
		.venv-image/bin/python
	$(BIN)/python infra/list_licences.py sbom.json > licences.csv

.venv-image/installed: infra/requirements.lock $(STAMP)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-image
	$(BIN)/uv pip install --quiet --python .venv-image --require-hashes -r infra/requirements.lock --build-constraints infra/build.lock
	@touch $@

benchmarks: .venv-peers/installed  ## Measure beside peers, which sit the exam too (METER= checkout of ml_privacy_meter; an hour)
	.venv-peers/bin/python -m tests.benchmarks.lower_bounds
	.venv-peers/bin/python -m tests.benchmarks.tally
	PYTHONPATH=.:$(METER) .venv-peers/bin/privaudit study exam --scale 0.1 --output .venv-peers/exam $(SITTERS:%=--auditor %)

.venv-peers/installed: pyproject.toml $(STAMP)
	$(PYTHON) -m venv --clear .venv-peers
	$(BIN)/uv pip install --quiet --python .venv-peers --editable '.[demo,lightgbm,studies]' --group peers
	@touch $@

clean:  ## Remove the environments and what the demo made
	rm -rf .venv .venv-image .venv-peers .kernels demo site sbom.json licences.csv
