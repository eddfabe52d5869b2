#!/usr/bin/env bash
# Checks the committed captures: made by make.py as it stands, and as clean for
# tshark as they are meant to be. Checks tshark-clean.sh by the way.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../../lib/report.sh
. ../../lib/report.sh

clean=../../lib/tshark-clean.sh
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# exits CODE COMMAND...
exits() {
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" = "$wanted" ]
}

# The first and the last frames of malformed.pcap are well-formed, the rest is not.
malformed_is_found() {
    local bad
    bad=$("$clean" malformed.pcap | sed 's/.*: frame \([0-9]*\):.*/\1/')
    [ "$(wc -l <<<"$bad")" -gt 300 ] && ! grep -qxE '1|2|3' <<<"$bad"
}

# mangled CHECKSUM PORT: a TCP segment whose checksum comes to 0 when PORT is 0xc14b.
mangled() {
    python3 -c '
import struct, sys
checksum, port = (int(one, 16) for one in sys.argv[1:])
tcp = struct.pack("!HHIIBBHHH", port, 80, 1, 1, 0x50, 0x10, 512, checksum, 0)
ip = bytes.fromhex("450000280001000040060e1e" "c0000201" "c6336402")
words = struct.unpack("!10H", ip[:10] + b"\0\0" + ip[12:])
total = sum(words)
total = (total & 0xffff) + (total >> 16)
ip = ip[:10] + struct.pack("!H", 0xffff ^ ((total & 0xffff) + (total >> 16))) + ip[12:]
frame = bytes.fromhex("020000000001" "020000000002" "0800") + ip + tcp
head = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
sys.stdout.buffer.write(head + struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
' "$@" >"$list"
}

# frames FILE
frames() {
    tshark -n -r "$1" 2>/dev/null | wc -l
}

kernel_has_two_directions() {
    [ $(($(frames kernel-uplink.pcap) + $(frames kernel-downlink.pcap))) = "$(frames kernel.pcap)" ]
}

if /usr/bin/python3 -c 'import scapy' 2>/dev/null; then
    check "captures: make.py writes the same bytes" ./make.py --check
else
    skip "captures: make.py writes the same bytes" "python3-scapy is not installed"
fi
if ! command -v tshark >/dev/null; then
    skip "captures: tshark" "tshark is not installed"
    close_report
    exit
fi
for name in ipv4-mix ipv6-mix vlan downlink-mix bursts neighbours kernel kernel-uplink kernel-downlink; do
    check "captures: $name is clean" "$clean" "$name.pcap"
done
check "captures: fragments is clean but for its list" "$clean" --except fragments.bad fragments.pcap
echo "124 # a wrong checksum, see iphc-flows.txt" >"$list"
check "captures: iphc-flows is clean but for one" "$clean" --except "$list" iphc-flows.pcap
check "captures: kernel has two directions" kernel_has_two_directions
check "captures: malformed is not clean" malformed_is_found
check "tshark-clean: bad frames" exits 1 "$clean" fragments.pcap
echo "2 # is clean" >"$list"
check "tshark-clean: a list that is out of date" exits 1 "$clean" --except "$list" ipv4-mix.pcap
head -c 1000 ipv4-mix.pcap >"$list"
check "tshark-clean: a capture cut short" exits 2 "$clean" "$list"
check "tshark-clean: not a capture" exits 2 "$clean" make.py
mangled 0000 c14b
check "tshark-clean: a TCP checksum of 0" "$clean" "$list"
mangled ffff c14b
check "tshark-clean: a TCP checksum of 0xffff" exits 1 "$clean" "$list"
check "tshark-clean: the same of a kernel" "$clean" --kernel "$list"
mangled ffff c14c
check "tshark-clean: a wrong checksum of 0xffff" exits 1 "$clean" --kernel "$list"
check "tshark-clean: no such file" exits 2 "$clean" nonsense.pcap
close_report
