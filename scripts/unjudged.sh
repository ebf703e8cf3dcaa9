#!/usr/bin/env bash
# Counts the tests that were not judged, from the file that they wrote (crates/squall-testkit, `unjudged`):
#
#   unjudged.sh FILE
#
# An excused measurement of a duration is one that the machine was proved too busy for. A skipped test lacks a tool, a
# device or a right; under CI=true that is a failure, except for the Python package, whose tools come from a package index
# that CI may not reach. A check that was not run is a target of its own.
set -euo pipefail
file=$1
excused=$(grep -c '^excused' "$file" 2>/dev/null || true)
skipped=$(grep -c '^skipped' "$file" 2>/dev/null || true)
not_run=$(grep -c '^not run' "$file" 2>/dev/null || true)
echo "tests: ${excused:-0} measurements excused (the machine was too busy), ${skipped:-0} tests skipped, ${not_run:-0} checks not run"
[ ! -e "$file" ] || sort "$file" | awk -F '\t' '{ printf "  %s: %s: %s\n", $1, $2, $3 }'
lacking=$(grep -v $'^skipped\tpython\t' "$file" 2>/dev/null | grep -c '^skipped' || true)
[ "${CI:-}" != true ] || [ "$lacking" = 0 ]
