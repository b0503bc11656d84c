# `make run` and `make test` need only make and Python 3.11 to 3.13 with venv.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help run setup check format test test-long coverage bench conformance clients docs site recording screenshots soak kills lock sbom image clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed; install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Every package is installed by version and hash; the project itself is built with the locked build tools.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROJECT = $(INSTALL) --no-deps --no-build-isolation -e .

$(VENV)/.run: $(VENV)/bin/python pyproject.toml requirements/run.txt
	$(INSTALL) --require-hashes -r requirements/run.txt
	$(PROJECT)
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml requirements/dev.txt
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(PROJECT)
	@touch $@ $(VENV)/.run

.venv-tools/.made: requirements/tools.txt
	$(PYTHON) -m venv .venv-tools
	.venv-tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/tools.txt
	@touch $@

run: $(VENV)/.run ## Set up and start the server on http://127.0.0.1:8000
	@$(BIN)/knowledge serve

setup: $(VENV)/.dev ## Set up for development

check: $(VENV)/.dev ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev ## Format the code and apply automatic lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# --no-loadscope-reorder gives files to the workers in the order of their names, so the short ones of tests/unit come last.
test: check ## Set up, check, and run the tests
	$(BIN)/python -P scripts/run_tests.py -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-long: $(VENV)/.dev ## Run the tests that take minutes
	$(BIN)/pytest -m long $(TESTS)

coverage: $(VENV)/.dev ## Run the tests and list the lines that no test executes, server processes included
	@mkdir -p build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run scripts/run_tests.py -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(VENV)/.dev ## Run all benchmarks (at most 15 minutes) and print one table
	$(BIN)/python benchmarks/run_all.py $(if $(PEERS_PYTHON),--peers-python $(PEERS_PYTHON))

conformance: $(VENV)/.dev ## Run the official MCP conformance suite and the MCP Inspector
	$(BIN)/pytest tests/conformance -rs

clients: $(VENV)/.dev ## Connect real MCP clients, restart the server, and write docs/reference/clients.md
	$(BIN)/pytest -m long tests/clients -rs --write-page

image: ## Build the container image
	docker build -t knowledge-server .

docs: $(VENV)/.dev ## Generate docs/reference, the package diagram and the examples of STYLE.md from the code
	$(BIN)/python -m scripts.reference

site: .venv-tools/.made ## Build the documentation as a site in build/site and check its links
	.venv-tools/bin/mkdocs build --quiet --strict --clean
	.venv-tools/bin/python scripts/check_site.py build/site

recording: $(VENV)/.dev ## Record the commands of the README in a terminal, as docs/images/terminal.svg
	$(BIN)/python -m scripts.recording

soak: $(VENV)/.dev ## Run 100 clients, imports, crawls, deletions and restarts for MINUTES=30
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),30)

kills: $(VENV)/.dev ## Kill the process KILLS=500 times in five settings; continues where it stopped
	$(BIN)/python -m tests.journeys.kills --kills $(or $(KILLS),500)

screenshots: $(VENV)/.dev ## Take the pictures of the web page for the documentation
	$(BIN)/python -m scripts.screenshots

LOCK = .venv-tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header --no-annotate $(UPGRADE)

lock: .venv-tools/.made ## Rewrite requirements/*.txt; UPGRADE=--upgrade takes the newest versions
	$(LOCK) pyproject.toml --group build --extra dev -o requirements/dev.txt
	$(LOCK) pyproject.toml --group build -c requirements/dev.txt -o requirements/run.txt
	$(LOCK) pyproject.toml --group build --extra cluster -c requirements/dev.txt -o requirements/cluster.txt
	$(LOCK) --group tools -o requirements/tools.txt
	@touch .venv-tools/.made

sbom: .venv-tools/.made ## Write the software bill of materials (CycloneDX) to dist/sbom.json
	@mkdir -p dist
	@PYTHONWARNINGS=ignore .venv-tools/bin/cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml --output-reproducible -o dist/sbom.json
	@echo "Written to dist/sbom.json"

clean: ## Remove the virtual environments, caches and builds
	rm -rf $(VENV) .venv-tools .mypy_cache .ruff_cache .hypothesis dist build
