# The commands of the README. Each does its own set-up, or reports in one line what is missing.

CARGO ?= cargo

.PHONY: demo check lint test beside checks msrv deny noq-range publish-check alerts recipes sanitizers dashboard man deb android gstreamer python wheels bench picture findings versus tquic traffic fuzz soak site tools

# Two live video sessions over real sockets and two emulated unstable links, side by side.
demo: tools
	@$(CARGO) build --release --locked -p squall-lab-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall-lab" demo

# Manual pages and shell completions of both programs, in out/man and out/completions.
man: tools
	@for package in squall-cli:squall squall-lab-cli:squall-lab; do \
		program="$${package#*:}"; \
		$(CARGO) build --locked -p "$${package%:*}" --features man || exit 1; \
		run="$${CARGO_TARGET_DIR:-target}/debug/$$program"; \
		mkdir -p out/completions && "$$run" man out/man || exit 1; \
		for shell in bash zsh fish; do "$$run" completions $$shell > "out/completions/$$program.$$shell" || exit 1; done; \
	done

# A Debian package with the program, the service, manual pages and completions, in out/deb. It runs on this release of the
# system and on newer ones.
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
deb: tools
	@command -v cargo-deb >/dev/null || { echo "make: cargo-deb is missing: cargo install cargo-deb --locked"; exit 1; }
	@command -v dpkg-shlibdeps >/dev/null || { echo "make: dpkg-shlibdeps is missing: apt-get install dpkg-dev"; exit 1; }
	@$(CARGO) build --release --locked -p squall-cli --features man
	@run="$${CARGO_TARGET_DIR:-target}/release/squall"; \
	rm -rf out/deb && mkdir -p out/deb/completions && "$$run" man out/deb/man || exit 1; \
	for shell in bash zsh fish; do "$$run" completions $$shell > "out/deb/completions/squall.$$shell" || exit 1; done
	@printf 'squall (%s-1) unstable; urgency=medium\n\n  * The changes are in changelog.gz.\n\n -- %s  %s\n' "$(VERSION)" \
		"$$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/squall-cli/Cargo.toml)" \
		"$$(git log -1 --format=%cD 2>/dev/null || date -R)" > out/deb/changelog
	@$(CARGO) deb --no-build --locked -p squall-cli --output out/deb

UNJUDGED = $(abspath $(or $(CARGO_TARGET_DIR),target))/unjudged
LOCKS = bindings/gstreamer/Cargo.lock fuzz/Cargo.lock lab/versus-tquic/Cargo.lock

# Before a push, two minutes when everything is built: format, structure, lints, the tests of each file, and those in virtual
# time that compare whole runs. None of it needs the network or root.
check: lint
	$(CARGO) test --workspace --locked --lib --test schedulers --test results
	$(CARGO) test --workspace --locked --test all -- schedulers:: session::

lint: tools
	$(CARGO) fmt --all --check
	@if command -v python3 >/dev/null; then scripts/structure.py --check 2 && scripts/recipes.py --check && scripts/figures.py; fi
	@# The lock files of the workspaces beside the main one: a crate's new dependency belongs in each of them.
	@for lock in $(LOCKS); do $(CARGO) update --quiet --workspace --locked --manifest-path $${lock%.lock}.toml || exit 1; done
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Tests in virtual time need a processor and no hour of the day. The others wait most of the time, and measure.
tests_of = $(patsubst %/main,%,$(foreach folder,$(1),$(patsubst $(folder)/tests/%.rs,%,$(wildcard $(folder)/tests/*.rs $(folder)/tests/*/main.rs))))
IN_VIRTUAL_TIME = $(addprefix crates/squall-,papers proto sched) $(addprefix lab/squall-,lab media trace)
MEASURING = $(call tests_of,$(filter-out bindings/gstreamer $(IN_VIRTUAL_TIME),$(wildcard crates/* lab/* bindings/* bindings/android/native)))
CALCULATING = $(filter-out $(MEASURING),$(call tests_of,$(IN_VIRTUAL_TIME)))

# Everything CI runs: formatting, lints, documentation, every test. What calculates runs beside what measures, with the time
# that this leaves. At the end it counts excused and skipped tests.
test: export SQUALL_UNJUDGED = $(UNJUDGED)
test: tools
	@rm -f "$(UNJUDGED)"
	@command -v python3 >/dev/null || printf 'skipped\tstructure\twithout python3\n' >> "$(UNJUDGED)"
	@$(MAKE) --no-print-directory lint
	$(CARGO) test --workspace --locked --no-run
	@beside="$(abspath $(or $(CARGO_TARGET_DIR),target))/beside.log"; failed=; \
	$(shell command -v chrt >/dev/null && echo chrt -i 0) $(MAKE) --no-print-directory beside > "$$beside" 2>&1 & \
	$(CARGO) test --workspace --locked --lib --bins --examples $(addprefix --test ,$(sort $(MEASURING))) || failed=1; \
	wait $$! || failed=1; cat "$$beside"; \
	[ -z "$$failed" ] || { scripts/unjudged.sh "$(UNJUDGED)"; exit 1; }
	@$(MAKE) --no-print-directory android NATIVE=--workspace
	@$(MAKE) --no-print-directory python HALVES="--workspace --lib --bins --examples"
	@$(MAKE) --no-print-directory gstreamer
	@$(foreach check,$(CHECKS),printf 'not run\t%s\t%s\n' 'make $(check)' '$(NEEDS_$(check))' >> "$(UNJUDGED)";)
	@scripts/unjudged.sh "$(UNJUDGED)"

beside:
	$(CARGO) test --workspace --locked $(addprefix --test ,$(CALCULATING))
	$(CARGO) test --workspace --locked --doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@# The tunnel without the rest, in a program that has rustls do something else too; and the recorder of packets.
	$(CARGO) clippy -p squall-cli --no-default-features --features tunnel,rustls/tls12 --locked -- -D warnings
	$(CARGO) clippy -p squall-lab-cli -p squall-cli --features squall-lab-cli/qlog,squall-cli/qlog --locked -- -D warnings

# What a release needs beside the tests. Each is a target of its own, for it needs the network, a further toolchain or a
# program that may be missing; one that cannot run says so in a line.
CHECKS = msrv deny noq-range publish-check alerts recipes sanitizers
NEEDS_msrv = the oldest toolchain that the crates promise
NEEDS_deny = cargo-deny
NEEDS_noq-range = the registry
NEEDS_publish-check = the registry
NEEDS_alerts = promtool
NEEDS_recipes = ffmpeg and the programs that it names
NEEDS_sanitizers = a nightly toolchain with miri and rust-src
checks: $(CHECKS)

# The crates that are published: those of crates/ that do not say otherwise.
PUBLISHED = $(addprefix -p ,$(notdir $(patsubst %/Cargo.toml,%,$(shell grep -L '^publish = false' crates/*/Cargo.toml))))

# They build with the oldest toolchain that Cargo.toml names.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv:
	@if $(CARGO) +$(MSRV) --version >/dev/null 2>&1; then \
		$(CARGO) +$(MSRV) check --locked $(PUBLISHED) --all-features; \
	else echo "not run: msrv: rustup toolchain install $(MSRV) --profile minimal"; fi

# Licences, second versions, banned crates, advisories: deny.toml.
deny:
	@if ! command -v cargo-deny >/dev/null; then echo "not run: deny: cargo install --locked cargo-deny"; exit; fi; \
	$(CARGO) deny --workspace check bans licenses sources || exit 1; \
	if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny --workspace check advisories; \
	else echo "not run: advisories: the database at github.com/RustSec/advisory-db cannot be reached"; fi

# The contract tests with the lowest and the highest noq-proto of the range in Cargo.toml.
noq-range:
	@scripts/noq-range.sh

# Packs every published crate and builds it from what was packed.
publish-check:
	@$(CARGO) package --locked --allow-dirty $(PUBLISHED)

# The alert rules for Prometheus: their syntax, and when each is raised.
alerts:
	@if command -v promtool >/dev/null; then \
		promtool check rules dist/prometheus/squall-alerts.yml && promtool test rules dist/prometheus/squall-alerts-test.yml; \
	else echo "not run: alerts: apt-get install prometheus, whose package has promtool"; fi

# The commands of docs/recipes.md behind emulated links, with what arrives: all of them, or RECIPES. Four minutes.
RECIPES =
recipes: tools
	@$(CARGO) build --release --locked -p squall-cli -p squall-lab-cli
	@scripts/recipes.py $(RECIPES)

# Code with `unsafe` under Miri, bindings and sockets under the address and thread sanitizers.
sanitizers:
	@scripts/sanitizers.sh

# The dashboard with data of a tunnel of two minutes from a real Prometheus, in out/dashboard.html, and as a picture.
dashboard: tools
	@$(CARGO) build --release --locked -p squall-cli -p squall-lab-cli
	@scripts/dashboard.py

# The Android library: its native half for this machine; its Java and Kotlin halves and the sample tested with it on the JVM; the AAR.
# With NATIVE=--workspace the half is the one that the tests have built, with the features that all crates together need.
NATIVE = -p squall-android
android: tools
	@missing=""; \
	command -v mvn >/dev/null || missing="Maven"; \
	jdk=$$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'); \
	[ "$${jdk:-0}" -ge 17 ] || missing="$${missing:+$$missing and }a JDK from 17 on"; \
	if [ -n "$$missing" ]; then \
		echo "make: the Android library is not tested without $$missing: apt-get install maven openjdk-17-jdk"; \
		printf 'skipped\tandroid\twithout %s\n' "$$missing" >> "$(UNJUDGED)"; \
		[ "$$CI" != true ]; exit; \
	fi; \
	$(CARGO) build --locked $(NATIVE) --lib --bins --examples && \
	cd bindings/android && mvn -B -q -ntp -Dnative.dir="$(abspath $(or $(CARGO_TARGET_DIR),target))/debug" verify

# The tests of the Python package, in an environment in the target folder. With HALVES="--workspace --lib --bins --examples" its native
# half and the program that it is compared with are those that the tests have built, with the features that all crates
# together need. Without Python or a package index it is skipped, in CI too; the index is needed once.
HALVES = -p squall-python -p squall-lab-cli
PYTHON_PACKAGES = numpy>=1.23 pytest>=8 mypy>=1.15,<3 distributed>=2024.1 pyarrow matplotlib
PYTHON = $(abspath $(or $(CARGO_TARGET_DIR),target))/python
BUILT = $(abspath $(or $(CARGO_TARGET_DIR),target))/debug
python: tools
	@mkdir -p "$(dir $(UNJUDGED))"; missing=""; \
	if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
		missing="Python 3.10 or newer with venv: apt-get install python3-venv"; \
	elif [ "$$(cat "$(PYTHON)/ready" 2>/dev/null)" != '$(PYTHON_PACKAGES)' ]; then \
		if python3 -m venv --clear "$(PYTHON)" >"$(PYTHON).log" 2>&1 && \
			"$(PYTHON)/bin/pip" install -q --retries 1 --timeout 30 $(patsubst %,'%',$(PYTHON_PACKAGES)) >>"$(PYTHON).log" 2>&1; \
		then echo '$(PYTHON_PACKAGES)' > "$(PYTHON)/ready"; \
		else missing="packages from an index that pip reaches: $(PYTHON).log"; fi; \
	fi; \
	if [ -n "$$missing" ]; then \
		echo "make: the Python package is not tested without $$missing"; \
		printf 'skipped\tpython\twithout %s\n' "$$missing" >> "$(UNJUDGED)"; exit; \
	fi; \
	$(CARGO) build --locked $(HALVES) && \
	rm -rf "$(PYTHON)/package" && cp -r bindings/python/python "$(PYTHON)/package" && \
	cp "$(BUILT)/lib_squall.so" "$(PYTHON)/package/squall/_squall.abi3.so" && \
	cd bindings/python && export PYTHONPATH="$(PYTHON)/package" && \
	"$(PYTHON)/bin/mypy" --strict --cache-dir "$(PYTHON)/mypy" python tests examples && \
	"$(PYTHON)/bin/python" -m mypy.stubtest --concise squall._squall && \
	SQUALL_LAB="$(BUILT)/squall-lab" "$(PYTHON)/bin/pytest" -q -o cache_dir="$(PYTHON)/pytest"

# The wheels for Linux on x86-64 and arm64, for every Python from 3.10 on, in out/wheels. They need glibc 2.17: Zig, which pip
# installs, links them, for both kinds of machine.
WHEELS = x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
wheels: tools
	@python3 -m venv "$(PYTHON)-wheels" && "$(PYTHON)-wheels/bin/pip" install -q 'maturin>=1.8,<2' ziglang
	@for target in $(WHEELS); do \
		if [ ! -d "$$(rustc --print target-libdir --target $$target)" ]; then \
			echo "make: no wheel for $$target: rustup target add $$target"; continue; \
		fi; \
		PATH="$(PYTHON)-wheels/bin:$$PATH" maturin build -q --release --locked --zig --target $$target \
			--compatibility manylinux2014 -m bindings/python/Cargo.toml --out out/wheels || exit 1; \
	done; ls out/wheels/*.whl

# The GStreamer elements, a workspace of their own: formatting, lints, tests, some of them behind the links of `squall-lab shell`.
GST_MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' bindings/gstreamer/Cargo.toml)
gstreamer: tools
	@missing=""; \
	pkg-config --exists 'gstreamer-1.0 >= 1.22' gstreamer-base-1.0 gstreamer-check-1.0 2>/dev/null || \
		missing="GStreamer 1.22: apt-get install pkg-config libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev"; \
	rust=$$(cd bindings/gstreamer && $(CARGO) --version 2>/dev/null | sed 's/cargo \([0-9.]*\).*/\1/'); \
	[ "$$(printf '%s\n' "$(GST_MSRV)" "$$rust" | sort -V | head -n 1)" = "$(GST_MSRV)" ] || \
		missing="Rust $(GST_MSRV): rustup toolchain install $(GST_MSRV)"; \
	if [ -n "$$missing" ]; then \
		echo "make: the GStreamer elements are not tested without $$missing"; \
		mkdir -p "$(dir $(UNJUDGED))"; \
		printf 'skipped\tgstreamer\twithout %s\n' "$${missing%%:*}" >> "$(UNJUDGED)"; \
		[ "$$CI" != true ]; exit; \
	fi; \
	$(CARGO) build --locked -p squall-lab-cli && \
	export CARGO_TARGET_DIR="$(abspath $(or $(CARGO_TARGET_DIR),target))" SQUALL_UNJUDGED="$(UNJUDGED)" && \
	export SQUALL_LAB="$$CARGO_TARGET_DIR/debug/squall-lab" && \
	cd bindings/gstreamer && $(CARGO) fmt --check && $(CARGO) clippy --all-targets --locked -- -D warnings && \
	$(CARGO) build --locked && $(CARGO) test --locked

# Ratios against plain noq, against wall time, and the cost of a decision.
bench: tools
	@$(CARGO) build --release --locked -p squall-lab-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall-lab" bench

# The pictures of the documents: the behaviour of schedulers with the same blocks (docs/schedulers.md), and a figure of an
# experiment (docs/notebook/measurements.md). A minute of work on two cores.
LAB = "$${CARGO_TARGET_DIR:-target}/release/squall-lab"
picture: tools
	@$(CARGO) build --release --locked -p squall-lab-cli
	@$(LAB) run scenarios/schedulers.toml --scheduler minrtt,redundant,dams,ras --json out/schedulers.json
	@$(LAB) report out/schedulers.json --out out/schedulers.html --svg out/figures
	@for name in minrtt redundant dams ras; do \
		cp out/figures/schedulers-*-paths-$$name-1.svg docs/pictures/scheduler-$$name.svg || exit 1; done
	@$(LAB) repro storm-fig18 --svg out/figures
	@cp out/figures/storm-fig18-01-*.svg docs/pictures/storm-ladder.svg

# The claims of the papers and their measurements, as docs/findings.md; with TRACES, the folder of the recordings that
# docs/traces.md names, also over recorded networks, as docs/recorded.md.
TRACES =
findings: tools
	@$(CARGO) build --release --locked -p squall-lab-cli
	@$(LAB) repro --all --verdict --markdown docs/findings.md --json out/findings.json --report out/report.html
	@$(if $(TRACES),$(LAB) repro --all --traces $(TRACES) --markdown docs/recorded.md --beside out/findings.json)

# Squall's tunnel beside MPTCP, SRT, RIST, plain QUIC and plain UDP, as docs/notebook/versus.md: four hours on an otherwise
# idle machine. Missing transports are installed if possible, otherwise omitted with a message.
versus: tools
	@scripts/install-rivals.sh
	@$(CARGO) build --release --locked -p squall-cli -p squall-lab-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall-lab" versus --keep-awake --page docs/notebook/versus.md --json out/versus.json

# The relay over TQUIC, which `versus` and `squall-lab versus` run if it is there: a workspace of its own, for it builds BoringSSL.
tquic: tools
	@command -v cmake >/dev/null || { echo "make: CMake is missing: apt-get install cmake"; exit 1; }
	@export CARGO_TARGET_DIR="$(abspath $(or $(CARGO_TARGET_DIR),target))" && cd lab/versus-tquic && $(CARGO) fmt --check && \
		$(CARGO) clippy --release --locked -- -D warnings && $(CARGO) build --release --locked

# Frame sizes of films, for traffic/; needs ffmpeg with libx264 and libvpx.
traffic:
	@scripts/encode-traffic.sh

# Ten minutes for each fuzz target, or SECONDS; all of them, or TARGETS. Needs a nightly toolchain and cargo-fuzz.
# OpenH264, which some of them link, defines a table twice: to the address sanitizer that is an error of its own.
SECONDS = 600
TARGETS = $(sort $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))
fuzz:
	@command -v cargo-fuzz >/dev/null || { echo "make: cargo-fuzz is missing: cargo install cargo-fuzz"; exit 1; }
	@for target in $(TARGETS); do \
		echo "fuzz: $$target for $(SECONDS) s"; \
		ASAN_OPTIONS=detect_odr_violation=0 cargo +nightly fuzz run $$target -- -max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 || exit 1; \
	done

# Two flows through a tunnel for half an hour, or SOAK_MINUTES, with faults of links and of programs, and what a viewer sees of
# each; then, with ffmpeg, live video for as long over links that fail alternately.
SOAK_MINUTES = $(or $(MINUTES),30)
soak: tools
	@$(CARGO) build --release --locked -p squall-cli -p squall-lab-cli -p squall-testkit
	@scripts/soak.py $(SOAK_MINUTES)
	@if command -v ffmpeg >/dev/null; then scripts/soak.sh $(SOAK_MINUTES); \
	else echo "not run: the decoded video: apt-get install ffmpeg"; fi

# The documents as a site in target/site/html; needs mdBook and Python.
SITE = $(abspath $(or $(CARGO_TARGET_DIR),target))/site
site:
	@command -v mdbook >/dev/null || { echo "make: mdBook is missing: cargo install mdbook --locked --version '^0.5'"; exit 1; }
	@scripts/site.py "$(SITE)"
	@mdbook build "$(SITE)"
	@echo "site: $(SITE)/html/index.html"

tools:
	@command -v $(CARGO) >/dev/null || { echo "make: cargo is missing: install Rust 1.88 or newer from https://rustup.rs"; exit 1; }
	@command -v c++ >/dev/null || { echo "make: a C++ compiler is missing (for the bundled H.264 codec): apt-get install g++"; exit 1; }
