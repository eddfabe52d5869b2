#!/usr/bin/env bash
# Clippy has no warning, and the API documentation of all crates has no broken link and nothing
# undocumented.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
# shellcheck source-path=SCRIPTDIR source=lib/report.sh
. tests/lib/report.sh

export RUSTDOCFLAGS="-D warnings"
check "clippy has no warnings" cargo clippy --workspace --all-targets --locked -- -D warnings
check "rustdoc has no warnings" cargo doc --workspace --no-deps --locked
close_report
