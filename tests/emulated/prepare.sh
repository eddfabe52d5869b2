#!/usr/bin/env bash
# Has ready what the emulated machine is made of: QEMU with an `igb` that has SR-IOV
# (from 8.0 on; Debian 12 has it in its backports), a kernel of Debian with drivers for
# NICs, and busybox. Packages are downloaded and unpacked below FOLDER; nothing is
# installed, and it takes no privileges.
#
#   prepare.sh FOLDER
#
# $DEBIAN_MIRROR is where packages come from, by default http://deb.debian.org/debian.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
folder=$(realpath -m -- "${1:?prepare.sh FOLDER}")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# What was made by this very script is as good as new.
stamp=$folder/prepared version=$(sha256sum <"$here/prepare.sh")
[ "$(cat "$stamp" 2>/dev/null)" = "$version" ] && exit 0

for program in apt-get dpkg-deb python3; do
    command -v "$program" >/dev/null && continue
    echo "prepare.sh: there is no $program; this takes Debian 12 with python3" >&2
    exit 2
done
# Only what this script has made goes.
rm -rf "$folder/apt" "$folder/machine" "$folder/guest" "$stamp"
mkdir -p "$folder"/apt/{lists,cache/archives}/partial "$folder"/{machine,guest}

# An apt of its own, that knows what is installed here but changes nothing of it.
cat >"$folder/apt/sources.list" <<LIST
deb [signed-by=$keyring] $mirror bookworm main
deb [signed-by=$keyring] $mirror bookworm-backports main
LIST
cat >"$folder/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
Debug::NoLocking "true";
APT::Sandbox::User "";
CONF
export APT_CONFIG=$folder/apt/apt.conf

echo "downloading to $folder: qemu-system-x86, a kernel, busybox-static (about 90 MB)"
apt-get update -qq
# Its libraries, too, as far as they are not installed.
apt-get install -qq --download-only --no-install-recommends --yes \
    --target-release bookworm-backports qemu-system-x86 >/dev/null
kernel=$(apt-cache depends linux-image-amd64/bookworm |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$kernel" ] || { echo "prepare.sh: $mirror has no linux-image-amd64" >&2 && exit 2; }
(cd "$folder/guest" && apt-get download -qq "$kernel" busybox-static)

for package in "$folder"/apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$folder/machine"
done
for package in "$folder"/guest/*.deb; do
    dpkg-deb -x "$package" "$folder/guest"
    rm "$package"
done
# The kernel as it is in memory: to unpack it takes an emulated machine seconds.
python3 "$here/vmlinux.py" "$folder"/guest/boot/vmlinuz-* "$folder/vmlinux"
rm -rf "$folder/apt"
echo "$version" >"$stamp"
