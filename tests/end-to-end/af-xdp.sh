#!/usr/bin/env bash
# Real traffic of two hosts through a node on AF_XDP ports.
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
reason=$(can_use_xdp) || skip_script "$reason"
start_namespaces
# A veth device whose peer has an XDP program counts no Ethernet headers as sent.
real_traffic AF_XDP "net_af_xdp0,iface=$PORT_ACCESS" "net_af_xdp1,iface=$PORT_CORE" 3000 14
close_report
