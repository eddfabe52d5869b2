#!/usr/bin/env bash
# Three members of etcd, two replicas of a controller, a gateway and three stations, and 1,000
# users with traffic: users move while the leader, members of etcd and nodes are killed, stopped, cut off
# and filled up in turn, and clocks are set. Another replica leads within seconds, ownership of
# users is linearizable in all that was seen, and no packet is lost but where a node dies.
#
#   ROUNDS=200 site.sh    that many faults
#   FAULT='leader killed' site.sh   that one only
#   SEED=7 site.sh        the same choices again, but not the same moments
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/etcd_site.sh
. ../lib/etcd_site.sh

begin_site "$@"
users=${USERS:-1000} rate=${RATE:-1000} rounds=${ROUNDS:-12}
command -v etcd >/dev/null || skip_script "there is no etcd (Debian package etcd-server)"

lay_out && lay_out_etcd &&
    in_ns srv ip neighbour replace 198.51.100.254 dev eth0 lladdr 02:00:00:00:12:01 nud permanent &&
    write_files 200 2000 && write_third &&
    printf 'membership: {lease: 4, adopt: true}\ntransport: {silence: 3000}\n' >>"$work/site.yaml" &&
    write_commands && write_etcd_files

# launch NAME: starts a process that is ended by finish.
launch() {
    sh "$work/$1.start" >"$work/$1.out" 2>"$work/$1.log" &
    echo $! >"$work/$1.pid"
}

finish() {
    local file
    for file in "$work"/*.pid; do
        [ -e "$file" ] && kill -9 "$(<"$file")" 2>/dev/null
        rm -f "$file"
    done
}

# leads NAME: the replica leads.
leads() {
    curl -sS --max-time 5 --unix-socket "$work/weft/$1.controller" http://weft/v1/controller | grep -q "\"leader\":\"$1\""
}

# replicas_lead_clients: clients find the leader by any replica, and strangers find no etcd.
replicas_lead_clients() {
    local member name leader=control-a address=192.0.2.8
    local api="--token-file $work/api-token"
    launch control-a && launch control-b || return 1
    wait_until 60 grep -q 'no member of etcd answers' "$work/control-a.log" || return 1
    for member in "${members[@]}"; do launch "etcd-$member"; done
    # shellcheck disable=SC2016 # expanded when it is called
    wait_until 60 eval 'leads control-a || leads control-b' || { cat "$work"/control-*.log; return 1; }
    leads control-a || { leader=control-b address=192.0.2.1; }
    in_ns ctl curl -sS -o /dev/null -w '%{http_code} %{redirect_url}\n' -H "Authorization: Bearer $(<"$work/api-token")" \
        "http://$address:9472/v1/nodes?x=1" | tee "$work/said"
    grep -q '^307 http://192.0.2.[18]:9472/v1/nodes?x=1$' "$work/said" &&
        in_ns ctl "$WEFT" ctl nodes --controller "http://$address:9472" $api | tee "$work/said" &&
        grep -q 'station-b' "$work/said" &&
        in_ns ctl "$WEFT" ctl nodes --controller "http://192.0.2.99:1,http://$address:9472" $api | grep -q station-a &&
        in_ns ctl "$WEFT" ctl nodes --controller "$leader" | grep -q station-a || return 1
    for name in control-a control-b; do
        [ "$name" = "$leader" ] || "$WEFT" ctl nodes --controller "$name" 2>"$work/said"
    done
    cat "$work/said"
    grep -qF "$leader leads, at http://" "$work/said" && [ "$(wc -l <"$work/said")" -eq 1 ] || return 1
    # Who has no certificate of the authority does not get at records.
    ! in_ns ctl2 curl -sS -k --max-time 5 https://192.0.2.11:2379/v3/kv/range -d '{"key": "Lw=="}' 2>&1 || return 1
    ! in_ns ctl2 curl -sS --max-time 5 http://192.0.2.11:2379/v3/kv/range -d '{"key": "Lw=="}' 2>&1 | grep kvs
}

# values_of_others: what is in etcd and not ours is told in one line.
values_of_others() {
    local leader=control-a
    leads control-a || leader=control-b
    in_ns ctl env ETCDCTL_API=3 etcdctl --cacert "$work/etcd/ca.pem" --cert "$work/etcd/client.pem" \
        --key "$work/etcd/client-key.pem" --endpoints https://192.0.2.11:2379 put /weft/site/log/0000000000000009 hello &&
        kill -9 "$(<"$work/$leader.pid")" || return 1
    wait_until 60 grep -qF 'this replica cannot lead' "$work"/control-?.log
    grep -h 'this replica cannot lead' "$work"/control-?.log | head -1 | tee "$work/said"
    grep -qF 'state etcd /weft/site/log/0000000000000009: damaged: ' "$work/said"
}

they_meet_with_faults() {
    finish
    rm -rf "$work"/etcd/data-*
    ../lib/etcd_site.py "$work" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$rounds" ${SEED:+"$SEED"} >"$work/faults" 2>&1
    local status=$?
    note "$(cat "$work/faults")"
    return "$status"
}

# The history of all that was seen is one of registers, and the same with one change is not.
ownership_is_linearizable() {
    local changed
    "$WEFT" simulate site --check "$work/history" | tee "$work/said"
    [ "${PIPESTATUS[0]}" -eq 0 ] && grep -q '^kept: one owner, linearizable' "$work/said" || return 1
    # Each user has moved.
    [ "$(sed -n 's/.*, \([0-9]*\) ownerships.*/\1/p' "$work/said")" -gt $((2 * users)) ] || return 1
    for changed in forgotten_end older_answer other_owner; do
        "$changed" <"$work/history" >"$work/changed" && ! cmp -s "$work/history" "$work/changed" || return 1
        "$WEFT" simulate site --check "$work/changed" >"$work/out" 2>"$work/err"
        [ $? -eq 1 ] || { echo "$changed is not found"; return 1; }
        cat "$work/err"
        [ "$(wc -l <"$work/err")" -eq 1 ] || return 1
    done
}

# forgotten_end: no station ever says that it has given a user up.
forgotten_end() {
    jq -c 'select(has("owns") | not), select(.owns != null)'
}

# older_answer: the last answer says what the first one about its user said.
older_answer() {
    jq -sc '[.[] | select(has("asked"))] as $all | ($all | last) as $last
        | ($all | map(select(.user == $last.user)) | first) as $first
        | .[], ($last | .asked += 1 | .answered += 1 | .owner = $first.owner | .owned = $first.owned
            | .epoch = $first.epoch)'
}

# other_owner: one answer names another station.
other_owner() {
    jq -sc '[.[] | select(has("asked") and .owner and .owned > 0)] as $all
        | .[], ($all | last | .owner = (if .owner == 2 then 3 else 2 end))'
}

[ -n "$faketime" ] || note "times of day are those of this machine: there is no libfaketime (Debian package)"
check "a replica waits for etcd, and sends clients to the one that leads" replicas_lead_clients
check "values of others in etcd are told in one line" values_of_others
check "leaders, members of etcd and nodes meet with faults in turn" they_meet_with_faults
check "ownership in all that was seen is linearizable, and a changed history is not" ownership_is_linearizable
close_report
