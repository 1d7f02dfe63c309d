# `make help` lists what can be asked. Everything runs from .venv, which is made on the first call.

RUN := .venv/bin
.DEFAULT_GOAL := setup
.PHONY: help setup up test check lint fmt types layers tidy gen bench migrate sbom lock hooks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.dev ## make the environment (the second time it does nothing)

.venv/.base: requirements/build.txt requirements/base.txt pyproject.toml scripts/bootstrap
	@scripts/bootstrap base

.venv/.dev: .venv/.base requirements/dev.txt
	@scripts/bootstrap dev

.venv/.node: .venv/.base requirements/node.txt tests/interop/package-lock.json scripts/node
	@scripts/node

up: .venv/.base ## start everything on this machine; UP_ARGS="--port 9000 --data-dir DIR"
	@$(RUN)/gpuaas up $(UP_ARGS)

test: .venv/.dev .venv/.node ## everything that must hold; TEST_ARGS="-k policy"
	@$(RUN)/python scripts/checks test $(TEST_ARGS)

check: .venv/.dev ## the fast part of it: lint, types, layers, tidy, unit tests
	@$(RUN)/python scripts/checks check $(TEST_ARGS)

lint: .venv/.dev ## ruff: rules and format
	@$(RUN)/ruff check && $(RUN)/ruff format --check

fmt: .venv/.dev ## repair what ruff can, and format
	@$(RUN)/ruff check --fix --quiet; $(RUN)/ruff format

types: .venv/.dev ## mypy --strict
	@$(RUN)/mypy

layers: .venv/.dev ## import-linter: who may import whom
	@$(RUN)/lint-imports --no-cache

tidy: .venv/.dev ## the shape of the repository
	@$(RUN)/python -m pytest -q tests/tidy

gen: .venv/.dev ## print contracts/ from the code
	@$(RUN)/gpuaas gen

bench: .venv/.dev ## measure; ONLY=name for one, JSON=1 for one line per figure
	@$(RUN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json)

migrate: .venv/.base ## bring the database of GPUAAS_DATABASE_OWNER_URL up to date
	@$(RUN)/gpuaas migrate $(MIGRATE_ARGS)

sbom: .venv/.dev ## write out/sbom.json (CycloneDX) of what the product installs
	@scripts/sbom

lock: .venv/.dev ## compile requirements/*.txt again; LOCK_ARGS=--upgrade for newer versions
	@scripts/lock $(LOCK_ARGS)

hooks: .venv/.dev ## run the fast checks before each commit
	@$(RUN)/pre-commit install

clean: ## remove the environment and what tools leave behind
	rm -rf .venv dist out tests/interop/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
