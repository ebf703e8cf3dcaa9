# The two commands of the README. Each does its own set-up, or says in one line what is missing.

CARGO ?= cargo

.PHONY: demo test bench picture fuzz tools

# Two live video sessions over real sockets and two emulated unstable links, side by side.
demo: tools
	@$(CARGO) build --release --locked -p squall-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall" demo

# Everything CI runs: formatting, lints, documentation, every test.
test: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) test --workspace --locked

# Ratios against plain noq, against wall time, and the cost of a decision.
bench: tools
	@$(CARGO) build --release --locked -p squall-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall" bench

# What each scheduler does with the same blocks on the same paths, for docs/schedulers.md.
picture: tools
	@$(CARGO) build --release --locked -p squall-cli
	@"$${CARGO_TARGET_DIR:-target}/release/squall" schedulers --draw docs/pictures/schedulers.svg

# Ten minutes for each fuzz target; needs a nightly toolchain and cargo-fuzz.
fuzz:
	cargo +nightly fuzz run wire -- -max_total_time=600
	cargo +nightly fuzz run inbox -- -max_total_time=600

tools:
	@command -v $(CARGO) >/dev/null || { echo "make: cargo is missing: install Rust 1.88 or newer from https://rustup.rs"; exit 1; }
	@command -v c++ >/dev/null || { echo "make: a C++ compiler is missing (for the bundled H.264 codec): apt-get install g++"; exit 1; }
