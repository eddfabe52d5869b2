#!/usr/bin/env bash
# Real traffic of two hosts through a node on AF_PACKET ports.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/traffic.sh
. ../lib/traffic.sh

gain_privileges "$@"
need_locked_memory
start_namespaces
# The kernel puts fragments together again before DPDK's driver sees them (it
# asks for PACKET_FANOUT_FLAG_DEFRAG), and the driver takes 2 KiB at most.
real_traffic AF_PACKET \
    "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 1472 0
close_report
