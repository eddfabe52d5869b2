"""The emulated machine with an `igb`, whose wire ends at a socket of this process."""

import os
import select
import socket

import qemu

KERNEL = "intel_iommu=on,sm_off iommu=nopt hugepages=128"


class Machine(qemu.Machine):
    """Runs from its making until it is left."""

    def __init__(self, folder, image, share, log):
        # An abstract one (unix(7)): it goes with who has it, however that ends.
        wire = f"weft-sriov-{os.getpid()}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"\0{wire}")
        self.listener.listen()
        self.wire, self.coming = None, b""
        super().__init__(folder, share, log, arguments(folder, image, share, wire))

    def __exit__(self, *_):
        self.kill()
        self.listener.close()
        if self.wire:
            self.wire.close()

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


def arguments(folder, image, share, wire):
    """QEMU's, for a machine with an IOMMU and one NIC."""
    words = qemu.arguments(folder, image, share, KERNEL)
    words += ["-no-reboot", "-machine", "q35", "-smp", "4", "-m", "1024"]
    words += ["-device", "intel-iommu,intremap=on,aw-bits=48"]
    words += ["-device", "pcie-root-port,id=root1,chassis=1,slot=1"]
    words += ["-netdev", "hubport,id=nic,hubid=0", "-device", "igb,bus=root1,netdev=nic"]
    wire = f"addr.type=unix,addr.path={wire},addr.abstract=on,addr.tight=on"
    words += ["-netdev", f"stream,id=wire,server=off,{wire}"]
    words += ["-netdev", "hubport,id=outside,hubid=0,netdev=wire"]
    return words
