#!/usr/bin/env bash
# Metrics, alerts and dashboards against the programs that read them: promtool checks the
# rules and what is served, and a real Prometheus scrapes a node, a user plane that PFCP drives,
# a station and a controller, evaluates the rules and answers every question of the dashboards.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh

gain_privileges "$@"
command -v promtool >/dev/null || skip_script "there is no promtool"
start_namespaces
root=$(cd ../.. && pwd)
deploy=$root/deploy
work=$netns_work

readonly METRICS=127.0.0.1:9470 PROMETHEUS=127.0.0.1:9090
# Of the user plane, the station and the controller.
readonly OTHERS=(127.0.0.1:9461 127.0.0.1:9462 127.0.0.1:9463)
readonly NOWHERE="no-rx=1" # a port at which nothing comes in

as_built() {
    mkdir -p "$work/dashboards"
    "$deploy/grafana/build.py" "$work/dashboards" && diff -r -x build.py "$work/dashboards" "$deploy/grafana"
}

# A node whose port repeats a capture, as docs/command-line.md has it.
write_node() {
    cat >"$work/node.yaml" <<NODE
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
workers: {polling: adaptive}
ports:
  access:
    device: "net_pcap0,rx_pcap=$root/tests/golden/captures/ipv4-mix.pcap,infinite_rx=1"
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    nextHopMac: 02:00:00:00:01:01
  core:
    device: "net_null0,no-rx=1"
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    nextHopMac: 02:00:00:00:02:01
functions:
  count: {function: counter}
  police: {function: marker, config: {meter: {singleRate: {committedRate: 20 Mbit/s, committedBurst: 64 KiB}}}}
users:
  - {name: ue, count: 20, match: {ipv4: 10.0.0.1}, chain: full}
rules: |
  chain full = count -> police
  from access -> full
  from core -> full
  from full when colour == red -> drop
  from full when direction == uplink -> core
  from full -> access
NODE
}

# A user plane without sessions, and a station of a site without users' packets.
write_others() {
    cat >"$work/upf.yaml" <<NODE
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
workers: {polling: adaptive}
ports:
  n3: {device: "net_null0,$NOWHERE", direction: uplink, mac: "02:00:00:00:00:03", addresses: [192.0.2.1/24], nextHopMac: "02:00:00:00:01:03"}
  n6: {device: "net_null1,$NOWHERE", direction: downlink, mac: "02:00:00:00:00:04", addresses: [198.51.100.1/24], nextHopMac: "02:00:00:00:01:04"}
functions:
  detect: {function: session-detection}
  act: {function: session-forwarding}
users:
  - {name: session, count: 0}
pfcp:
  listen: [127.0.0.1]
  like: session
  peers: [127.0.0.0/8]
  interfaces:
    - {interface: access, addresses: [192.0.2.1]}
    - {interface: core, pools: [10.45.0.0/16]}
rules: |
  from n3 -> detect
  from n6 -> detect
  from detect -> act
  from act when direction == uplink -> n6
  from act -> n3
NODE
    cat >"$work/station.yaml" <<NODE
apiVersion: weft/v1
kind: Node
metadata: {name: station}
workers: {polling: adaptive}
ports:
  radio: {device: "net_null0,$NOWHERE", direction: uplink, mac: "02:00:00:00:00:05"}
  core: {device: "net_null1,$NOWHERE", direction: downlink, mac: "02:00:00:00:00:06", addresses: [10.1.0.1/24]}
functions:
  from-anchor: {function: gtpu-decapsulate}
  to-anchor: {function: gtpu-encapsulate}
users:
  - {name: ue, count: 10, match: {ipv4: 10.45.0.1}}
rules: |
  from radio -> to-anchor
  from core -> from-anchor
  from from-anchor -> radio
  from to-anchor -> core
handover:
  node: 2
  role: station
  address: 10.1.0.1
  tunnel: to-anchor
  users: [{name: ue, first: 1}]
  peers: [{node: 1, address: 10.1.0.254}]
NODE
    cat >"$work/site.yaml" <<SITE
apiVersion: weft/v1
kind: Controller
metadata: {name: site}
listen: 127.0.0.1:9471
tokenFile: token
records: records
nodes:
  gateway: {number: 1, address: 127.0.0.1:9473}
  station: {number: 2, address: 127.0.0.1:9474}
users:
  - {first: 1, count: 10, anchor: gateway, node: station}
SITE
    echo 0123456789abcdef >"$work/token"
}

# start_others: each serves metrics; the controller at its page.
start_others() {
    local name
    write_others
    start_in n "$work/site.log" "$WEFT" control "$work/site.yaml" --socket "$work/site.sock" --http "${OTHERS[2]}"
    start_in n "$work/upf.log" "$WEFT" run "$work/upf.yaml" --socket "$work/upf.sock" --metrics "${OTHERS[0]}"
    start_in n "$work/station.log" "$WEFT" run "$work/station.yaml" --socket "$work/station.sock" \
        --metrics "${OTHERS[1]}" --handover-controller 127.0.0.1:9471 --handover-listen 127.0.0.1:9474 \
        --handover-token-file "$work/token"
    for name in site upf station; do
        wait_until 60 grep -q 'is ready' "$work/$name.log" || { cat "$work/$name.log"; return 1; }
    done
    wait_until 60 is_connected
}

is_connected() {
    in_ns n curl -sf "http://${OTHERS[2]}/metrics" | grep -q '^weft_controller_node_connected{node="station"} 1$'
}

start_prometheus() {
    cat >"$work/prometheus.yml" <<CONFIG
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["$deploy/prometheus/rules.yaml"]
scrape_configs:
  - job_name: weft-nodes
    static_configs: [{targets: ["$METRICS"]}]
  - job_name: weft-others
    static_configs: [{targets: ["${OTHERS[0]}", "${OTHERS[1]}"]}]
  - job_name: weft-controller
    static_configs: [{targets: ["${OTHERS[2]}"]}]
CONFIG
    promtool check config "$work/prometheus.yml" || return 1
    start_in n "$work/prometheus.log" prometheus --config.file="$work/prometheus.yml" \
        --storage.tsdb.path="$work/tsdb" --web.listen-address="$PROMETHEUS" --log.level=warn
}

ask() {
    in_ns n curl -sf --max-time 30 "http://$PROMETHEUS/api/v1/$1" "${@:2}"
}

# value QUESTION: of the one series it has, or of all of them one a line.
value() {
    ask query --data-urlencode "query=$1" | jq -r '.data.result[].value[1]'
}

is_up() {
    [ "$(value 'sum(up)')" = 4 ]
}

# What Prometheus has stored is what the node counts: between two looks at the node.
counts_agree() {
    local before after stored
    before=$(shown) && sleep 3
    stored=$(value 'weft_packets_total{port="access",direction="rx"}')
    after=$(shown)
    echo "$before <= $stored <= $after"
    [ "$before" -le "$stored" ] && [ "$stored" -le "$after" ]
}

shown() {
    in_ns n "$WEFT" show ports --json --socket "$work/node.sock" |
        jq '.ports[] | select(.name == "access") | .rx_packets'
}

# Every rule is evaluated without an error, and no alert fires for a node that is well.
rules_hold() {
    local wrong
    wrong=$(ask rules | jq -r '.data.groups[].rules[] | select(.health != "ok") | .name + ": " + .health + " " + (.lastError // "")')
    [ -z "$wrong" ] || { echo "$wrong"; return 1; }
    wrong=$(ask alerts | jq -r '.data.alerts[] | select(.state == "firing") | .labels.alertname')
    [ -z "$wrong" ] || { echo "fires: $wrong"; return 1; }
}

rules_are_evaluated() {
    [ "$(ask rules | jq -r '[.data.groups[].rules[] | select(.health == "unknown")] | length')" = 0 ]
}

# Questions of a dashboard, as Grafana asks them.
questions() {
    jq -r '.panels[].targets[].expr' "$deploy/grafana/$1.json" |
        sed 's/\$node/.*/g; s/\$__rate_interval/5s/g'
}

# questions_answered DASHBOARD LEAST: none is refused, and so many have an answer once there are
# two samples of each node.
questions_answered() {
    wait_until 30 asked "$1" "$2"
    local status=$?
    note "$(cat "$work/asked")"
    cat "$work/asked"
    return $status
}

asked() {
    local question answer all=0 answered=0
    while read -r question; do
        all=$((all + 1))
        answer=$(ask query --data-urlencode "query=$question") || { echo "refused: $question" >"$work/asked"; return 1; }
        [ "$(jq '.data.result | length' <<<"$answer")" = 0 ] || answered=$((answered + 1))
    done < <(questions "$1")
    echo "dashboard $1: $answered of $all questions have an answer" >"$work/asked"
    [ "$answered" -ge "$2" ]
}

# Every metric that rules and dashboards speak of is one that a node or controller serves, also
# before anything has happened.
metrics_exist() {
    local name wrong=0 served=
    for name in "$METRICS" "${OTHERS[@]}"; do
        served+=$(in_ns n curl -sf "http://$name/metrics" | sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p')$'\n'
    done
    while read -r name; do
        grep -qxE "$name|${name%_bucket}|${name%_count}" <<<"$served" || { echo "no node serves $name"; wrong=1; }
    done < <(grep -ohP '(?<![:a-z_])weft_[a-z_]+(?![:a-z_])' "$deploy"/prometheus/rules.yaml "$deploy"/grafana/*.json | sort -u)
    return $wrong
}

page_is_right() {
    local place
    for place in "$METRICS" "${OTHERS[@]}"; do
        in_ns n curl -sf "http://$place/metrics" >"$work/metrics" && promtool check metrics <"$work/metrics" || return 1
    done
}

check "alerts: promtool accepts the rules" promtool check rules "$deploy/prometheus/rules.yaml"
check "alerts: each fires when it should, and not otherwise" \
    promtool test rules "$deploy/prometheus/rules-test.yaml"
check "dashboards: they are what build.py writes" as_built

make_namespace n
write_node
start_in n "$work/node.log" nice -n 10 "$WEFT" run "$work/node.yaml" --socket "$work/node.sock" --metrics "$METRICS"
if ! wait_until 60 grep -q 'is ready' "$work/node.log"; then
    fail "a node with metrics" "$(tail -n 5 "$work/node.log")"
    close_report
    exit
fi
try "a user plane, a station and its controller with metrics" start_others
check "metrics: promtool accepts what nodes and a controller serve" page_is_right
check "metrics: rules and dashboards ask for nothing else" metrics_exist
if start_prometheus >"$work/config.log" 2>&1 && wait_until 60 is_up; then
    check "Prometheus has what the node counts" counts_agree
    wait_until 60 rules_are_evaluated
    check "Prometheus evaluates the rules, and no alert fires" rules_hold
    check "Prometheus answers the dashboard of nodes" questions_answered node 15
    # What nothing was dropped or refused for has no series yet.
    check "Prometheus answers the dashboard of handovers" questions_answered handover 6
    check "Prometheus answers the dashboard of PFCP" questions_answered pfcp 13
    check "Prometheus answers the dashboard of a site" questions_answered site 20
else
    fail "Prometheus scrapes a node" "$(tail -n 5 "$work/config.log" "$work/prometheus.log")"
fi
close_report
