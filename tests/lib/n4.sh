#!/usr/bin/env bash
# Sessions of control planes at nodes behind one N4, and what shows that they carry; to be sourced
# behind `pfcp.sh` by scripts that set ADDRESS_B4, and UP4, SMF6 by `pair.sh` and `pfcp.sh`.

# user_plane FILE NAME N4 LAST POOL EXTRA [ACCESS6]: a node's file; its ports' addresses end in LAST.
user_plane() {
    local access="10.0.0.$4" ports="10.0.0.$4/24"
    [ -z "${7:-}" ] || { access="$access, \"$7\"" && ports="$ports, \"$7/64\""; }
    cat >"$1" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: $2}
$6
ports:
  access: {device: "net_af_packet0,iface=access", direction: uplink, addresses: [$ports]}
  core: {device: "net_af_packet1,iface=core", direction: downlink, addresses: [198.51.100.$4/24]}
functions:
  detect: {function: session-detection}
  act: {function: session-forwarding}
users:
  - {name: session, count: 0}
pfcp:
  listen: ["$3"]
  peers: [10.9.0.0/24, "$SMF6/128"]
  proxies: [$UP4/32, "$UP6/128"]
  like: session
  timers: {heartbeat: 2, t1: 1000, n1: 10}
  interfaces:
    - {interface: access, addresses: [$access]}
    - {interface: core, pools: [$5]}
rules: |
  from access -> detect
  from core -> detect
  from detect -> act
  from act when interface == access -> access
  from act -> core
YAML
}

# load_file FILE ADDRESS STATION SESSIONS DURATION RATE MIX: a `weft smf` with sessions of its own.
load_file() {
    cat >"$1" <<YAML
apiVersion: weft/v1
kind: ControlPlane
metadata: {name: load}
local: $2
userPlane: $UP4
retransmission: {t1: 1, n1: 20}
heartbeat: 1
sessions:
  count: $4
  ipv4: 10.47.0.1
  tunnels: {choose: ipv4}
  stations: [$3]
  stationTeid: 0x10000
rules:
  pdrs:
    - {id: 1, source: access, tunnel: true, far: 1, urrs: [1]}
    - {id: 2, source: core, far: 2, urrs: [1]}
  fars:
    - {id: 1, destination: core}
    - {id: 2, destination: access, tunnel: true}
  urrs:
    - {id: 1, volumeThreshold: 1 GB}
load:
  duration: $5
  rate: $6
  mix: $7
YAML
}

# establish SESSION UE STATION TEID: its rule reports every 20,000 octets.
establish() {
    cat <<JSON
{"do": "establish", "session": "$1", "rules": {
    "createPdr": [
        {"id": 1, "precedence": 200, "removal": $(removal "$3"), "far": 1, "urr": [1],
         "pdi": {"source": "access", "ue4": "$2", "fteid": {"choose": "v$(version_of "$3")"}}},
        {"id": 2, "precedence": 200, "far": 2, "urr": [1], "pdi": {"source": "core", "ue4": "$2"}}],
    "createFar": [
        {"id": 1, "apply": ["FORW"], "forward": {"destination": "core"}},
        {"id": 2, "apply": ["FORW"], "forward": {"destination": "access", "header": $(header "$4" "$3")}}],
    "createUrr": [{"id": 1, "method": ["VOLUM"], "triggers": ["VOLTH"], "volumeThreshold": {"total": 20000}}],
    "pdnType": 1}}
JSON
}

# attach CONTROL-PLANE SESSION UE STATION TEID TABLE GATEWAY: a session whose tunnel ends at GATEWAY.
attach() {
    local teid gateway
    accepted "$1" "$(establish "$2" "$3" "$4" "$5")" || return 1
    teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    gateway=$(of_answer '.created[] | select(.pdr == 1) | .ipv4 // .ipv6')
    [ "$gateway" = "$7" ] || { echo "$2 is at $gateway" && return 1; }
    station "$2" a "$4" "$gateway" "$teid" "$5" || return 1
    in_ns a ip address replace "$3/32" dev "$2"
    in_ns a ip rule add from "$3" lookup "$6" && in_ns a ip route replace default dev "$2" table "$6"
}

# idle_and_paged CONTROL-PLANE SESSION UE STATION TEID: one Downlink Data Report, and no packet is lost.
idle_and_paged() {
    local ping
    accepted "$1" '{"do": "modify", "session": "'"$2"'", "rules": {"updateFar": [{"id": 2, "apply": ["BUFF", "NOCP"]}]}}' || return 1
    in_ns b ping -c 5 -i 0.1 -W 20 "$3" >"$work/ping" &
    ping=$!
    reported "$1" '.event == "report" and .session == "'"$2"'" and (.types | index("DLDR"))' || return 1
    accepted "$1" '{"do": "modify", "session": "'"$2"'", "rules": {"updateFar": [{"id": 2, "apply": ["FORW"],
        "forward": {"destination": "access", "header": '"$(header "$5" "$4")"'}}]}}' || return 1
    wait "$ping" || { cat "$work/ping" && return 1; }
    replies "$work/ping" | in_order 5
}

# usage_is_counted CONTROL-PLANE SESSION: what was reported is what the base station has counted.
usage_is_counted() {
    accepted "$1" '{"do": "modify", "session": "'"$2"'", "query": [1]}' &&
        equal "octets of $2" $(($(device_bytes a "$2" rx) + $(device_bytes a "$2" tx))) "$(counted "$1" "$2" 1 total)"
}
