# Stowage is a workspace of modules, and `./...` stops at a module's edge: targets that concern all
# code loop over the modules of go.work.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS   += --no-print-directory

# SQLite is C.
export CGO_ENABLED := 1

MODULES := $(shell scripts/modules.sh)
# What `make bench` measures, and how: make bench BENCH=Send BENCHFLAGS='-count=6'
BENCH      ?= .
BENCHFLAGS ?=
# How many seconds `make soak` goes on. From a minute on, a daemon that runs pipelines is killed 100 times,
# or as often as STOWAGE_PIPELINE_KILLS says, and ten million events go through one.
SOAK       ?= 600
# How many times `make soak` kills a process that writes to a storage.
KILLS      ?= 2000
# Arguments of `make run`: make run ARGS='--speed 100'
ARGS       ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/stowage
	go build -o bin/stowage ./cmd/stowage

.PHONY: run
run: build ## Build, then see a week of earthquakes go through a pipeline (ARGS=…)
	@exec bin/stowage quickstart $(ARGS)

.PHONY: test
test: check-graph check-requirements check-modules test-scripts check-downstream ## Everything: dependency rules, each module alone, scripts, downstream (RACE=1: race detector)

.PHONY: race
race: ## Run the tests of all modules with the race detector
	RACE=1 scripts/check-modules.sh

.PHONY: check-graph
check-graph: ## Hold imports, closures and go.mod files to scripts/dep-graph.txt
	scripts/check-dep-graph.sh

.PHONY: check-requirements
check-requirements: ## Hold docs/requirements.md to the tests and files that it names
	scripts/check-requirements.sh

.PHONY: check-modules
check-modules: ## Tidy-check, vet, build and test each module alone, with GOWORK=off
	scripts/check-modules.sh

.PHONY: test-scripts
test-scripts: ## Test the scripts: each check sees what it is there for
	for test in scripts/*_test.sh; do "$$test"; done

.PHONY: check-downstream
check-downstream: ## Pack the modules; build, test and run docs/examples against them
	scripts/check-downstream.sh

.PHONY: cover
cover: ## Report the statement coverage of each module
	for module in $(MODULES); do \
	  (cd "$$module" && GOWORK=off go test -coverpkg=./... -coverprofile=cover.out ./... >/dev/null && \
	    printf '%-22s %s\n' "$$module" "$$(GOWORK=off go tool cover -func=cover.out | awk 'END { print $$NF }')"); \
	done

.PHONY: bench
bench: ## Run all benchmarks (BENCH=regexp BENCHFLAGS=…)
	for package in $$(grep -rl --include='*_test.go' '^func Benchmark' $(MODULES) | xargs -r -n1 dirname | sort -u); do \
	  (cd "$$package" && go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 0 $(BENCHFLAGS) .); \
	done

.PHONY: bench-short
bench-short: ## Run each benchmark briefly
	$(MAKE) bench BENCHFLAGS='-benchtime=50ms'

.PHONY: soak
soak: ## Load a daemon and kill it over and over, its pipelines too, fill it and watch its memory, kill a storage (SOAK=seconds KILLS=n)
	scripts/soak.sh $(SOAK)
	cd cmd && STOWAGE_SOAK=$(SOAK)s go test -run '^TestSoak' -count=1 -timeout 0 -v ./...
	cd adapters/sqlite && STOWAGE_KILLS=$(KILLS) go test -run '^TestKilledStorage' -count=1 -timeout 0 -v .

.PHONY: soak-short
soak-short: ## The same for 30 seconds, with a smaller backlog
	$(MAKE) soak SOAK=30 KILLS=100

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w $(MODULES) docs/examples

.PHONY: tidy
tidy: ## Tidy each module as it stands alone
	for module in $(MODULES); do (cd "$$module" && GOWORK=off go mod tidy); done

.PHONY: lint
lint: ## gofmt, go vet, and golangci-lint where it is installed
	@unformatted=$$(gofmt -l $(MODULES) docs/examples); \
	[[ -z $$unformatted ]] || { echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; }
	for module in $(MODULES); do (cd "$$module" && go vet ./...); done
	@if command -v golangci-lint >/dev/null; then \
	  for module in $(MODULES); do echo "golangci-lint $$module"; (cd "$$module" && golangci-lint run ./...); done; \
	else \
	  echo 'golangci-lint is not installed, so its linters did not run; to install it:'; \
	  echo '  go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2'; \
	fi

.PHONY: release-check
release-check: ## Everything that has to hold before a release (VERSION=vX.Y.Z)
	@[[ -n '$(VERSION)' ]] || { echo 'usage: make release-check VERSION=vX.Y.Z' >&2; exit 2; }
	scripts/release.sh '$(VERSION)' --dry-run
	$(MAKE) lint test
	RACE=1 scripts/check-modules.sh

.PHONY: clean
clean: ## Remove what the targets above leave behind
	rm -rf bin
	find $(MODULES) -name cover.out -delete
