#!/usr/bin/env bash
# Runs the contract tests of the core with the lowest and the highest release of noq-proto that Cargo.toml admits, in a copy
# of the workspace, so that Cargo.lock stays as it is:
#
#   noq-range.sh [LOWEST]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
range=$(sed -n 's/^noq-proto = { version = "\([^"]*\)".*/\1/p' "$root/Cargo.toml")
lowest=${1:-$(sed -n 's/^>=\([0-9.]*\),.*/\1/p' <<<"$range")}
[ "${lowest//[^.]/}" = .. ] || lowest=$lowest.0
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp --parents -t "$copy")
cd "$copy"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/noq-range
for release in "$lowest" highest; do
    if [ "$release" = highest ]; then
        cargo update -q -p noq-proto -p noq-udp -p noq
    else
        # The three are released together.
        cargo update -q -p noq --precise "$release"
        cargo update -q -p noq-proto --precise "$release"
        cargo update -q -p noq-udp --precise "$release"
    fi
    found=$(cargo tree -q -p squall-proto --depth 1 --prefix none | sed -n 's/^noq-proto v\([0-9.]*\).*/\1/p')
    echo "noq-proto $found, of $range:"
    cargo test -q -p squall-proto --lib -- steering
done
