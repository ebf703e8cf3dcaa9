#!/usr/bin/env bash
# The code with `unsafe`, and the threads and sockets around it, under Miri and the sanitizers of the compiler:
#
#   sanitizers.sh [miri] [address] [thread]
#
# All of them without an argument: `make sanitizers`. One whose tools are missing says in a line what to install.
set -uo pipefail
cd "$(dirname "$0")/.."
nightly=+${NIGHTLY:-nightly}
host=$(rustc -vV | sed -n 's/^host: //p')
sources=$(rustc "$nightly" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/Cargo.lock
# Each has other flags for the compiler, so each has a folder of its own.
target=${CARGO_TARGET_DIR:-target}/sanitizers
# A flag for cargo.
build=

# Reads and writes of memory that C owns: all pointers of the bindings pass through this module.
miri() {
    if ! cargo "$nightly" miri --version >/dev/null 2>&1; then
        echo "not run: miri: rustup +nightly component add miri rust-src"
        return
    fi
    CARGO_TARGET_DIR=$target/miri cargo "$nightly" miri test --locked -p squall-c --lib memory
}

# The bindings, sessions over real sockets, and the workers of an endpoint, which share its address. One test at a time: a
# sanitizer takes several times as long, and sessions time out.
tests() {
    RUSTFLAGS=-Zsanitizer=$1 CARGO_TARGET_DIR=$target/$1 cargo "$nightly" test --locked --no-fail-fast $build \
        --target "$host" -p squall-bindings -p squall-c -p squall --lib --test transfer --test workers \
        -- --test-threads 1 "${@:2}"
}

address() {
    tests address
}

# Without the standard library in it, every lock would be reported.
thread() {
    if [ ! -e "$sources" ]; then
        echo "not run: thread sanitizer: rustup +nightly component add rust-src"
        return
    fi
    # A backtrace takes minutes, and so do two tests that move a lot or have many sessions.
    RUST_BACKTRACE=0 build=-Zbuild-std TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.txt" tests thread \
        --skip a_full_session_reports_when_it_has_room --skip sessions_spread_over_the_workers_with_all_their_paths
}

if ! cargo "$nightly" --version >/dev/null 2>&1; then
    echo "not run: sanitizers: rustup toolchain install nightly --profile minimal"
    exit
fi
[ $# -gt 0 ] || set -- miri address thread
failed=0
for part; do
    echo "sanitizers: $part"
    "$part" || failed=1
done
exit $failed
