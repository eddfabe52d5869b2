#!/usr/bin/env bash
# `weft smf` against a user plane that is not Weft's and errs on purpose: what it finds lost,
# refused and wrong is what that user plane did. Nothing but loopback is needed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
start_namespaces
make_namespace n # loopback of its own: the port is that of the standard
profile=$(realpath ../../examples/smf.yaml)

start_user_plane() {
    mkfifo "$netns_work/in"
    # shellcheck disable=SC2016 # expanded by the inner shell
    start_in n "$netns_work/did" bash -c 'exec ../interop/answering_user_plane.py 127.0.0.1 <"$0"' \
        "$netns_work/in"
    user_plane=$started
    exec {input}>"$netns_work/in"
    wait_until 20 grep -q ready "$netns_work/did"
}

load() {
    in_ns n timeout 200 "$WEFT" smf "$profile" --duration 3 --rate 1000 \
        --json "$netns_work/said" --tunnels "$netns_work/tunnels" >"$netns_work/text" 2>&1 ||
        { cat "$netns_work/text" && return 1; }
    exec {input}>&-
    wait "$user_plane"
}

# same WHAT OF-THE-USER-PLANE OF-THE-CONTROL-PLANE: two programs of jq give the same number.
same() {
    equal "$1, done and found" "$(tail -n 1 "$netns_work/did" | jq "$2")" "$(jq "$3" "$netns_work/said")"
}

requests_found() {
    same "refused" .refused '[.requests[].refused["75"] // 0] | add' &&
        same "established" '.established + .refused' .requests.establish.answered &&
        same "deleted" .deleted .requests.delete.answered &&
        same "queries" .queried .requests.query.answered &&
        same "End Markers" .endMarkers .requests.handover.answered &&
        same "lost messages" .lost '[.requests[].repeated] | add' &&
        same "sessions left" .left 0
}

wrong_found() {
    same "without an F-TEID" .withoutTunnel \
        '.wrong["establishments without an F-SEID or F-TEID"]' &&
        same "repeated F-TEIDs" .repeatedTunnel '.wrong["F-TEIDs that another session has"]' &&
        same "Downlink Data Reports" .downlinkData '.asked["Downlink Data Reports"]' &&
        same "reported octets" '30 * (.deleted + .queried)' .usage.total &&
        same "other wrongs" 0 '.wrong | del(.["establishments without an F-SEID or F-TEID"],
            .["F-TEIDs that another session has"]) | add'
}

# Some of everything was tried.
enough() {
    tail -n 1 "$netns_work/did" | jq -e '[.lost, .refused, .withoutTunnel, .repeatedTunnel,
        .downlinkData, .endMarkers, .queried] | all(. > 0)' >/dev/null &&
        jq -e '[.requests[].lost] | add == 0' "$netns_work/said" >/dev/null
}

tunnels_written() {
    head -n 1 "$netns_work/tunnels" | grep -qx 'user,uplinkTeid,userPlane,downlinkTeid,station' &&
        [ "$(wc -l <"$netns_work/tunnels")" -gt 900 ] &&
        grep -qE '^10\.45\.0\.2,[0-9]+,127\.0\.0\.1,65537,192\.0\.2\.1$' "$netns_work/tunnels"
}

# A user plane that is not there.
alone() {
    sed 's/t1: 1, n1: 3/t1: 0.1, n1: 2/' "$profile" >"$netns_work/alone.yaml"
    local output status
    output=$(in_ns n "$WEFT" smf "$netns_work/alone.yaml" 2>&1)
    status=$?
    [ "$status" -eq 1 ] && grep -q 'weft: the user plane does not answer' <<<"$output" && return
    echo "exit code $status: $output"
    return 1
}

check "a user plane that does not answer" alone
try "a user plane that errs" start_user_plane
try "sessions are established, changed and deleted" load || { close_report; exit 1; }
note "$(sed -n 2,4p "$netns_work/text" | paste -sd ' ')"
check "what was lost and refused is found" requests_found
check "what is wrong is found" wrong_found
check "some of everything was tried" enough
check "the tunnels of all sessions are written" tunnels_written
check "the schema is printed" says '"title": "ControlPlane"' "$WEFT" schema smf
close_report
