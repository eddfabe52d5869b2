#!/usr/bin/env bash
# A site without a list of nodes: a gateway and two stations register, documents are applied
# and rolled out under traffic, a change that drops packets is rolled back, a station that
# dies has its users adopted and its settings again when it is back.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/handover_site.sh
. ../lib/handover_site.sh

begin_site "$@"
users=4

lay_out && write_files && write_commands || exit 1
# The controller knows no node, and users are added when the nodes are there.
sed -i -e '/^nodes:/,/^  station-b:/d' -e '/^users:/,$d' "$work/site.yaml"
printf 'membership: {lease: 2, adopt: true}\ntransport: {silence: 2500}\ntls: {%s}\n' "$(enciphered site)" >>"$work/site.yaml"
advertise() {
    sed -i "s|--handover-token-file|--handover-advertise $2:9473 --handover-capacity $3 &|" "$work/$1.start"
}
advertise gateway 192.0.2.2 3000000
advertise station-a 192.0.2.3 1000000
advertise station-b 192.0.2.4 2000000

weft() { "$WEFT" "$@" --controller site; }

# launch NAME: starts a process whose number is known, and waits until it is ready.
launch() {
    : >"$work/$1.out"
    sh "$work/$1.start" >"$work/$1.out" 2>"$work/$1.log" &
    echo $! >"$work/$1.pid"
    wait_until 60 grep -q ' is ready' "$work/$1.out" || { cat "$work/$1.log"; return 1; }
}

crash() {
    kill -9 "$(<"$work/$1.pid")"
}

nodes_join() {
    local name user
    launch site || return 1
    for name in gateway station-a station-b; do launch "$name" || return 1; done
    for name in gateway station-a station-b; do
        weft wait --for "node=$name" --timeout 60 || return 1
    done
    weft get nodes | tee "$work/said"
    grep -Eq '^station-b +connected +own file +[0-9.]+ +192.0.2.4:9473 +2000000' "$work/said" || return 1
    for user in $(seq "$users"); do
        weft ctl user add "$user" --node station-a --anchor gateway || return 1
    done
    wait_until 60 settled station-a
}

# documents POLICER: the stations by a template, with this rate for each user.
documents() {
    local name
    printf 'apiVersion: weft/v1\nkind: Site\nmetadata: {name: north}\nrollout: {watch: 4, answer: 60, drops: 5}\n'
    printf -- '---\napiVersion: weft/v1\nkind: NodeTemplate\nmetadata: {name: stations}\nnodes:\n'
    printf '  station-a: {number: 2, own: 10.1.0.1, other: 3, there: 10.1.0.2}\n'
    printf '  station-b: {number: 3, own: 10.1.0.2, other: 2, there: 10.1.0.1}\n'
    printf 'template: |\n'
    # shellcheck disable=SC2016 # gaps of the template
    sed -e 's/station-a/$(name)/g' -e 's/^  node: 2/  node: $(number)/' \
        -e 's/{node: 3, address: 10.1.0.2}/{node: $(other), address: $(there)}/' -e 's/10\.1\.0\.1\b/$(own)/' \
        -e "s|committedRate: [0-9]* [A-Za-z/]*|committedRate: $1|" -e 's/^/  /' "$work/station-a.yaml"
}

# send: packets of the first user into the air of station-a, until it is ended.
send() {
    # It ends with its namespace, if not before.
    in_ns ue python3 - ra 2>"$work/send.log" <<'PYTHON' &
import socket, struct, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((sys.argv[1], 0))
data = bytes(400)
udp = struct.pack("!HHHH", 4000, 4000, 8 + len(data), 0) + data
head = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0,
                             socket.inet_aton("10.45.0.1"), socket.inet_aton("198.51.100.1")))
total = sum(struct.unpack("!10H", head))
total = (total & 0xffff) + (total >> 16)
head[10:12] = struct.pack("!H", ~((total & 0xffff) + (total >> 16)) & 0xffff)
frame = bytes.fromhex("020000001001020000001002" + "0800") + bytes(head) + udp
while True:
    wire.send(frame)
    time.sleep(0.002)
PYTHON
    echo $! >"$work/send.pid"
}

mistakes_are_told() {
    documents '20 Mbit/s' | sed 's/from full -> radio/from ful -> radio/' >"$work/wrong.yaml"
    local line
    line=$(grep -n 'from ful ' "$work/wrong.yaml" | cut -d: -f1)
    weft apply -f "$work/wrong.yaml" 2>"$work/said"
    [ $? -eq 2 ] || return 1
    cat "$work/said"
    grep -qF "$work/wrong.yaml:$line:" "$work/said" || return 1
    weft get revisions | tee "$work/said"
    grep -qx 'no revisions' "$work/said"
}

documents_are_rolled_out() {
    documents '20 Mbit/s' >"$work/documents.yaml"
    weft apply -f "$work/documents.yaml" --dry-run || return 1
    weft diff -f "$work/documents.yaml" >/dev/null 2>&1 && return 1
    weft apply -f "$work/documents.yaml" --wait | tee "$work/said"
    grep -qx '2 of 2 nodes run as revision 1 says' "$work/said" || return 1
    weft diff -f "$work/documents.yaml" || return 1
    weft get all -o yaml | cmp - "$work/documents.yaml" || return 1
    documents '19 Mbit/s' >"$work/documents.yaml"
    weft apply -f "$work/documents.yaml" --wait | tee "$work/said"
    grep -qx '2 of 2 nodes run as revision 2 says' "$work/said"
}

# The station that has traffic says so, and what share of its capacity that is.
station_is_loaded() {
    weft get nodes >"$work/said"
    grep -Eq '^station-a +connected +current .* 1000000 +4 +[1-9][0-9,]* +[0-9.]+ % +[0-9,]+ +[0-9.]+ %$' "$work/said"
}

nodes_say_what_they_carry() {
    wait_until 30 station_is_loaded
    local status=$?
    cat "$work/said"
    note "$(grep '^station-a' "$work/said")"
    return "$status"
}

# The policer lets nearly nothing through: station-a, which is changed first, drops.
harm_is_rolled_back() {
    documents '8 kbit/s' >"$work/harm.yaml"
    weft apply -f "$work/harm.yaml" --wait >"$work/said" 2>&1
    local status=$?
    cat "$work/said"
    [ "$status" -eq 1 ] && grep -q 'rolled back, now revision 4: station-a: it drops' "$work/said" || return 1
    note "$(tail -1 "$work/said")"
    weft get revisions
    weft get rollout | tee "$work/said"
    grep -q '^revision 4 is rolled-back' "$work/said" && [ "$(grep -c ' current$' "$work/said")" -eq 2 ] || return 1
    weft get all -o yaml | cmp - "$work/documents.yaml" || return 1
    ! grep -q 'the node runs as its controller says' "$work/station-b.log" ||
        [ "$(grep -c 'the node runs as its controller says' "$work/station-b.log")" -eq 2 ]
}

a_dead_station_is_replaced() {
    crash station-a || return 1
    local since
    since=$(date +%s%N)
    wait_until 60 settled station-b || { weft get nodes; return 1; }
    note "users of a killed station are another one's after $((($(date +%s%N) - since) / 1000000)) ms"
    weft get nodes | tee "$work/said"
    grep -Eq '^station-a +(expired|gone)' "$work/said" || return 1
    launch station-a || return 1
    # It has its settings again.
    wait_until 60 eval 'weft get rollout | grep -Eq "^station-a +current"' || { weft get rollout; return 1; }
    weft ctl handover --all-from station-b --to station-a && settled station-a
}

# What was applied and who registered is there again.
a_controller_that_dies_knows_all() {
    crash site && launch site || return 1
    weft wait --for node=station-a --timeout 60 && weft wait --for rollout --timeout 60 >/dev/null 2>&1
    weft get revisions | tee "$work/said"
    grep -q '^ *4 ' "$work/said" && weft get all -o yaml | cmp - "$work/documents.yaml" && settled station-a
}

members_are_removed() {
    weft delete member station-b 2>"$work/said" && return 1
    grep -q 'it is connected' "$work/said" || return 1
    crash station-b || return 1
    wait_until 60 eval 'weft delete member station-b' || return 1
    ! weft get nodes | grep -q station-b
}

check "nodes join that no file names" nodes_join
send
check "mistakes in documents have line and column, and change nothing" mistakes_are_told
check "documents are rolled out node by node under traffic" documents_are_rolled_out
check "nodes say what they carry" nodes_say_what_they_carry
check "a change by which a node drops packets is rolled back" harm_is_rolled_back
check "users of a station that is killed are adopted, and it has its settings when it is back" a_dead_station_is_replaced
check "a controller that is killed knows nodes and documents" a_controller_that_dies_knows_all
check "a node that is stopped is removed" members_are_removed
kill "$(<"$work/send.pid")" 2>/dev/null
close_report
