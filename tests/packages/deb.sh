#!/usr/bin/env bash
# The Debian packages, without installing them: made from the program under test, unpacked,
# and looked at by the tools that will read them. tests/packages/install.sh installs them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
root=$(cd ../.. && pwd)
WEFT=${WEFT:-$root/target/release/weft}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Compressing takes a minute, and is of no interest here.
export DEB_COMPRESSION=none
cp "$WEFT" "$work/weft" && "$root/scripts/split-debug" "$work/weft" && WEFT=$work/weft

made() {
    "$root/deploy/deb/build" "$WEFT" "$work/packages" && weft=$(echo "$work"/packages/weft_*.deb) && [ -f "$weft" ]
}

unpacked() {
    dpkg-deb -x "$weft" "$work/root" && "$work/root/usr/bin/weft" version
}

symbols_fit() {
    local id
    id=$(readelf -n "$work/root/usr/bin/weft" | sed -n 's/^ *Build ID: //p')
    [ -n "$id" ] || { echo "the program has no build number"; return 1; }
    dpkg-deb -c "$work"/packages/weft-dbgsym_*.deb | grep "/.build-id/${id:0:2}/${id:2}.debug" >/dev/null
}

depends_on_dpdk() {
    local depends wanted
    depends=$(dpkg-deb -f "$weft" Depends)
    echo "$depends"
    for wanted in librte-eal23 librte-net-af-packet23 librte-net-tap23 libc6; do
        [[ $depends == *"$wanted"* ]] || { echo "not $wanted"; return 1; }
    done
}

# Files that no other package has, owned by root, and none that all may write.
files_are_well() {
    local wrong
    wrong=$(dpkg-deb -c "$weft" | awk '$2 != "root/root" || $1 ~ /^-.......w/ || $1 ~ /s/')
    [ -z "$wrong" ] || { echo "$wrong"; return 1; }
    dpkg-deb -e "$weft" "$work/control" && (cd "$work/root" && md5sum -c --quiet "$work/control/md5sums")
    diff <(cd "$work/root" && find etc -type f | sort | sed 's,^,/,') "$work/control/conffiles"
}

manual_reads() {
    local page
    for page in "$work"/root/usr/share/man/man1/*.1.gz; do
        man --warnings -E UTF-8 -l "$page" >"$work/page" 2>"$work/warned" || return 1
        [ ! -s "$work/warned" ] || { echo "$page:"; cat "$work/warned"; return 1; }
    done
    man -l "$work/root/usr/share/man/man1/weft-run.1.gz" | grep 'Configuration of the node' >/dev/null
}

# units_are_right: the commands of the units are at their place in the unpacked package.
units_are_right() {
    local unit
    mkdir -p "$work/units"
    for unit in "$work"/root/lib/systemd/system/*; do
        sed "s, /usr/bin/weft, $work/root/usr/bin/weft,; s,=/usr/bin/weft,=$work/root/usr/bin/weft,
             s,=/usr/lib/weft,=$work/root/usr/lib/weft,; /^Documentation=/d" \
            "$unit" >"$work/units/$(basename "$unit")"
    done
    SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work"/units/weft@gateway.service \
        "$work"/units/weft-control.service "$work"/units/weft-host.service
}

# What systemd thinks of what a node and a controller may do: 0 is least, 10 is everything.
units_are_hardened() {
    local unit
    for unit in weft@gateway.service weft-control.service; do
        systemd-analyze security --offline=yes --threshold="$1" "$work/units/$unit" >"$work/exposure" 2>&1 ||
            { grep -E '✗' "$work/exposure" | head -40; return 1; }
        note "$(tail -n 1 "$work/exposure" | sed 's/^[^A-Za-z]*//')"
    done
}

completes() {
    # shellcheck disable=SC1091,SC2034,SC2016 # the script of the package, as bash reads it
    bash -c '. "$1" && COMP_WORDS=(weft sh) COMP_CWORD=1 && _weft weft sh weft && printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$work/root/usr/share/bash-completion/completions/weft" | grep -x show
}

examples_are_right() {
    local file
    for file in "$work"/root/etc/weft/examples/*.yaml; do
        grep -qE '^kind: (Node|Controller)' "$file" || continue
        "$work/root/usr/bin/weft" check "$file" >/dev/null || return 1
    done
}

host_is_looked_at() {
    "$work/root/usr/lib/weft/host" check
    mkdir -p "$work/host/sys/kernel/mm/hugepages/hugepages-2048kB" "$work/host/proc"
    echo 'MemTotal: 8388608 kB' >"$work/host/proc/meminfo"
    : >"$work/host/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    WEFT_HOST_ROOT=$work/host "$work/root/usr/lib/weft/host" huge-pages 1024 | grep '512 pages' || return 1
    ! WEFT_HOST_ROOT=$work/host "$work/root/usr/lib/weft/host" huge-pages 8000 || return 1
    ! "$work/root/usr/lib/weft/host" huge-pages '1; id'
}

same_again() {
    "$root/deploy/deb/build" "$WEFT" "$work/again" && cmp "$weft" "$work"/again/weft_*.deb
}

try "deb: it is made of the program" made || { close_report; exit; }
check "deb: the program in it runs" unpacked
check "deb: debug symbols lie where its build number says" symbols_fit
check "deb: it depends on Debian's DPDK" depends_on_dpdk
check "deb: its files are root's, and each has its sum" files_are_well
check "deb: man reads every page without a warning" manual_reads
check "deb: systemd accepts the units" units_are_right
check "deb: services are exposed little" units_are_hardened 45
check "deb: bash completes a command" completes
check "deb: its examples are right" examples_are_right
check "deb: the helper for the host refuses what is too much" host_is_looked_at
check "deb: made again it is the same, octet for octet" same_again
close_report
