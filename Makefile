# Two commands on a fresh machine: `make demo` and `make test`. Everything they need, they set up.

# VERSIONS=newest or VERSIONS=lowest installs other versions of the dependencies, in an environment of their own.
VERSIONS ?= pinned
VENV    := .venv$(if $(filter-out pinned,$(VERSIONS)),-$(VERSIONS))
export VERSIONS
BIN     := $(VENV)/bin
# The first Python that is new enough; PYTHON=... chooses another.
PYTHON  ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
             $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# More than there are cores: many tests wait, for a deadline or for a CLI to start.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.PHONY: help demo loop arena smoke build adapters test test-all lint format bench coverage agents docker clean
.DEFAULT_GOAL := help

help: ## Show what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.demo ## Set up, then watch the real Claude Code CLI fix a bug (no key needed)
	@$(BIN)/yb demo

loop: $(VENV)/.demo ## Set up, then watch the real Claude Code CLI keep going until the tests pass (no key needed)
	@$(BIN)/yb demo --loop

arena: $(VENV)/.demo ## Set up, then rank real agents on the project's own tasks (no key needed); ARENA_SANDBOX=docker for containers
	@$(BIN)/python -m benchmarks.arena

smoke: build ## Set up, then run one task of the arena with Claude Code and a scripted model (no key needed)
	@$(BIN)/python -m benchmarks.arena --smoke

build: $(VENV)/.demo ## Set up ./thunderdome and the tasks of thunderdome.yaml
	@$(BIN)/python -m benchmarks.build
	@ln -sfn $(BIN)/thunderdome thunderdome

AGENTS ?= claude-code
adapters: $(VENV)/.demo ## Install the CLIs that adapters run; AGENTS="claude-code aider" chooses them
	@$(BIN)/yb agents install $(AGENTS)

TEST := $(BIN)/python scripts/test -n $(WORKERS) --dist worksteal

test: $(VENV)/.dev agents ## Set up, then run the tests, with two versions of the real Claude Code CLI
	@$(TEST) $(PYTEST_ARGS)

test-all: $(VENV)/.dev ## Set up, then run every test: all CLI versions, all agents, LiteLLM, image builds (5 GB of tools)
	@$(BIN)/python tests/agent_clis.py --all
	@$(BIN)/python tests/stack_tools.py
	@$(TEST) --all $(PYTEST_ARGS)

lint: $(VENV)/.dev ## Style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.dev ## Put the code into shape
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(VENV)/.dev ## Measure, each figure beside its yardstick; BENCH="startup gateway" chooses parts
	@$(BIN)/python -m bench $(BENCH)

coverage: ## The tests, with branch coverage; the adapters must have 90 %
	@$(MAKE) test PYTEST_ARGS='--cov --cov-report= $(PYTEST_ARGS)'
	@$(BIN)/coverage report --include='src/youbencha/adapters/*' --fail-under=90

agents: $(VENV)/.dev ## Fetch the agent CLIs and the test runners that `make test` needs
	@$(BIN)/python tests/agent_clis.py
	@$(BIN)/python tests/stack_tools.py

docker: $(VENV)/.demo ## Container images of Claude Code and of Aider; BASE_IMAGE=... to build on another
	@$(BIN)/yb images build $(if $(BASE_IMAGE),--base $(BASE_IMAGE))

$(VENV)/.demo: pyproject.toml constraints.txt
	@scripts/setup "$(PYTHON)" $(VENV) .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	@scripts/setup "$(PYTHON)" $(VENV) '.[dev]'
	@touch $@ $(VENV)/.demo

clean: ## Remove the environment and what demos and tests left
	rm -rf $(VENV) thunderdome benchmarks/build .youbencha-workspace .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist htmlcov .coverage*
