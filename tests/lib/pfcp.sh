# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of netns.sh and node.sh
# Control planes that Weft did not make, and the user plane that they drive. To be sourced
# behind report.sh, netns.sh and node.sh:
#
#     prepare "$@"                    # hosts a and b, and namespace c with a veth to the node
#     start_control_plane smf go c "$SMF4" "$UP4"
#     accepted smf '{"do": "associate"}'
#     event smf '.event == "report"'  # waits for what comes behind the latest `ask`
#
# tests/interop/README.md lists commands and events.

MAC_C=02:00:00:00:03:01 MAC_N4=02:00:00:00:03:02
SMF4=10.9.0.1 SMF6=2001:db8:9::1 # control planes speak from here
OTHER4=10.9.0.2 STRANGER4=10.9.0.9
UP4=10.9.0.254 UP6=2001:db8:9::fe # and the user plane from here
export SMF4 SMF6 OTHER4 STRANGER4 UP4 UP6

interop_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../interop" && pwd)
go_control_plane= # the program, where it could be built
why_no_go=
declare -A control_plane_input=() # by its name: a file descriptor
declare -A control_plane_mark=()  # by its name: lines that it had told before the latest `ask`
declare -A control_plane_id=()    # by its name: its process
answer=                           # the latest answer, one line of JSON

# prepare ARGUMENT...: all that a script needs before its node; its own arguments.
prepare() {
    gain_privileges "$@"
    need_locked_memory
    need_scapy
    [ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
    # Before namespaces: Go modules come from a proxy.
    build_control_planes
    start_namespaces
    export WEFT_SOCKET=$netns_work/node.sock
    build_topology 1500
    build_control_link
}

# --- building -------------------------------------------------------------------

# build_control_planes: that in Go, and whether Scapy is there. Sets `why_no_go`.
build_control_planes() {
    local go folder
    go=$(command -v go || ls /usr/local/go/bin/go /usr/lib/go/bin/go 2>/dev/null | head -n 1)
    if [ -z "$go" ]; then
        why_no_go="Go is not installed (golang-go)"
        return
    fi
    folder=$(dirname "$WEFT")/interop
    if ! mkdir -p "$folder" 2>/dev/null || ! [ -w "$folder" ]; then
        folder=$(mktemp -d)
    fi
    # Tests run side by side and build the same program.
    exec {go_lock}>"$folder/lock"
    flock "$go_lock"
    if (cd "$interop_folder/go" && "$go" build -o "$folder/control-plane" .) 2>"$folder/log"; then
        go_control_plane=$folder/control-plane
    elif grep -q 'dial tcp\|no such host\|connection refused\|proxyconnect\|timeout' "$folder/log"; then
        why_no_go="the Go module proxy cannot be reached: $(tail -n 1 "$folder/log")"
    else
        fail "the control plane in Go is built" "$(cat "$folder/log")"
        why_no_go="it is not built"
    fi
    exec {go_lock}>&-
}

# need_scapy: skips the script where Scapy's PFCP is not there.
need_scapy() {
    /usr/bin/python3 -c 'import scapy.contrib.pfcp' 2>/dev/null ||
        skip_script "python3-scapy is not installed"
}

# build_control_link: namespace c, where control planes are, and its link to the node.
build_control_link() {
    make_namespace c
    make_link c eth0 "$MAC_C" n n4 "$MAC_N4" 1500
    in_ns n sysctl -qw net.ipv6.conf.n4.disable_ipv6=0
    in_ns n ip address add "$UP4/24" dev n4
    in_ns n ip address add "$UP6/64" dev n4 nodad
    local address
    for address in "$SMF4" "$OTHER4" "$STRANGER4"; do
        in_ns c ip address add "$address/24" dev eth0
    done
    in_ns c ip address add "$SMF6/64" dev eth0 nodad
}

# start_control_plane NAME KIND SIDE LOCAL REMOTE: KIND is go or scapy.
start_control_plane() {
    local name=$1 kind=$2 side=$3 program fd
    shift 3
    case $kind in
        go) program=$go_control_plane ;;
        scapy) program=$interop_folder/scapy_control_plane.py ;;
    esac
    rm -f "$netns_work/$name.in"
    mkfifo "$netns_work/$name.in"
    # shellcheck disable=SC2016 # expanded by the inner shell
    start_in "$side" "$netns_work/$name.told" \
        bash -c 'exec "$@" <"$0"' "$netns_work/$name.in" "$program" "$@"
    exec {fd}>"$netns_work/$name.in"
    control_plane_input[$name]=$fd
    control_plane_id[$name]=$started
    control_plane_mark[$name]=0
    wait_until 30 grep -q '"ready"' "$netns_work/$name.told" && return
    cat "$netns_work/$name.told"
    return 1
}

# stop_control_plane NAME: as if it had died: without a release.
stop_control_plane() {
    exec {control_plane_input[$1]}>&-
    stop "${control_plane_id[$1]}"
}

# --- commands and events --------------------------------------------------------

# events NAME FILTER: what it has told behind its mark, each a line of JSON.
events() {
    tail -n "+$((control_plane_mark[$1] + 1))" "$netns_work/$1.told" |
        jq -Rc "fromjson? | select($2)"
}

# mark NAME: events from now on.
mark() {
    control_plane_mark[$1]=$(wc -l <"$netns_work/$1.told")
}

# say NAME JSON: a command without an answer of its own.
say() {
    mark "$1"
    # shellcheck disable=SC2001 # one line is one command
    tr -s '\n ' ' ' <<<"$2" >&"${control_plane_input[$1]}"
    echo >&"${control_plane_input[$1]}"
}

# event NAME FILTER [SECONDS]: waits for the first such event behind the mark and prints it.
event() {
    wait_until "${3:-10}" has_event "$1" "$2" || {
        echo "no event where $2; there came:"
        events "$1" true
        return 1
    }
    events "$1" "$2" | head -n 1
}

has_event() {
    events "$1" "$2" | grep -q .
}

# ask NAME JSON: a command; sets `answer` to what came of it.
ask() {
    say "$1" "$2"
    answer=$(event "$1" '.event == "answer" or .event == "timeout" or .event == "error"' 15)
}

# accepted NAME JSON: a command, and the user plane accepts it (cause 1).
accepted() {
    refused_with 1 "$@"
}

# refused_with CAUSE NAME JSON: a command, and the user plane answers with that cause.
refused_with() {
    ask "$2" "$3"
    [ "$(jq -r .cause <<<"$answer")" = "$1" ] && return
    echo "cause $1 was expected: $answer"
    return 1
}

# answered NAME JSON FILTER: a command, and the answer is so.
answered() {
    ask "$1" "$2"
    [ "$(jq "$3" <<<"$answer")" = true ] && return
    echo "not so ($3): $answer"
    return 1
}

# of_answer FILTER: something of the latest answer.
of_answer() {
    jq -r "$1" <<<"$answer"
}

# reported NAME FILTER [SECONDS]: such an event comes; nothing is printed when it does.
reported() {
    event "$@" >"$netns_work/event" && return
    cat "$netns_work/event"
    return 1
}

# silent NAME FILTER SECONDS: no such event comes for so long.
silent() {
    sleep "$3"
    ! events "$1" "$2" | grep .
}

# counted NAME SESSION URR KEY: the sum of all usage reports that it has got of that rule, of
# answers and reports, from the start.
counted() {
    jq -Rn --arg session "$2" --argjson urr "$3" --arg key "$4" \
        '[inputs | fromjson? | select(.session == $session) | .usage[]? | select(.urr == $urr)
            | .[$key] // 0] | add // 0' "$netns_work/$1.told"
}

# understood NAME: it found nothing that it could not read, or that it had not asked for.
understood() {
    ! grep -v '^{' "$netns_work/$1.told" &&
        ! jq -Rc 'fromjson? | select(.malformed or .event == "error" or .event == "unasked")' \
            "$netns_work/$1.told" | grep .
}

# --- the node -------------------------------------------------------------------

# write_upf FILE [NAME...]: a user plane between the hosts. With names, these are the network
# instances of its access and core side; without, any is.
write_upf() {
    local access=${2:+networkInstance: $2, } core=${3:+, networkInstance: $3}
    cat >"$1" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
limits: {users: ${SESSIONS_AT_MOST:-1000}}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]
functions:
  detect: {function: session-detection}
  act: {function: session-forwarding}
users:
  - {name: session, count: 0}
pfcp:
  listen: [$UP4, "$UP6"]
  peers: [$SMF4/32, $OTHER4/32, "$SMF6/128"]
  like: session
  interfaces:
    - {interface: access, ${access}addresses: [$GATEWAY_A4, "$GATEWAY_A6"]}
    - {interface: core$core}
rules: |
  from access -> detect
  from core -> detect
  from detect -> act
  from act when interface == access -> access
  from act -> core
YAML
}

# --- rules ----------------------------------------------------------------------

# header TEID ADDRESS: an outer header to be created.
header() {
    printf '{"teid": %d, "ipv%d": "%s"}' "$1" "$(version_of "$2")" "$2"
}

version_of() {
    case $1 in *:*) echo 6 ;; *) echo 4 ;; esac
}

# removal ADDRESS: the kind of outer header of packets to that address (§8.2.64).
removal() {
    case $1 in *:*) echo 1 ;; *) echo 0 ;; esac
}

# of_recovery: the user plane's Recovery Time Stamp, as it answers a heartbeat of `smf`.
of_recovery() {
    ask smf '{"do": "heartbeat"}'
    of_answer .recovery
}

# --- traffic --------------------------------------------------------------------

# station NAME SIDE LOCAL GATEWAY TEID OWN-TEID: a base station behind a TUN device NAME.
station() {
    local name=$1 side=$2
    shift 2
    start_in "$side" "$netns_work/$name.log" "$netns_lib/gtpu_peer.py" "$name" "$@"
    wait_until 20 in_ns "$side" ip link show "$name" || {
        cat "$netns_work/$name.log"
        return 1
    }
    in_ns "$side" ip link set "$name" mtu 1400 txqueuelen 10000 up
}

# user_at SIDE DEVICE UE4 UE6: the user is behind that device from now on.
user_at() {
    in_ns "$1" ip address replace "$3/32" dev "$2"
    in_ns "$1" ip address replace "$4/128" dev "$2" nodad
    in_ns "$1" ip route replace "$ADDRESS_B4" dev "$2" src "$3"
    in_ns "$1" ip -6 route replace "$ADDRESS_B6" dev "$2" src "$4"
}

# count_uplink SIDE UE4 UE6: the host counts the IP packets that it gets from that user, from
# now on and of no other.
count_uplink() {
    in_ns "$1" nft -f - <<NFT
add table inet from_user
delete table inet from_user
add table inet from_user
add chain inet from_user in { type filter hook prerouting priority -300; }
add rule inet from_user in ip saddr $2 counter comment "$2"
add rule inet from_user in ip6 saddr $3 counter comment "$2"
NFT
}

# uplink_bytes SIDE UE4: of its IP packets so far.
uplink_bytes() {
    in_ns "$1" nft -j list chain inet from_user in |
        jq --arg user "$2" '[.nftables[].rule? | select(.comment == $user).expr[].counter?.bytes // 0] | add'
}

# device_bytes SIDE DEVICE rx|tx: as its host counts.
device_bytes() {
    in_ns "$1" cat "/sys/class/net/$2/statistics/$3_bytes"
}

# blast SIDE ADDRESS PORT BITS-PER-SECOND SECONDS [SOURCE-PORT]: UDP with 1,000 bytes of data.
blast() {
    in_ns "$1" /usr/bin/python3 "$netns_lib/udp_blast.py" "${@:2}"
}

# in_capture FILE FILTER FIELD...: fields of frames, a line each.
in_capture() {
    local file=$1 filter=$2 field fields=()
    shift 2
    for field in "$@"; do
        fields+=(-e "$field")
    done
    tshark -n -r "$file" -Y "$filter" -T fields -E occurrence=l "${fields[@]}" 2>/dev/null
}

# replies FILE: the sequence numbers of replies that ping has written.
replies() { grep -o 'icmp_seq=[0-9]*' "$1" | cut -d= -f2; }

# in_order MANY: on standard input, sequence numbers of replies to ping, a number a line:
# ascending, and all from 1 to MANY. Those beyond are not judged: ping ends soon behind its last
# request, before a reply that is late.
in_order() {
    awk -v many="$1" '
        $1 > many { next }
        $1 <= last { print "number " $1 " behind " last; bad = 1 }
        { last = $1; came++ }
        END { if (came != many) { print came " came, not " many; bad = 1 }; exit bad }'
}
