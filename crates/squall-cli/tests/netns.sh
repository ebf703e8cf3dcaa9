#!/bin/sh
# Transfers between two network namespaces with two links between them, as between two machines:
# a random file, then the same file while one link goes down in the middle.
#
#   netns.sh SQUALL
#
# Needs root (or the right to make namespaces). Exit code 0: all as it should be, 77: not permitted here.
set -eu

squall=$1
near=squall-near-$$ # the sender
far=squall-far-$$   # the receiver
work=$(mktemp -d)
receiver=

cleanup() {
    trap - EXIT INT TERM
    [ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true
    ip netns del "$near" 2>/dev/null || true
    ip netns del "$far" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'cleanup; exit 1' INT TERM

skip() {
    echo "skipped: $1"
    exit 77
}

fail() {
    echo "FAILED: $1"
    for log in recv.err recv.out send.err send.json; do
        [ ! -s "$work/$log" ] || sed "s/^/  $log: /" "$work/$log"
    done
    exit 1
}

command -v ip >/dev/null || skip "there is no ip command (iproute2)"
ip netns add "$near" 2>/dev/null || skip "network namespaces are not permitted here"
ip netns add "$far"

# Two links, wifi0 and lte0, and behind them an address of the receiver that both lead to.
link() { # NAME NUMBER RATE
    ip link add "$1" netns "$near" type veth peer name "$1" netns "$far" || skip "veth links are not possible here"
    ip -n "$near" addr add "10.177.$2.2/24" dev "$1"
    ip -n "$far" addr add "10.177.$2.1/24" dev "$1"
    ip -n "$near" link set "$1" up
    ip -n "$far" link set "$1" up
    ip -n "$near" route add default via "10.177.$2.1" dev "$1" metric "$2"
    # Where the kernel can shape, the links are as slow as radio links are.
    ip netns exec "$near" tc qdisc add dev "$1" root tbf rate "$3" burst 64k latency 50ms 2>/dev/null || true
}
ip -n "$near" link set lo up
ip -n "$far" link set lo up
ip -n "$far" addr add 10.177.0.1/32 dev lo
link wifi0 1 100mbit
link lte0 2 60mbit

# Both ends find it there.
export SQUALL_TOKEN="a token for tests"

start_receiver() { # OUT
    : >"$work/recv.err"
    ip netns exec "$far" timeout -k 5 60 "$squall" recv --listen 0.0.0.0:4433 --identity "$work/id.pem" \
        --name 10.177.0.1 --once --out "$1" >"$work/recv.out" 2>"$work/recv.err" &
    receiver=$!
    tries=0
    until grep -q '^listening' "$work/recv.err"; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || fail "the receiver does not listen"
        sleep 0.1
    done
}

send() { # FILE OPTIONS...
    file=$1
    shift
    ip netns exec "$near" timeout -k 5 60 "$squall" send "$file" --to 10.177.0.1:4433 --ca "$work/id.pem" \
        --interface wifi0 --interface lte0 --json "$work/send.json" "$@" >"$work/send.out" 2>"$work/send.err" ||
        fail "$what: the sender ended with code $?"
    wait "$receiver" || fail "$what: the receiver ended with code $?"
    receiver=
}

check() { # SENT RECEIVED
    [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ] || fail "$what: the copy differs"
    [ -z "$(find "$work" -name '*.part')" ] || fail "$what: an unfinished file is left"
    echo "$what: identical"
    sed -n 's/^path /  path /p' "$work/send.out"
    paths=$(grep -c '"sent_bytes"' "$work/send.json")
    [ "$paths" -eq 2 ] || fail "$what: $paths paths instead of 2"
    for bytes in $(sed -n 's/.*"sent_bytes": \([0-9]*\).*/\1/p' "$work/send.json"); do
        [ "$bytes" -ge "$least" ] || fail "$what: a path carried only $bytes bytes"
    done
}

# The file at an even pace, so that there is a middle whatever the links can carry.
slowly() {
    part=0
    while [ "$part" -lt 20 ]; do
        dd if="$work/file" bs=1000000 skip="$part" count=1 2>/dev/null
        sleep "${1:-0.1}"
        part=$((part + 1))
    done
}

head -c 20000000 /dev/urandom >"$work/file"

what="file of 20 MB"
least=1000000
start_receiver "$work/copy"
send "$work/file"
check "$work/file" "$work/copy"

goes_down() { # NAMESPACE LINK WHERE
    what="file of 20 MB, $2 going down ${3}in the middle"
    least=1000000
    start_receiver "$work/copy"
    mkfifo "$work/pipe"
    slowly >"$work/pipe" &
    (sleep 1 && ip -n "$1" link set "$2" down) &
    send - <"$work/pipe"
    rm "$work/pipe"
    check "$work/file" "$work/copy"
    ip -n "$1" link set "$2" up
}
goes_down "$near" wifi0 ""
# Routes go with their link.
ip -n "$near" route replace default via 10.177.1.1 dev wifi0 metric 1
goes_down "$far" lte0 "at the other end "

# A link that is deleted and made again with another address, as by a stick that is pulled out and put in.
what="file of 20 MB, wifi0 deleted and back with another address"
start_receiver "$work/copy"
mkfifo "$work/pipe"
# Interfaces are looked over each second, and the new path is validated before it carries data.
slowly 0.2 >"$work/pipe" &
(sleep 0.5 && ip -n "$near" link del wifi0 && sleep 0.5 && link wifi0 3 100mbit) &
send - <"$work/pipe"
rm "$work/pipe"
[ "$(sha256sum <"$work/file")" = "$(sha256sum <"$work/copy")" ] || fail "$what: the copy differs"
grep -q '10\.177\.3\.2' "$work/send.json" || fail "$what: the new address has no path"
echo "$what: identical"
echo "all as it should be"
