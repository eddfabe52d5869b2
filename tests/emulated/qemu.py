"""An emulated machine: QEMU without KVM, a kernel of Debian, an initial file system, and a
folder that it shares with the test."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

# On a host with much else to do, time stands still for an emulated processor now and then:
# the kernel is not to check its timer by it, and ticks come periodically, as one that is
# lost would otherwise take with it all that are to come.
KERNEL = (
    "console=ttyS0 quiet panic=-1 mitigations=off nokaslr "
    "tsc=reliable no_timer_check nohz=off highres=off ipv6.disable=1"
)

# How the kernel says that a processor of its stood still.
STALLS = (
    "Possible timer handling issue",
    "detected stalls on CPUs",
    "self-detected stall",
    "soft lockup",
)


class Machine:
    """Runs from its making until it is left."""

    def __init__(self, folder, share, log, words):
        """`words` are QEMU's arguments: those of `arguments`, and what else there is."""
        self.share, self.log = Path(share), Path(log)
        with open(log, "wb") as console:
            self.process = subprocess.Popen(
                [Path(folder) / "machine/usr/bin/qemu-system-x86_64", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=environment(folder),
                preexec_fn=end_with_parent,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

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

    def console(self):
        return self.log.read_text(errors="replace")

    def stood_still(self):
        """Whether the guest's kernel has seen that a processor of its did not run."""
        said = self.console()
        kernel = self.share / "kernel.log"
        if kernel.exists():
            said += kernel.read_text(errors="replace")
        return any(sign in said for sign in STALLS)


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def end_with_parent():
    """For what has no purpose once the test is gone, however that has ended."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment(folder):
    root = Path(folder) / "machine"
    paths = [str(root / path / "x86_64-linux-gnu") for path in ("usr/lib", "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}


def arguments(folder, image, share, kernel=""):
    """QEMU's, for a machine without a NIC; `kernel` is what its kernel is told besides."""
    root = Path(folder) / "machine/usr"
    words = []
    for firmware in ("share/qemu", "share/seabios", "lib/ipxe/qemu"):
        words += ["-L", root / firmware]
    words += ["-nodefaults", "-no-user-config", "-nographic", "-serial", "stdio"]
    words += ["-accel", "tcg,thread=multi", "-cpu", "max"]
    words += ["-kernel", Path(folder) / "vmlinux", "-initrd", image]
    words += ["-append", f"{KERNEL} {kernel}"]
    words += ["-fsdev", f"local,id=share,path={share},security_model=none"]
    words += ["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]
    return words


def prepare(folder):
    """Has ready what machines are made of; whether it is there."""
    script = Path(__file__).resolve().parent / "prepare.sh"
    return subprocess.run([script, folder], check=False).returncode == 0
