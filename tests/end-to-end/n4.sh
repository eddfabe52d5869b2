#!/usr/bin/env bash
# One N4 for many nodes: control planes see one user plane, and their sessions lie at a pair of
# nodes and at a third and a fourth one. Nodes die, are cordoned, join by an edit of the controller's
# file or register, are given up and deleted underneath, and so do controllers: sessions carry,
# reports come back on one association, and of what is lost control planes are told.
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

PAIR4=192.0.2.101 # N4 of the pair, at whichever of the two
THIRD6=2001:db8:f::4
UE1=10.45.1.7 UE2=10.45.2.7 UE3=10.45.2.8 UE4=10.45.3.7
LOADED=300 # sessions of `weft smf`
LEASE=4    # seconds that a node may be silent
declare -A at_station=([ue1]=10.0.0.2 [ue2]=10.0.0.3)

gain_privileges "$@"
need_locked_memory
need_scapy
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
command -v etcd >/dev/null || skip_script "there is no etcd (Debian package etcd-server)"
build_control_planes
start_namespaces
begin_pair

lay_out() {
    local side
    lay_out_pair || return 1
    for side in nc nd c ctl2; do make_namespace "$side"; done
    in_ns nd sysctl -qw net.ipv6.conf.default.disable_ipv6=1
    link_to nc access acc a && link_to nc core dn b && link_to nc oam oam c &&
        link_to nd access acc d && link_to nd core dn e && link_to nd oam oam f || return 1
    make_link c oam 02:00:00:00:10:01 net oam-c 02:00:00:00:10:02 1600
    make_link ctl2 oam 02:00:00:00:11:01 net oam-ctl2 02:00:00:00:11:02 1600
    in_ns net ip link set oam-c master oam && in_ns net ip link set oam-ctl2 master oam
    in_ns net ip address add 192.0.2.200/24 dev oam
    in_ns nc ip address add 192.0.2.4/24 dev oam
    in_ns nd ip address add 192.0.2.5/24 dev oam
    in_ns ctl2 ip address add 192.0.2.9/24 dev oam
    in_ns c ip address add 192.0.2.50/24 dev oam
    for side in ctl ctl2; do
        in_ns "$side" ip address add "$UP4/32" dev lo
        in_ns "$side" ip address add "$UP6/128" dev lo
        in_ns "$side" ip route add 10.9.0.0/24 via 192.0.2.50
        in_ns "$side" ip -6 route add "$SMF6" dev oam
        in_ns "$side" ip -6 neighbour replace "$SMF6" dev oam lladdr 02:00:00:00:10:01 nud permanent
    done
    for side in "$SMF4" "$OTHER4" 10.9.0.3 10.9.0.4; do in_ns c ip address add "$side/32" dev lo; done
    in_ns c ip address add "$SMF6/128" dev oam nodad
    for side in na nb; do in_ns "$side" ip address add "$PAIR4/32" dev lo; done
    third_by_ipv6
    n4_is_at ctl 192.0.2.1
    pair_is_at 192.0.2.2
    in_ns a ip address add "$ADDRESS_A4/24" dev eth0
    for side in "${at_station[@]}"; do in_ns a ip address add "$side/24" dev eth0; done
    in_ns b ip address add "$ADDRESS_B4/24" dev eth0
    in_ns b ip route add 10.45.1.0/24 via 198.51.100.251
    in_ns b ip route add 10.45.2.0/24 via 198.51.100.252
}

# third_by_ipv6: the third node has N4 at an address of IPv6, and its ports have none.
third_by_ipv6() {
    local side port
    for port in access core; do in_ns nc sysctl -qw "net.ipv6.conf.$port.disable_ipv6=1"; done
    in_ns nc ip address add "$THIRD6/64" dev oam nodad
    for side in ctl:1 ctl2:9; do
        in_ns "${side%:*}" ip address add "2001:db8:f::${side#*:}/64" dev oam nodad
        neighbour "${side%:*}" "$THIRD6" nc
        neighbour nc "2001:db8:f::${side#*:}" "${side%:*}"
    done
}

# neighbour SIDE ADDRESS OTHER: without a question of the kernel's.
neighbour() {
    in_ns "$1" ip -6 neighbour replace "$2" dev oam lladdr "$(in_ns "$3" cat /sys/class/net/oam/address)" nud permanent
}

# n4_is_at SIDE ADDRESS: control planes and nodes find N4 at that controller.
n4_is_at() {
    local side
    for side in na nb nc nd c; do in_ns "$side" ip route replace "$UP4/32" via "$2"; done
    in_ns c ip -6 route replace "$UP6/128" dev oam
    neighbour c "$UP6" "$1"
    in_ns nc ip -6 route replace "$UP6/128" via "2001:db8:f::${2##*.}"
}

# pair_is_at ADDRESS: the N4 of the pair is at that node.
pair_is_at() {
    local side
    for side in ctl ctl2; do in_ns "$side" ip route replace "$PAIR4/32" via "$1"; done
}

write_files() {
    local name number=0 side
    write_site gateway-d || return 1
    for name in gateway-a gateway-b; do
        number=$((number + 1))
        user_plane "$work/$name.yaml" "$name" "$PAIR4" 251 10.45.1.0/24 \
            "limits: {users: 1000}
state: {directory: state-$name}
standby: {node: $number, tls: {certificate: certificates/$name.pem, key: certificates/$name-key.pem, authority: certificates/authority.pem, controller: site}}"
    done
    user_plane "$work/gateway-c.yaml" gateway-c "$THIRD6" 252 10.45.2.0/24 "limits: {users: 1000}"
    user_plane "$work/gateway-d.yaml" gateway-d 192.0.2.5 253 10.45.3.0/24 \
        "limits: {users: 1000}
site: {node: 4, tls: {certificate: certificates/gateway-d.pem, key: certificates/gateway-d-key.pem, authority: certificates/authority.pem, controller: site}}"
    for side in 1:192.0.2.1:control-a 2:192.0.2.9:control-b; do
        IFS=: read -r _ address name <<<"$side"
        sed -e "s|^records:.*|etcd: {endpoints: [\"http://192.0.2.200:2379\"], plaintext: true}\nreplica: {name: $name}|" \
            -e "s|^listen:.*|listen: $address:9471|" "$work/site.yaml" >"$work/$name.yaml"
        cat >>"$work/$name.yaml" <<YAML
  gateway-c: {number: 3, address: 192.0.2.4:9473}
membership: {lease: 10}
n4:
  listen: [$UP4, "$UP6"]
  peers: [10.9.0.0/24, "$SMF6/128"]
  register: true
  nodes:
    gateway-a: {number: 1, address: $PAIR4}
  timers: {heartbeat: 500, t1: 500, n1: 3, lease: $LEASE}
YAML
    done
    load_file "$work/smf.yaml" "$OTHER4" "$ADDRESS_A4" "$LOADED" 20 50 \
        "{establish: 1, delete: 1, idle: 1, serviceRequest: 1, query: 1}"
}

# --- processes ------------------------------------------------------------------

launch_etcd() {
    start_in net "$work/etcd.log" etcd --data-dir "$work/etcd" --listen-client-urls http://192.0.2.200:2379 \
        --advertise-client-urls http://192.0.2.200:2379 --listen-peer-urls http://127.0.0.1:2380
    running[etcd]=$started
    # shellcheck disable=SC2016 # expanded by the inner shell
    wait_until 30 in_ns net bash -c 'echo >/dev/tcp/192.0.2.200/2379'
}

# launch_controller NAME SIDE
launch_controller() {
    start_in "$2" "$work/$1.log" "$WEFT" control "$work/$1.yaml"
    running[$1]=$started
    leader=$1
    wait_until 30 test -S "$work/weft/$1.controller"
}

pairs() { "$WEFT" ctl pairs --controller "$leader" --json; }

launch() {
    rm -f "$work/$1.log"
    start_in "$2" "$work/$1.log" env WEFT_SOCKET="$work/$1.sock" "$WEFT" run "$work/$1.yaml" \
        --handover-controller 192.0.2.1:9471,192.0.2.9:9471 --handover-listen "$3:9473" --handover-token-file "$work/node-token"
    running[$1]=$started
    wait_until 30 grep -q 'waits for its controller' "$work/$1.log" || { cat "$work/$1.log" && return 1; }
}

# launch_alone NAME SIDE: a node that no controller knows but for its N4.
launch_alone() {
    start_in "$2" "$work/$1.log" env WEFT_SOCKET="$work/$1.sock" "$WEFT" run "$work/$1.yaml"
    running[$1]=$started
    wait_until 30 grep -q "^node $1 is ready" "$work/$1.log" || { cat "$work/$1.log" && return 1; }
}

# launch_registering NAME SIDE ADDRESS: a node that says itself that it is one for N4.
launch_registering() {
    rm -f "$work/$1.log"
    start_in "$2" "$work/$1.log" env WEFT_SOCKET="$work/$1.sock" "$WEFT" run "$work/$1.yaml" \
        --handover-controller 192.0.2.1:9471,192.0.2.9:9471 --handover-listen "$3:9473" \
        --handover-token-file "$work/node-token" --handover-advertise "$3:9473"
    running[$1]=$started
    wait_until 30 grep -q "^node $1 is ready" "$work/$1.log" || { cat "$work/$1.log" && return 1; }
}

n4() { curl -sS --max-time 5 --unix-socket "$work/weft/$leader.controller" http://weft/v1/n4; }

# is_so FILTER: N4 is so.
is_so() { n4 | jq -e "$1" >/dev/null; }

# so FILTER: N4 is so within some time.
so() {
    wait_until 30 is_so "$1" && return
    n4
    return 1
}

# state NAME STATE: the node behind N4 is so.
state() { so ".nodes[] | select(.name == \"$1\") | .state == \"$2\""; }

carries() { wait_until 30 in_ns a ping -q -c 1 -W 1 -I "$1" "$ADDRESS_B4" && lossless a -I "$1" "$ADDRESS_B4"; }

# joins_by_edit: a node that no file names is none behind N4, and one that a file names is.
joins_by_edit() {
    local name
    launch_alone gateway-c nc && so '[.nodes[].name] == ["gateway-a"]' || return 1
    for name in control-a control-b; do
        sed -i 's|^    gateway-a: {number: 1, .*|&\n    gateway-c: {number: 3, address: "'"$THIRD6"'"}|' "$work/$name.yaml"
    done
    state gateway-c up
}

lay_out && write_files || { fail "the site is laid out" "" && close_report && exit 1; }
try "etcd starts" launch_etcd
try "the controller starts" launch_controller control-a ctl || { cat "$work/control-a.log"; close_report; exit 1; }
try "a node joins by an edit" joins_by_edit || { cat "$work"/*.log; close_report; exit 1; }
try "a pair behind N4" launch_a && try "owns its users" wait_until 30 owns gateway-a && try "and answers" state gateway-a up ||
    { cat "$work"/*.log; close_report; exit 1; }
try "a control plane on Scapy" start_control_plane smf scapy c "$SMF4" "$UP4"
try "associates once" accepted smf '{"do": "associate"}' || { cat "$work/control-a.log"; n4; close_report; exit 1; }
check "both nodes are associated with it" so '[.nodes[] | select(.associations == 1).name] == ["gateway-a", "gateway-c"]'
try "a session at the pair, by its address" attach smf ue1 "$UE1" "${at_station[ue1]}" 0x6001 251 10.0.0.251 || { n4; close_report; exit 1; }
try "and one at the other node" attach smf ue2 "$UE2" "${at_station[ue2]}" 0x6002 252 10.0.0.252
check "both carry" eval 'carries "$UE1" && carries "$UE2"'
check "a user of the pair is paged" idle_and_paged smf ue1 "$UE1" "${at_station[ue1]}" 0x6001
check "a user of the other node is paged" idle_and_paged smf ue2 "$UE2" "${at_station[ue2]}" 0x6002
check "usage of both is counted" eval 'usage_is_counted smf ue1 && usage_is_counted smf ue2'
check "counts are at nodes" so '[.nodes[].sessions] == [1, 1]'

# --- nodes come and go ----------------------------------------------------------

# joined: a node that registers gets the association, and sessions by its share, without an edit.
joined() {
    launch_registering gateway-d nd 192.0.2.5 && state gateway-d up && is_registered &&
        wait_until 10 grep -q 'the node is behind N4' "$work/gateway-d.log" || return 1
    spread smf 10.46.1 16 && is_spread 4
}

# is_registered: with its own number, and the association.
is_registered() { so '.nodes[] | select(.name == "gateway-d") | .registered and .number == 4 and .associations == 1'; }

# spread CONTROL-PLANE NETWORK MANY: sessions with addresses of no node's pool.
spread() {
    local nth
    for nth in $(seq "$3"); do
        accepted "$1" "$(establish "$2.$nth" "$2.$nth" "$ADDRESS_A4" $((0x7000 + nth)))" || return 1
    done
}

# is_spread NUMBER: that node has some of them.
is_spread() { so ".nodes[] | select(.number == $1) | .sessions > 0"; }

# one_has NUMBER: sessions of a node.
one_has() { n4 | jq ".nodes[] | select(.number == $1).sessions"; }

# cordoned: no new session goes to a node, and those that it has stay.
cordoned() {
    local before
    "$WEFT" ctl cordon gateway-c --controller "$leader" && state gateway-c cordoned || return 1
    sleep 1
    before=$(one_has 3)
    spread smf 10.46.2 12 && sleep 1.5 && equal "sessions of the cordoned node" "$before" "$(one_has 3)" || return 1
    # One whose address is of its pool has no other node.
    refused_with 75 smf "$(establish elsewhere "$UE3" "$ADDRESS_A4" 0x6009)" && carries "$UE2" &&
        "$WEFT" ctl uncordon gateway-c --controller "$leader" && state gateway-c up
}

# standby_takes_over: the pair's node dies under traffic; control planes and N4 see no restart.
standby_takes_over() {
    local recovery
    stands_by gateway-b || return 1
    recovery=$(of_recovery)
    kill_and_wait gateway-a
    wait_until 30 owns gateway-b || { tail -n 5 "$work/gateway-b.log" && return 1; }
    pair_is_at 192.0.2.3
    carries "$UE1" && state gateway-a up && idle_and_paged smf ue1 "$UE1" "${at_station[ue1]}" 0x6001 &&
        equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" &&
        ! events smf '.event == "set-deletion"' | grep .
}

# is_deleted: a node that had registered is taken out, its sessions are lost, and control planes are
# told. Once it registers again it has its number again.
is_deleted() {
    accepted smf "$(establish last "$UE4" "$ADDRESS_A4" 0x600a)" || return 1
    "$WEFT" delete member gateway-d --controller "$leader" >"$work/refused" 2>&1 && return 1
    grep -q 'it is connected' "$work/refused" || { cat "$work/refused" && return 1; }
    mark smf
    kill_and_wait gateway-d
    wait_until 10 "$WEFT" delete member gateway-d --controller "$leader" &&
        reported smf '.event == "set-deletion"' 30 && so '[.nodes[].name] == ["gateway-a", "gateway-c"]' &&
        refused_with 65 smf '{"do": "modify", "session": "last", "query": [1]}' || return 1
    launch_registering gateway-d nd 192.0.2.5 && state gateway-d up && is_registered &&
        accepted smf "$(establish anew "$UE4" "$ADDRESS_A4" 0x600b)" && equal "sessions" 1 "$(one_has 4)" && carries "$UE1"
}

# kill_and_wait NAME: also of a process that another shell has started.
kill_and_wait() {
    kill -9 "${running[$1]}" && wait_until 10 is_gone "${running[$1]}"
}

# leader_is_killed: another controller serves N4 at the same address; sessions carry on, and
# reports of both nodes come back.
leader_is_killed() {
    local recovery
    recovery=$(of_recovery)
    start_in ctl2 "$work/control-b.log" "$WEFT" control "$work/control-b.yaml"
    running[control-b]=$started
    wait_until 30 test -S "$work/weft/control-b.controller" || return 1
    kill_and_wait control-a
    leader=control-b
    n4_is_at ctl2 192.0.2.9
    state gateway-c up && state gateway-a up &&
        so '[.nodes[] | select(.associations > 0).number] == [1, 3, 4]' || { tail -n 5 "$work/control-b.log" && return 1; }
    equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" && carries "$UE1" && carries "$UE2" &&
        idle_and_paged smf ue1 "$UE1" "${at_station[ue1]}" 0x6001 && idle_and_paged smf ue2 "$UE2" "${at_station[ue2]}" 0x6002 &&
        usage_is_counted smf ue2
}

# node_is_lost: a node that keeps no state is killed and starts anew, or stays away: control planes
# are told which sessions are gone, and a message about one is answered so.
node_is_lost() {
    local recovery
    recovery=$(of_recovery)
    mark smf
    kill_and_wait gateway-c
    launch_alone gateway-c nc && reported smf '.event == "set-deletion"' 30 && state gateway-c up || return 1
    refused_with 65 smf '{"do": "modify", "session": "ue2", "query": [1]}' || return 1
    # A new one finds the node again.
    accepted smf "$(establish again "$UE2" "${at_station[ue2]}" 0x6002)" || return 1
    mark smf
    kill_and_wait gateway-c
    reported smf '.event == "set-deletion"' 30 && state gateway-c given-up &&
        refused_with 65 smf '{"do": "modify", "session": "again", "query": [1]}' &&
        refused_with 75 smf "$(establish third "$UE2" "${at_station[ue2]}" 0x6002)" || return 1
    launch_alone gateway-c nc && state gateway-c up &&
        accepted smf "$(establish third "$UE2" "${at_station[ue2]}" 0x6002)" &&
        equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" && carries "$UE1"
}

# sessions_are_found: nodes are asked for them; one that no controller is connected with is left out.
sessions_are_found() {
    sessions -o json gateway-d >"$work/found" && equal "of one node" "$(one_has 4)" "$(jq '.sessions | length' "$work/found")" || return 1
    jq -e 'all(.sessions[]; .node == "gateway-d" and (.seid | startswith("0004")) and .cpAddress == "'"$SMF4"'")' "$work/found" >/dev/null || { cat "$work/found" && return 1; }
    accepted smf "$(establish found "$UE4" "$ADDRESS_A4" 0x600c)" && sessions --ue "$UE4" >"$work/found" || return 1
    note "$(grep "$UE4" "$work/found")"
    grep -q "gateway-d .*$UE4" "$work/found" && grep -q '^1 session$' "$work/found" &&
        grep -q 'gateway-c is left out: it is not connected' "$work/found" || { cat "$work/found" && return 1; }
    sessions --control-plane 10.9.0.77 >"$work/found" && grep -q '^0 sessions$' "$work/found" && accepted smf '{"do": "delete", "session": "found"}'
}

sessions() { "$WEFT" get sessions --controller "$leader" "$@"; }

# others_too: a control plane in Go, one by IPv6, and `weft smf` with load, at the same time.
others_too() {
    start_control_plane six scapy c "$SMF6" "$UP6" && accepted six '{"do": "associate"}' &&
        accepted six "$(establish six 10.46.3.1 "$ADDRESS_A4" 0x8001)" &&
        accepted six '{"do": "modify", "session": "six", "query": [1]}' &&
        accepted six '{"do": "delete", "session": "six"}' || return 1
    so '.controlPlanes | length == 2' || return 1
    # Sessions of another control plane are not to be had.
    refused_with 65 six '{"do": "modify", "session": "six", "seid": '"$(seid_of ue1)"', "query": [1]}' &&
        accepted six '{"do": "release"}' && so '.controlPlanes | length == 1'
}

# seid_of SESSION: as its control plane knows it.
seid_of() { jq -Rr --arg session "$1" 'fromjson? | select(.event == "answer" and .to == "establish" and .session == $session).seid' "$work/smf.told" | tail -n 1; }

in_go() {
    [ -n "$go_control_plane" ] || { note "no control plane in Go: $why_no_go" && return 0; }
    start_control_plane go go c 10.9.0.3 "$UP4" && accepted go '{"do": "associate"}' &&
        accepted go "$(establish go 10.46.3.2 "$ADDRESS_A4" 0x8002)" &&
        accepted go '{"do": "modify", "session": "go", "query": [1]}' &&
        accepted go '{"do": "delete", "session": "go"}' && accepted go '{"do": "release"}'
}

loaded() {
    in_ns c timeout 300 "$WEFT" smf "$work/smf.yaml" --json "$work/load.json" >"$work/load.log" 2>&1 ||
        { tail -n 20 "$work/load.log" && return 1; }
    note "$(jq -c '{sent: [.requests[].sent] | add, answered: [.requests[].answered] | add, lost: [.requests[].lost] | add}' "$work/load.json")"
    equal lost 0 "$(jq '[.requests[].lost] | add' "$work/load.json")" &&
        equal refused 0 "$(jq '[.requests[].refused[]?] | add // 0' "$work/load.json")" &&
        equal wrong 0 "$(jq '[.wrong[]] | add' "$work/load.json")"
}

# garbage: nothing of it stops N4, and none of it is answered but what another version says.
garbage() {
    in_ns c /usr/bin/python3 "$netns_lib/pfcp_garbage.py" 10.9.0.4 "$UP4" 2000 >"$work/garbage" 2>&1 || { cat "$work/garbage" && return 1; }
    accepted smf '{"do": "modify", "session": "ue1", "query": [1]}' && carries "$UE1"
}

try "a node registers: it gets the association, and sessions" joined
check "nodes say which sessions they have" sessions_are_found
check "one that is cordoned gets none" cordoned
check "control planes by IPv6, and each its own sessions" others_too
check "one in Go" in_go
check "weft smf, with load" loaded
check "garbage is borne" garbage
try "the pair's standby stands by" launch_b
check "the pair's node is killed: its standby has its sessions" standby_takes_over
try "the leading controller is killed: sessions and reports go on" leader_is_killed
check "a node loses its sessions, or is gone: control planes are told" node_is_lost
check "a node is deleted, and registers again" is_deleted
check "control planes found nothing that they could not read" understood smf
close_report
