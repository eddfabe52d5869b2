"""The emulated machine: QEMU with an `igb`, whose wire ends at a socket of this process."""

import ctypes
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

# On a host with much else to do, time stands still for an emulated processor now and then:
# the kernel is not to check its timer by it, and ticks come periodically, as one that is
# lost would otherwise take with it all that are to come.
KERNEL = (
    "console=ttyS0 quiet panic=-1 intel_iommu=on,sm_off iommu=nopt mitigations=off nokaslr "
    "tsc=reliable no_timer_check nohz=off highres=off hugepages=128 ipv6.disable=1"
)


class Machine:
    """Runs from its making until it is left."""

    def __init__(self, folder, image, share, log):
        self.share = Path(share)
        # An abstract one (unix(7)): it goes with who has it, however that ends.
        wire = f"weft-sriov-{os.getpid()}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"\0{wire}")
        self.listener.listen()
        self.wire, self.coming = None, b""
        with open(log, "wb") as console:
            self.process = subprocess.Popen(
                arguments(folder, image, share, wire),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=environment(folder),
                preexec_fn=end_with_parent,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.listener.close()
        if self.wire:
            self.wire.close()

    def runs(self):
        return self.process.poll() is None

    def until(self, name, seconds):
        """Waits for a file in the shared folder; whether it came while the machine ran."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (self.share / name).exists():
                return True
            if not self.runs():
                return (self.share / name).exists()
            time.sleep(0.1)
        return False

    def connect(self, seconds):
        """Waits until the NIC is at the other end of the wire; whether it is."""
        self.listener.settimeout(seconds)
        try:
            self.wire, _ = self.listener.accept()
        except TimeoutError:
            return False
        return True

    def listen(self, seconds):
        """Frames that have come out of the NIC, after so long at most: each follows its
        length. A machine that is gone is a `ConnectionError`."""
        while select.select([self.wire], [], [], seconds)[0]:
            octets = self.wire.recv(1 << 16)
            if not octets:
                raise ConnectionResetError
            self.coming += octets
            seconds = 0
        frames = []
        while len(self.coming) >= 4:
            end = 4 + int.from_bytes(self.coming[:4])
            if len(self.coming) < end:
                break
            frames.append(self.coming[4:end])
            self.coming = self.coming[end:]
        return frames

    def send(self, frame):
        """A frame into the NIC; waits while it has no room."""
        self.wire.sendall(len(frame).to_bytes(4) + frame)


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def end_with_parent():
    """A machine that nobody listens to any more ends, too."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment(folder):
    root = Path(folder) / "machine"
    paths = [str(root / path / "x86_64-linux-gnu") for path in ("usr/lib", "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}


def arguments(folder, image, share, wire):
    """QEMU's, for a machine with an IOMMU and one NIC."""
    root = Path(folder) / "machine/usr"
    words = [root / "bin/qemu-system-x86_64"]
    for firmware in ("share/qemu", "share/seabios", "lib/ipxe/qemu"):
        words += ["-L", root / firmware]
    words += ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio"]
    words += ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]
    words += ["-smp", "4", "-m", "1024"]
    words += ["-kernel", Path(folder) / "vmlinux", "-initrd", image, "-append", KERNEL]
    words += ["-device", "intel-iommu,intremap=on,aw-bits=48"]
    words += ["-device", "pcie-root-port,id=root1,chassis=1,slot=1"]
    words += ["-netdev", "hubport,id=nic,hubid=0", "-device", "igb,bus=root1,netdev=nic"]
    wire = f"addr.type=unix,addr.path={wire},addr.abstract=on,addr.tight=on"
    words += ["-netdev", f"stream,id=wire,server=off,{wire}"]
    words += ["-netdev", "hubport,id=outside,hubid=0,netdev=wire"]
    words += ["-fsdev", f"local,id=share,path={share},security_model=none"]
    words += ["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]
    return [str(word) for word in words]
