# Everything a person needs while working on Lethe; `make help` lists it.
# CI runs `make test` (see .ci/run). PKG narrows check, test, lint: make test PKG=./internal/job/...
# Tools are pinned in tools/go.mod and built into bin/.

SHELL := /bin/sh
GO ?= go
BENCH ?= purge
CHAOS ?= 10m
PKG ?= ./...

.DEFAULT_GOAL := help
.PHONY: help build run check test chaos lint fmt bench tools clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/lethe
	$(GO) build -o bin/lethe ./cmd/lethe

run: build ## build and start a server with its defaults: http://127.0.0.1:8181, data in ./lethe-data
	bin/lethe serve

check: ## the fast loop: format, lint, unit tests that need no service
	$(GO) build -o bin/ci ./test/ci
	bin/ci check $(PKG)

test: ## everything, as CI does: installs and starts what it needs, then runs all stages
	$(GO) build -o bin/ci ./test/ci
	bin/ci test $(PKG)

chaos: ## servers, databases and a store that fail in all ways, for CHAOS=10m with tables and again with trees; one minute of each is in test
	$(GO) build -o bin/ci ./test/ci
	bin/ci chaos -chaos.duration=$(CHAOS) -chaos.files=500000

tools:
	cd tools && GOBIN="$(CURDIR)/bin" $(GO) install tool

lint: tools ## run the linters
	bin/golangci-lint run $(PKG)

fmt: tools ## format all Go files (gofumpt, gci)
	bin/golangci-lint fmt $(PKG)

bench: ## run a benchmark: make bench BENCH=purge|drop|catalog
	$(GO) run ./test/bench $(BENCH) --json

clean: ## remove what was built here; data of servers stays
	rm -rf bin .cache
