#!/bin/sh
# Restarts the exit of this machine while no other machine of the fleet restarts its own: a lease in Redis decides.
#
#   REDIS_URL=redis://10.0.0.9 restart-with-lease.sh squall-tunnel@site=127.0.0.1:9464
#
# Run it on every machine, at the same time if you like. The lease ends by itself if this machine fails.
set -eu

: "${REDIS_URL:?the address of Redis, such as redis://10.0.0.9}"
# Seconds: longer than drain_timeout, a start and LIMIT of rolling-restart.sh together.
LEASE=${LEASE:-180}
# Seconds to wait for the lease.
PATIENCE=${PATIENCE:-3600}
KEY=squall:restart
OWNER=$(hostname)-$$-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')

redis() { redis-cli -u "$REDIS_URL" "$@"; }

waited=0
until [ "$(redis SET "$KEY" "$OWNER" NX EX "$LEASE")" = OK ]; do
    waited=$((waited + 1))
    if [ "$waited" -ge "$PATIENCE" ]; then
        echo "restart-with-lease.sh: no lease within $PATIENCE s; $(redis GET "$KEY") has it" >&2
        exit 1
    fi
    sleep 1
done
# Only its owner ends a lease: it may have expired, and belong to another machine.
release() {
    redis EVAL 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0' \
        1 "$KEY" "$OWNER" > /dev/null
}
trap release EXIT
trap 'exit 1' INT TERM

"$(dirname "$0")/rolling-restart.sh" "$@"
