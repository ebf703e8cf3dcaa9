#!/usr/bin/env bash
# What Squall is compared with, where this user may install it: SRT's and RIST's tools, and what Multipath TCP needs.
# What stays missing is left out of the comparison by name.
set -euo pipefail

lacking=()
command -v srt-live-transmit >/dev/null || lacking+=(srt-tools)
command -v ristsender >/dev/null || lacking+=(rist-tools)
command -v ip >/dev/null || lacking+=(iproute2)
[ ${#lacking[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # A fresh machine has no package lists.
    apt-get update -qq >/dev/null || echo "cannot look for packages" >&2
    for package in "${lacking[@]}"; do
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "cannot install $package" >&2
    done
else
    echo "not installed: ${lacking[*]} (apt-get install ${lacking[*]})" >&2
fi
