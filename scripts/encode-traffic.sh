#!/usr/bin/env bash
# Encodes scenes that ffmpeg makes itself and writes the frame sizes to traffic/*.csv, see traffic/README.md.
# Usage: scripts/encode-traffic.sh [FOLDER]   (default: traffic beside this script's folder)
set -euo pipefail
LC_ALL=C
export LC_ALL

out=${1:-$(cd "$(dirname "$0")/.." && pwd)/traffic}
seconds=12 # in each file
lead_in=4  # encoded before, left out: rate control has to settle; whole groups of pictures of all

need() {
    echo "encode-traffic: $1 is missing: apt-get install ffmpeg" >&2
    exit 1
}
command -v ffmpeg >/dev/null || need ffmpeg
command -v ffprobe >/dev/null || need ffprobe
encoders=$(ffmpeg -hide_banner -loglevel error -encoders)
for encoder in libx264 libvpx-vp9; do
    grep -q " $encoder " <<<"$encoders" || need "the encoder $encoder of ffmpeg"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A textured still that is zoomed into slowly: what a camera sees of the world, to an encoder.
world="mandelbrot=rate=30:maxiter=300:start_x=-0.743643887037:start_y=-0.131825904205"
world="$world:start_scale=0.02:end_scale=0.008:end_pts=450"
# The hand that holds the camera, and the grain of its sensor. A street sways more than a desk.
street="crop=1920:1080:(iw-ow)/2*(1+0.8*sin(t*0.9)):(ih-oh)/2*(1+0.8*sin(t*1.3)),noise=alls=7:allf=t:all_seed=1"
desk="crop=1280:720:(iw-ow)/2*(1+0.3*sin(t*0.7)):(ih-oh)/2*(1+0.3*sin(t*0.4)),noise=alls=4:allf=t:all_seed=1"

# encode FILE WIDTHxHEIGHT CAMERA OPTIONS...: one thread, so that the same ffmpeg makes the same bytes.
encode() {
    local file=$1 size=$2 camera=$3
    shift 3
    ffmpeg -hide_banner -loglevel error -nostdin -y -f lavfi -i "$world:size=$size" -t $((seconds + lead_in)) \
        -vf "$camera,format=yuv420p" "$@" -threads 1 -flags +bitexact -fflags +bitexact "$work/$file"
}

# rows FILE: "seconds type bytes" of each frame after the lead-in, in the order of coding.
rows() {
    local file=$work/$1
    ffprobe -v error -select_streams v -show_entries frame=pts_time,pict_type -of compact=p=0:nk=0 "$file" |
        awk -F'[|=]' '{ for (i = 1; i < NF; i++) { if ($i == "pts_time") t = $(i + 1); if ($i == "pict_type") p = $(i + 1) }
            print t + 0, p }' >"$work/types"
    ffprobe -v error -select_streams v -show_entries packet=pts_time,size -of compact=p=0:nk=0 "$file" |
        awk -F'[|=]' '{ for (i = 1; i < NF; i++) { if ($i == "pts_time") t = $(i + 1); if ($i == "size") s = $(i + 1) }
            print t + 0, s }' |
        awk -v lead="$lead_in" 'NR == FNR { type[$1] = $2; next }
            $1 > lead - 0.001 { print $1 - lead, type[$1], $2 }' "$work/types" -
}

# table LAYERS <ROWS: the file. LAYERS says the layer of each frame in turn, such as "0 2 1 2".
table() {
    echo "frame,pts_ms,type,layer,size_bytes"
    awk -v layers="$1" 'BEGIN { count = split(layers, layer, " ") }
        { printf "%d,%.1f,%s,%d,%d\n", NR - 1, $1 * 1000, $2, layer[(NR - 1) % count + 1], $3 }'
}

# One camera of a live broadcast: H.264, 1080p30, 8 Mbps, a group of pictures every 2 s, two B frames between others.
live() {
    encode live.mp4 2304x1296 "$street" -c:v libx264 -preset veryfast -bf 2 -b_strategy 0 -b-pyramid none \
        -g 60 -keyint_min 60 -sc_threshold 0 -b:v 8M -maxrate 8M -bufsize 8M
    rows live.mp4 | table 0 >"$out/live.csv"
}

vp9=(-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -lag-in-frames 0 -error-resilient 1 -g 120 -keyint_min 120
    -b:v 2.5M -minrate 2.5M -maxrate 2.5M -bufsize 1.25M)

# A face in a conference: VP9, 720p30, 2.5 Mbps, a key frame every 4 s, every other frame needs the one before.
conference() {
    encode conference.webm 1472x828 "$desk" "${vp9[@]}"
    rows conference.webm | table 0 >"$out/conference.csv"
}

# The same in three temporal layers: 7.5, 15 and 30 frames a second of it.
temporal() {
    encode temporal.webm 1472x828 "$desk" "${vp9[@]}" -ts-parameters \
        "ts_number_layers=3:ts_target_bitrate=1250,1750,2500:ts_rate_decimator=4,2,1:ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3"
    rows temporal.webm | table "0 2 1 2" >"$out/temporal.csv"
}

# Three layers of quality: three encodes of one scene without B frames, at 1, 2 and 4 Mbps; a layer is what its encode
# has more than the one below. Real scalable video pays some 10 % for its layers, which these do not.
quality() {
    local rate
    for rate in 1 2 4; do
        encode "quality$rate.mp4" 1472x828 "$desk" -c:v libx264 -preset veryfast -bf 0 -g 60 -keyint_min 60 \
            -sc_threshold 0 -b:v "${rate}M" -maxrate "${rate}M" -bufsize "${rate}M"
        rows "quality$rate.mp4" >"$work/quality$rate"
    done
    echo "frame,pts_ms,type,layer,size_bytes" >"$out/quality.csv"
    paste -d' ' "$work/quality1" "$work/quality2" "$work/quality4" | awk '{
        base = $3; first = $6 > $3 ? $6 - $3 : 1; second = $9 > $6 ? $9 - $6 : 1
        split(base " " first " " second, size, " ")
        for (layer = 0; layer < 3; layer++)
            printf "%d,%.1f,%s,%d,%d\n", NR - 1, $1 * 1000, $2, layer, size[layer + 1]
    }' >>"$out/quality.csv"
}

mkdir -p "$out"
for film in live conference temporal quality; do
    "$film"
    echo "encode-traffic: $out/$film.csv"
done
