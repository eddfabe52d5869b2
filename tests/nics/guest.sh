#!/bin/sh
# In the emulated machine: NICs go to vfio-pci whenever they come, and a node runs on those of
# each kind while the host sends packets, asks what the node has counted, and takes a NIC away.
cd /share || exit
export WEFT_SOCKET=/run/node.sock

# addresses VENDOR: of the NICs that are its.
addresses() {
    for device in /sys/bus/pci/devices/*; do
        case $(cat "$device/class" "$device/vendor" 2>/dev/null | tr '\n' ' ') in
        0x0200*"$1"*) echo "${device##*/}" ;;
        esac
    done
}

# give: what a host's own rules would do with NICs that are DPDK's.
give() {
    for address in $(addresses 0x); do
        device=/sys/bus/pci/devices/$address
        [ "$(basename "$(readlink "$device/driver")")" = vfio-pci ] && continue
        echo vfio-pci >"$device/driver_override"
        [ -e "$device/driver" ] && echo "$address" >"$device/driver/unbind"
        echo "$address" >/sys/bus/pci/drivers_probe
    done
} 2>/dev/null

# answer: what the host asks for goes into a file that it finds complete.
answer() {
    for ask in "$out"/ask-*; do
        [ -e "$ask" ] || continue
        said=$out/said-${ask##*-}
        rm "$ask"
        weft show ports -v --json >"$said.part" 2>&1
        mv "$said.part" "$said"
    done
    # So many workers are to have threads of their own.
    for order in "$out"/workers-*; do
        [ -e "$order" ] || continue
        rm "$order"
        weft ctl workers "${order##*-}" >>"$out/parked" 2>&1
    done
}

is_gone() {
    ! kill -0 "$node" 2>/dev/null
}

start() {
    weft check --devices "$out/node.yaml" >"$out/devices" 2>&1
    weft run "$out/node.yaml" >"$out/node" 2>&1 &
    node=$!
    left=600
    until grep -qs '^node .* is ready' "$out/node" || is_gone || [ "$left" = 0 ]; do
        left=$((left - 1))
        sleep 0.2
    done
    grep -qs '^node .* is ready' "$out/node" && echo >"$out/ready"
}

# of_node RUN VENDOR FILE CHECKSUMS: the life of one node.
of_node() {
    out=/share/$1
    give
    # shellcheck disable=SC2046 # two words
    set -- $(addresses "$2") "$3" "$4"
    sed "s/@ACCESS@/$1/; s/@CORE@/$2/; s/@CHECKSUMS@/$4/" "$3" >"$out/node.yaml"
    start
    until [ -e "$out/end" ] || is_gone; do
        answer
        sleep 0.1
    done
    stop
}

# of_taps RUN FILE: that of a node on TAP devices, whose far ends are here: users of the
# configuration, and one that comes, send and receive; the node starts again, and then most are gone.
of_taps() {
    out=/share/$1
    sed "s/@USERS@/1000/" "$2" >"$out/node.yaml"
    sed "s/@USERS@/8/" "$2" >"$out/few.yaml"
    start
    weft ctl bearer add 7 --like like --ipv4 10.4.0.7 --ipv6 2001:db8:1:9::/64 >"$out/changes" 2>&1
    settle
    weft generate /share/flows.yaml --json "$out/traffic" >"$out/generator" 2>&1
    weft show ports --json >"$out/with" 2>&1
    halt
    start
    settle
    weft show ports --json >"$out/again" 2>&1
    weft ctl bearer remove 7 >>"$out/changes" 2>&1
    weft ctl apply "$out/few.yaml" >>"$out/changes" 2>&1
    settle
    weft show ports --json >"$out/few" 2>&1
    stop
}

# settle: waits a while until no port gets or loses flow rules any more.
settle() {
    before='' left=100
    until now=$(weft show ports --json | grep '"flow_rules"') && [ "$now" = "$before" ] ||
        is_gone || [ "$left" = 0 ]; do
        before=$now
        left=$((left - 1))
        sleep 0.5
    done
}

halt() {
    kill -TERM "$node" 2>/dev/null
    left=300
    until is_gone || [ "$left" = 0 ]; do
        left=$((left - 1))
        sleep 0.1
    done
    kill -KILL "$node" 2>/dev/null
    wait "$node"
    echo $? >"$out/status"
}

stop() {
    halt
    echo >"$out/done"
}

while :; do
    give
    sleep 0.5
done &

while read -r run vendor file checksums; do
    case $vendor in
    taps) of_taps "$run" "$file" ;;
    *) of_node "$run" "$vendor" "$file" "$checksums" ;;
    esac
done </share/runs
dmesg >/share/kernel.log
