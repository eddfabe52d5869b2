#!/bin/sh
# In the emulated machine: each chain's virtual functions are made, its node runs while the
# host sends packets, and all of it is taken away again. What is seen on the way goes into
# the shared folder, where the host judges it.
cd /share || exit
export WEFT_SOCKET=/run/node.sock

# wait_for SECONDS COMMAND...
wait_for() {
    left=$(($1 * 5))
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.2
    done
}

# saying NAME COMMAND...: what it prints, and its exit code.
saying() {
    name=$1
    shift
    "$@" >"$out/$name" 2>"$out/$name.error"
    echo $? >"$out/$name.status"
}

# What the kernel has of virtual functions.
state() {
    for nic in /sys/bus/pci/devices/*/sriov_numvfs; do
        device=${nic%/*}
        echo "numvfs $(cat "$nic")"
        echo "autoprobe $(cat "$device/sriov_drivers_autoprobe")"
        for child in "$device"/virtfn*; do
            [ -e "$child/driver" ] && echo "driver $(basename "$(readlink "$child/driver")")"
        done
    done
    echo "groups $(find /sys/kernel/iommu_groups -maxdepth 1 -mindepth 1 | wc -l)"
    echo "vfio $(find /dev/vfio -name '[0-9]*' | wc -l)"
}

functions_run_or_gone() {
    is_gone || functions_run
}

functions_run() {
    weft show runtime --json >"$out/starting" 2>&1 || return 1
    ! grep -Eq '"state": *"(absent|starting|failed)"' "$out/starting" &&
        grep -Eq '"state": *"running"' "$out/starting"
}

# kill_last: kills the process of the last function, and waits for the one that follows.
kill_last() {
    victim=$(last_process)
    kill -KILL "$victim" || return 1
    wait_for 60 has_followed
}

has_followed() {
    functions_run && ! grep -Eq "\"process\": $victim\b" "$out/starting"
}

is_gone() {
    ! kill -0 "$node" 2>/dev/null
}

# of_chain FILE: the life of one node.
of_chain() {
    file=$1
    saying before state
    saying early weft run "$file"
    saying plan weft vf plan "$file"
    saying planned state
    saying create weft vf create "$file"
    saying created state
    saying again weft vf create "$file"
    weft run "$file" >"$out/node" 2>&1 &
    node=$!
    wait_for 60 functions_run_or_gone
    if functions_run; then
        echo >"$out/ready"
        wait_for 240 test -e "$out/sent"
        saying runtime weft show runtime --json
        saying killed kill_last
        echo >"$out/ready-again"
        wait_for 240 test -e "$out/sent-again"
        saying runtime-again weft show runtime --json
    fi
    saying show weft vf show "$file"
    kill -TERM "$node" 2>/dev/null
    wait_for 30 is_gone || kill -KILL "$node"
    wait "$node"
    echo $? >"$out/node.status"
    saying remove weft vf remove "$file"
    saying removed state
    saying shown weft vf show
    echo >"$out/done"
}

ports_are() {
    weft show ports --json >"$out/ports" 2>&1 || return 1
    [ "$(grep -c "\"state\": *\"$1\"" "$out/ports")" = 2 ]
}

some_port_went() {
    ! ports_are up
}

last_process() {
    sed -n 's/.*"process": \([0-9][0-9]*\).*/\1/p' "$out/starting" | tail -n 1
}

# reset_nic: takes the physical function down and up, for which its virtual functions have to be
# set up anew, and waits until the node has its ports and the function its own again.
reset_nic() {
    victim=$(last_process)
    ip link set eth0 down || return
    sleep 0.5
    ip link set eth0 up || return
    wait_for 30 some_port_went && wait_for 60 has_followed && wait_for 60 ports_are up
}

# of_reset FILE: the life of a node whose NIC is reset while packets pass.
of_reset() {
    file=$1
    saying create weft vf create "$file"
    weft run "$file" >"$out/node" 2>&1 &
    node=$!
    wait_for 60 functions_run_or_gone
    functions_run && echo >"$out/ready"
    wait_for 240 test -e "$out/sent"
    saying reset reset_nic
    echo >"$out/ready-again"
    wait_for 240 test -e "$out/sent-again"
    saying runtime weft show runtime --json
    kill -TERM "$node" 2>/dev/null
    wait_for 30 is_gone || kill -KILL "$node"
    wait "$node"
    echo $? >"$out/node.status"
    saying remove weft vf remove "$file"
    echo >"$out/done"
}

for file in reset.yaml chain-*.yaml; do
    [ -e "$file" ] || continue
    out=/share/${file%.yaml}
    "of_${file%%[.-]*}" "$file"
done
dmesg >/share/kernel.log
