#!/usr/bin/env bash
# `weft simulate handover`, `function-move` and `site`: the promises hold, a seed gives the same run again, what is
# built wrong is found, with its log, and one clear line for what cannot be done.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# simulate ARGUMENTS...
simulate() {
    timeout 120 "$WEFT" simulate handover "$@"
}

promises_hold() {
    simulate --seeds 100 | tee "$work/out"
    [ "${PIPESTATUS[0]}" -eq 0 ] && grep -q '^kept: one owner, nothing lost' "$work/out"
}

seed_repeats() {
    simulate --seed 7 | grep -v simulated >"$work/a" && simulate --seed 7 | grep -v simulated >"$work/b" &&
        cmp "$work/a" "$work/b" && simulate --seed 8 | grep -v simulated >"$work/c" && ! cmp -s "$work/a" "$work/c"
}

mistakes_are_found() {
    simulate --seeds 200 --mutate open-gate-early --faults none >"$work/out" 2>"$work/err"
    [ $? -eq 1 ] || return 1
    cat "$work/err"
    [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qE '^weft: seed [0-9]+: order: ' "$work/err" &&
        tail -n 1 "$work/out" | grep -q 'VIOLATION: order'
}

nonsense_is_refused() {
    local argument
    for argument in --faults=rain --mutate=rain --seeds=0 --stations=1; do
        simulate "$argument" >"$work/out" 2>"$work/err"
        [ $? -eq 2 ] || return 1
        cat "$work/err"
        [ "$(wc -l <"$work/err")" -eq 1 ] || return 1
    done
}

functions_keep_promises() {
    timeout 120 "$WEFT" simulate function-move --seeds 100 | tee "$work/out"
    [ "${PIPESTATUS[0]}" -eq 0 ] && grep -q '^function-move: seeds 1 to 100' "$work/out" &&
        ! timeout 120 "$WEFT" simulate function-move --faults rain
}

sites_keep_promises() {
    timeout 120 "$WEFT" simulate site --seeds 20 | tee "$work/out"
    [ "${PIPESTATUS[0]}" -eq 0 ] && grep -q '^kept: one owner, linearizable' "$work/out" || return 1
    timeout 120 "$WEFT" simulate site --seeds 100 --mutate no-count --faults etcd --orders 60 >"$work/out" 2>"$work/err"
    [ $? -eq 1 ] && [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qE '^weft: seed [0-9]+: ' "$work/err" &&
        grep -q VIOLATION "$work/out" && ! timeout 120 "$WEFT" simulate site --faults rain
}

check "a hundred seeds keep every promise" promises_hold
check "a seed gives the same run again" seed_repeats
check "a gate that opens early is found" mistakes_are_found
check "what there is not is refused in one line" nonsense_is_refused
check "a hundred seeds of moves of functions keep every promise" functions_keep_promises
check "twenty seeds of a site on etcd keep every promise, and what is built wrong is found" sites_keep_promises
close_report
