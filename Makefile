# Silvan. `make help` lists the targets.
#
# All Python packages are in .venv. It is created from requirements.lock (needed to run), requirements-dev.lock
# (additional packages for tests and lint) and requirements-site.lock (for `make site`). Everything that is
# built is in target/. Stamp files make a repeated `make` quick.

PYTHON ?= python3
# Number of processes for the Python tests; by default the number of cores.
JOBS ?= logical
VENV := .venv
BIN := $(VENV)/bin
CARGO := tools/with-rust cargo
# Python compiles a module when it first imports it. Compiling all modules of all packages would take longer
# than installing them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-deps --no-compile --require-hashes
# Compiled modules are stored here, even if the environment disables that: hundreds of tests start `silvan`, and
# each start would otherwise compile numpy, matplotlib and other packages again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache
# The extension module is not linked against libpython, regardless of the program that builds it.
export PYO3_BUILD_EXTENSION_MODULE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# `setup` stores the bytecode of the modules that the command imports beside the modules, even if the environment
# disables that. Without bytecode, a start takes twice as long.
COMPILED := env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX
# pip, cargo and rustup repeat failed downloads; `tools/install-test-tools` sets the option of apt-get.
export PIP_RETRIES := 10
export CARGO_NET_RETRY := 10
export RUSTUP_MAX_RETRIES := 10

RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
SCHEMA := docs/scenario.schema.json
TYPES := python/silvan/types/_summary.py
# The extension module has no tests in Rust. `bench` compiles the benchmarks, and `lint` checks them.
RUST_TESTS := --workspace --exclude silvan-python --exclude silvan-bench
# Crates whose unit tests `test-crates` runs. `examples-check` runs those of `silvan-congestion` and `silvan-fabric`.
CRATES := -p silvan-engine -p silvan-trace -p silvan-network -p silvan-delays -p silvan-import -p silvan-scenario \
          -p silvan-library -p silvan-capi -p silvan-web
# Number of scenarios of `make swarm` and `make same`, or of mutants. FIRST is the first seed of `make same`.
N ?= 300
same: N = 2000
mutants: N = 200
SEED ?= 1
MODULES ?=
FIRST ?= 1
# Pairs of runs of each case of `make bench AGAINST=...`; ONLY names some of the cases.
ROUNDS ?= 5
ONLY ?=
# Folder in which `make capi` installs.
PREFIX ?= /usr/local
# Executions of each target of `make fuzz`, and cases of each reader in Python.
RUNS ?= 10000000
CASES ?= 10000
FUZZ_TARGETS := units text ibnetdiscover lft site scenario checkpoint \
                trace_goal trace_binary trace_ti trace_vef trace_chakra trace_hpcc trace_workload trace_msccl trace_archive

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup try demo test test-rust test-python check lint fmt schema schema-check wheel wheel-check site \
        verify swarm same fuzz bench instructions threads-model papers clean quick nightly toolchain environment test-tools \
        test-crates-build test-crates swarm-check examples-check mutants lint-rust lint-python wheel-check-all loom release-check release-files \
        capi astra library-check playground-check site-check release wheel-manylinux audit lock

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

# With PGO=1, the compiler uses a profile of the model, which is recorded again after each change of the Rust sources.
# The build has a separate folder, so other builds do not change.
PROFILE := $(CURDIR)/target/pgo/silvan.profdata
# Such a build contains no paths of the machine. Of several prefixes that match, the last one counts.
REMAPPED := --remap-path-prefix=$(HOME)=/home --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo \
            --remap-path-prefix=$(CURDIR)=/silvan
GUIDED := RUSTFLAGS="-Cprofile-use=$(PROFILE) $(REMAPPED)" CARGO_TARGET_DIR=$(CURDIR)/target/pgo/guided

setup: $(VENV)/.built ## make .venv with the command `silvan`; PGO=1: with a profile-guided build, 4 to 13 % faster

$(VENV)/.deps: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "Silvan needs Python 3.10 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); try make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PIP_INSTALL) -r requirements.lock
	@touch $@

$(VENV)/.dev-deps: $(VENV)/.deps requirements-dev.lock
	$(PIP_INSTALL) -r requirements-dev.lock
	@touch $@

$(VENV)/.site-deps: $(VENV)/.deps requirements-site.lock
	$(PIP_INSTALL) -r requirements-site.lock
	@touch $@

$(PROFILE): $(RUST_SOURCES)
	$(PYTHON) tools/pgo.py $@

$(VENV)/.built: $(VENV)/.deps pyproject.toml $(RUST_SOURCES) $(if $(PGO),$(PROFILE))
	@echo "Building the simulator (the first time takes minutes) ..."
	$(if $(PGO),$(GUIDED)) VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 tools/with-rust $(BIN)/maturin develop --release --quiet
	@$(COMPILED) $(BIN)/silvan --help >/dev/null && $(COMPILED) $(BIN)/silvan check testbed >/dev/null
	@touch $@

# Incremental, and with less optimization: after a change of a rule, a build takes about 20 s, and runs take 1.2 to 1.5
# times as long. Without the stamp, the next target that needs the extension module builds it as usual.
try: $(VENV)/.deps ## rebuild the simulator within a minute after a changed rule, for experiments; its runs are slower
	@rm -f $(VENV)/.built
	VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 tools/with-rust $(BIN)/maturin develop --profile try --quiet

demo: $(VENV)/.built ## run the testbed with congestion control off and on, compare, plot to out/demo
	$(BIN)/silvan demo

# Takes a minute if everything is built.
quick: $(VENV)/.built $(VENV)/.dev-deps ## in a minute: unit tests, fast Python tests, 30 random scenarios
	$(CARGO) test $(RUST_TESTS) --lib --quiet
	$(BIN)/python -m pytest -m quick
	$(CARGO) build --quiet --release -p silvan-scenario --example swarm
	target/release/examples/swarm --count 30 --fresh --out target/check/quick

test: test-rust test-python ## all tests

test-rust:
	$(CARGO) test $(RUST_TESTS) --quiet

# The part of `test-rust` that `check` runs. To compile the model once less, only `examples-check` runs the unit tests of
# the model and `behaviour`, with the worked examples added. `nightly` runs the examples of documentation comments.
test-crates:
	$(CARGO) test $(CRATES) --lib --example swarm --quiet $(TEST_OPTIONS)
	$(CARGO) test $(CRATES) -p silvan-fabric --test all --test stepped --quiet $(TEST_OPTIONS)

# The same files as `test-crates` needs, and the debug build of the swarm, so that neither waits for the other.
test-crates-build: TEST_OPTIONS := --no-run
test-crates-build: toolchain test-crates
	$(CARGO) build --quiet -p silvan-scenario --example swarm

# Uses all cores. Idle processes take over tests of other processes, because some tests last 100 times as long as others.
test-python: $(VENV)/.built test-tools
	$(BIN)/python -m pytest -rs --durations=25 --numprocesses=$(JOBS) --dist=worksteal -m "not worked_example and not nightly and not playground and not library"

# Installs the programs that tests need or compare with, if the package manager provides them.
test-tools: $(VENV)/.dev-deps
	@tools/install-test-tools

loom: ## test all interleavings of a few threads that work in steps
	$(CARGO) test -p silvan-engine --lib --features loom --quiet lockstep

# MODULES="host switch/voq" instead of those in which an error would change results unnoticed.
mutants: ## count mutants of the model that no test catches: N=200, selected by SEED=1 (minutes; cargo-mutants)
	$(PYTHON) tools/mutants.py --count $(N) --seed $(SEED) $(MODULES)

capi: ## install the C library libsilvan, its header and its packages for pkg-config and CMake: PREFIX=/usr/local
	$(CARGO) build --release --quiet -p silvan-capi
	$(PYTHON) tools/install_library.py $(PREFIX)

astra: ## build ASTRA-sim with Silvan as its network, in target/astra: ASTRA=CHECKOUT of ASTRA-sim
	@$(PYTHON) tools/build_astra.py "$(ASTRA)" --check
	$(CARGO) build --release --quiet -p silvan-capi
	$(PYTHON) tools/install_library.py target/astra/silvan
	$(PYTHON) tools/build_astra.py "$(ASTRA)"

# Compiles programs in C and C++ with the library, and compares their results with those of `silvan run`.
library-check: $(VENV)/.built $(VENV)/.dev-deps
	$(CARGO) build --release --quiet -p silvan-capi
	$(BIN)/python -m pytest -rs -m library

# Applies all patches of docs/examples to one copy of the sources, and runs all unit tests of the model there. `nightly`
# tests each patch alone.
examples-check: $(VENV)/.built $(VENV)/.dev-deps
	$(BIN)/python -m pytest -rs -m worked_example

check: ## what CI runs: lint, all tests, schema, wheel, site, 150 random scenarios (logs in target/check)
	@$(PYTHON) tools/check.py

# Checks that take too long for every change.
nightly: ## `check`; slow pages, the playground, 5000 random scenarios, all oracles, quick experiments, the wheel with more Pythons, fuzzing, mutants
	@$(PYTHON) tools/check.py
	$(MAKE) test-rust
	$(CARGO) test --release --quiet -p silvan-capi -- --ignored
	$(BIN)/python -m pytest -rs --numprocesses=$(JOBS) --dist=worksteal -m nightly
	$(MAKE) site
	$(MAKE) playground-check
	@first=$$(shuf -i 100000-999999999 -n 1) && echo "random scenarios from seed $$first on" && \
	  $(MAKE) swarm N=5000 SWARM="--first $$first --out target/check/nightly --fresh"
	$(MAKE) wheel-check-all
	$(MAKE) verify VERIFY=--fresh
	$(MAKE) audit
	@if $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then $(MAKE) fuzz RUNS=100000 CASES=1000; \
	  else echo "left out: make fuzz (cargo-fuzz and a nightly compiler are not installed)"; fi
	@if $(CARGO) mutants --version >/dev/null 2>&1; then $(MAKE) mutants; \
	  else echo "left out: make mutants (cargo-mutants is not installed)"; fi

# Install the programs manually: cargo install cargo-audit, pip install pip-audit. A missing program is an error.
audit: $(VENV)/.deps ## check the locked crates and packages for security advisories, with cargo-audit and pip-audit
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python tools/audit.py

lock: $(VENV)/.deps ## write the hashes of the pinned versions into the lock files; needs uv
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python tools/lock_hashes.py

toolchain:
	@SILVAN_NO_INSTALL=1 tools/with-rust true 2>/dev/null || { $(MAKE) $(VENV)/.deps && tools/with-rust true; }

environment: $(VENV)/.dev-deps $(VENV)/.site-deps

lint: lint-rust lint-python ## rustfmt, clippy, ruff, mypy; changes nothing

lint-rust: toolchain
	@has() { $(CARGO) fmt --version && $(CARGO) clippy --version; } >/dev/null 2>&1; \
	  has || { tools/with-rust rustup component add rustfmt clippy 2>/dev/null && has; } || \
	  { echo "rustfmt and clippy are needed: rustup component add rustfmt clippy" >&2; exit 1; }
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

lint-python: $(VENV)/.dev-deps
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fmt: $(VENV)/.dev-deps ## format Rust and Python
	$(CARGO) fmt --all
	$(BIN)/ruff check --quiet --fix-only
	$(BIN)/ruff format --quiet

schema: $(VENV)/.built ## write the scenario file's JSON Schema to docs/, and the types of summaries
	$(BIN)/silvan schema > $(SCHEMA)
	$(BIN)/python tools/result_types.py > $(TYPES).new && mv $(TYPES).new $(TYPES)

schema-check: $(VENV)/.built
	@$(BIN)/silvan schema | cmp -s - $(SCHEMA) || { echo "$(SCHEMA) is out of date: run make schema" >&2; exit 1; }
	@$(BIN)/python tools/result_types.py | cmp -s - $(TYPES) || { echo "$(TYPES) is out of date: run make schema" >&2; exit 1; }

# Reuses everything that `setup` has compiled.
wheel: $(VENV)/.built ## a wheel for all Pythons from 3.10 on, and a source archive, in target/wheels
	@rm -rf target/wheels
	VIRTUAL_ENV=$(CURDIR)/$(VENV) tools/with-rust $(BIN)/maturin build --release --locked --quiet --out target/wheels
	$(BIN)/maturin sdist --out target/wheels

# Takes half a minute for each Python, or more on a busy machine. pip takes most of this time.
wheel-check: wheel ## test the wheel alone, with the oldest Python here (others: PYTHONS="python3.14")
	$(BIN)/python tools/try_wheel.py target/wheels/*.whl $(or $(PYTHONS),--oldest)

wheel-check-all: wheel
	$(BIN)/python tools/try_wheel.py target/wheels/*.whl

target/release-env: requirements-release.lock
	@rm -rf $@
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --no-deps --require-hashes -r $<
	@touch $@

# Compiles everything again (minutes): the usual wheel needs the glibc of this machine.
wheel-manylinux: $(VENV)/.deps target/release-env $(PROFILE) ## a wheel for Linux with glibc 2.17 or newer, linked by zig, verified by auditwheel
	@rm -rf target/wheels
	$(GUIDED) PATH=$(CURDIR)/target/release-env/bin:$$PATH VIRTUAL_ENV=$(CURDIR)/$(VENV) tools/with-rust $(BIN)/maturin build \
	  --release --locked --quiet --zig --compatibility manylinux_2_17 --out target/wheels
	$(BIN)/maturin sdist --out target/wheels
	target/release-env/bin/auditwheel show target/wheels/*.whl | tr '\n' ' ' | grep -q 'tag: "manylinux_2_17_'

# The files of a release; `release-check` is its dry run with the usual wheel.
release: wheel-manylinux site ## all files of a release in target/release-files; the changelog must have its date
	$(BIN)/python tools/try_wheel.py target/wheels/*.whl $(or $(PYTHONS),)
	@$(MAKE) --no-print-directory release-files FINAL=--final

# The files of a release in target/release-files, as a dry run.
release-check: wheel-check site ## build and check all files of a release: wheel, sdist, crates, site, SBOM, checksums
	@$(MAKE) --no-print-directory release-files

# Uses the results of `wheel` and `site`.
release-files: $(VENV)/.deps
	$(BIN)/python tools/release.py $(FINAL)

# Takes half a minute, two thirds of it for the runs of the gallery. To view the site with its search:
# python3 -m http.server --bind 127.0.0.1 --directory target/site/html
site: $(VENV)/.built $(VENV)/.site-deps ## build the documentation as a site, in target/site/html; a warning or a dead link is an error
	$(BIN)/python tools/site/build_site.py

# The site without the playground, whose module takes as long to compile as the model. `nightly` builds and tests it.
site-check: export SILVAN_PLAYGROUND := none
site-check: site

# Results, controls and layout of the playground in a browser; `site` has compiled its module.
playground-check: $(VENV)/.built $(VENV)/.dev-deps
	@if $(BIN)/python tools/site/playground.py target/playground.html; then \
	  $(BIN)/python -m pytest -rs -m playground; else echo "left out: the tests of the playground"; fi

verify: $(VENV)/.built ## the second model, closed forms, and the published experiments in quick form (VERIFY="--fresh": other seeds)
	$(BIN)/python -m verify $(VERIFY)
	$(BIN)/silvan papers run --all --quick

VERIFY ?=

# Continues where it was stopped. out/swarm contains the findings. SWARM="--fresh" deletes them.
# SWARM="--books-every 10" uses the debug build less often.
swarm: ## run N=300 random scenarios in several ways; repeat to continue (one: make swarm SWARM="--seed 17")
	$(CARGO) build --quiet -p silvan-scenario --example swarm
	$(CARGO) build --quiet --release -p silvan-scenario --example swarm
	target/release/examples/swarm --count $(N) --books target/debug/examples/swarm $(SWARM)

# Starts from the first seed in each run, regardless of out/swarm. The debug build repeats a quarter of the
# scenarios. `nightly` runs 5000.
swarm-check: N = 150
swarm-check:
	$(CARGO) build --quiet -p silvan-scenario --example swarm
	$(CARGO) build --quiet --release -p silvan-scenario --example swarm
	target/release/examples/swarm --count $(N) --fresh --out target/check/swarm \
	  --books target/debug/examples/swarm --books-every 4

# Needs a nightly compiler and cargo-fuzz; see fuzz/README.md.
fuzz: $(VENV)/.built ## RUNS=10000000 executions of each fuzz target, and of the readers in Python (hours)
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$target; \
	  $(CARGO) +nightly fuzz run -O -s none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -runs=$(RUNS) -rss_limit_mb=1024 -timeout=10 -print_final_stats=1 || exit 1; \
	done
	@for case in study run override fabric options; do \
	  $(BIN)/python fuzz/readers.py $$case --count $(CASES) || exit 1; \
	done

papers: $(VENV)/.built ## run the published experiments in full with five seeds (hours); update the record and the score
	$(BIN)/silvan papers run --all --out out/papers --record papers/record.json
	$(BIN)/silvan papers pages out/papers/pages

bench: ## speed: whole runs, to bench.json, then parts; AGAINST=COMMIT: ratios to that (ONLY="uniform_648" ROUNDS=5)
	$(CARGO) build --release --quiet -p silvan-scenario --example bench
	target/release/examples/bench bench.json $(ONLY)
	$(PYTHON) tools/instructions.py --caches --json bench.json $(ONLY)
ifdef AGAINST
	$(PYTHON) tools/bench_ratio.py $(AGAINST) $(ONLY) --rounds $(ROUNDS) --json bench.json
else
	$(CARGO) bench --quiet -p silvan-bench -- --noplot
endif

# Counts nothing without valgrind. ONLY names some of the cases. UPDATE=1 writes benches/instructions.json.
instructions: toolchain ## count instructions per packet hop; an increase of 3 % over the record is an error (UPDATE=1: new record)
	$(CARGO) build --release --quiet -p silvan-scenario --example bench
	$(PYTHON) tools/instructions.py $(if $(UPDATE),--update) $(ONLY)

threads-model: toolchain ## predict the speed of 4, 16 and 64 threads from the work of partitions, measured on two cores
	$(CARGO) build --release --quiet -p silvan-scenario --example bench
	$(PYTHON) tools/predict_threads.py $(ONLY)

same: ## AGAINST=COMMIT: find random scenarios (N=2000) whose results differ from that commit
	@test -n "$(AGAINST)" || { echo "say what to compare with: make same AGAINST=COMMIT" >&2; exit 2; }
	$(CARGO) build --quiet --release -p silvan-scenario --example swarm
	$(PYTHON) tools/same.py $(AGAINST) --count $(N) --first $(FIRST)

# Keeps out/, because the runs and tables there belong to the user and may have taken days.
clean: ## remove everything built, and the environment
	rm -rf target $(VENV) python/silvan/_core*.so .pytest_cache .ruff_cache .mypy_cache
