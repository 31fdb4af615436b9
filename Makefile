# `make` prints the targets; each target does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# How many processes run the tests on real things side by side: what one waits for leaves the processors to the others.
PROCESSES ?= 4
UPGRADE ?= --upgrade
PYTEST := $(BIN)/python -m pytest -p tests.sharing --durations=10
MEASURED := --cov --cov-append --cov-report=

# Every process of a stack, and there are many in the tests, would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help first-start dev test test-long preflight check unit integration warm-up coverage conformance format docs wheel tck bench bench-knative profile chaos test-cluster upstream upstream-binaries upstream-short manifests protobuf lock clean

help: ## print the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "penstock needs Python 3.11 or newer; found %d.%d (%s). Install one and name it: make PYTHON=python3.12" % (v[0], v[1], sys.executable))'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages into $(VENV), once: some minutes where none of them is cached"
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src # or each of the first processes would, at the same time
	@touch $@

# Before minutes of downloading: is there a Java, and are the ports free?
first-start:
	@test -e $(VENV)/.ready || $(PYTHON) tools/first_start.py $(ARGS)

dev: first-start $(VENV)/.ready ## start the whole stack in the foreground (Ctrl-C stops it; ARGS="--port 0" and the like)
	@exec $(BIN)/penstock dev $(ARGS)

# `check` keeps one processor busy, so what the tests on real things gain from goes beside it.
test: preflight ## every check but the long tests: format, lint, types, layers, unit and integration tests, coverage, a selection of Knative's tests
	@$(MAKE) --no-print-directory -j3 check warm-up upstream-binaries
	@$(BIN)/coverage erase
	@$(MAKE) --no-print-directory unit OPTIONS="--hypothesis-profile=thorough $(MEASURED) --cov-fail-under=72"
	@$(MAKE) --no-print-directory integration OPTIONS="$(MEASURED)"
	@$(MAKE) --no-print-directory coverage
	@$(MAKE) --no-print-directory upstream-short
	@$(BIN)/python tests/browser.py
	@echo "make test has passed. make test-long runs the tests that need minutes each, as CI does."

preflight: $(VENV)/.ready ## say what this machine lacks for the tests, and how to get it
	@$(BIN)/python tests/preflight.py $(PROCESSES)
	@$(BIN)/python tests/browser.py get

check: $(VENV)/.ready ## format, lint, types, layers and the documentation's site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_site.py

unit: $(VENV)/.ready ## unit tests: no Spark, no Kafka, seconds
	$(PYTEST) -n 2 -q tests/unit $(OPTIONS)

ON_REAL_THINGS := $(PYTEST) -n $(PROCESSES) tests --ignore=tests/unit --ignore=tests/on_kubernetes
# The JVMs of tests live for a minute: code that is compiled quickly serves them better than code that runs fast.
integration test-long: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1 $(JDK_JAVA_OPTIONS)
integration: preflight warm-up ## tests on real things: Kafka, Spark, kubectl; PROCESSES=1 runs them one after the other
	$(ON_REAL_THINGS) -m "not long" $(OPTIONS)

test-long: preflight warm-up ## the tests that need a stack, a Spark or brokers nearly for themselves; CI runs them after make test
	$(ON_REAL_THINGS) -m long $(MEASURED) $(OPTIONS)

.PHONY: kube-apiserver test-kubernetes
kube-apiserver: $(VENV)/.ready ## build kube-apiserver and etcd for make test-kubernetes (needs Go; minutes, once)
	@$(BIN)/python -m tools.cluster.kubernetes_binaries

test-kubernetes: kube-apiserver ## the same YAML on the embedded API and on a real kube-apiserver with penstock installed
	$(BIN)/python -m tools.cluster.own_network $(BIN)/python -m pytest -p tests.sharing --durations=10 tests/on_kubernetes $(OPTIONS)

.PHONY: photographs
photographs: preflight ## take the photographs of the console that the documentation shows
	PHOTOGRAPHS=docs/images $(PYTEST) tests/integration/console tests/integration/operate/test_console_journey.py $(OPTIONS)

warm-up: $(VENV)/.ready ## make what lets the JVMs of all tests start faster, if it is not there yet
	@$(BIN)/python -m tests.warm_up

coverage: ## what the last test runs did not reach
	@$(BIN)/coverage report --fail-under=88

format: $(VENV)/.ready ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.ready ## write the pages that are made from the code, and build the documentation's site into build/site
	$(BIN)/python -m penstock.cli.reference > docs/settings.md
	$(BIN)/python -m tools.messages > docs/messages.md
	$(BIN)/python -m tools.dependencies.page > docs/licences.md
	@$(BIN)/python tests/check_site.py

manifests: $(VENV)/.ready ## write the manifests and the Helm chart under deploy/
	$(BIN)/python -m penstock.install deploy

protobuf: $(VENV)/.ready ## make anew, from Kubernetes' Go modules, what protobuf bodies are read by (needs Go)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target build/protoc grpcio-tools
	PYTHONPATH=build/protoc $(BIN)/python tools/protobuf/compile.py src/penstock/apiserver/protobuf
	cd tools/protobuf && go run ./rules > ../../src/penstock/apiserver/protobuf/kubernetes.json
	cd tools/protobuf && go run ./bodies ../../tests/unit/apiserver/bodies

wheel: $(VENV)/.ready ## build the wheel into dist/
	$(BIN)/python -m build --wheel

tck: $(VENV)/.ready ## the public CESQL test kit: make tck TCK=<folder of cesql_tck>
	@ls "$(TCK)"/*.yaml >/dev/null 2>&1 || { echo "No test kit in '$(TCK)'. Usage: make tck TCK=<checkout of cloudevents/spec>/cesql/cesql_tck"; exit 2; }
	TCK="$(abspath $(TCK))" $(BIN)/pytest tests/integration/filters/test_tck.py

bench: $(VENV)/.ready ## measure penstock and write docs/benchmarks.md (SCENARIO=… runs one; needs Go)
	$(BIN)/python -m tools.benchmarks $(if $(SCENARIO),--scenario $(SCENARIO))

bench-knative: $(VENV)/.ready ## the same with upstream's in-memory Broker beside it in the same run
	$(BIN)/python -m tools.benchmarks --peer $(if $(SCENARIO),--scenario $(SCENARIO))

profile: $(VENV)/.ready ## flame graphs of the Python processes and JFR recordings of the JVMs, under load
	$(BIN)/python -m tools.benchmarks.profile

chaos: $(VENV)/.ready ## hit a stack under load and prove that nothing is lost (KILLS=… SEED=… RATE=… MINUTES=…; FAULTS=help lists others; PUBLISH=1 writes docs/reliability.md)
	$(BIN)/python -m tools.chaos $(if $(filter help,$(FAULTS)),--help,$(if $(FAULTS),--faults '$(FAULTS)')) $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(if $(RATE),--rate $(RATE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PUBLISH),--publish)

test-cluster: $(VENV)/.ready ## three brokers, a standalone Spark, a real kube-apiserver, every role twice, hit under load (ONLY=pipeline,broker; needs Go)
	@$(BIN)/python -m tools.cluster $(if $(ONLY),--only $(ONLY)) $(if $(RATE),--rate $(RATE)) \
	  $(if $(IF_POSSIBLE),|| { [ $$? = 2 ] && echo "LEFT OUT: the cluster could not be tried on this machine (see above)" >&2; })

.PHONY: soak
soak: $(VENV)/.ready ## a modest load for hours while routes change, with Replays, restarts and the memory of all processes (HOURS=… or MINUTES=…; RATE=… SEED=…; PUBLISH=1 writes docs/reliability.md)
	$(BIN)/python -m tools.chaos.soak $(if $(HOURS),--hours $(HOURS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(PUBLISH),--publish)

.PHONY: simulate
simulate: $(VENV)/.ready ## histories of router, dispatcher and control plane on one virtual clock, checked from outside (SECONDS=60 SEED=7)
	$(BIN)/python tests/simulation/simulate.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz
fuzz: $(VENV)/.ready ## fuzz every parser that sees foreign bytes, guided by coverage (SECONDS=60 for each, TARGET=ingress; Linux)
	@nice $(BIN)/python tests/unit/fuzz/fuzz.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS)) $(if $(TARGET),--target $(TARGET))

conformance: $(VENV)/.ready ## the specifications' tests on a fresh stack, and the report on them
	rm -rf build/conformance
	CONFORMANCE_RESULTS=build/conformance/specifications.json \
	  $(BIN)/python -m pytest -p tests.conformance.results_plugin tests/conformance $$($(BIN)/penstock conformance tests); \
	  $(BIN)/penstock conformance report && $(BIN)/python -m tools.upstream.page build/conformance/report/conformance.md

upstream: $(VENV)/.ready ## Knative's own end-to-end tests on a fresh stack (RUN='TestBroker.*'; PUBLISH=1 writes docs/conformance.md; needs Go)
	$(BIN)/python -m tools.upstream $(if $(RUN),--run '$(RUN)') $(if $(PUBLISH),--publish)

# Where Go or its modules are out of reach, which exit code 2 means, the selection is left out, and the last line of `make test` says so.
upstream-binaries: $(VENV)/.ready ## build Knative's end-to-end tests
	@nice $(BIN)/python -m tools.upstream --build || [ $$? = 2 ]

upstream-short: $(VENV)/.ready ## a selection of Knative's end-to-end tests, some two minutes
	@$(BIN)/python -m tools.upstream --short || { [ $$? = 2 ] && echo "LEFT OUT: the selection of Knative's end-to-end tests could not be run, see above" >&2; }

.PHONY: sbom audit
sbom: $(VENV)/.ready ## write what a release is made of, as CycloneDX JSON, into dist/
	@$(BIN)/python -m tools.dependencies.sbom

audit: $(VENV)/.ready ## ask for known vulnerabilities of the pinned Python packages (needs the internet: exit code 3 without)
	@$(BIN)/python -m tools.dependencies.audit

.PHONY: jars
jars: $(VENV)/.ready ## pin the jars that src/penstock/engine/jars/ivy*.xml ask for, by checksum; run it after a change there
	@$(BIN)/python -m tools.dependencies.pin_jars

# All packages with the sums of all their files, for every system and Python: where a sum is another one, pip refuses the file.
lock: ## pin the newest versions that pyproject.toml allows (UPGRADE= keeps those that are pinned and still fit)
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8
	@build/lock/bin/uv pip compile --quiet pyproject.toml --extra history --group dev --universal --python-version 3.11.5 \
		--generate-hashes --no-annotate --no-header $(UPGRADE) --output-file requirements.lock

clean: ## remove the environment and the data of the development stack
	rm -rf $(VENV) .penstock
