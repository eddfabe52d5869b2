#!/usr/bin/env bash
# `weft upgrade site`: a controller takes the nodes of a site of four, an anchor and three base
# stations, one after another through an upgrade, with traffic of all users in both directions: each
# packet arrives once and in order. First with users that go to other stations and come back, then
# in place, then with a node whose configuration is broken.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/handover_site.sh
. ../lib/handover_site.sh

begin_site "$@"
users=20 rate=400
traffic=$(cd ../lib && pwd)/handover_traffic.py
nodes=(gateway station-a station-b station-c)

# add_station_c: one more station than the site of handover_site.sh has, with a radio of its own.
add_station_c() {
    local name
    make_namespace sc
    in_ns sc sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    attach sc ran ran 8
    attach sc oam oam 9 192.0.2.5
    make_link sc radio 02:00:00:00:13:01 ue rc 02:00:00:00:13:02 1500
    "$WEFT" ctl certificates issue --folder "$work/certificates" station-c >/dev/null || return 1
    sed -e 's/station-a/station-c/g' -e 's/^  node: 2/  node: 4/' -e 's/10\.1\.0\.1\b/10.1.0.3/' \
        -e 's|^  peers:|&\n    - {node: 2, address: 10.1.0.1}|' "$work/station-a.yaml" >"$work/station-c.yaml"
    for name in gateway station-a station-b; do
        sed -i 's|^  peers:|&\n    - {node: 4, address: 10.1.0.3}|' "$work/$name.yaml"
    done
    sed -i 's|^  station-b: .*|&\n  station-c: {number: 4, address: "192.0.2.5:9473"}|' "$work/site.yaml"
    write_command station-c sc 192.0.2.5
}

# keep NAME: starts a node as a service manager does: again after it has failed.
keep() {
    : >"$work/$1.out"
    {
        until sh "$work/$1.start" >>"$work/$1.out" 2>>"$work/$1.log"; do sleep 0.2; done
    } >/dev/null 2>&1 &
    wait_until 60 grep -q ' is ready' "$work/$1.out" || { cat "$work/$1.log"; return 1; }
}

weft() { "$WEFT" "$@" --controller site; }

all_are_there() {
    local name
    lay_out && write_files && write_commands && add_station_c && start site || return 1
    for name in "${nodes[@]}"; do keep "$name" || return 1; done
    wait_until 60 settled station-a
}

begin_traffic() {
    rm -f "$work/stop"
    "$traffic" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep 0.3
}

# end_traffic: nothing was lost or doubled, and no gate gave up waiting.
end_traffic() {
    local status=0 timeout
    sleep 0.3
    touch "$work/stop"
    wait "$sender" || status=1
    cat "$work/traffic"
    for timeout in uplink_gate_timeout downlink_gate_timeout release_timeout context_lost; do
        [ "$(counted "$timeout")" = 0 ] || { echo "$timeout $(counted "$timeout")" && status=1; }
    done
    return "$status"
}

# processes NODES...: the programs that run them.
processes() {
    local name
    for name in "$@"; do
        pgrep -f " run $work/$name.yaml" | sort | tail -n 1
    done
}

# are_others BEFORE NODES...: each node runs in another process than before, and only there.
are_others() {
    local before=$1 name
    shift
    for name in "$@"; do
        [ "$(pgrep -fc " run $work/$name.yaml")" -eq 1 ] || { pgrep -fa "$work/$name.yaml" && return 1; }
        ! grep -qx "$(processes "$name")" <<<"$before" || { echo "$name has not changed" && return 1; }
    done
}

# upgraded NODES...: an upgrade that says so of them, as `weft get upgrade` does.
upgraded() {
    local name
    cat "$work/said"
    weft get upgrade | tee "$work/state"
    grep -q 'is complete$' "$work/state" || return 1
    for name in "$@"; do
        grep -Eq "^$name +done +[0-9.]+ to [0-9.]+" "$work/state" || return 1
    done
    weft wait --for upgrade
}

by_draining() {
    local before status=0
    before=$(processes "${nodes[@]}")
    begin_traffic
    weft upgrade site --method drain --wait --timeout 120 >"$work/said" 2>&1 || status=1
    end_traffic || status=1
    upgraded station-a station-b station-c || status=1
    grep -q '^gateway is skipped: it is the anchor of users' "$work/said" || status=1
    grep -Eq '^gateway +skipped' "$work/state" || status=1
    are_others "$before" station-a station-b station-c || status=1
    wait_until 20 settled station-a || { weft get nodes && status=1; }
    ! grep -q ', cordoned' <<<"$(weft get nodes)" || status=1
    return "$status"
}

in_place() {
    local before status=0
    before=$(processes "${nodes[@]}")
    begin_traffic
    weft upgrade site >"$work/said" 2>&1 || status=1
    weft upgrade site >"$work/again" 2>&1 && status=1
    grep -q 'an upgrade is under way' "$work/again" || { cat "$work/again" && status=1; }
    # Nodes whose users move are told again, and users move when their nodes are there.
    move station-b 7 && move station-c 7 && move station-a 7 || status=1
    weft wait --for upgrade --timeout 120 >>"$work/said" 2>&1 || status=1
    end_traffic || status=1
    upgraded "${nodes[@]}" || status=1
    are_others "$before" "${nodes[@]}" || status=1
    wait_until 20 settled station-a || { weft get nodes && status=1; }
    return "$status"
}

# The second node cannot read its configuration: the first one is upgraded, the others stay.
one_is_broken() {
    local before code status=0
    before=$(processes station-a station-c)
    sed -i.good 's/from full -> radio/from ful -> radio/' "$work/station-a.yaml"
    begin_traffic
    weft upgrade site --wait >"$work/said" 2>&1
    code=$?
    end_traffic || status=1
    mv "$work/station-a.yaml.good" "$work/station-a.yaml"
    cat "$work/said"
    [ "$code" -eq 1 ] || { echo "exit code $code" && status=1; }
    grep -Eq 'weft: 1 node upgraded, and no further: station-a: .*station-a.yaml:[0-9]+:[0-9]+: .*ful' "$work/said" ||
        status=1
    weft get upgrade | tee "$work/state"
    grep -Eq '^gateway +done' "$work/state" && grep -Eq '^station-a +failed .*ful' "$work/state" &&
        [ "$(grep -c '^station-[bc] *waiting' "$work/state")" -eq 2 ] || status=1
    [ "$(processes station-a station-c)" = "$before" ] || { echo "a process has changed" && status=1; }
    weft get upgrade -o json | jq -e '.phase == "failed" and (.nodes | length) == 4' >/dev/null || status=1
    return "$status"
}

# Only those that are named, and none behind the one in progress once that is said.
it_is_cancelled() {
    local status=0
    weft upgrade site --node station-b --node station-c >"$work/said" 2>&1 || status=1
    weft upgrade site --cancel || status=1
    weft wait --for upgrade --timeout 60 2>&1 | tee -a "$work/said"
    grep -q 'it was cancelled' "$work/said" || status=1
    weft upgrade site --cancel >"$work/said" 2>&1 && status=1
    grep -q 'no upgrade is under way' "$work/said" || { cat "$work/said" && status=1; }
    weft upgrade site --node nowhere 2>&1 | tee "$work/said"
    grep -q 'there is no node .nowhere.' "$work/said" || status=1
    return "$status"
}

one_is_away() {
    local status=0
    kill "$(processes station-c)"
    wait_until 20 is_away
    weft upgrade site --node station-c >"$work/said" 2>&1 && status=1
    cat "$work/said"
    grep -q 'station-c is not connected: start it' "$work/said" || status=1
    return "$status"
}

is_away() {
    weft get nodes | grep -Eq '^station-c +not connected'
}

check "users get their owners" all_are_there
check "nodes are upgraded without their users, who come back, and each packet arrives once and in order" by_draining
check "nodes go over with their users while some move, and each packet arrives once and in order" in_place
check "a node that cannot be upgraded ends it, with the reason, and nothing is lost" one_is_broken
check "an upgrade is ended by an order" it_is_cancelled
check "a node that is away is not upgraded" one_is_away
close_report
