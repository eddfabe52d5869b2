#!/usr/bin/env bash
# The first five minutes of the README, line by line as they stand there, in a network
# namespace: each line succeeds and prints what it promises, within its time.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh

gain_privileges "$@"
[ -c /dev/net/tun ] || skip_script "there is no /dev/net/tun"
command -v tshark >/dev/null || skip_script "there is no tshark"
start_namespaces
root=$(cd ../.. && pwd)
work=$netns_work
export XDG_RUNTIME_DIR=$work

# Far beyond what a line takes on a slow machine.
readonly SECONDS_AT_MOST=300
# The bench is interrupted then, as Ctrl-C does: it measures for minutes.
readonly SECONDS_OF_BENCH=8

# A folder like that of a clone in which everything is built: what lines write stays in it.
# `make` finds nothing to do but what `make demo` runs last, and `sudo` has no rights to add.
lay_out() {
    mkdir -p "$work/clone/target/release" "$work/bin"
    ln -s "$root"/{examples,tests,experiments,Makefile} "$work/clone"
    ln -s "$WEFT" "$work/clone/target/release/weft"
    printf '#!/bin/sh\nexec make -s -o build "$@"\n' >"$work/bin/make"
    # shellcheck disable=SC2016 # expanded by the program that is written
    printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
    sed -i "s,exec make,exec $(command -v make)," "$work/bin/make"
    chmod +x "$work/bin"/*
    make_namespace n
    # Link-local addresses, which an interface has where nothing was set otherwise.
    in_ns n sysctl -qw net.ipv6.conf.default.addr_gen_mode=0
}

# The lines of the block, without remarks; a line that ends with a backslash is one with the next.
lines() {
    sed -n '/^## The first five minutes/,/^## /{/^```$/,/^```$/{/^```$/d;p}}' "$root/README.md" |
        sed -z 's/\\\n *//g' | sed 's/ *#.*//' | awk 'NF && !/^```/'
}

# run LINE LOG: as a user would type it, with what lines before have set.
run() {
    local most=(--kill-after=60 "$SECONDS_AT_MOST")
    [[ $1 != *' bench '* ]] || most=(--preserve-status --signal=INT "${most[0]}" "$SECONDS_OF_BENCH")
    # shellcheck disable=SC2016 # expanded by the inner shell
    in_ns n env -u CARGO_TARGET_DIR "PATH=$work/bin:$PATH" "weft=${weft:-}" timeout "${most[@]}" \
        bash -c 'set -o pipefail; cd "$1" && eval "$2"' bash "$work/clone" "$1" >"$2" 2>&1
}

# begin LINE LOG: a line that goes on in the background. A node is ready before the next is typed.
begin() {
    run "${1%&}" "$2" &
    case $1 in
        *' run '*) wait_until 60 grep -q 'is ready' "$2" ;;
        *) sleep 1 && kill -0 $! ;;
    esac
}

# said LINE LOG: what the line promises is there.
said() {
    case $1 in
        'make demo') grep -q 'at full bursts one core carries' "$2" &&
            grep -q '^sessions: a control plane (weft smf) set up 1,000 users by PFCP' "$2" && ! grep -q '^FAILED' "$2" ;;
        *' check '*) grep -q -- '->' "$2" ;;
        *' schema functions'*) grep -q '^counter ' "$2" ;;
        *' replay '*) [ -s /tmp/out.pcap ] ;;
        # On a busy machine nothing was measured until then.
        *' bench '*) [ -s "$work/clone/weft-results/report.html" ] || grep -q 'interrupted before' "$2" ;;
        *' simulate '*) grep -q '^kept: ' "$2" ;;
        *' show '*) grep -q 'cycles/packet' "$2" ;;
        *' trace '*) [ "$(grep -c '^packet ' "$2")" = 3 ] ;;
        *' capture '*) [ "$(grep -c 'ICMPv6' "$2")" = 3 ] ;;
        *) [ -s "$2" ] ;;
    esac
}

type_in() {
    local line=$1 log=$work/log
    case $line in
        *'&')
            log=$work/log-$RANDOM
            begin "$line" "$log"
            ;;
        *' bench '*) run "$line" "$log"; said "$line" "$log" ;;
        *) run "$line" "$log" && said "$line" "$log" ;;
    esac || {
        tail -n 15 "$log"
        return 1
    }
}

lay_out
mapfile -t all < <(lines)
check "README: there are lines to type" [ "${#all[@]}" -ge 12 ]
for line in "${all[@]}"; do
    if [[ $line =~ ^weft=(.*)$ ]]; then
        weft=${BASH_REMATCH[1]}
        check "README: $line" [ -x "$work/clone/$weft" ]
    else
        try "README: $line" type_in "$line"
    fi
done
close_report
