# `make` alone lists what there is. Every target sets up what it needs, and is quick when nothing changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed-runtime
STAMP := $(VENV)/.installed
# In an environment of its own: it wants an older jsonschema-rs.
SCHEMATHESIS := $(VENV)/schemathesis/bin/schemathesis
INSTALL := PIP_CONSTRAINT='$(CURDIR)/constraints.txt' $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Most tests wait for a broker: three processes with brokers of their own keep two cores busy.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadgroup --durations 30
ARGS ?=
PORT ?= 5672
export ICS

.DEFAULT_GOAL := list
.PHONY: list venv demo test contract long check lint types imports cover contract-3.10 mutants broker schemathesis
.PHONY: bench chaos chaos-check chaos-mutants clean

list:  ## this list
	@awk -F ':.*  ## ' '/^[a-z0-9.-]+:.*  ## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP)  ## an environment in .venv with exact versions (PYTHON=python3.12 for another interpreter)

$(RUNTIME): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11: name a newer one with make PYTHON=python3.11." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
		echo "$(PYTHON) has no venv module: apt-get install python3-venv." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[all]'
	@touch $@

$(STAMP): $(RUNTIME)
	$(INSTALL) -e '.[all,dev]'
	@touch $@

demo: $(RUNTIME)  ## the main job, shown; ICS=FILE takes a calendar of yours, GRUNDLAG_URL a broker
	@$(BIN)/grundlag-bus demo $(if $(ICS),--ics "$$ICS")

test: $(STAMP)  ## every test; obtains a broker by itself (GRUNDLAG_TEST_AMQP_URL names one); ARGS for pytest
	$(PYTEST) $(ARGS)

contract: $(STAMP)  ## the contract suite alone; GRUNDLAG_TEST_RABBITMQ=3.10 for the other broker version
	$(PYTEST) tests/contract $(ARGS)

long: $(STAMP)  ## the tests that take minutes, which no other target runs
	$(BIN)/python -m pytest -m long $(ARGS)

check: lint types imports cover contract-3.10  ## the gate: all of it, and the contract suite on RabbitMQ 3.10 too

lint: $(STAMP)  ## ruff: rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)  ## mypy, strict
	$(BIN)/mypy

imports: $(STAMP)  ## the layers
	$(BIN)/lint-imports --no-cache --no-logo

cover: $(STAMP)  ## every test, with branch coverage
	@rm -f .coverage .coverage.*
	$(PYTEST) --cov --cov-report= $(ARGS)
	$(BIN)/coverage report

contract-3.10: $(STAMP)  ## the contract suite on RabbitMQ 3.10, as far as it has a broker
	env -u GRUNDLAG_TEST_AMQP_URL GRUNDLAG_TEST_RABBITMQ=3.10 $(PYTEST) tests/contract \
		-k 'rabbitmq and not http-rabbitmq'

mutants: $(STAMP)  ## make the mistakes that other systems made, one by one, and show the test that notices; ARGS names some
	@$(BIN)/python -m tests.mutants $(ARGS)

broker: $(STAMP)  ## a RabbitMQ 4.3 of your own at amqp://guest:guest@127.0.0.1:5672/ (PORT=N) without Docker, until Ctrl-C
	@$(BIN)/python -m ops.rabbitmq run --port $(PORT)

$(SCHEMATHESIS):
	@$(PYTHON) -m venv $(VENV)/schemathesis
	@$(VENV)/schemathesis/bin/python -m pip install --quiet --disable-pip-version-check schemathesis==4.32.5

schemathesis: $(STAMP) $(SCHEMATHESIS)  ## hold the HTTP host to its OpenAPI document; ARGS for schemathesis
	@$(BIN)/python -m ops.schemathesis $(SCHEMATHESIS) $(ARGS)

bench: $(STAMP)  ## calls per second beside hand-written aiormq and FastStream, and what a ledger costs
	$(BIN)/python -m ops.bench $(ARGS)
	$(BIN)/python -m ops.bench.ledger

chaos: $(STAMP)  ## ten minutes of calls under every fault, on three nodes (as root); ARGS for python -m ops.chaos
	@$(BIN)/python -m ops.chaos --seconds 600 --nodes 3 --calls 100000 --faults 200 $(ARGS)

chaos-check: $(STAMP)  ## two minutes of calls under faults, on one node
	@$(BIN)/python -m ops.chaos --seconds 120 --rate 120 --calls 5000 --faults 40 $(ARGS)

chaos-mutants: $(STAMP)  ## make mistakes, one by one, and show which of them the suite notices; ARGS names some
	@$(BIN)/python -m ops.chaos.mutants $(ARGS)

clean:  ## remove the environment and every cache (brokers are kept under ~/.cache/grundlag-bus)
	rm -rf $(VENV) dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find grundlag_bus ops tests -name __pycache__ -type d -prune -exec rm -rf {} +
