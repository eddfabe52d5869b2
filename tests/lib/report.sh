# shellcheck shell=bash
# One line per check and a closing line that counts them. To be sourced.

passed=0 failed=0 skipped=0
exec {report_out}>&1 # past the check that a note is written in

# pass NAME
pass() {
    passed=$((passed + 1))
    printf 'pass %s\n' "$1"
}

# fail NAME WHY
fail() {
    failed=$((failed + 1))
    printf 'fail %s: %s\n' "$1" "$2"
}

# skip NAME WHY
skip() {
    skipped=$((skipped + 1))
    printf 'skip %s: %s\n' "$1" "$2"
}

# check NAME COMMAND...: passes when the command does; its output is the reason if not.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        pass "$name"
    else
        fail "$name" "$(tail -n 20 <<<"${output:-"'$*' failed"}")"
    fi
}

# try NAME COMMAND...: as `check`, in this shell: nodes and functions that the command
# starts are to be known here.
try() {
    local name=$1 output status=0
    shift
    output=$(mktemp)
    "$@" >"$output" 2>&1 || status=1
    case $status in
        0) pass "$name" ;;
        *) fail "$name" "$(tail -n 20 "$output")" ;;
    esac
    rm -f "$output"
    return "$status"
}

# note TEXT: a figure that was measured; goes out whether its check passes or not.
note() {
    printf '     %s\n' "$1" >&"$report_out"
}

# The closing line; fails when a check did.
close_report() {
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ]
}
