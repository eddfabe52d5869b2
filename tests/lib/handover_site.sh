# shellcheck shell=bash
# A gateway, two base stations and a controller, each in a network namespace of its own,
# with users and a server beside them. To be sourced by scripts of end-to-end;
# $users is how many users there are, and $work becomes the folder of all files:
#
#     begin_site "$@"     # or skip: see netns.sh
#     lay_out && write_files && write_commands
#     start site && start gateway && start station-a && start station-b
#
#     namespace ue           sa, sb                 gw                  srv
#     ra ------------- radio [station-a] ran --+
#     rb ------------- radio [station-b] ran --+-- ran [gateway] core ------ eth0 198.51.100.1
#                                              |
#     ctl [site] ------------- the network `oam` of all four, 192.0.2.0/24

# shellcheck source-path=SCRIPTDIR source=report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=netns.sh
. ../lib/netns.sh

# begin_site ARGUMENTS-OF-THE-SCRIPT...: privileges, and the folder of all files and sockets.
begin_site() {
    gain_privileges "$@"
    start_namespaces
    work=$netns_work
    export XDG_RUNTIME_DIR=$work
}

# bridge NAME: a switch in the namespace `net`.
bridge() {
    in_ns net ip link add "$1" type bridge
    in_ns net ip link set "$1" up
}

# attach SIDE DEVICE BRIDGE NUMBER [ADDRESS]: a link to a switch.
attach() {
    make_link "$1" "$2" "02:00:00:00:0$4:01" net "$3-$1" "02:00:00:00:0$4:02" 1600
    in_ns net ip link set "$3-$1" master "$3"
    [ -z "${5:-}" ] || in_ns "$1" ip address add "$5/24" dev "$2"
}

lay_out() {
    local side
    for side in gw sa sb ctl ue srv net; do
        make_namespace "$side"
        in_ns "$side" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    done
    bridge ran
    bridge oam
    attach gw ran ran 1
    attach sa ran ran 2
    attach sb ran ran 3
    attach gw oam oam 4 192.0.2.2
    attach sa oam oam 5 192.0.2.3
    attach sb oam oam 6 192.0.2.4
    attach ctl oam oam 7 192.0.2.1
    make_link sa radio 02:00:00:00:10:01 ue ra 02:00:00:00:10:02 1500
    make_link sb radio 02:00:00:00:11:01 ue rb 02:00:00:00:11:02 1500
    make_link gw core 02:00:00:00:12:01 srv eth0 02:00:00:00:12:02 1500
    in_ns srv ip address add 198.51.100.1/24 dev eth0
    in_ns srv ip route add 10.45.0.0/16 via 198.51.100.254
}

# write_files [GATES [RELEASE]]: configurations and tokens. Gates wait so many milliseconds
# for End Markers, and a source for the radio to leave: a minute where none of these can be
# lost, however long the machine does something else.
write_files() {
    local times="  releaseTimeout: ${2:-60000}" gates="timeout: ${1:-60000}"
    printf 'nodes-know-this-token' >"$work/node-token"
    printf 'clients-know-this-token' >"$work/api-token"
    "$WEFT" ctl certificates init --folder "$work/certificates" >/dev/null || return 1
    new_certificates || return 1
    sed -e 's/^listen: .*/listen: 192.0.2.1:9471/' -e 's/:9472/:0/' -e "s/count: 10000/count: $users/" \
        -e 's/127.0.0.1:9473/192.0.2.2:9473/' -e 's/127.0.0.1:9474/192.0.2.3:9473/' \
        -e 's/127.0.0.1:9475/192.0.2.4:9473/' ../../examples/controller.yaml >"$work/site.yaml"
    { cat ../../examples/handover-anchor.yaml && printf '  gates: {%s}\n' "$gates"; } >"$work/gateway.yaml"
    sed -e 's/station-2/station-a/' -e "s/^  gates: {/  radio: uplink\n$times\n  gates: {$gates, /" \
        ../../examples/handover-station.yaml >"$work/station-a.yaml"
    sed -e 's/station-a/station-b/' -e 's/^  node: 2/  node: 3/' \
        -e 's/{node: 3, address: 10.1.0.2}/{node: 2, address: 10.1.0.1}/' -e 's/10.1.0.1\/24/10.1.0.2\/24/' \
        -e 's/^  address: 10.1.0.1/  address: 10.1.0.2/' "$work/station-a.yaml" >"$work/station-b.yaml"
    printf 'tls: {%s}\n' "$(enciphered site)" >>"$work/site.yaml"
    local name
    for name in gateway station-a station-b; do
        printf 'state: {directory: state-%s}\n' "$name" >>"$work/$name.yaml"
        sed -i "s|^  role: .*|&\n  tls: {$(enciphered "$name"), controller: site}|" "$work/$name.yaml"
    done
}

# new_certificates: one for each process, in the place of those until now.
new_certificates() {
    "$WEFT" ctl certificates issue --folder "$work/certificates" site gateway station-a station-b >/dev/null
}

# enciphered NAME: its certificate and the authority, as its configuration has them.
enciphered() {
    local folder=certificates
    printf 'certificate: %s/%s.pem, key: %s/%s-key.pem, authority: %s/authority.pem' "$folder" "$1" "$folder" "$1" "$folder"
}

# write_commands: for each process a file that starts it, for `sh`.
write_commands() {
    printf 'exec ip netns exec %q %q control %q\n' "$(ns ctl)" "$WEFT" "$work/site.yaml" >"$work/site.start"
    write_command gateway gw 192.0.2.2
    write_command station-a sa 192.0.2.3
    write_command station-b sb 192.0.2.4
}

# write_command NODE SIDE ADDRESS
write_command() {
    printf 'exec ip netns exec %q %q run %q --polling adaptive --handover-controller 192.0.2.1:9471 \\\n' \
        "$(ns "$2")" "$WEFT" "$work/$1.yaml" >"$work/$1.start"
    printf '    --handover-listen %s:9473 --handover-token-file %q\n' "$3" "$work/node-token" >>"$work/$1.start"
}

# start NAME: starts a process, and waits until it says that it is ready.
start() {
    : >"$work/$1.out"
    sh "$work/$1.start" >"$work/$1.out" 2>"$work/$1.log" &
    wait_until 60 grep -q ' is ready' "$work/$1.out" || { cat "$work/$1.log"; return 1; }
}

# settled STATION: all users are there, and nobody moves.
settled() {
    curl -sS --max-time 5 --unix-socket "$work/weft/site.controller" http://weft/v1/nodes >"$work/nodes" &&
        jq -e --arg name "$1" --argjson users "$users" \
            'any(.[]; .name == $name and .users == $users) and all(.[]; .moving == 0)' "$work/nodes" >/dev/null
}

# counted NAME: what all nodes have counted of it.
counted() {
    local name sum=0 count
    for name in gateway station-a station-b; do
        count=$(curl -sS --max-time 5 --unix-socket "$work/weft/$name.sock" http://weft/v1/snapshot |
            grep -o "\"$1\":[0-9]*" | head -1 | grep -o '[0-9]*$')
        sum=$((sum + ${count:-0}))
    done
    echo "$sum"
}

# move TO ARGUMENTS...
move() {
    local to=$1
    shift
    "$WEFT" ctl handover "$@" --to "$to" --controller site >>"$work/orders" 2>&1 || { tail -3 "$work/orders"; return 1; }
}
