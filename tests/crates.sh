#!/usr/bin/env bash
# The unit, property and integration tests of all crates, with a closing line as other tests
# have. A test program that hangs is ended and named. What is ignored, `make soak` runs.
#
# Properties are tried with the same cases each time, so that a failure comes from a change:
# `make soak` tries others, and more. PROPTEST_RNG_SEED=N crates.sh has those of another seed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

readonly BOUNDED="target.'cfg(unix)'.runner=['timeout', '--verbose', '--kill-after=10', '900']"
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace --locked --no-fail-fast --config "$BOUNDED" 2>&1 | tee "$log"
status=$?
read -r passed failed < <(
    awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }' "$log"
)
# What failed, with what it said; and the programs without a result, as they do not compile or
# were ended, with the tests that had not come to an end.
awk '
    /^ +(Running|Doc-tests) / { program = $0; sub(/^ +/, "", program); split("", slow) }
    /^---- .* stdout ----$/ { print "fail " $2; said = 1; next }
    /^(failures:|test result:)/ { said = 0 }
    said && NF { print "    " $0 }
    /has been running for over/ { slow[$2] }
    /^test .* \.\.\. / { delete slow[$2] }
    /^timeout: sending signal/ {
        print "fail " program ": took too long"
        for (test in slow) print "    " test
    }
    /^error(\[|:)/ && !/test failed, to rerun|targets? failed/ { print "fail cargo test: " $0 }
' "$log"
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    failed=1
    printf 'fail cargo test: ended with %d\n' "$status"
fi
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
