# `make help` lists what can be asked. Everything runs from .venv, which `make` makes itself.

PYTHON_BIN := .venv/bin/python
RUN := .venv/bin
.DEFAULT_GOAL := setup
.PHONY: help setup up test check lint fmt types layers tidy gen gen-clean bench migrate sbom lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.dev ## make the environment (the second time it does nothing)

.venv/.base: requirements/build.txt requirements/base.txt pyproject.toml scripts/bootstrap
	@scripts/bootstrap base

.venv/.dev: .venv/.base requirements/dev.txt
	@scripts/bootstrap dev

up: .venv/.base ## start everything on this machine; UP_ARGS="--port 9000 --data-dir DIR"
	@$(RUN)/gpuaas up $(UP_ARGS)

lock: .venv/.dev ## compile requirements/*.txt again; LOCK_ARGS=--upgrade for newer versions
	@scripts/lock $(LOCK_ARGS)

clean: ## remove the environment and what tools leave behind
	rm -rf .venv dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
