#!/usr/bin/env bash
# `weft bench`: results that fit their schema, a report, what is left after Ctrl-C,
# and one clear line for what cannot be done. Nothing here depends on speed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Parameters with which an experiment takes a second or two.
cat >"$work/tiny.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: function-overhead}
quick: &tiny
  repetitions: 3
  seconds: 0.02
  users: 50
  frameBytes: 128
  components: [{name: counter, function: counter}]
full: *tiny
papers: *tiny
YAML
# With these it would take hours.
sed 's/repetitions: 3/repetitions: 1000000/' "$work/tiny.yaml" >"$work/endless.yaml"

# bench ARGUMENTS...
bench() {
    timeout 120 "$WEFT" bench "$@"
}

# one_line STATUS PATTERN ARGUMENTS...: that exit code, and one line on standard
# error, which matches.
one_line() {
    local status=$1 pattern=$2 got
    shift 2
    timeout 60 "$@" >"$work/out" 2>"$work/err"
    got=$?
    cat "$work/err"
    [ "$got" -eq "$status" ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qE "$pattern" "$work/err"
}

results_are_valid() {
    bench function-overhead --file "$work/tiny.yaml" --out "$work/a" || return 1
    python3 - "$work/a/function-overhead/results.json" <<'PY'
import json, math, sys
results = json.load(open(sys.argv[1]))
assert results["schema"] == "weft/results/v1" and results["complete"], results["schema"]
assert results["experiment"] == "function-overhead"
assert results["parameters"]["users"] == 50 and results["machine"]["kernel"]
for series in results["series"]:
    for point in series["points"]:
        raw = point["raw"]
        assert point["n"] == len(raw) and raw, point
        assert math.isclose(point["mean"], sum(raw) / len(raw)), point
        low, high = point["ci95"] or [point["mean"]] * 2
        assert low <= point["mean"] <= high, point
cycles = next(series for series in results["series"] if series["name"] == "weft, cycles")
assert [point["n"] for point in cycles["points"]] == [3, 3], cycles
derived = results["derived"]
assert {"cycles_base", "cycles_full", "cycles_per_component"} <= derived.keys(), derived
assert derived["cycles_base"] == cycles["points"][0]["mean"], derived
PY
}

# The same chain in every way there is, and longer ones: whoever cannot run one says so
# in a note, and its number is missing.
compositions() {
    cat >"$work/composition.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: composition}
quick: &tiny
  repetitions: 1
  seconds: 0.02
  frameBytes: 128
  functions: [{function: counter, config: {}}]
full: *tiny
papers: *tiny
YAML
    cat >"$work/length.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: chain-length}
quick: &tiny
  repetitions: 1
  seconds: 0.02
  frameBytes: 64
  lengths: [1, 2]
  function: {function: pass}
  compositions: [call, thread]
  classical: []
  oversubscribed: []
  mix: [{function: counter, config: {}}, {function: forward, config: {}}]
full: *tiny
papers: *tiny
YAML
    cat >"$work/delay.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: chain-delay}
quick: &tiny
  repetitions: 1
  seconds: 0.15
  frameBytes: 64
  rate: 10000
  lengths: [1]
  function: {function: pass}
  compositions: [call, thread]
  processor: {length: 1, rates: [1000, 20000]}
full: *tiny
papers: *tiny
YAML
    bench composition --file "$work/composition.yaml" --out "$work/composed" &&
        bench chain-length --file "$work/length.yaml" --out "$work/composed" &&
        bench chain-delay --file "$work/delay.yaml" --out "$work/composed" || return 1
    python3 - "$work/composed" <<'PY'
import json, sys
def derived(name):
    results = json.load(open(f"{sys.argv[1]}/{name}/results.json"))
    return results["derived"], results["notes"]
cycles, notes = derived("composition")
ways = ["call", "fused", "thread", "process", "remote"]
missing = [way for way in ways if not cycles.get(f"cycles_{way}", 0) > 0]
assert not missing, f"{missing}: {notes}"
length, notes = derived("chain-length")
names = {"cycles_per_function_call", "cycles_per_function_thread", "fused_over_call_at_2"}
assert names <= length.keys(), (length, notes)
delay, notes = derived("chain-delay")
names = {f"delay_us_p50_{way}_{how}" for way in ("call", "thread") for how in ("busy", "adaptive")}
names |= {f"processor_percent_{how}_at_{end}" for how in ("busy", "adaptive") for end in ("least", "most")}
assert names <= delay.keys(), (delay, notes)
# One that sleeps takes less, whatever else the machine does.
assert delay["processor_percent_adaptive_at_least"] < delay["processor_percent_busy_at_least"], delay
PY
}

# Chains over software VF, which is named for what it is.
software_vf() {
    cat >"$work/vf.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: vf}
quick: &tiny
  repetitions: 1
  seconds: 0.2
  lengths: [1, 2]
  cycles: 1000
  rate: 5000
  within: 0.8
  loads: [1, 5]
full: *tiny
papers: *tiny
YAML
    bench vf --file "$work/vf.yaml" --out "$work/vf" || return 1
    python3 - "$work/vf/vf/results.json" <<'PY'
import json, sys
results = json.load(open(sys.argv[1]))
derived, notes = results["derived"], results["notes"]
names = {"delivered_share_chain_1", "delivered_share_chain_2", "neighbour_goodput_at_5x",
         "neighbour_p99_at_5x", "neighbour_goodput_at_5x_no_shares"}
assert names <= derived.keys(), (derived, notes)
assert derived["delivered_share_chain_1"] > 0, (derived, notes)
assert all("software VF" in series["name"] for series in results["series"]), results["series"]
PY
}

# A site of controllers in processes; with etcd where that is installed.
site() {
    cat >"$work/site.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: site}
quick: &tiny
  repetitions: 1
  users: [200]
  turns: 1
  window: 256
  lease: 1
  failovers: 1
  simulated: {users: 2000, moves: 200, seconds: 2}
full: *tiny
papers: *tiny
YAML
    bench site --file "$work/site.yaml" --out "$work/site" || return 1
    python3 - "$work/site/site/results.json" <<'PY'
import json, shutil, sys
results = json.load(open(sys.argv[1]))
derived, notes = results["derived"], results["notes"]
assert results["complete"] and derived["moves_per_s_folder"] > 0, (derived, notes)
names = {"moves_per_s", "etcd_transactions_per_1k_moves", "etcd_bytes_per_user", "failover_seconds",
         "join_to_traffic_seconds"}
if not shutil.which("etcd"):
    assert not names & derived.keys() and any("etcd-server" in note for note in notes), (derived, notes)
    sys.exit()
assert names <= derived.keys(), (derived, notes)
points = {series["name"]: series["points"] for series in results["series"]}
assert points["a drain"][0]["x"] == 200, points
# 200 users need at least a transaction each way, and their records some octets.
assert 2 <= derived["etcd_transactions_per_1k_moves"] * 0.4, derived
assert derived["etcd_bytes_per_user"] > 40, derived
# The lease of the killed leader has to end.
assert derived["failover_seconds"] > 0.5, derived
PY
}

# A user that moves between nodes in processes; without root a note says what is missing.
handover() {
    cat >"$work/handover.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: handover}
quick: &tiny
  repetitions: 1
  moves: 1
  pause: 25
  frameBytes: 128
  thousandsPerSecond: []
  processes: {moves: 4, pause: 60, thousandsPerSecond: [0.5]}
full: *tiny
papers: *tiny
YAML
    bench handover --file "$work/handover.yaml" --out "$work/handover" || return 1
    python3 - "$work/handover/handover/results.json" <<'PY'
import json, sys
results = json.load(open(sys.argv[1]))
derived, notes = results["derived"], results["notes"]
assert results["complete"], results
if any("needs root" in note or "cores are needed" in note for note in notes):
    sys.exit()
for name in ("lost", "duplicated", "reordered"):
    assert derived[name] == 0, derived
steps = {f"{name}_us_p50" for name in ("stored", "prepared", "owned", "switched", "released", "completed")}
assert {"added_delay_us_p50", "back_to_normal_us", "gap_us"} | steps <= derived.keys(), derived
each = next(series for series in results["series"] if series["name"].startswith("added delay, each move"))
assert 1 <= len(each["points"][0]["raw"]) <= 4, each
PY
}

report_is_there() {
    local page=$work/a/report.html
    [ "$(grep -c '<svg' "$page")" -ge 1 ] && ! grep -q 'src="http' "$page" &&
        ls "$work"/a/function-overhead/{results.csv,rate.svg,cycles.svg} &&
        [ "$(readlink "$work/a/results.json")" = function-overhead/results.json ]
}

# At Ctrl-C what was measured is kept, with a report, and can be gone on with.
interrupted() {
    local bench tries=0
    "$WEFT" bench function-overhead --file "$work/endless.yaml" --out "$work/b" \
        >"$work/out" 2>"$work/err" &
    bench=$!
    until grep -q '"mean"' "$work/b/function-overhead/results.json" 2>/dev/null; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { kill "$bench"; echo "nothing was measured"; return 1; }
    done
    kill -INT "$bench"
    wait "$bench" || { cat "$work/err"; return 1; }
    grep -q 'interrupted' "$work/err" && [ -s "$work/b/report.html" ] &&
        grep -q '"complete": false' "$work/b/function-overhead/results.json"
}

# Ended by SIGTERM, however early, a bench takes away what it laid in the kernel.
terminated() {
    local bench pause left
    for pause in 0.05 0.3 0.8 1.5 3; do
        "$WEFT" bench io-environments --out "$work/e" >"$work/out" 2>"$work/err" &
        bench=$!
        sleep "$pause"
        kill -TERM "$bench"
        wait "$bench"
        # What it makes is named after its process.
        left=$(ls /run/netns /sys/class/net "${TMPDIR:-/tmp}" 2>/dev/null |
            grep -E "^(wb|wc|wn|wo|wt|weft-ovs-|weft-bench-)$bench(-|\$)")
        [ -z "$left" ] || { echo "after $pause s: $left"; return 1; }
    done
}

resumed() {
    bench function-overhead --file "$work/tiny.yaml" --out "$work/a" --resume || return 1
    python3 - "$work/a/function-overhead/results.json" <<'PY'
import json, sys
results = json.load(open(sys.argv[1]))
assert results["complete"], "not complete"
names = [series["name"] for series in results["series"]]
assert len(names) == len(set(names)), f"series are there twice: {names}"
counts = {point["n"] for series in results["series"] for point in series["points"]}
assert counts == {3}, f"repetitions were made again: {counts}"
PY
}

# In a folder of this kind of machine complete results stay: an equal effort measures nothing, and
# a greater one lies beside them until it is complete.
kept() {
    local bench own tries=0
    bench function-overhead --file "$work/tiny.yaml" --by-machine --out "$work/kinds" || return 1
    own=$(echo "$work"/kinds/*-cores*/function-overhead)
    cp "$own/results.json" "$work/before.json"
    bench function-overhead --quick --resume --by-machine --out "$work/kinds" >"$work/out" || return 1
    cat "$work/out"
    grep -qE '^function-overhead: is complete \(--quick, at .*\): kept$' "$work/out" || return 1
    "$WEFT" bench function-overhead --full --resume --by-machine --out "$work/kinds" >"$work/out" 2>&1 &
    bench=$!
    until [ -s "$own/unfinished.json" ]; do
        sleep 0.2
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { kill "$bench"; echo "nothing was begun"; return 1; }
    done
    kill -INT "$bench"
    wait "$bench" || { cat "$work/out"; return 1; }
    cmp "$own/results.json" "$work/before.json" && grep -q '"complete": false' "$own/unfinished.json"
}

# Of several experiments one that fails does not keep the others from their turn. With one core a
# machine is of another kind.
several() {
    local one=(timeout 120 taskset -c 0 "$WEFT" bench --by-machine --out "$work/kinds") status
    "${one[@]}" function-overhead --file "$work/tiny.yaml" || return 1
    "${one[@]}" overload function-overhead --resume >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status -eq 1 ] && grep -q 'overload: .*two processor cores are needed' "$work/out" &&
        grep -q '^function-overhead: is complete' "$work/out" &&
        grep -q '^weft: these ended early: overload$' "$work/out" &&
        [ "$(ls "$work/kinds" | wc -l)" -eq 2 ]
}

# From results alone.
report_again() {
    rm "$work"/a/report.html "$work"/a/function-overhead/*.svg
    bench report --out "$work/a" >"$work/out" && report_is_there
}

# Where the disk is full: a small one in a mount namespace of its own.
full_disk() {
    local disk=$work/disk
    mkdir -p "$disk"
    unshare --map-root-user --mount true 2>/dev/null || return 77
    # shellcheck disable=SC2016
    one_line 1 'cannot write .*results\.json: the disk is full' \
        unshare --map-root-user --mount sh -c '
            mount -t tmpfs -o size=4k none "$1" || exit 3
            dd if=/dev/zero of="$1/filler" bs=4k count=4 2>/dev/null
            exec "$2" bench function-overhead --file "$3" --out "$1/results"
        ' sh "$disk" "$WEFT" "$work/tiny.yaml"
}

# A build that takes five times the time on purpose is a regression, on any machine: what else runs
# there can double it by itself.
slowed_down() {
    cat >"$work/more.yaml" <<'YAML'
apiVersion: weft/v1
kind: Experiment
metadata: {name: chain-length}
quick: &tiny
  repetitions: 10
  seconds: 0.02
  frameBytes: 64
  lengths: [1]
  function: {function: counter}
  compositions: [call]
  classical: []
  oversubscribed: []
  mix: [{function: counter, config: {}}]
full: *tiny
papers: *tiny
YAML
    bench chain-length --file "$work/more.yaml" --out "$work/plain" &&
        bench chain-length --file "$work/more.yaml" --out "$work/slow" --slow-down 400 || return 1
    "$WEFT" compare "$work/plain" "$work/slow" >"$work/out" 2>&1
    [ $? -eq 1 ] && grep -q regression "$work/out"
}

check "function-overhead gives valid results" results_are_valid
check "a chain is measured in every composition" compositions
check "chains over software VF" software_vf
check "a site on etcd" site
check "a user that moves between processes" handover
check "a report stands beside them" report_is_there
check "a completed run is not made again" resumed
check "what was measured until Ctrl-C is kept" interrupted
check "complete results stay until better ones are complete" kept
check "an experiment that fails is not the end of others" several
check "a report is made again" report_again
check "nothing is left behind at SIGTERM" terminated
check "a slower build is a regression" slowed_down
check "the experiments are listed" grep -qE '^users +' <("$WEFT" bench list)
check "an unknown experiment, with a hint" \
    one_line 2 '^weft: no experiment user \(did you mean users\?\)$' "$WEFT" bench user
sed 's/users: 50/user: 50/' "$work/tiny.yaml" >"$work/wrong.yaml"
check "a mistake in a file, at its place" \
    one_line 2 'wrong\.yaml:7:3: ' "$WEFT" bench function-overhead --file "$work/wrong.yaml" --out "$work/c"
check "a file of another experiment" \
    one_line 2 'tiny\.yaml:3:18: .*function-overhead' "$WEFT" bench users --file "$work/tiny.yaml" --out "$work/c"
check "a missing core" \
    one_line 1 'two processor cores are needed' taskset -c 0 "$WEFT" bench overload --out "$work/d"
echo "not a result" >"$work/not-ours.json"
check "a file that is not ours" \
    one_line 2 'not-ours\.json is not a results file' "$WEFT" compare "$work/not-ours.json" "$work/a"
full_disk >"$work/full" 2>&1
case $? in
0) pass "a full disk" ;;
77) skip "a full disk" "no mount namespace of our own here" ;;
*) fail "a full disk" "$(tail -n 5 "$work/full")" ;;
esac
close_report
