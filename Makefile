# Pawl: build, check and run. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO ?= go
# Packages compiled or tested at once.
P ?= 2
# Crashes of the kill test.
KILLS ?= 50
# Kills of a library's agent at each point, for the app, its sidecar and both.
AGENT_KILLS ?= 4
# Power cuts, damaged directories and crashes under racing calls of the tests of that name.
CUTS ?= 500
DAMAGE ?= 1000
LINEAR ?= 100
FAULTS ?= 300
RUNS ?= 200
# Hundredths of the crowds: 5 000 connections, 2 000 slow readers, 10 000 workers, 20 000 timers.
CROWD ?= 100
# How long the soak lasts.
SOAK ?= 1h
# Time per fuzz target.
FUZZTIME ?= 10s
# Package patterns of the race target: everything that starts goroutines.
RACE ?= ./internal/runtime ./internal/store/... ./internal/grpcapi/... ./internal/server/... ./clients/go \
	./internal/runtime/dispatch ./internal/runtime/streams ./internal/runtime/timetravel ./internal/runtime/packcache ./internal/services ./internal/output ./internal/config ./cmd/sidecar/internal/demo ./internal/export ./internal/script ./internal/a2a/... ./internal/mcpserver ./internal/delivery/... ./internal/ui/... \
	./test/testkit ./internal/audit ./internal/expr ./internal/runtime/ratelimit ./internal/runtime/budget ./internal/runtime/approval ./internal/runtime/effects ./internal/runtime/schedule ./internal/cluster/...

TOOLBIN := $(CURDIR)/.tools
TOOLS := $(TOOLBIN)/.stamp
BUF := PATH="$(TOOLBIN):$$PATH" buf
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Fetch modules and build the tools, so that all else works offline
	$(GO) mod download
	cd tools && $(GO) mod download
	cd test/deploy && $(GO) mod download
	.ci/links # before two of the targets want to make them at once
	$(MAKE) -j 3 --output-sync=target tools environments-python environments-node environments-debian

.PHONY: environments-python environments-node environments-debian
environments-python:
	.ci/python-env test
	.ci/python-env generate
	.ci/python-env sync
	.ci/python-env site

environments-node:
	.ci/typescript-env
	.ci/typedoc-env
	.ci/ui-env
	.ci/postgres-versions-env

environments-debian:
	.ci/browser-env
	.ci/postgres-env

.PHONY: tools
tools: $(TOOLS) ## Build buf, its plugins and the linter into .tools/

$(TOOLS): tools/go.mod tools/go.sum
	mkdir -p $(TOOLBIN)
	cd tools && $(GO) build -p $(P) -o $(TOOLBIN)/ tool
	touch $@

.PHONY: build
build: ## Build the static binary bin/pawl, and its alias bin/sidecar
	mkdir -p bin
	GO="$(GO)" P="$(P)" VERSION="$(VERSION)" .ci/build bin/pawl
	ln -sf pawl bin/sidecar

.PHONY: demo
demo: build ## Run two agents with a crash in the middle, end to end: one that pays, one that writes code
	bin/pawl demo
	bin/pawl demo codegen

.PHONY: test
test: ## Run all tests
	$(GO) test -p $(P) -timeout 9m ./...
	$(MAKE) build
	PAWL_SIDECAR=$(CURDIR)/bin/pawl $(MAKE) -j 2 --output-sync=target test-python test-typescript
	PAWL_SIDECAR=$(CURDIR)/bin/pawl $(MAKE) -j 2 --output-sync=target test-examples test-peers
	PAWL_SIDECAR=$(CURDIR)/bin/pawl $(MAKE) test-deploy

.PHONY: test-python
test-python: ## Test the Python client (PYTESTFLAGS); makes its virtual environment itself
	.ci/test-python $(PYTESTFLAGS)

.PHONY: test-peers
test-peers: ## Run the A2A clients and MCP servers of other people with a sidecar; installs them itself
	.ci/test-peers

.PHONY: test-typescript
test-typescript: ## Test the TypeScript client (VITESTFLAGS); installs its packages itself
	.ci/test-typescript $(VITESTFLAGS)

.PHONY: test-examples
test-examples: ## Run the examples as tests (PYTESTFLAGS); sets up what they need itself
	.ci/test-examples $(PYTESTFLAGS)

.PHONY: test-postgres
test-postgres: ## Run the tests that need PostgreSQL, on servers of their own; installs it itself
	GO="$(GO)" P="$(P)" .ci/test-postgres

.PHONY: test-postgres-versions
test-postgres-versions: ## Test the store on other versions of PostgreSQL than Debian's: VERSIONS (16 17 18)
	GO="$(GO)" P="$(P)" VERSIONS="$(VERSIONS)" .ci/test-postgres-versions

.PHONY: conformance
conformance: ## Run the conformance scenarios in every client language (CONFORMANCEFLAGS)
	.ci/conformance $(CONFORMANCEFLAGS)

.PHONY: race
race: ## Run the packages that start goroutines under the race detector
	CGO_ENABLED=1 $(GO) test -p $(P) -race -timeout 40m $(RACE)

.PHONY: kill
kill: ## Kill the sidecar KILLS times under load, and prove that nothing is lost
	PAWL_KILLS=$(KILLS) $(GO) test ./test/e2e/... -run Kill -count=1 -timeout 30m

.PHONY: kill-agents
kill-agents: ## Kill agents of libraries, their sidecar and both AGENT_KILLS times at each point of a run
	PAWL_AGENT_KILLS=$(AGENT_KILLS) .ci/kill-agents

.PHONY: powercut
powercut: ## Cut the power of a disk under load CUTS times (Linux with FUSE and root)
	PAWL_CUTS=$(CUTS) $(GO) test ./test/e2e -run 'TestPowerCut|TestFirstAnswerSurvives|TestLyingDiskIsFound' -count=1 -timeout 120m -v

.PHONY: sim
sim: ## Simulate SEEDS seeds (10000), or one with its trace: SEED=n
	SEED=$(SEED) SEEDS=$(SEEDS) .ci/sim

.PHONY: sim-long
sim-long: ## Simulate a million seeds
	SEEDS=1000000 .ci/sim

.PHONY: sim-mutants
sim-mutants: ## Build in each known fault and have the simulator find it
	.ci/sim-mutants

.PHONY: mutants
mutants: ## Take guards out one at a time and see the tests notice (MUTANTFLAGS, for example -sample 20); up to two hours
	.ci/postgres-env
	$(GO) run ./test/mutants $(MUTANTFLAGS)

.PHONY: trust
trust: ## Try every promise of docs/guarantees.md, as much as fits ten minutes (PAWL_KILLS, PAWL_CUTS, SEEDS ... for more)
	$(GO) run ./test/trust

.PHONY: damage
damage: ## Damage data directories DAMAGE times and start the sidecar on each
	PAWL_DAMAGE=$(DAMAGE) $(GO) test ./test/e2e -run TestDamagedDirectory -count=1 -timeout 120m -v

.PHONY: linear
linear: ## Prove that racing calls have an order over LINEAR crashes
	PAWL_LINEAR=$(LINEAR) $(GO) test ./test/e2e -run TestCallsAreLinearizable -count=1 -timeout 120m -v

.PHONY: crowd
crowd: ## Let CROWD hundredths of 5 000 connections, 2 000 slow readers, 10 000 workers and 20 000 timers come
	PAWL_CROWD=$(CROWD) $(GO) test ./test/e2e -run TestCrowd -count=1 -parallel 1 -timeout 60m -v

.PHONY: cluster
cluster: ## Try three sidecars on one database, with workers in three languages, RUNS runs at once and FAULTS faults (PAWL_SEED)
	.ci/postgres-env
	.ci/python-env test
	.ci/typescript-env
	node clients/typescript/scripts/build.mjs
	PAWL_POSTGRES=1 PAWL_LANGUAGES=go,python,typescript PAWL_FAULTS=$(FAULTS) PAWL_RUNS=$(RUNS) $(GO) test ./test/e2e/cluster -count=1 -timeout 180m -v

.PHONY: soak
soak: ## Load a sidecar that is restarted each minute for SOAK, and prove that it does not grow
	PAWL_SOAK=$(SOAK) $(GO) test ./test/e2e -run TestSoak -count=1 -timeout 0 -v

.PHONY: lint
lint: $(TOOLS) ## Lint Go and proto files, pages and comments, and compare the wire contract with its baseline
	$(BUF) format --diff --exit-code proto
	$(BUF) lint
	$(BUF) breaking proto --against proto/baseline.binpb
	$(GO) test ./test/arch -run TestBaseline
	$(TOOLBIN)/golangci-lint run ./...
	$(TOOLBIN)/golangci-lint run --build-tags sim ./test/simulation/...
	cd test/deploy && $(TOOLBIN)/golangci-lint run ./...
	$(MAKE) prose

.PHONY: prose
prose: $(TOOLS) ## Check links, spelling and words of pages, comments, log messages and texts of errors
	cd tools && $(GO) test ./prose && $(GO) build -o $(TOOLBIN)/prose ./prose
	$(TOOLBIN)/prose

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME
	GO="$(GO)" FUZZTIME="$(FUZZTIME)" .ci/fuzz

.PHONY: fuzz-nightly
fuzz-nightly: ## Fuzz every target for five minutes and keep what opened new ways
	GO="$(GO)" FUZZTIME=5m FUZZKEEP=$(or $(FUZZKEEP),32) .ci/fuzz

.PHONY: injection
injection: build ## Measure which prompt injections of AgentDojo a pack stops (INJECTIONFLAGS, for example --short)
	.ci/injection $(INJECTIONFLAGS)

.PHONY: generate
generate: $(TOOLS) ## Regenerate all code: from proto files, and the blocking Python client
	rm -rf gen/go gen/openapi
	OUT=. TOOLBIN="$(TOOLBIN)" .ci/generate
	OUT=. .ci/generate-python
	OUT=. TOOLBIN="$(TOOLBIN)" .ci/generate-ts
	OUT=. .ci/generate-sync
	OUT=. .ci/generate-reasons

.PHONY: checkgenerate
checkgenerate: $(TOOLS) ## Fail if committed generated code differs from a fresh one
	TOOLBIN="$(TOOLBIN)" .ci/checkgenerate

.PHONY: docs
docs: ## Write the generated parts of the documentation: settings, limits, commands, scopes
	$(GO) test -p $(P) -count=1 ./internal/config ./cmd/sidecar ./internal/grpcapi -run 'Page$$' -update

.PHONY: site
site: $(TOOLS) ## Build the documentation as a site into build/site; a warning is an error
	.ci/site

.PHONY: baseline
baseline: $(TOOLS) ## Accept the wire contract as the new baseline of buf breaking
	$(BUF) build proto --exclude-source-info -o proto/baseline.binpb

.PHONY: bench
bench: bin/pawl-bench ## Run the benchmark (BENCHFLAGS, for example --quick)
	bin/pawl-bench $(BENCHFLAGS)

.PHONY: bin/pawl-bench
bin/pawl-bench: build ## Build the benchmark, which measures the sidecar of the same sources
	GO="$(GO)" P="$(P)" VERSION="$(VERSION)" .ci/build bin/pawl-bench pawl-bench

.PHONY: bench-peers
bench-peers: build ## Measure Pawl beside its peers (PEERSFLAGS, for example --rounds 1); installs them itself
	.ci/bench-peers $(PEERSFLAGS)

.PHONY: ui
ui: ## Build the web page from ui/ into internal/ui/dist
	.ci/ui-env
	cd ui && node_modules/.bin/vite build --logLevel warn

.PHONY: checkui
checkui: ## Fail if the committed web page differs from a fresh build
	.ci/check-ui

.PHONY: browser
browser: ## Test the web page in Chromium against the binary (VITESTFLAGS); installs what it needs
	.ci/test-ui $(VITESTFLAGS)

.PHONY: dist
dist: $(TOOLS) ## Build binary, wheel, npm package and their sums into dist/ for this platform (PLATFORMS=OS/ARCH ... or all)
	GO="$(GO)" P="$(P)" VERSION="$(VERSION)" .ci/dist $(PLATFORMS)

.PHONY: first-hour
first-hour: dist ## Follow the pages for newcomers word for word, and print commands and seconds
	.ci/first-hour

.PHONY: test-dist
test-dist: $(TOOLS) ## Install this platform's wheel and npm package and run the quickstarts from them
	GO="$(GO)" P="$(P)" .ci/test-dist

.PHONY: audit
audit: $(TOOLS) ## Look for known vulnerabilities in what is built and shipped (VULNDB=file:///DIR, AUDIT_STRICT=1)
	.ci/audit

.PHONY: sbom
sbom: build $(TOOLS) ## Write bills of materials (CycloneDX) into dist/sbom
	.ci/sbom

.PHONY: reproduce
reproduce: ## Build the committed sidecar twice in different places and compare (PLATFORMS=OS/ARCH ...)
	GO="$(GO)" P="$(P)" .ci/reproduce $(PLATFORMS)

.PHONY: test-deploy
test-deploy: ## Test deploy/: Kubernetes objects and compose files decoded strictly, the sandbox of the systemd unit
	GO="$(GO)" .ci/test-deploy

.PHONY: test-alerts
test-alerts: ## Test deploy/alerts.yaml by promtool, and the operator's day as `make operate`; installs Prometheus itself
	GO="$(GO)" .ci/test-alerts

.PHONY: operate
operate: ## Print a day of an operator: each incident of docs/operations/incidents.md, its alert, log line, command and fix
	GO="$(GO)" FLAGS=-v .ci/test-alerts 2>&1 | grep --line-buffered -Ev '^=== (RUN|PAUSE|CONT)'

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf bin build dist $(TOOLBIN)
