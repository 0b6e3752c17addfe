# weir: everything a newcomer, a maintainer and a CI machine run.

CARGO ?= cargo
RELEASE := target/release

.DEFAULT_GOAL := help
.PHONY: help setup build deb demo hwtests vm test unit asan lint rules instructions conformance bench screenshots soak clean

help: ## what can be made here
	@echo "weir: fq_codel and cake in front of a NIC, on DPDK"; echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

setup: ## install the Debian packages that building and testing need (says which; fails when apt fails)
	@.ci/setup

build: setup ## the release binaries
	$(CARGO) build --release --locked --workspace

demo: build ## real TCP through weir at 100 Mbit/s, FIFO, fq_codel and cake, and a NIC's ring: tables, plots in target/demo/ (root)
	$(RELEASE)/demo --weir $(RELEASE)/weir --out target/demo

hwtests: build ## three field experiments on a modelled card, the fault, then the cure: report in target/hwtests/ (root, 10 minutes)
	$(RELEASE)/hwtests all --rig model --weir $(RELEASE)/weir --out target/hwtests

deb: build ## a Debian package: binary, unit, manual, completions: target/debian/
	control/weir/package/deb

vm: build ## DPDK's igb driver on emulated cards, in a virtual machine: completions, TSO, checksums, TCP: report in target/vm/report/
	.ci/setup-vm
	$(CARGO) test --locked -p hwtests --test machine -- --ignored --test-threads 1
	$(RELEASE)/hwtests all --rig qemu-igb --weir $(RELEASE)/weir --out target/vm/report

test: setup lint rules unit asan instructions conformance ## everything that must hold before a change lands

unit: setup ## unit, vector, model, simulation, vdev and end-to-end tests (root, for taps and namespaces)
	$(CARGO) build --locked -p weir -p hwtests --bins
	$(CARGO) test --locked --workspace

asan: setup ## the crates that say `unsafe` and the loop on them, under AddressSanitizer
	.ci/asan

lint: setup ## formatting and clippy; a warning is an error
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

rules: ## who may depend on whom, no_std and no unsafe where promised
	@.ci/rules

instructions: setup ## instructions per packet, counted; more than 10 % above the record fails
	.ci/instructions

conformance: setup ## the product holds no code of the linux conformance
	.ci/conformance

bench: build ## speed of the whole path beside dpdk-testpmd, and of the parts: table, target/bench/result.json
	$(CARGO) build --release --locked --workspace --examples
	$(RELEASE)/bench --out target/bench

screenshots: build ## the pictures of the README, of real traffic: hwtests/results/screenshots/ (root, 4 minutes)
	$(RELEASE)/screenshots --weir $(RELEASE)/weir --out hwtests/results/screenshots

soak: build ## the random tests fifty times as long, the demo for half an hour, ten minutes of each soak (root, two hours)
	WEIR_SOAK=50 $(CARGO) test --release --locked -p shaper -p sim -p engine
	$(RELEASE)/demo --weir $(RELEASE)/weir --seconds 60 --repeats 3 --out target/soak
	$(RELEASE)/hwtests run fairness-100m --case bare --case free_cure --seconds 600 --repeats 1 --out target/soak/fairness
	$(RELEASE)/hwtests run soak --rig tap --out target/soak/tap

clean: ## remove what was built
	$(CARGO) clean
