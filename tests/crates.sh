#!/usr/bin/env bash
# The unit, property and integration tests of all crates, with a closing line as other tests
# have. A test program that hangs is ended and named. What is ignored, `make soak` runs.
#
# Properties are tried with the same cases each time, so that a failure comes from a change:
# `make soak` tries others, and more. PROPTEST_RNG_SEED=N crates.sh has those of another seed.
#
# $PROGRAMS test programs run at a time, three unless said: many of them wait for packets and
# timers most of the time.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# programs: NAME, FOLDER and FILE of each, those first that have most in them.
programs() {
    cargo test --workspace --locked --no-run --message-format json-render-diagnostics |
        jq -r 'select(.executable and .profile.test)
            | (.package_id | sub(".*#"; "") | sub("@.*"; "")) as $package
            | ["\($package) \(.target.name)", (.manifest_path | rtrimstr("/Cargo.toml")), .executable]
            | @tsv' |
        while IFS=$'\t' read -r name folder file; do
            printf '%s\t%s\t%s\t%s\n' "$(stat -c %s "$file")" "$name" "$folder" "$file"
        done | sort -rn | cut -f 2-
}

# run_program NAME FOLDER FILE: in its package's folder, as cargo does.
run_program() {
    local log=$logs/${3##*/}
    {
        printf '     Running %s\n' "$1"
        cd "$2" && timeout --verbose --kill-after=10 900 "$3" || printf 'error: %s ended with %d\n' "$1" $?
    } >"$log" 2>&1
    flock "$logs/all" cat "$log"
}
export -f run_program
export logs

log=$logs/all
{
    cargo test --workspace --locked --doc 2>&1
    programs >"$logs/programs" || echo "error: the tests cannot be compiled"
    tr '\t\n' '\0\0' <"$logs/programs" |
        xargs -0 -r -n 3 -P "${PROGRAMS:-3}" bash -c 'run_program "$@"' run_program
} | tee "$log"
# What failed, with what it said; and the programs without a result, as they do not compile or
# were ended, with the tests that had not come to an end.
awk '
    /^ +(Running|Doc-tests) / { program = $0; sub(/^ +/, "", program); split("", slow); ill = 0 }
    /^---- .* stdout ----$/ { print "fail " $2; said = 1; next }
    /^(failures:|test result:)/ { said = 0 }
    /^test result:/ { passed += $4; failed += $6; ill = $6 }
    said && NF { print "    " $0 }
    /has been running for over/ { slow[$2] }
    /^test .* \.\.\. / { delete slow[$2] }
    /^timeout: sending signal/ {
        print "fail " program ": took too long"
        for (test in slow) print "    " test
    }
    /^error(\[|:)/ && !ill { print "fail crates: " $0; failed++ }
    END {
        printf "%d passed, %d failed, 0 skipped\n", passed, failed
        exit failed > 0
    }
' "$log"
