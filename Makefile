# Two commands: `make demo` shows Weft at work, `make test` runs every check.

# Two jobs, as builds keep to two cores.
CARGO := cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
# In a folder that was never built for later builds, what would serve them alone costs a sixth of
# the time.
ifeq ($(wildcard $(TARGET)/debug/incremental),)
export CARGO_INCREMENTAL ?= 0
endif
WEFT := $(TARGET)/release/weft

.PHONY: help demo build test fmt lint source unit tested end-to-end book deb image \
	test-packages test-chart test-nics test-sriov test-vm bench-quick results instructions \
	test-instructions fuzz soak clean

help:
	@echo "make demo         build, then run a node with 1,000 users for some seconds"
	@echo "make test         every check: format, lint, unit, property, golden, end-to-end"
	@echo "make deb          Debian packages, in target/packages"
	@echo "make image        an OCI image of the package, in target/packages"
	@echo "make test-packages  install the package in a fresh Debian system, run the image; soak has it, too"
	@echo "make test-chart   the Helm chart by Helm and kubeconform, which it builds; soak has it, too"
	@echo "make test-nics    NICs with several queues that are emulated: spreading, checksums, links, hot plug; soak has it, too"
	@echo "make test-sriov   chains over virtual functions of an emulated NIC; soak has it, too"
	@echo "make test-vm      a function in a virtual machine that is emulated; soak has it, too"
	@echo "make bench-quick  what a packet costs, as ratios within one run"
	@echo "make results      measure what results/ lacks of this kind of machine, and write the figures of the documentation; Ctrl-C ends it, and it goes on where it was (EFFORT=quick EXPERIMENTS='users pfcp')"
	@echo "make instructions what a packet costs in instructions, which no other load changes (valgrind)"
	@echo "make test-instructions  that a packet takes no more of them than is recorded, by 3 %"
	@echo "make fuzz         fuzz every parser and a gateway for a minute each (FUZZ_SECONDS=60)"
	@echo "make soak         ten minutes of chaos and of mixed traffic, 3,000 random cases of each property on the way of a packet, an hour of each fuzz target, 100,000 changes of fused rules, 2,000 mixed chains, 10,000 moves, 20,500 seeds of a site on etcd, twenty times the seeds of all simulations in the tests, 1,000 kills of nodes and of functions"
	@echo "make book         the documentation as a site with search: target/book/docs/index.html"
	@echo "make fmt          format the source"

demo: build
	$(WEFT) demo

build:
	@scripts/build $(CARGO)

# What is compiled for tests is linted by clippy and rustdoc as it is compiled, not once more.
test lint unit tested end-to-end: export RUSTC_WORKSPACE_WRAPPER := $(CURDIR)/scripts/checked-rustc

# Tests wait more than they compute: those of the crates run beside those of the program.
test: source tested
	WEFT=$(TESTED) tests/run crates.sh lint.sh

lint: source
	tests/lint.sh

WORDS := \b(whoever|nobody|somebody|anybody)\b
source:
	@scripts/prepare test
	scripts/check-links-test && scripts/check-links
	scripts/layers_test.py
	scripts/layers
	scripts/audit_test.py
	scripts/audit
	scripts/measurements_test.py
	scripts/measurements --check
	@! grep -rniE "$(WORDS)" docs crates --include=*.md --include=*.rs || \
		{ echo "say who it is: a node, a user, a caller (docs/glossary.md)"; exit 1; }
	$(CARGO) fmt --all --check
	rustfmt --check --edition 2024 crates/functions/src/*/*.rs

unit:
	@scripts/prepare test
	tests/crates.sh

# The program is the one of the unit tests: with debug assertions and checks of overflow.
TESTED := $(TARGET)/debug/weft
tested:
	@scripts/prepare test
	$(CARGO) test --workspace --locked --no-run

end-to-end: tested
	WEFT=$(TESTED) tests/run

PACKAGES := $(TARGET)/packages
PACKAGED := $(TARGET)/packaged/weft
deb:
	@scripts/prepare packages
	@scripts/build $(CARGO) packaged
	@scripts/split-debug $(PACKAGED)
	deploy/deb/build $(PACKAGED) $(PACKAGES)

image: deb
	deploy/image/build $$(ls -t $(PACKAGES)/weft_*.deb | head -n 1) $(PACKAGES)

test-packages: image
	@scripts/prepare test
	PACKAGES=$(PACKAGES) tests/packages/install.sh

test-chart: build
	@scripts/prepare test
	@scripts/prepare chart
	WEFT=$(WEFT) tests/packages/chart.sh

EMULATED := $(TARGET)/emulated
test-nics: build
	@scripts/prepare emulated
	WEFT=$(WEFT) EMULATED=$(EMULATED) tests/nics/run.py

test-sriov: build
	@scripts/prepare emulated
	WEFT=$(WEFT) EMULATED=$(EMULATED) tests/sriov/run.py

test-vm: build
	@scripts/prepare emulated
	WEFT=$(WEFT) EMULATED=$(EMULATED) tests/vm/run.py

bench-quick:
	@scripts/prepare bench
	$(CARGO) run --release --locked -p weft-rig --bin bench-quick

# Figures are written of what there is, whatever ended the bench.
EFFORT := full
EXPERIMENTS := all
results: build
	@scripts/prepare bench
	@scripts/prepare instructions
	trap : INT; $(WEFT) bench $(EXPERIMENTS) --$(EFFORT) --resume --by-machine --out results; \
		ended=$$?; scripts/measurements && exit $$ended

instructions: build
	@scripts/prepare instructions
	WEFT=$(WEFT) scripts/instructions

test-instructions: build
	@scripts/prepare instructions
	WEFT=$(WEFT) scripts/instructions --check

book:
	@scripts/prepare book
	@scripts/book

FUZZ_SECONDS := 60
fuzz:
	@scripts/prepare build
	scripts/fuzz $(FUZZ_SECONDS)

SOAK_FUZZ_SECONDS := 3600
soak: build
	@scripts/prepare test
	WEFT=$(WEFT) SECONDS_LONG=600 tests/soak/chaos.sh
	WEFT=$(WEFT) SECONDS_LONG=600 tests/end-to-end/memory.sh
	PROPTEST_CASES=3000 $(CARGO) test --release --locked -p weft-wire -p weft-rules -p weft-function \
		-p weft-fusion -p weft-functions -p weft-dataplane
	MIXTURES=2000 $(CARGO) test --release --locked -p weft-node --test it mixtures::
	RELINKS=100000 $(CARGO) test --release --locked -p weft-node --test fused rules_change
	$(CARGO) test --release --locked -p weft-node --test it stages:: -- --ignored
	MOVES=10000 $(CARGO) test --release --locked -p weft-node --test it handover::random_moves
	WEFT=$(WEFT) KILLS=1000 tests/end-to-end/handover-kill.sh
	WEFT=$(WEFT) ROUNDS=500 tests/end-to-end/site.sh
	SEEDS_TIMES=20 $(CARGO) test --release --locked -p weft-mobility-simulator -p weft-site-simulator
	$(WEFT) simulate site --seeds 20000
	$(WEFT) simulate site --seeds 500 --nodes 9 --users 200
	WEFT=$(WEFT) KILLS=1000 tests/end-to-end/process.sh
	$(MAKE) test-packages
	$(MAKE) test-chart
	scripts/fuzz $(SOAK_FUZZ_SECONDS)
	WEFT=$(WEFT) KILLS=1000 tests/end-to-end/restart.sh
	WEFT=$(WEFT) KILLS=1000 tests/end-to-end/restart-esp.sh
	WEFT=$(WEFT) UPGRADES=20 RATE=10000 tests/end-to-end/upgrade.sh
	WEFT=$(WEFT) UPGRADES=20 tests/end-to-end/pfcp-upgrade.sh
	WEFT_SEEDS=20000 $(CARGO) test --release --locked -p weft-state
	scripts/dpdk-bindings --check
	$(MAKE) test-nics
	$(MAKE) test-sriov
	$(MAKE) test-vm

# Modules that the registry of functions declares are named to rustfmt.
fmt:
	$(CARGO) fmt --all
	rustfmt --edition 2024 crates/functions/src/*/*.rs

clean:
	$(CARGO) clean
