#!/usr/bin/env bash
# `weft control` and `weft ctl handover` without nodes: a controller starts, keeps its
# records, serves its API with and without a token, refuses what cannot be done in one
# line, and survives being killed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh

work=$(mktemp -d)
# end: ends what was started. A check is a process of its own: what outlives it is in files.
end() {
    [ -e "$work/pid" ] && kill -9 "$(<"$work/pid")" 2>/dev/null
    rm -rf "$work"
}
trap end EXIT
export XDG_RUNTIME_DIR=$work

sed -e 's/:947[12]/:0/' -e 's/count: 10000/count: 100/' ../../examples/controller.yaml >"$work/site.yaml"
printf 'nodes-know-this-token' >"$work/node-token"
printf 'clients-know-this-token\n' >"$work/api-token"

# begin: starts the controller; notes its process and the address of its API.
begin() {
    : >"$work/out"
    "$WEFT" control "$work/site.yaml" >"$work/out" 2>"$work/log" &
    local _ controller=$!
    echo "$controller" >"$work/pid"
    for _ in $(seq 1200); do
        grep -q '^controller site is ready' "$work/out" && break
        kill -0 "$controller" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/out" "$work/log"
    sed -n 's/.*, API \([0-9.:]*\)$/\1/p' "$work/out" >"$work/api"
    [ -s "$work/api" ]
}

# finish SIGNAL: ends the controller, and waits until it has ended.
finish() {
    local _ controller
    controller=$(<"$work/pid")
    rm "$work/pid"
    kill "-$1" "$controller"
    for _ in $(seq 1200); do
        # One that nobody has waited for is a zombie.
        grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$controller/status" || return 0
        sleep 0.05
    done
    return 1
}

# ask METHOD PATH [BODY]: by the socket.
ask() {
    curl -sS --max-time 30 --unix-socket "$work/weft/site.controller" -X "$1" ${3:+-d "$3"} "http://weft$2"
}

# refused CODE WORDS COMMAND...: the command says one line with these words and ends so.
refused() {
    local code=$1 words=$2
    shift 2
    "$@" >"$work/said" 2>"$work/err" </dev/null
    local got=$?
    cat "$work/said" "$work/err"
    [ "$got" -eq "$code" ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qF -- "$words" "$work/err"
}

example_is_right() {
    "$WEFT" check ../../examples/controller.yaml | tee "$work/said" &&
        grep -qx 'controller site: 3 nodes, 10000 users' "$work/said" &&
        "$WEFT" schema controller | grep -q '"tokenFile"'
}

mistakes_have_places() {
    sed 's/number: 2/number: 1/' "$work/site.yaml" >"$work/wrong.yaml"
    refused 2 "wrong.yaml:18:23: 1 is the number of gateway already" "$WEFT" check "$work/wrong.yaml" &&
        refused 2 "wrong.yaml:18:23: " "$WEFT" control "$work/wrong.yaml"
}

starts_and_stops() {
    begin && ask GET /v1/nodes && finish TERM && [ ! -e "$work/weft/site.controller" ]
}

a_second_is_refused() {
    begin && refused 2 "another controller named site is running" "$WEFT" control "$work/site.yaml"
}

ctl_finds_the_controller() {
    refused 2 "the node is not connected" "$WEFT" ctl handover 7 --to station-b &&
        refused 2 "there is no node \`nowhere\`" "$WEFT" ctl handover 7 --to nowhere &&
        refused 2 "there is no node \`nowhere\`" "$WEFT" ctl handover --all-from nowhere --to station-a &&
        refused 2 "no controller named other is running" "$WEFT" ctl handover 7 --to station-b --controller other &&
        refused 2 "--to" "$WEFT" ctl handover 7 &&
        refused 2 "cannot be used with" "$WEFT" ctl handover 7 --all-from station-a --to station-b
}

tcp_asks_for_the_token() {
    local api
    api=$(<"$work/api")
    refused 2 "give --token-file" "$WEFT" ctl handover 7 --to station-b --controller "http://$api" &&
        refused 2 "the token is missing or wrong" "$WEFT" ctl handover 7 --to station-b \
            --controller "http://$api" --token-file "$work/node-token" &&
        refused 2 "the node is not connected" "$WEFT" ctl handover 7 --to station-b \
            --controller "http://$api" --token-file "$work/api-token"
}

api_is_described() {
    local api
    api=$(<"$work/api")
    ask GET /v1/openapi.json >"$work/openapi.json" && grep -q '"openapi":"3.1.0"' "$work/openapi.json" &&
        [ "$(curl -s -o "$work/said" -w '%{http_code}' "http://$api/v1/nodes")" = 401 ] &&
        grep -q '"detail":"the token is missing or wrong"' "$work/said" &&
        curl -s -H 'Authorization: Bearer clients-know-this-token' "http://$api/v1/nodes" | grep -q station-b
}

tls_is_spoken() {
    local api https token=$work/api-token ca=$work/ca.pem
    make_certificates && finish TERM || return 1
    cp "$work/site.yaml" "$work/plain.yaml"
    sed -i 's/^api: {/api: {tls: {certificate: certificate.pem, key: key.pem}, /' "$work/site.yaml"
    begin || return 1
    api=$(<"$work/api") https=https://$(<"$work/api")
    [ "$(curl -s --cacert "$ca" -o "$work/said" -w '%{http_code}' "$https/v1/nodes")" = 401 ] &&
        curl -s --cacert "$ca" -H "Authorization: Bearer $(<"$token")" "$https/v1/nodes" | grep -q station-b || return 1
    ! curl -s "$https/v1/nodes" || return 1
    "$WEFT" ctl nodes --controller "$https" --token-file "$token" --ca-file "$ca" | grep -q station-b &&
        refused 2 "give --ca-file" "$WEFT" ctl nodes --controller "$https" --token-file "$token" &&
        refused 2 "invalid peer certificate" "$WEFT" ctl nodes --controller "$https" --token-file "$token" \
            --ca-file "$work/other.pem" &&
        refused 2 "TLS is spoken here: use https://" "$WEFT" ctl nodes --controller "http://$api" --token-file "$token" &&
        finish TERM || return 1
    # A controller that could not show who it is does not start.
    cp "$work/other-key.pem" "$work/key.pem"
    refused 2 "is not the key of" "$WEFT" control "$work/site.yaml" || return 1
    mv "$work/plain.yaml" "$work/site.yaml"
    begin
}

# make_certificates: one for 127.0.0.1, and those that sign: its own and another.
make_certificates() {
    (cd "$work" && for one in ca other; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$one" \
            -keyout "$one-key.pem" -out "$one.pem" || return 1
    done
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=site -keyout key.pem -out request.pem &&
        printf 'subjectAltName = IP:127.0.0.1\n' >names &&
        openssl x509 -req -days 2 -in request.pem -CA ca.pem -CAkey ca-key.pem -extfile names -out certificate.pem)
}

a_removed_user_stays_away() {
    ask GET /v1/users/8 | tee "$work/said" && grep -q '"state":"Waiting"' "$work/said" &&
        ask DELETE /v1/users/8 && ask GET /v1/users/8 | grep -q 'there is no such user' || return 1
    # A moment: an answer does not wait for the disk.
    sleep 1
    finish KILL
    begin && ask GET /v1/users/8 | grep -q 'there is no such user' && ask GET /v1/users/9 | grep -q '"Waiting"'
}

strangers_are_shown_out() {
    local address
    address=$(sed -n 's/.*; nodes \([0-9.:]*\), socket.*/\1/p' "$work/out")
    # It may be shown out before it has said all.
    printf 'GET / HTTP/1.1\r\nHost: somebody\r\n\r\n' >"/dev/tcp/${address%:*}/${address##*:}"
    local _
    for _ in $(seq 1200); do
        grep -q 'a connection was ended' "$work/log" && break
        sleep 0.05
    done
    cat "$work/log"
    [ "$(grep -c 'a connection was ended: it does not begin with a greeting' "$work/log")" -eq 1 ] &&
        ask GET /v1/nodes | grep -q gateway
}

damage_is_refused() {
    # Octets of each page, as a disk that fails would change them.
    python3 - "$work/records/state.redb" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    size = file.seek(0, 2)
    for at in range(4096, size - 16, 4096):
        file.seek(at + 8)
        file.write(b"\xff" * 8)
PY
    refused 2 "state.redb: damaged" "$WEFT" control "$work/site.yaml"
}

# As a disk that was full, or a copy that was broken off, leaves the file: one line says so.
store_cut_short_is_refused() {
    local size part words
    finish TERM || return 1
    size=$(stat -c %s "$work/records/state.redb")
    cp "$work/records/state.redb" "$work/whole.redb"
    for part in 0 17 4095 $((size / 2)) $((size - 1)); do
        head -c "$part" "$work/whole.redb" >"$work/records/state.redb"
        words="state.redb: damaged"
        [ "$part" -gt 0 ] || words="state.redb: this is not a store of Weft"
        refused 2 "$words" "$WEFT" control "$work/site.yaml" || return 1
    done
    # It was left alone.
    cp "$work/whole.redb" "$work/records/state.redb"
    begin && finish TERM
}

# A controller of an earlier release was killed while it wrote its file of records.
torn_tail_of_before_is_cut_off() {
    rm -rf "$work/records"
    mkdir "$work/records"
    python3 - "$work/records/records" <<'PY'
import struct, sys, zlib
head = b"weftjrnl\0\0\0\x01"
with open(sys.argv[1], "wb") as file:
    file.write(head + struct.pack(">I", zlib.crc32(head)) + b"half a ")
PY
    begin && grep -q 'what was being written at the last stop was cut off octets=7' "$work/log" && finish INT
}

check "the example is right" example_is_right
check "a mistake is told where it stands" mistakes_have_places
check "a controller starts and stops" starts_and_stops
check "a second one of its name is refused" a_second_is_refused
check "ctl finds the controller, and says why not" ctl_finds_the_controller
check "over TCP the token is asked for" tcp_asks_for_the_token
check "the API is described, and closed to strangers" api_is_described
check "TLS is spoken where the configuration says so" tls_is_spoken
check "a removed user stays away after a kill" a_removed_user_stays_away
check "strangers are shown out with one line" strangers_are_shown_out
check "a store that was cut short is refused" store_cut_short_is_refused
check "damaged records are refused" damage_is_refused
check "a torn end of records of before is cut off" torn_tail_of_before_is_cut_off
close_report
