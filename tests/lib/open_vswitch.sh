# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of netns.sh
# Open vSwitch with its userspace datapath in a namespace; to be sourced behind netns.sh.
#
#     have_open_vswitch || skip …
#     start_open_vswitch n && of_switch add-br br0 -- set bridge br0 datapath_type=netdev
#     stop_open_vswitch

switch_side='' switch='' database='' # its namespace, and process ids

have_open_vswitch() {
    local program
    for program in ovs-vswitchd ovsdb-server ovsdb-tool ovs-vsctl ovs-ofctl ovs-appctl; do
        command -v "$program" >/dev/null || return 1
    done
    [ -r /usr/share/openvswitch/vswitch.ovsschema ]
}

# start_open_vswitch SIDE: without a bridge.
start_open_vswitch() {
    switch_side=$1
    export OVS_RUNDIR=$netns_work OVS_LOGDIR=$netns_work OVS_DBDIR=$netns_work
    ovsdb-tool create "$netns_work/ovs.db" /usr/share/openvswitch/vswitch.ovsschema || return 1
    start_in "$1" "$netns_work/ovsdb.log" ovsdb-server "$netns_work/ovs.db" \
        "--remote=punix:$netns_work/db.sock" -vfile:off -vsyslog:off
    database=$started
    wait_until 10 test -S "$netns_work/db.sock" || return 1
    start_in "$1" "$netns_work/switch.log" ovs-vswitchd "unix:$netns_work/db.sock" \
        -vfile:off -vsyslog:off
    switch=$started
}

# of_switch COMMAND...: of ovs-vsctl.
of_switch() {
    in_ns "$switch_side" ovs-vsctl --timeout=20 "--db=unix:$netns_work/db.sock" -- "$@"
}

# told_by_switch COMMAND...: of ovs-appctl.
told_by_switch() {
    in_ns "$switch_side" ovs-appctl --timeout=20 -t "$netns_work/ovs-vswitchd.$switch.ctl" "$@"
}

stop_open_vswitch() {
    stop "$switch"
    stop "$database"
}
