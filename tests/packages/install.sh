#!/usr/bin/env bash
# Installs the Debian package in a fresh Debian system, as apt does it, and looks there: a user
# without rights runs the demo, `man` and `systemd-analyze` read what was installed, and nothing
# is left behind when it is purged. Then it runs the image, as its user. $PACKAGES is the folder
# that `make image` has filled. Takes minutes, and Debian's packages.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
root=$(cd ../.. && pwd)
packages=${PACKAGES:-$root/target/packages}
[[ $packages == /* ]] || packages=$root/$packages

leave() {
    skip install.sh "$1"
    close_report
    exit
}
[ "$(id -u)" = 0 ] || leave "a fresh system takes root"
command -v mmdebstrap >/dev/null || leave "there is no mmdebstrap"
deb=$(ls -t "$packages"/weft_*.deb 2>/dev/null | head -n 1)
[ -f "$deb" ] || leave "there is no package in $packages (make deb)"
# What is mounted in the systems is seen by nothing else, and gone with this script.
[ -n "${WEFT_UNSHARED:-}" ] || WEFT_UNSHARED=1 exec unshare --mount --pid --fork --kill-child bash "$PWD/${0##*/}" "$@"
work=$(mktemp -d)
trap leave_systems EXIT
fresh=$work/fresh

# mount_system ROOT: what every system and every container has.
mount_system() {
    mkdir -p "$1/proc" "$1/sys" "$1/dev"
    mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" &&
        mount --rbind --make-rslave /dev "$1/dev"
}

leave_systems() {
    local place
    for place in "$fresh" "$work/bundle/rootfs"; do
        umount -R "$place/proc" "$place/sys" "$place/dev" 2>/dev/null
    done
    rm -rf --one-file-system "$work"
}

bootstrap() {
    mmdebstrap --quiet --mode=root --variant=apt --include=man-db,systemd,util-linux \
        --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
        bookworm "$fresh" || return 1
    mount_system "$fresh" || return 1
    cp /etc/resolv.conf "$fresh/etc/resolv.conf" 2>/dev/null || true
    cp /etc/apt/apt.conf.d/*proxy* "$fresh/etc/apt/apt.conf.d/" 2>/dev/null || true
    cp "$packages"/weft*_*.deb "$fresh/tmp"
    there apt-get update -qq # mmdebstrap keeps no lists
}

there() {
    chroot "$fresh" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

installed() {
    there apt-get install -y -qq --no-install-recommends "/tmp/$(basename "$deb")" </dev/null
}

# Unprivileged: no root, no huge pages, no NIC.
demo() {
    there setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs \
        sh -c 'cd /tmp && mkdir -p demo && cd demo && XDG_RUNTIME_DIR=/tmp/demo weft demo --seconds 2' >"$work/demo"
    local status=$?
    tail -n 20 "$work/demo"
    [ "$status" = 0 ] && grep -q 'at full bursts one core carries' "$work/demo"
}

units_are_right() {
    there systemd-analyze verify --man=yes weft@gateway.service weft-control.service weft-host.service
}

manual() {
    there man weft | grep 'execution environment' >/dev/null && there man weft-ctl-bearer-add | grep TEID >/dev/null
}

user_is_there() {
    there getent passwd weft && there runuser -u weft -- weft check /etc/weft/examples/gateway.yaml
}

purged() {
    there apt-get purge -y -qq weft </dev/null || return 1
    local left
    left=$(find "$fresh"/etc/weft "$fresh"/usr/lib/weft "$fresh"/usr/share/weft "$fresh"/var/lib/weft \
        "$fresh"/lib/systemd/system/weft* "$fresh"/etc/default/weft 2>/dev/null)
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}

image_is_small() {
    local octets
    octets=$(stat -c %s "$packages/weft.oci.tar")
    note "the image has $((octets / 1000000)) MB, unpacked $(du -sm "$work/bundle/rootfs" | cut -f1) MB"
    [ "$octets" -lt 150000000 ] && [ "$(du -sm "$work/bundle/rootfs" | cut -f1)" -lt 150 ]
}

image_unpacks() {
    mkdir -p "$work/layout" && tar -C "$work/layout" -xf "$packages/weft.oci.tar" &&
        umoci unpack --image "$work/layout:weft" "$work/bundle"
}

# Neither a shell nor a package manager, and nothing that runs with the rights of another.
image_has_no_more() {
    local found
    found=$(find "$work/bundle/rootfs" \( -name bash -o -name dash -o -name apt -o -name dpkg \) -type f
        find "$work/bundle/rootfs" -perm /6000 -type f)
    [ -z "$found" ] || { echo "$found"; return 1; }
}

# What a runtime does: the entry point with its arguments, environment and user.
image_runs() {
    local rootfs=$work/bundle/rootfs config user
    config=$work/bundle/config.json
    user=$(jq -r '.process.user.uid' "$config")
    [ "$user" != 0 ] || { echo "it runs as root"; return 1; }
    [ "$(jq -r '.process.args | join(" ")' "$config")" = "/usr/bin/weft demo" ] || return 1
    mount_system "$rootfs" || return 1
    mkdir -p "$rootfs/var/lib/weft"
    (cd / && chroot --userspec="$user:$user" "$rootfs" /usr/bin/weft demo --seconds 2 --html /tmp/report.html) >"$work/image"
    local status=$?
    tail -n 20 "$work/image"
    [ "$status" = 0 ] && grep -q 'at full bursts one core carries' "$work/image"
}

if try "a fresh Debian system" bootstrap && try "apt installs the package there" installed; then
    check "a user without rights runs the demo" demo
    check "systemd accepts the installed units and finds their manual pages" units_are_right
    check "man reads the pages" manual
    check "services have their user, and it can read the examples" user_is_there
    check "purge leaves nothing" purged
fi
if [ -f "$packages/weft.oci.tar" ] && command -v umoci >/dev/null; then
    try "the image unpacks" image_unpacks && {
        check "the image is smaller than 150 MB" image_is_small
        check "the image has no shell and no package manager" image_has_no_more
        check "the image runs the demo as its own user" image_runs
    }
else
    skip "the image" "there is none in $packages (make image), or no umoci"
fi
close_report
