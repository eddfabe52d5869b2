#!/usr/bin/env bash
# The unit, property and integration tests of all crates, with a closing line as other tests
# have. A test program that hangs is ended and named. What is ignored, `make soak` runs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

readonly BOUNDED="target.'cfg(unix)'.runner=['timeout', '--verbose', '--kill-after=10', '900']"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace --locked --no-fail-fast --config "$BOUNDED" 2>&1 | tee "$log"
status=$?
read -r passed failed < <(
    awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }' "$log"
)
# One that does not compile or is ended has no result.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    failed=1
    printf 'fail cargo test: ended with %d\n' "$status"
fi
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
