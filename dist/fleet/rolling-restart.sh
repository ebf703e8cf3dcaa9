#!/bin/sh
# Restarts exits of this machine one after the other, each once the one before accepts sessions again.
#
#   rolling-restart.sh squall-tunnel@exit-a=127.0.0.1:9464 squall-tunnel@exit-b=127.0.0.1:9465
#
# Each argument is UNIT=ADDRESS with the address of `metrics` of that exit. `systemctl restart` returns once the exit has
# drained and its successor listens (Type=notify).
set -eu

# Seconds for an exit to accept sessions after its start.
LIMIT=60

for exit in "$@"; do
    unit=${exit%=*} address=${exit#*=}
    systemctl restart "$unit"
    waited=0
    until curl --fail --silent --max-time 2 "http://$address/ready" > /dev/null; do
        waited=$((waited + 1))
        if [ "$waited" -ge "$LIMIT" ]; then
            echo "rolling-restart.sh: $unit is not ready after $LIMIT s: the other exits are left as they are" >&2
            exit 1
        fi
        sleep 1
    done
    echo "$unit restarted"
done
