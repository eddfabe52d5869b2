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

check "the compiler, clippy and rustdoc have no warnings" no_warning
close_report
