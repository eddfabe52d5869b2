#!/usr/bin/env bash
# A controller, a gateway and two stations, each a process: users get their owners, go
# from station to station by order and come back, and a controller or a station that is
# killed takes nobody along. Without traffic: what packets see is tested with the node.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh

work=$(mktemp -d)
# end: ends what was started. A check is a process of its own: what outlives it is in files.
end() {
    local pid
    for pid in "$work"/*.pid; do
        kill -9 "$(<"$pid")" 2>/dev/null
    done
    rm -rf "$work"
}
trap end EXIT
export XDG_RUNTIME_DIR=$work
users=200

# Ports out of the way of whoever else runs here.
base=$((20000 + RANDOM % 10000))
printf 'nodes-know-this-token' >"$work/node-token"
printf 'clients-know-this-token' >"$work/api-token"
sed -e "s/:9471/:$base/" -e 's/:9472/:0/' -e "s/:9473/:$((base + 1))/" -e "s/:9474/:$((base + 2))/" \
    -e "s/:9475/:$((base + 3))/" -e "s/count: 10000/count: $users/" ../../examples/controller.yaml >"$work/site.yaml"
sed -e 's/"net_af_packet\([01]\),iface=[a-z]*"/"net_null\1,no-rx=1"/' -e 's/first: 1}/first: 1, added: 10}/' \
    ../../examples/handover-anchor.yaml >"$work/gateway.yaml"
sed -e 's/"net_af_packet\([01]\),iface=[a-z]*"/"net_null\1,no-rx=1"/' -e 's/station-2/station-a/' \
    -e 's/first: 1}/first: 1, added: 10}/' ../../examples/handover-station.yaml >"$work/station-a.yaml"
printf 'limits: {bearers: 10}\n' >>"$work/station-a.yaml"
sed -e 's/station-a/station-b/' -e 's/^  node: 2/  node: 3/' -e 's/{node: 3, address: 10.1.0.2}/{node: 2, address: 10.1.0.1}/' \
    -e 's/10.1.0.1\/24/10.1.0.2\/24/' -e 's/^  address: 10.1.0.1/  address: 10.1.0.2/' \
    "$work/station-a.yaml" >"$work/station-b.yaml"

# launch NAME COMMAND...: starts a process, and waits until it says that it is ready.
launch() {
    local name=$1 _
    shift
    : >"$work/$name.out"
    "$@" >"$work/$name.out" 2>"$work/$name.log" &
    echo $! >"$work/$name.pid"
    for _ in $(seq 1200); do
        grep -q ' is ready' "$work/$name.out" && return 0
        sleep 0.05
    done
    cat "$work/$name.log"
    return 1
}

# node NAME NUMBER
node() {
    launch "$1" "$WEFT" run "$work/$1.yaml" --polling adaptive --handover-controller "127.0.0.1:$base" \
        --handover-listen "127.0.0.1:$((base + $2))" --handover-token-file "$work/node-token"
}

controller() {
    launch site "$WEFT" control "$work/site.yaml"
}

# crash NAME: ends a process without a word, and waits until it has given its sockets back.
crash() {
    local pid _
    pid=$(<"$work/$1.pid")
    kill -9 "$pid" || return 1
    for _ in $(seq 1200); do
        # One that nobody has waited for yet has nothing any more.
        grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" || return 0
        sleep 0.05
    done
    echo "$1 does not end"
    return 1
}

ask() {
    curl -sS --max-time 30 --unix-socket "$work/weft/site.controller" "http://weft$1"
}

# settled STATION COUNT: waits until the station has so many users, and nobody moves.
settled() {
    local _
    for _ in $(seq 1200); do
        ask /v1/nodes >"$work/nodes" 2>/dev/null
        jq -e --arg name "$1" --argjson users "$2" 'any(.[]; .name == $name and .users == $users) and
            all(.[]; .moving == 0 and .connected and .incarnation != null)' "$work/nodes" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    cat "$work/nodes" "$work"/*.log
    return 1
}

all_get_owners() {
    controller && node gateway 1 && node station-a 2 && node station-b 3 && settled station-a "$users"
}

# What commands have added moves: a bearer of a user of the configuration, and a whole user.
what_commands_added_moves() {
    local added=(bearer add 70 --like ue --user 1001 --ipv4 10.45.9.5)
    "$WEFT" ctl "${added[@]}" --node gateway && "$WEFT" ctl "${added[@]}" --node station-a &&
        "$WEFT" ctl user add 1001 --node station-a --anchor gateway && settled station-a $((users + 1)) || return 1
    "$WEFT" ctl bearer add 9 --of ue-2 --protocol 6 --node station-a || return 1
    for user in 1001 3; do
        "$WEFT" ctl handover "$user" --to station-b && ask "/v1/users/$user" | grep -q '"owner":"station-b"' || return 1
    done
    settled station-a $((users - 1)) || return 1
    for bearer in 9 70; do
        "$WEFT" ctl bearer show "$bearer" --node station-b && ! "$WEFT" ctl bearer show "$bearer" --node station-a || return 1
    done
    says 2 'no command has added such a bearer' bearer remove 9 --node station-a &&
        "$WEFT" ctl bearer remove 9 --node station-b && "$WEFT" ctl handover 3 --to station-a &&
        "$WEFT" ctl user remove 1001 && settled station-a "$users" &&
        says 2 'there is no such user' users 1001 && ! "$WEFT" ctl bearer show 70 --node gateway
}

one_moves() {
    "$WEFT" ctl handover 7 --to station-b | tee "$work/said" && grep -q '^user 7 is at station-b after' "$work/said" &&
        ask /v1/users/7 | grep -q '"owner":"station-b"' && settled station-a $((users - 1))
}

all_move_and_come_back() {
    "$WEFT" ctl handover --all-from station-a --to station-b | tee "$work/said" &&
        grep -q "^$((users - 1)) users went from station-a to station-b in" "$work/said" && settled station-b "$users" &&
        "$WEFT" ctl handover --all-from station-b --to station-a && settled station-a "$users"
}

controller_is_killed() {
    "$WEFT" ctl handover --all-from station-a --to station-b >"$work/said" 2>&1 &
    local ordered=$! _
    for _ in $(seq 3000); do
        ask /v1/handovers | grep -q "\"allFrom\":\"station-a\",\"users\":$users," && break
        sleep 0.02
    done
    crash site && controller || return 1
    # It goes on with the order, and whoever waits for that still does.
    wait "$ordered" || grep -q 'users are not at station-b' "$work/said" ||
        { cat "$work/said" && return 1; }
    "$WEFT" ctl handover --all-from station-a --to station-b && settled station-b "$users"
}

station_is_killed() {
    crash station-b && node station-b 3 && settled station-b "$users"
}

nodes_users_and_events_are_shown() {
    local shown
    "$WEFT" ctl nodes | tee "$work/shown" && grep -Eq '^station-a +connected .* s ago +2 +' "$work/shown" &&
        shown=$("$WEFT" ctl nodes --json | jq -r '.[] | select(.name == "station-a") | .users') &&
        [ "$shown" = "$users" ] || return 1
    "$WEFT" ctl users 7 | tee "$work/shown" && grep -Eq '^station-a +- +gateway +Settled +7 ' "$work/shown" &&
        [ "$("$WEFT" ctl users --owner station-a --count 1000 --json | jq length)" = "$users" ] || return 1
    timeout 60 "$WEFT" ctl events --count 2 >"$work/shown" &
    local follower=$! _
    # Until it listens, and a move has been told.
    for _ in $(seq 100); do
        "$WEFT" ctl handover 9 --to station-b && "$WEFT" ctl handover 9 --to station-a || return 1
        kill -0 "$follower" 2>/dev/null || break
    done
    wait "$follower" && cat "$work/shown" && grep -Eq '^[0-9.]+  (ready|moved)  user 9  station-[ab]$' "$work/shown"
}

# says STATUS TEXT COMMAND...: one line, of which the text is a part.
says() {
    local status=$1 text=$2 said
    shift 2
    said=$("$WEFT" ctl "$@" 2>&1 >/dev/null)
    [ $? -eq "$status" ] && [ "$(wc -l <<<"$said")" = 1 ] && grep -qF "$text" <<<"$said" && return
    echo "$*: $said"
    return 1
}

mistakes_are_one_line() {
    says 2 'there is no such user' users 100000 && says 2 'there is no node `nobody`' users --owner nobody &&
        says 2 'there is no node `nobody`' gone nobody --successor station-a &&
        says 2 'a node cannot be its own successor' gone station-a --successor station-a &&
        says 2 'no controller named nowhere is running' nodes --controller nowhere
}

a_node_is_drained() {
    "$WEFT" ctl drain station-b | tee "$work/said" && settled station-a "$users" &&
        grep -Eq "^$users users left station-b in [0-9.]+ s: $users to station-a; it takes no further ones$" "$work/said" &&
        says 2 'it is cordoned' handover 7 --to station-b && says 2 'no other node can take the users' drain station-a &&
        "$WEFT" ctl nodes | grep -q '^station-b  *connected, cordoned ' || return 1
    crash site && controller && settled station-a "$users" && says 2 'it is cordoned' handover 7 --to station-b &&
        "$WEFT" ctl uncordon station-b && "$WEFT" ctl handover 7 --to station-b && "$WEFT" ctl cordon station-a &&
        says 2 'it is cordoned' handover 7 --to station-a && "$WEFT" ctl uncordon station-a &&
        says 2 'there is no node `nowhere`' drain nowhere
}

# All but one are at station-a.
users_are_spread() {
    local half=$((users / 2))
    "$WEFT" ctl rebalance --by users --dry-run | tee "$work/said" &&
        grep -Eq "^station-a +$((users - 1)) +[0-9.]+ % +$half +100.0 %$" "$work/said" &&
        settled station-a $((users - 1)) || return 1
    "$WEFT" ctl rebalance --by users | tee "$work/said" &&
        grep -Eq "^$((half - 1)) users moved in [0-9.]+ s$" "$work/said" &&
        settled station-a "$half" && settled station-b "$half" && says 2 'invalid value' rebalance --by sympathy &&
        "$WEFT" ctl cordon station-b && says 2 'there are no two stations' rebalance && "$WEFT" ctl uncordon station-b
}

check "users get their owners" all_get_owners
check "nodes, users and events are shown" nodes_users_and_events_are_shown
check "mistakes are one line each" mistakes_are_one_line
check "what commands have added moves" what_commands_added_moves
check "a user goes by order" one_moves
check "all users of a station go and come back" all_move_and_come_back
check "a killed controller goes on where it was" controller_is_killed
check "a station that was killed has its users again" station_is_killed
check "a node is drained, and takes no further users" a_node_is_drained
check "users are spread over the stations" users_are_spread
close_report
