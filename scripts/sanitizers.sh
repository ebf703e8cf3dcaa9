#!/usr/bin/env bash
# The code with `unsafe`, and what runs around it, under Miri and the sanitizers of the compiler: `make sanitizers`. A part
# whose tools are missing says in a line what to install.
set -uo pipefail
cd "$(dirname "$0")/.."
nightly=+${NIGHTLY:-nightly}
host=$(rustc -vV | sed -n 's/^host: //p')
# Each has other flags for the compiler, so each has a folder of its own.
target=${CARGO_TARGET_DIR:-target}/sanitizers
failed=0

if ! cargo "$nightly" --version >/dev/null 2>&1; then
    echo "not run: sanitizers: rustup toolchain install nightly --profile minimal"
    exit 0
fi

# Reads and writes of memory that C owns: all pointers of the bindings pass through this module.
if cargo "$nightly" miri --version >/dev/null 2>&1; then
    CARGO_TARGET_DIR=$target/miri cargo "$nightly" miri test --locked -p squall-c --lib memory || failed=1
else
    echo "not run: miri: rustup +nightly component add miri rust-src"
fi

# The bindings, and sessions over real sockets.
check() {
    RUSTFLAGS=-Zsanitizer=$1 CARGO_TARGET_DIR=$target/$1 cargo "$nightly" test --locked "${@:2}" --target "$host" \
        -p squall-bindings -p squall-c -p squall --lib --test transfer || failed=1
}
check address
# Without the standard library in it, every lock would be reported.
if [ -e "$(rustc "$nightly" --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]; then
    check thread -Zbuild-std
else
    echo "not run: thread sanitizer: rustup +nightly component add rust-src"
fi
exit $failed
