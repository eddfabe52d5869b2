#!/usr/bin/env bash
# Fails when tshark finds a malformed packet, a length that does not fit, or a
# bad IPv4, UDP, TCP, ICMP or ICMPv6 checksum.
#
#   tshark-clean.sh [--kernel] [--except LIST] FILE...
#
# --kernel says that a kernel's TCP is in the captures. Linux writes a TCP checksum that comes
# to 0 as 0xffff, as UDP has it (skb_checksum_help: `csum_fold(csum) ?: CSUM_MANGLED_0`), which
# sums to the same; only segments that its GSO cuts have 0. Over a veth without Weft, 2 of
# 480,204 segments had 0xffff (Linux 6.18, checksum offload off, all of them summed right). Such
# a frame is no error then, if nothing else is wrong with it. What Weft writes has 0: see
# `tcp_checksums_are_those_of_a_full_computation` in crates/wire/src/checksum.rs.
#
# LIST names frames that are expected to be bad, one number a line, # begins a
# comment. A listed frame that is clean fails too, so that a list cannot rot.
# Exit code: 0 clean, 1 not, 2 when the question could not be asked.
set -euo pipefail

usage() {
    echo "usage: tshark-clean.sh [--kernel] [--except LIST] FILE..." >&2
    exit 2
}

# The payload of TCP and UDP is ours, not DNS or TLS: no dissector may judge it
# but those of GTP-U and PFCP, which are the node's, from whatever dynamic port they come.
settings=(
    -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE
    -d "udp.port==0-2151,data" -d "udp.port==2153-8804,data" -d "udp.port==8806-49151,data" -d "tcp.port==0-65535,data"
)
bad='_ws.malformed || _ws.expert.severity == "Error"
    || ip.checksum.status == "Bad" || icmp.checksum.status == "Bad" || icmpv6.checksum.status == "Bad"
    || udp.checksum.status == "Bad" || tcp.checksum.status == "Bad" || udp.checksum.status == "Illegal"
    || eth.len.past_end || vlan.len.past_end || ip.opt.len.invalid
    || ipv6.plen_exceeds_framing || ipv6.plen_zero || ipv6.opt.jumbo.missing || ipv6.opt.jumbo.prohibited
    || ipv6.opt.invalid_len || tcp.option.len.invalid || tcp.short_segment || udp.length.bad_zero'

# bad_frames FILE: frame number, tab, what tshark says.
bad_frames() {
    if ! tshark -n -r "$1" "${settings[@]}" -Y "$bad" -T fields -E aggregator=';' \
        -e frame.number -e frame.protocols -e _ws.expert.message 2>"$config/errors"; then
        grep -v 'Running as user' "$config/errors" >&2
        return 2
    fi
}

# numbers LIST: the frame numbers in it, without comments.
numbers() {
    sed 's/#.*//' "$1" | tr -s '[:space:]' '\n' | sed '/^$/d'
}

# judge FILE LIST: prints what is wrong; fails when anything is.
judge() {
    local file=$1 list=$2 found number rest clean=0
    local -A expected=()
    while read -r number; do
        expected[$number]=1
    done < <([ -z "$list" ] || numbers "$list")
    found=$(bad_frames "$file") || exit 2
    [ -z "$kernel" ] || found=$(grep -vP "\t$mangled\$" <<<"$found" || true)
    while IFS=$'\t' read -r number rest; do
        [ -n "$number" ] || continue
        if [ -n "${expected[$number]:-}" ]; then
            unset "expected[$number]"
        else
            printf '%s: frame %s: %s\n' "$file" "$number" "$rest"
            clean=1
        fi
    done <<<"$found"
    for number in "${!expected[@]}"; do
        printf '%s: frame %s is listed as bad in %s, but is clean\n' "$file" "$number" "$list"
        clean=1
    done
    return "$clean"
}

# Behind what tshark notes of how connections begin and end.
mangled='([^;\t]*onnection [^;\t]*;)*(TCP )?Checksum 0xffff instead of 0x0000 \(see RFC 1624\)'
kernel=
if [ "${1:-}" = --kernel ]; then
    kernel=1
    shift
fi
list=
if [ "${1:-}" = --except ]; then
    [ $# -ge 3 ] || usage
    list=$2
    shift 2
fi
case ${1:--} in -*) usage ;; esac
[ -z "$list" ] || [ -r "$list" ] || { echo "tshark-clean.sh: cannot read $list" >&2; exit 2; }
command -v tshark >/dev/null || { echo "tshark-clean.sh: tshark is not installed" >&2; exit 2; }

# An empty configuration: nobody's preferences decide what is clean.
config=$(mktemp -d)
trap 'rm -rf "$config"' EXIT
export WIRESHARK_CONFIG_DIR=$config

status=0
for file in "$@"; do
    judge "$file" "$list" || status=1
done
exit "$status"
