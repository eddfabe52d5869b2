#!/usr/bin/env bash
# Gateway, stations and controller are killed (SIGKILL) while users move between the
# stations with their traffic, at each step of a move, and start again: never two owners,
# one again once all are back, no gate stays closed, and other users see nothing of it.
#
#   KILLS=1000 handover-kill.sh    that many rounds
#   SEED=7 handover-kill.sh        the same choices again, but not the same moments
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/handover_site.sh
. ../lib/handover_site.sh

begin_site "$@"
users=20 rate=600 kills=${KILLS:-16}

# Here End Markers do get lost, so gates and sources wait as they do by default.
# The server knows its gateway, and does not lose packets because that was dead when it asked.
lay_out && in_ns srv ip neighbour replace 198.51.100.254 dev eth0 lladdr 02:00:00:00:12:01 nud permanent &&
    write_files 200 2000 && write_commands

they_are_killed() {
    ../lib/handover_kill.py "$work" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$kills" ${SEED:+"$SEED"} \
        >"$work/kills" 2>&1
    local status=$?
    note "$(cat "$work/kills")"
    return "$status"
}

check "processes are killed at each step of moves, and users have one owner each" they_are_killed
close_report
