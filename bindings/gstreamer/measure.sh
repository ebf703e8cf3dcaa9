#!/bin/sh
# Live video whose encoder follows the networks, over the links of scenarios/limits/follow-dark.toml, for 60 s:
#
#   bindings/gstreamer/measure.sh SQUALL_LAB MEASURE
#
# SQUALL_LAB is `squall-lab`, MEASURE the example `measure` of this crate. Prints the number of pictures that
# left squallsrc within 300 ms of their capture, and their bytes as a share of the capacity of the links: 31.9
# Mbps, as in the scenario.
set -eu
lab=$1 measure=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source="videotestsrc is-live=true pattern=snow num-buffers=1800 ! video/x-raw,format=I420,width=640,height=360,framerate=30/1 ! queue leaky=downstream max-size-buffers=1"
coder="x264enc name=coder tune=zerolatency speed-preset=ultrafast threads=1 qp-min=0 key-int-max=60 bitrate=20000 vbv-buf-capacity=${VBV:-100}"
"$lab" shell --scenario "$(dirname "$0")/../../scenarios/limits/follow-dark.toml" \
	--server "$measure receive 'squallsrc name=squall listen=0.0.0.0:5000 ! fakesink sync=false' $folder/received" \
	--client "$measure send '$source ! $coder ! squallsink name=squall address=10.77.0.1:5000 insecure=true encoder=coder' $folder/sent" \
	>"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
grep -E "buffers-late|packets late|does not count" "$folder/log" || true
python3 - "$folder" <<'P'
import sys

def rows(name):
    return [line.split() for line in open(f"{sys.argv[1]}/{name}")]

sent = [row for row in rows("sent") if row[0] != "#"]
rates = [row for row in rows("sent") if row[0] == "#"]
received = {row[0]: int(row[1]) for row in rows("received")}
start, seconds = int(sent[0][1]), (int(sent[-1][1]) - int(sent[0][1])) / 1e6
delays = sorted(received[name] - int(time) for name, time, _ in sent if name in received)
in_time = [row for row in sent if row[0] in received and received[row[0]] - int(row[1]) <= 300_000]
rate = sum(int(row[2]) for row in in_time) * 8 / seconds / 1e6
print(f"{len(sent)} of 1800 pictures sent, {len(received)} received, {len(in_time)} in time: {100 * len(in_time) / len(sent):.1f} %")
print(f"{rate:.1f} Mbps in time, {100 * rate / 31.9:.1f} % of 31.9 Mbps")
if delays:
    print("delay, ms:", *(f"p{q} {delays[len(delays) * q // 100] / 1000:.0f}" for q in (50, 95, 99)))

def by_second(rows, value):
    found = {}
    for row in rows:
        second = (int(row[1]) - start) // 1_000_000
        found[second] = value(found.get(second, 0), row)
    return " ".join(f"{found[second] / 1e6:.0f}" if second in found else "-" for second in range(int(seconds) + 1))

print("sent, Mbps by second:    ", by_second(sent, lambda sum, row: sum + int(row[2]) * 8))
# A second without a change of the estimate is a dash.
print("estimate at their ends:  ", by_second(rates, lambda _, row: int(row[2])))
P
