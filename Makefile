# Two doors: `make demo` and `make test`. Both install their dependencies on first use, print what and where, and ask no
# questions.
SHELL := /bin/bash
REAL ?= ../shared/data/do.bag
BENCH ?= all
OUT ?= bench-runs/$(shell date +%Y-%m-%d-%H%M%S)

.DEFAULT_GOAL := help
.PHONY: help setup build install uninstall release test demo demo-real bench lint fmt clean
PREFIX ?= /usr/local

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything that building and testing need (the other targets do so themselves)
	@scripts/setup.sh

build: ## the livebag command, optimised: target/release/livebag; FEATURES=ros2-dds,… (docs/building.md)
	@scripts/setup.sh rust $(if $(findstring dds,$(FEATURES)),cyclone)
	cargo build --locked --release -p livebag-cli --features "demo,$(FEATURES)"

install: ## what `make build` made, with man pages, completions and the C++ header: PREFIX=/usr/local, DESTDIR=
	@DESTDIR="$(DESTDIR)" scripts/install.sh "$${CARGO_TARGET_DIR:-target}/release/livebag" "$(PREFIX)"

uninstall: ## remove what `make install` put there: PREFIX=/usr/local
	@DESTDIR="$(DESTDIR)" scripts/install.sh --uninstall "$(PREFIX)"

release: ## what a release consists of, into dist/: archive, .deb, wheel, crates
	@scripts/release.sh

test: ## every check, as CI runs it
	@scripts/test.sh

lint: ## the quick part of `make test`: formatting, clippy, licences
	@scripts/test.sh fmt clippy deny

demo: ## record simulated cameras, LiDAR and IMU, and query them meanwhile
	@scripts/demo.sh

demo-real: ## the same with the frames of a real recording: REAL=BAG
	@scripts/demo.sh --real $(REAL)

bench: ## livebag beside its peers: BENCH="record --workload fullhd8", OUT=FOLDER
	@scripts/setup.sh rust cyclone
	cargo run --locked --profile dist -p livebag-bench -- $(BENCH) --out $(OUT)

fmt: ## format all code
	cargo fmt --all

clean: ## remove everything built or fetched inside the repository
	cargo clean
	rm -rf build .venv
