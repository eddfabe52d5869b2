#!/usr/bin/env bash
# The compiler, clippy and rustdoc have no warning: nothing is undocumented, and no link of the
# API documentation is broken. They warn while the tests are compiled (scripts/checked-rustc).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source-path=SCRIPTDIR source=lib/report.sh
. tests/lib/report.sh

export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/checked-rustc

# cargo says again what it was warned of, where nothing is to be compiled.
no_warning() {
    local said
    said=$(cargo test --workspace --locked --no-run --color never 2>&1) || { printf '%s\n' "$said"; return 1; }
    ! grep -A 12 '^warning' <<<"$said"
}

# Of a crate without examples rustdoc is not asked for any (`doctest = false`), which takes as long
# as to compile it.
examples_are_run() {
    local manifest
    git ls-files '*Cargo.toml' | while read -r manifest; do
        ! grep -qx 'doctest = false' "$manifest" || git ls-files "${manifest%Cargo.toml}src/*.rs"
    done | xargs awk '
        FNR == 1 { inside = 0 }
        /^ *\/\/[\/!] *```/ {
            inside = !inside
            if (inside && /```(rust|no_run|should_panic|compile_fail|edition.*)?$/) {
                print FILENAME ":" FNR ": an example that does not run: take `doctest = false` out of the manifest"
                found = 1
            }
        }
        END { exit found }'
}

check "the compiler, clippy and rustdoc have no warnings" no_warning
check "each example of the documentation runs" examples_are_run
close_report
