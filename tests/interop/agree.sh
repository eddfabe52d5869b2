#!/usr/bin/env bash
# Whether the control planes on go-pfcp and on Scapy say the same: see agree_test.py.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pfcp.sh
. ../lib/pfcp.sh

need_scapy
build_control_planes
[ "$failed" -eq 0 ] || { close_report; exit 1; }
exec ./agree_test.py ${go_control_plane:+"$go_control_plane"}
