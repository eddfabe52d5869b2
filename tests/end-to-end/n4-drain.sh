#!/usr/bin/env bash
# A node behind N4 is drained: all its PFCP sessions go to a spare node, under traffic in tunnels of
# IPv4 and IPv6. No datagram is lost, doubled or out of order, each octet is in the usage reports
# once, and the control plane sees one association, the same F-TEIDs and one Recovery Time Stamp. Then
# both nodes and a controller die in the middle of moves: the sessions are at one node afterwards.
#
#   SESSIONS=10000 n4-drain.sh    with so many sessions
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pair.sh
. ../lib/pair.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pfcp.sh
. ../lib/pfcp.sh
# shellcheck source-path=SCRIPTDIR source=../lib/n4.sh
. ../lib/n4.sh

SESSIONS=${SESSIONS:-300} # of `weft smf`, beside those with traffic
RATE=${RATE:-100}         # datagrams a second, of each user and each way
N3_4=10.0.0.251 N3_6=2001:db8:a::251
STATION4=10.0.0.2 STATION6=2001:db8:a::2
UE1=10.45.1.7 UE2=10.45.1.8 UE3=10.45.1.9
declare -A side_of=([gateway-a]=na [gateway-b]=nb) address_of=([gateway-a]=192.0.2.2 [gateway-b]=192.0.2.3)

gain_privileges "$@"
need_locked_memory
need_scapy
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
begin_pair

lay_out() {
    local side
    lay_out_pair || return 1
    make_namespace c
    make_link c oam 02:00:00:00:10:01 net oam-c 02:00:00:00:10:02 1600
    in_ns net ip link set oam-c master oam
    in_ns c ip address add 192.0.2.50/24 dev oam
    in_ns ctl ip address add "$UP4/32" dev lo
    in_ns ctl ip route add 10.9.0.0/24 via 192.0.2.50
    for side in "$SMF4" "$OTHER4"; do in_ns c ip address add "$side/32" dev lo; done
    for side in na nb c; do in_ns "$side" ip route replace "$UP4/32" via 192.0.2.1; done
    in_ns a ip address add "$STATION4/24" dev eth0
    in_ns a ip address add "$STATION6/64" dev eth0 nodad
    in_ns b ip address add "$ADDRESS_B4/24" dev eth0
    in_ns b ip route add 10.45.0.0/16 via 198.51.100.251
}

# write_node NAME LAST NUMBER
write_node() {
    user_plane "$work/$1.yaml" "$1" "${address_of[$1]}" "$2" 10.45.1.0/24 \
        "memory: {packets: 16383}
limits: {users: $((SESSIONS + 100))}
site: {node: $3, tls: {certificate: certificates/$1.pem, key: certificates/$1-key.pem, authority: certificates/authority.pem, controller: site}}" \
        "2001:db8:a::$2"
    sed -i "s|^  proxies:.*|&\n  limits: {sessions: $((SESSIONS + 50))}|" "$work/$1.yaml"
}

write_files() {
    write_site || return 1
    # Nodes register: no file has them.
    sed -i '/^nodes:/,$d' "$work/site.yaml"
    write_node gateway-a 251 1
    write_node gateway-b 252 2
    cat >>"$work/site.yaml" <<YAML
membership: {lease: 10}
n4:
  listen: [$UP4]
  peers: [10.9.0.0/24]
  register: true
  timers: {heartbeat: 500, t1: 500, n1: 3, lease: 5}
YAML
    load_file "$work/smf.yaml" "$OTHER4" "$STATION4" "$SESSIONS" 600 "${SMF_RATE:-20}" \
        "{establish: 0, delete: 0, idle: 0, serviceRequest: 0, handover: 0, query: 1}"
}

# launch NAME [--spare]: a node that the controller knows.
launch() {
    local name=$1 side=${side_of[$1]} address=${address_of[$1]}
    shift
    rm -f "$work/$name.log"
    start_in "$side" "$work/$name.log" env WEFT_SOCKET="$work/$name.sock" "$WEFT" run "$work/$name.yaml" "$@" \
        --handover-controller 192.0.2.1:9471 --handover-listen "$address:9473" --handover-token-file "$work/node-token" \
        --handover-advertise "$address:9473"
    running[$name]=$started
    wait_until 60 grep -qE "^node $name is (ready|spare)" "$work/$name.log" || { cat "$work/$name.log" && return 1; }
}

kill_and_wait() { kill -9 "${running[$1]}" && wait_until 10 is_gone "${running[$1]}"; }

ctl() { "$WEFT" ctl "$@" --controller site; }
of_site() { curl -sS --max-time 5 --unix-socket "$work/weft/site.controller" "http://weft/v1/$1"; }

# so PATH FILTER: it is so within some time.
so() {
    wait_until 60 is_so "$1" "$2" && return
    of_site "$1"
    return 1
}

is_so() { of_site "$1" | jq -e "$2" >/dev/null; }

# --- traffic --------------------------------------------------------------------

declare -a datagrams

# start_users: numbered datagrams of both users, both ways.
start_users() {
    local ue port
    rm -f "$work/go"
    datagrams=()
    for ue in "$UE1:7001" "$UE2:7002"; do
        IFS=: read -r ue port <<<"$ue"
        start_in b "$work/b.$port" ../lib/upgrade_traffic.py "$ADDRESS_B4" "$port" "$ue" "$port" "$RATE" "$work/go"
        datagrams+=("$started")
        start_in a "$work/a.$port" ../lib/upgrade_traffic.py "$ue" "$port" "$ADDRESS_B4" "$port" "$RATE" "$work/go"
        datagrams+=("$started")
    done
    wait_until 20 are_bound && touch "$work/go"
}

are_bound() { [ "$(in_ns a ss -Hlun | grep -c ':700[12] ')" = 2 ] && [ "$(in_ns b ss -Hlun | grep -c ':700[12] ')" = 2 ]; }

end_users() {
    local one
    sleep 0.5
    kill "${datagrams[@]}"
    for one in "${datagrams[@]}"; do wait_until 20 is_gone "$one"; done
}

# nothing_is_lost: every datagram came once, and in order.
nothing_is_lost() {
    local port file bad=0 sent came
    for port in 7001 7002; do
        for file in "$work/a.$port" "$work/b.$port"; do
            note "$(basename "$file"): $(tail -n 1 "$file")"
            tail -n 1 "$file" | jq -e '.twice == 0 and .behind == 0 and .came > 100' >/dev/null || bad=1
        done
        sent=$(tail -qn 1 "$work/a.$port" "$work/b.$port" | jq .sent | paste -sd+ | bc)
        came=$(tail -qn 1 "$work/a.$port" "$work/b.$port" | jq .came | paste -sd+ | bc)
        [ "$sent" -eq "$came" ] || { echo "sent $sent, came $came" && bad=1; }
    done
    return "$bad"
}

carry() { wait_until 60 in_ns a ping -q -c 1 -W 1 -I "$UE1" "$ADDRESS_B4" && lossless a -I "$UE1" "$ADDRESS_B4" && lossless a -I "$UE2" "$ADDRESS_B4"; }

# as_before RECOVERY: to the control plane nothing has happened.
as_before() {
    equal "Recovery Time Stamp" "$1" "$(of_recovery)" && so n4 '.nodes[0].state == "up" and .nodes[0].associations >= 1' &&
        ! events smf '.event == "set-deletion" or .event == "association-update" or .event == "release"' | grep .
}

# drained FROM TO: under traffic.
drained() {
    local recovery
    recovery=$(of_recovery)
    start_users && sleep 1
    ctl drain "$1" >"$work/drained" 2>&1 || { cat "$work/drained" "$work/$1.log" "$work/$2.log" && end_users && return 1; }
    note "$(cat "$work/drained")"
    sleep 2
    end_users
    nothing_is_lost && so shares '.[0].holder == "'"$2"'"' && as_before "$recovery" || return 1
    note "$(grep -o 'another node has the share.*' "$work/$1.log" | head -n 1)"
}

# ends NAME: the drained node ends by itself, and does not start with its addresses again.
ends() { wait_until 70 is_gone "${running[$1]}" || { tail -n 5 "$work/$1.log" && return 1; }; }

does_not_come_back() {
    in_ns na env WEFT_SOCKET="$work/gateway-a.sock" timeout 30 "$WEFT" run "$work/gateway-a.yaml" >"$work/refused" 2>&1
    equal "exit code" 2 "$?" || return 1
    grep -q 'share of N4 is at gateway-b' "$work/refused"
}

# packets_wait: three packets wait for an idle session.
packets_wait() {
    accepted smf "$(establish ue3 "$UE3" "$STATION4" 0x6003)" || return 1
    accepted smf '{"do": "modify", "session": "ue3", "rules": {"updateFar": [{"id": 2, "apply": ["BUFF", "NOCP"]}]}}' || return 1
    in_ns b ping -q -c 3 -i 0.2 -W 1 "$UE3" >"$work/ping"
    reported smf '.event == "report" and .session == "ue3" and (.types | index("DLDR"))'
}

# waiting_are_counted NODE: by the command, and by the drop reason at the node.
waiting_are_counted() {
    grep -q '3 packets that waited for idle bearers or functions were dropped (`taken_over`)' "$work/drained" &&
        so shares '.[0].dropped == 3' && grep -qE 'taken_over: .* 3$' "$work/$1.log" && accepted smf '{"do": "delete", "session": "ue3"}' && return
    cat "$work/drained" "$work/$1.log"
    return 1
}

# --- faults ---------------------------------------------------------------------

# refused_without_spare: one line, and nothing has changed.
refused_without_spare() {
    ctl drain gateway-a >"$work/refused" 2>&1 && return 1
    grep -q "there is no spare node for it" "$work/refused" && carry && return
    cat "$work/refused"; tail -n 20 "$work/gateway-a.log" "$work/site.log"; ctl nodes
    return 1
}

# lacks_room: a spare node without room refuses, and the sessions stay.
lacks_room() {
    cp "$work/gateway-b.yaml" "$work/whole.yaml"
    sed -i 's|limits: {sessions: .*}|limits: {sessions: 1}|' "$work/gateway-b.yaml"
    launch gateway-b --spare && sleep 2 || return 1
    ctl drain gateway-a >"$work/refused" 2>&1 && return 1
    note "$(cat "$work/refused")"
    grep -q 'has room for 1 sessions' "$work/refused" && carry || return 1
    mv "$work/whole.yaml" "$work/gateway-b.yaml"
    kill_and_wait gateway-b
}

# target_dies FROM TO: at some moment of the move, each time another one. The node stands still first,
# so that nothing changes while it is looked where the share is: sessions that it has not got yet stay
# where they are.
target_dies() {
    local after
    for after in 0.02 0.05 0.15 0.3; do
        wait_until 30 is_so shares 'all(.[]; .movesTo == null)' || return 1
        ctl drain "$1" >"$work/moved" 2>&1 &
        sleep "$after"
        kill -STOP "${running[$2]}"
        sleep 1
        if [ "$(holder)" = "$2" ]; then
            kill -CONT "${running[$2]}"
            note "after $after s it had the share already"
            comes_back "$2" "$1" || return 1
            continue
        fi
        kill_and_wait "$2"
        wait $!
        settled_share || return 1
        note "killed after $after s: $(tail -n 1 "$work/moved")"
        launch "$2" --spare && sleep 1.5 && carry || return 1
    done
}

# comes_back FROM TO: the share, as in the beginning.
comes_back() {
    carry && ends "$2" && launch "$2" --spare && sleep 1.5 && ctl drain "$1" && ends "$1" &&
        launch "$1" --spare && sleep 1.5 && carry
}

# settled_share: no share moves.
settled_share() { so shares 'all(.[]; .movesTo == null)'; }

holder() { of_site shares | jq -r '.[0].holder'; }
other_than() { if [ "$1" = gateway-a ]; then echo gateway-b; else echo gateway-a; fi; }

# controller_dies: in the middle of a move, under traffic. The next one goes on with it.
controller_dies() {
    local before drain
    before=$(holder)
    start_users && sleep 1
    ctl drain "$before" >"$work/moved" 2>&1 &
    drain=$!
    wait_until 20 grep -q 'a share comes' "$work/$(other_than "$before").log"
    kill_and_wait site
    rm -f "$work/weft/site.controller"
    launch_site && settled_share || { end_users && return 1; }
    wait "$drain"
    note "$(tail -n 1 "$work/moved")"
    sleep 3
    end_users
    note "the share is at $(holder), and was at $before"
    nothing_is_lost && carry
}

# source_dies: in the middle of a move. Its sessions are lost, as whenever it dies, and control planes
# are told; the spare node is spare still, or has the share.
source_dies() {
    local before spare
    before=$(holder)
    spare=$(other_than "$before")
    is_gone "${running[$spare]}" && { launch "$spare" --spare && sleep 2 || return 1; }
    mark smf
    ctl drain "$before" >"$work/moved" 2>&1 &
    sleep 0.3
    kill_and_wait "$before"
    wait $!
    settled_share || return 1
    note "$(tail -n 1 "$work/moved")"
    is_gone "${running[$spare]}" && { tail -n 5 "$work/$spare.log" && return 1; }
    [ "$(holder)" = "$spare" ] && { carry && return; }
    if [ "$before" = gateway-a ]; then launch gateway-a || return 1; else launch "$before" --spare || return 1; fi
    if [ "$before" = gateway-b ]; then
        # The share is at its home, which waits as a spare node: it starts with it again.
        kill_and_wait gateway-a && settled_share && launch gateway-a || return 1
    fi
    so n4 '.nodes[0].state == "up"' && reported smf '.event == "set-deletion"' 60
}

lay_out && write_files || { fail "the site is laid out" "" && close_report && exit 1; }
try "the controller starts" launch_site || { cat "$work/site.log"; close_report; exit 1; }
try "a node behind N4" launch gateway-a && try "answers" so n4 '.nodes[0].state == "up"' || { cat "$work"/*.log; close_report; exit 1; }
try "a control plane associates" start_control_plane smf scapy c "$SMF4" "$UP4" && try "once" accepted smf '{"do": "associate"}' ||
    { cat "$work/site.log"; close_report; exit 1; }
check "the node is associated with it" so n4 '.nodes[0].associations == 1'
try "a session in a tunnel of IPv4" attach smf ue1 "$UE1" "$STATION4" 0x6001 101 "$N3_4" || { close_report; exit 1; }
try "and one in a tunnel of IPv6" attach smf ue2 "$UE2" "$STATION6" 0x6002 102 "$N3_6" || { close_report; exit 1; }
check "both carry" carry
start_in c "$work/load.log" "$WEFT" smf "$work/smf.yaml"
load=$started
check "$SESSIONS sessions of another control plane" so n4 ".nodes[0].sessions == $((SESSIONS + 2))"
check "without a spare node the sessions stay" refused_without_spare
check "and where that has too little room" lacks_room
try "a spare node waits" launch gateway-b --spare || { cat "$work/gateway-b.log"; close_report; exit 1; }
sleep 2
check "its death in the middle of a move leaves the sessions where they are" target_dies gateway-a gateway-b
check "the node is drained under traffic, and nothing is lost" drained gateway-a gateway-b
check "the drained node ends" ends gateway-a
check "and does not start with its addresses" does_not_come_back
check "both carry at the other node" carry
check "usage is counted once" eval 'usage_is_counted smf ue1 && usage_is_counted smf ue2'
check "sessions change and are paged there" idle_and_paged smf ue1 "$UE1" "$STATION4" 0x6001
try "the drained node waits as a spare node" launch gateway-a --spare || cat "$work/gateway-a.log"
sleep 2
check "packets wait for an idle session" packets_wait
check "the sessions come back under traffic" drained gateway-b gateway-a
check "the other node ends" ends gateway-b
check "packets that waited are counted as dropped" waiting_are_counted gateway-b
check "usage is counted once" eval 'usage_is_counted smf ue1 && usage_is_counted smf ue2'
check "the other control plane has all its sessions" so n4 ".nodes[0].sessions == $((SESSIONS + 2))"
try "the other node waits as a spare node" launch gateway-b --spare
sleep 2
check "the controller dies in the middle of a move: nothing is lost" controller_dies
check "usage is counted once" eval 'usage_is_counted smf ue1 && usage_is_counted smf ue2'
check "the node dies in the middle of a move: its spare node is spare or has the sessions" source_dies
stop "$load"
check "control planes found nothing that they could not read" understood smf
close_report
