# Everything that a developer or CI runs. Everything is installed into .venv and .cache.

.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots test some check crash soak fuzz bench servers dbos clis promptfoo axe sarif lock audit clean rebuild
SHELL := /bin/bash
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# Exact versions of the tools that write and check the lock, so that two machines get the same result.
UV_VERSION := 0.13.7
PIP_AUDIT_VERSION := 2.10.1
UV := .cache/uv-$(UV_VERSION)/bin/uv
PIP_AUDIT := .cache/pip-audit-$(PIP_AUDIT_VERSION)/bin/pip-audit

# The first Python that is new enough. `make PYTHON=/path/to/python …` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
VENV_PACKAGE := import sys; print("python%d.%d-venv" % sys.version_info[:2])

# One pytest worker per core; an idle worker takes over tests of another.
PYTEST_FLAGS ?= -n auto --dist worksteal

# A venv cannot be moved or copied, so the stamp's name contains a checksum of its path.
PATH_SUM := $(shell pwd | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.setup-$(PATH_SUM)
SERVERS := .cache/servers/.setup-$(PATH_SUM)
DBOS := .cache/dbos/.setup-$(PATH_SUM)
# The agent CLIs take 1.4 GB, so all checkouts of the same versions share one folder of the user's cache (tests/agents_real/clis.py finds it).
CLIS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headway-clis/$(shell sha256sum tests/agents_real/package.json | cut -c1-12)
# promptfoo takes 1.6 GB, and is shared in the same way (bench/evals/promptfoo.py finds it).
PROMPTFOO := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headway-promptfoo/$(shell sha256sum tests/evals_real/package.json | cut -c1-12)
AXE := .cache/axe/.setup-$(shell sha256sum tests/evals/html/package.json | cut -c1-12)
SARIF := .cache/sarif/.setup-$(shell sha256sum tests/reviews/display/package.json | cut -c1-12)

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv from requirements.lock, with headway in it (quick if nothing changed)

# If the venv's interpreter is missing, rebuild even if the stamp is up to date.
$(STAMP): requirements.lock pyproject.toml $(if $(shell test -x $(BIN)/python && echo ok),,rebuild)
	@test -e $@ -a -x $(BIN)/python || { $(call make_venv); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

rebuild:

define make_venv
	"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null \
		|| { echo "headway: Python 3.11 or newer is needed — install it, or name it: make PYTHON=/path/to/python" >&2; exit 1; }; \
	"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "headway: $(PYTHON) cannot make a venv — run: apt-get install $$($(PYTHON) -c '$(VENV_PACKAGE)')" >&2; exit 1; }; \
	echo "making $(VENV) with $(PYTHON)"; \
	"$(PYTHON)" -m venv --clear $(VENV)
endef

demo: setup ## a batch over three fake accounts, interrupted and resumed: no key, no network
	@$(BIN)/headway demo

screenshots: setup ## pictures of the dashboard's pages into docs/images, from real jobs in Chromium (look at each before you commit it)
	@$(BIN)/python -m tests.dashboard.screenshots

check: setup ## lint, formatting, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-logo

test: check ## what CI runs: check, then every test
	$(BIN)/pytest $(PYTEST_FLAGS)

some: setup ## the tests in TESTS (make VENV=.venv-newest PYTHON=python3.13 TESTS=tests/unit some: on another Python)
	$(BIN)/pytest $(PYTEST_FLAGS) $(TESTS)

# Both suites write their figures to bench/RESULTS.md.
# KILLS=1000 runs all night. RACES is the number of races of each kind. SEED chooses the moments. STORE=postgres: over PostgreSQL.
crash: setup ## the whole crash suite: SIGKILL at every commit point and at 200 random moments, 2,000 races of two processes, full disks, clock jumps, 50 worktrees, 20 real agents
	HEADWAY_TEST_STORE=$(STORE) HEADWAY_CRASH_KILLS=$(or $(KILLS),200) HEADWAY_CRASH_RACES=$(or $(RACES),2000) HEADWAY_CRASH_SEED=$(or $(SEED),20) $(BIN)/python -m bench.suites crash $(PYTEST_FLAGS) -rP

# MINUTES=600 runs all night.
soak: setup ## half an hour of mixed work with faults, crashes and kills: nothing grows, nothing is lost
	HEADWAY_SOAK_S=$$(( 60 * $(or $(MINUTES),30) )) $(BIN)/python -m bench.suites soak -n 0 -rP

# N is the number of inputs, SEED the first seed.
fuzz: setup ## a million damaged and random answers of providers: each gives plausible facts (a small sample is in make test)
	$(BIN)/python -m bench.suites fuzz $(or $(N),1000000) $(or $(SEED),0)

servers: $(SERVERS) ## install LiteLLM's proxy and llama.cpp's server into .cache, for tests/servers and make bench (nginx: by apt)

# Without dependencies: the file lists all that the servers import, and leaves out what they do not (most of LiteLLM's 800 MB).
$(SERVERS): tests/servers/requirements.txt
	@"$(PYTHON)" -m venv --clear .cache/servers
	@.cache/servers/bin/pip install --quiet --disable-pip-version-check --no-deps -r tests/servers/requirements.txt
	@touch $@

dbos: $(DBOS) ## install DBOS into .cache, for make bench SECTION=flows

$(DBOS): bench/flows/requirements.txt
	@"$(PYTHON)" -m venv --clear .cache/dbos
	@.cache/dbos/bin/pip install --quiet --disable-pip-version-check --no-deps -r bench/flows/requirements.txt
	@touch $@

clis: $(CLIS)/.complete ## install Claude Code, Codex, Gemini CLI, opencode and their Node into ~/.cache/headway-clis, for tests/agents_real (needs npm, 1.4 GB)

# Into a folder beside it first: an installation that breaks off, or two at once, leave nothing half done.
$(CLIS)/.complete: tests/agents_real/package.json
	@command -v npm >/dev/null || { echo "headway: npm is needed to install the agent CLIs — run: apt-get install npm" >&2; exit 1; }
	@mkdir -p $(dir $(CLIS)) && fresh=$$(mktemp -d $(CLIS).XXXXXX) && cp $< $$fresh/ \
		&& npm install --prefix $$fresh --no-package-lock --no-audit --no-fund --loglevel=error \
		&& touch $$fresh/.complete && { rm -rf $(CLIS) && mv $$fresh $(CLIS); }

promptfoo: $(PROMPTFOO)/.complete ## install promptfoo and its Node into ~/.cache/headway-promptfoo, for tests/evals_real and make bench SECTION=evals (needs npm, 1.6 GB)

$(PROMPTFOO)/.complete: tests/evals_real/package.json
	@command -v npm >/dev/null || { echo "headway: npm is needed to install promptfoo — run: apt-get install npm" >&2; exit 1; }
	@mkdir -p $(dir $(PROMPTFOO)) && fresh=$$(mktemp -d $(PROMPTFOO).XXXXXX) && cp $< $$fresh/ \
		&& npm install --prefix $$fresh --no-package-lock --no-audit --no-fund --loglevel=error \
		&& touch $$fresh/.complete && { rm -rf $(PROMPTFOO) && mv $$fresh $(PROMPTFOO); }

axe: $(AXE) ## install axe-core into .cache, which judges the accessibility of pages in tests (needs npm)

$(AXE): tests/evals/html/package.json
	@command -v npm >/dev/null || { echo "headway: npm is needed to install axe-core — run: apt-get install npm" >&2; exit 1; }
	@mkdir -p .cache/axe && cp $< .cache/axe/ && npm install --prefix .cache/axe --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

sarif: $(SARIF) ## install Microsoft's SARIF validator into .cache, for tests/reviews (needs npm, 104 MB)

# npm leaves the program without the right to run.
$(SARIF): tests/reviews/display/package.json
	@command -v npm >/dev/null || { echo "headway: npm is needed to install the SARIF validator — run: apt-get install npm" >&2; exit 1; }
	@mkdir -p .cache/sarif && cp $< .cache/sarif/ && npm install --prefix .cache/sarif --no-package-lock --no-audit --no-fund --loglevel=error
	@chmod +x .cache/sarif/node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool
	@touch $@

bench: setup ## measure, and write bench/RESULTS.md (SECTION=overhead: one section of it)
	$(BIN)/python -m bench $(SECTION)

# `uv pip compile` keeps the pins that still fit, writes no address and leaves no uv.lock behind.
lock: $(UV) ## update the pins in requirements.lock (LOCK_FLAGS=--upgrade: newest versions)
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-emit-find-links $(LOCK_FLAGS) \
		--quiet --output-file requirements.lock

$(UV):
	@"$(PYTHON)" -m venv --clear .cache/uv-$(UV_VERSION)
	@.cache/uv-$(UV_VERSION)/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# --strict: a package that cannot be looked up is a failure.
audit: $(PIP_AUDIT) ## look up known vulnerabilities of the packages in requirements.lock (needs pypi.org)
	$(PIP_AUDIT) --requirement requirements.lock --no-deps --disable-pip --strict --progress-spinner off

$(PIP_AUDIT):
	@"$(PYTHON)" -m venv --clear .cache/pip-audit-$(PIP_AUDIT_VERSION)
	@.cache/pip-audit-$(PIP_AUDIT_VERSION)/bin/pip install --quiet --disable-pip-version-check pip-audit==$(PIP_AUDIT_VERSION)

clean: ## remove everything that make and the tools created
	rm -rf $(VENV) .venv-newest .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist uv.lock
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
