#!/usr/bin/env bash
# Live video through a tunnel for a long time, over two emulated links of which one fails every 20 s, and its effect on
# a player. Exits with 1 if a tunnel ended or grew, or if the picture froze for more than 300 ms.
# Usage: scripts/soak.sh [MINUTES]   (default: 30). Logs and figures are left in out/soak.
set -euo pipefail
LC_ALL=C
export LC_ALL

minutes=${1:-30}
latency=${SOAK_LATENCY:-300ms}
scheduler=${SOAK_SCHEDULER:-minrtt}
seconds=$((minutes * 60))
every=20 # seconds from one outage to the next, which is on the other link
dead=3   # seconds that each lasts, both ways
grown_kb=2048 grown_percent=10 # to fail, both must be exceeded from the first minute to the end

root=$(cd "$(dirname "$0")/.." && pwd)
release=${CARGO_TARGET_DIR:-$root/target}/release
squall=$(realpath -m "$release/squall")
lab=$(realpath -m "$release/squall-lab")
player=$(realpath -m "$release/interruptions")
command -v ffmpeg >/dev/null || { echo "soak: ffmpeg is missing: apt-get install ffmpeg" >&2; exit 1; }
for program in "$squall" "$lab" "$player"; do
    [ -x "$program" ] || { echo "soak: $program is missing: make soak builds it" >&2; exit 1; }
done

out=$root/out/soak
rm -rf "$out"
mkdir -p "$out"
cd "$out"

# The outages of a link, the first after the given number of seconds.
outages() {
    for ((at = $1; at < seconds; at += 2 * every)); do
        echo "    { at = \"${at}s\", outage = \"${dead}s\" },"
    done
}

cat >links.toml <<END
name = "soak"
duration = "$((seconds + 60))s"
schedulers = ["minrtt"]
[[path]]
name = "wifi"
rate = "12mbps"
delay = "20ms"
events = [
$(outages $every)
]
[[path]]
name = "lte"
rate = "8mbps"
delay = "45ms"
events = [
$(outages $((2 * every)))
]
[[flow]]
name = "film"
kind = "bulk"
END

# Both sides: a tunnel, and its memory every 10 s. A side that fails reports it, and the other side stops as well.
cat >side.sh <<'END'
abort() { # WHY
    echo "$1"
    touch failed
    exit 1
}

go_on() { # PROCESSES that must be there
    [ ! -e failed ] || exit 1
    for process; do
        kill -0 "$process" 2>/dev/null || abort "process $process has ended too early"
    done
}

wait_for() { # FILE PROCESSES that must be there meanwhile
    file=$1
    shift
    until [ -e "$file" ]; do
        go_on "$@"
        sleep 0.1
    done
}

start_tunnel() { # NAME ARGUMENTS...
    name=$1
    shift
    "$squall" tunnel "$@" --token 'a token for soaking' --scheduler "$scheduler" --metrics 127.0.0.1:9464 2>"$name.log" &
    tunnel=$!
    (
        second=0
        while kill -0 $tunnel 2>/dev/null; do
            echo "$second $(awk '/^VmRSS:/ { print $2 }' /proc/$tunnel/status)" >>"$name.memory"
            sleep 10
            second=$((second + 10))
        done
    ) &
}

end_tunnel() {
    exec 3<>/dev/tcp/127.0.0.1/9464
    printf 'GET /status HTTP/1.0\r\n\r\n' >&3
    cat <&3 >"$name.status"
    kill $tunnel
    code=0
    wait $tunnel || code=$?
    echo $code >"$name.code"
}
END

cat >server.sh <<'END'
. ./side.sh
start_tunnel exit --listen 10.77.0.1:4433 --out film=udp://127.0.0.1:6000
mkfifo pictures
"$player" --picture 2304 --fps 30 --json <pictures >player.json &
viewer=$!
ffmpeg -v warning -nostdin -y -i 'udp://127.0.0.1:6000?fifo_size=100000' -map 0:v -vf scale=64:36,format=gray \
    -fps_mode passthrough -flush_packets 1 -f rawvideo pictures 2>player.log &
decoder=$!
until grep -q ':1770 ' /proc/net/udp; do
    go_on $tunnel $viewer $decoder
    sleep 0.05
done
touch ready
wait_for over $tunnel $viewer $decoder
kill -INT $decoder
wait $viewer
touch played
wait_for entry.code $tunnel
end_tunnel
END

cat >client.sh <<'END'
date +%s.%N >began
. ./side.sh
start_tunnel entry --to 10.77.0.1:4433 --insecure --interface wifi --interface lte \
    --in "film=udp://127.0.0.1:5000,media=ts,latency=$latency"
wait_for ready $tunnel
ffmpeg -v warning -nostdin -re -f lavfi -i testsrc2=size=640x360:rate=30 -re -f lavfi -i sine=sample_rate=48000 \
    -c:v libx264 -preset veryfast -bf 2 -g 60 -pix_fmt yuv420p -b:v 2500k -maxrate 2500k -bufsize 2500k \
    -c:a aac -b:a 96k -f mpegts 'udp://127.0.0.1:5000?pkt_size=1316' 2>source.log &
source=$!
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
    go_on $tunnel $source
    sleep 1
done
touch over
wait_for played $tunnel
kill $source
sleep 1
end_tunnel
wait_for exit.code
END

echo "soak: $minutes min, $scheduler, $latency, an outage of ${dead} s every ${every} s"
export squall player scheduler latency seconds
wrong=0
"$lab" shell --keep-awake --strict --time "$((seconds + 60))s" --scenario links.toml --json shell.json \
    --server 'bash server.sh' --client 'bash client.sh' 2>shell.log &
shell=$!
# Ending this script ends the shell.
trap 'kill $shell 2>/dev/null || true' EXIT
wait $shell || {
    echo "wrong: the shell: $(tail -n 1 shell.log)"
    wrong=1
}
trap - EXIT
for name in exit entry; do
    code=$(cat $name.code 2>/dev/null || echo none)
    if [ "$code" != 0 ] || grep -q panicked $name.log; then
        echo "wrong: the tunnel's $name ended with code $code: $(tail -n 1 $name.log)"
        wrong=1
    fi
    # The first from a minute on, and the largest of the last minute.
    read -r early late < <(awk '
        $2 == "" { next }
        { last = $1; kb[$1] = $2 }
        early == "" && $1 >= 60 { early = $2 }
        END {
            for (at in kb) if (at + 0 > last - 60 && kb[at] > late) late = kb[at]
            print early + 0, late + 0
        }' $name.memory) || { early=0 late=0; }
    echo "memory of the $name: $early kB after a minute, $late kB at the end"
    growth=$((late - early))
    if [ "$early" -gt 0 ] && [ $growth -gt $grown_kb ] && [ $((growth * 100)) -gt $((early * grown_percent)) ]; then
        echo "wrong: the tunnel's $name grew by $growth kB"
        wrong=1
    fi
done

number() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" player.json; }
if [ ! -s player.json ]; then
    echo "wrong: the player saw nothing: $(tail -n 1 player.log)"
    exit 1
fi
echo "player: $(number pictures) pictures in $(number seconds) s, longest time between two $(number longest_ms) ms;" \
    "interruptions: $(number over_100_ms) over 100 ms, $(number over_200_ms) over 200 ms, $(number over_300_ms) over 300 ms"
# Each interruption over 100 ms beside the outage before it: odd ones are those of wifi.
sed 's/{"at_s"/\n&/g' player.json | sed -n 's/.*"unix_s":\([0-9.]*\),"picture":\([0-9]*\),"between_ms":\([0-9.]*\).*/\1 \2 \3/p' |
    awk -v began="$(cat began)" -v every=$every 'NR <= 100 {
        at = $1 - began
        number = int(at / every)
        printf "  %.0f ms, ended %.2f s after the begin of outage %d (%s), before picture %d\n",
            $3, at - number * every, number, number % 2 ? "wifi" : "lte", $2
    }'
# The flow at both ends: classes and outcomes.
echo "sent: $(sed -n 's/.*"sent":{\(.*}\)},"received".*/\1/p' entry.status)"
echo "received: $(sed -n 's/.*"received":\({.*}\)}\],"events".*/\1/p' exit.status)"
if [ "$(number over_300_ms)" != 0 ]; then
    echo "wrong: the picture froze for more than 300 ms"
    wrong=1
fi
[ $wrong = 0 ] && echo "soak: all is well"
exit $wrong
