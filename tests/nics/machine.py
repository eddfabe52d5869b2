"""The emulated machine with two NICs of each kind, whose wires are TAP devices of the host."""

import json
import socket
import time

import qemu

KERNEL = "intel_iommu=on,sm_off iommu=nopt hugepages=128"
QUEUES = 4
# Of the wires: what is longer than that of a port is the NIC's to drop.
MTU = 9000
# Each kind of NIC, as QEMU calls it: what it is told, and how many queues its wire has.
KINDS = {
    "igb": ("igb", 1),
    "virtio": (
        f"virtio-net-pci,mq=on,vectors={2 * QUEUES + 2},rss=on,"
        "disable-legacy=on,iommu_platform=on",
        QUEUES,
    ),
}
NAMES = [f"{kind}-{port}" for kind in KINDS for port in ("access", "core")]


def wires():
    """What makes the host's ends (ip(8))."""
    commands = []
    for name in NAMES:
        queues = " multi_queue" if KINDS[name.split("-")[0]][1] > 1 else ""
        commands += [f"tuntap add dev {name} mode tap{queues}", f"link set {name} mtu {MTU} up"]
    return commands


class Machine(qemu.Machine):
    """Runs from its making until it is left."""

    def __init__(self, folder, image, share, log):
        super().__init__(folder, share, log, arguments(folder, image, share))
        self.monitor = None

    def __exit__(self, *_):
        self.kill()
        if self.monitor:
            self.monitor.close()

    def connect(self, seconds):
        """Waits for QEMU's monitor; whether it is there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.runs():
            wire = socket.socket(socket.AF_UNIX)
            try:
                wire.connect("\0weft-nics-monitor")
            except ConnectionRefusedError:
                wire.close()
                time.sleep(0.1)
                continue
            self.monitor = wire.makefile("rw")
            wire.close()
            self.monitor.readline()
            self.tell("qmp_capabilities")
            return True
        return False

    def tell(self, command, **arguments):
        """A command of QEMU's (QMP); what it says if it refuses."""
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.monitor, flush=True)
        for line in self.monitor:
            said = json.loads(line)
            if "return" in said:
                return None
            if "error" in said:
                return said["error"]["desc"]
        return "QEMU is gone"

    def unplug(self, name):
        """Asks the guest to let a NIC go."""
        return self.tell("device_del", id=name)

    def plug(self, name):
        """Puts a NIC into its slot; what QEMU says if it cannot be yet."""
        driver, *words = device(name).split(",")
        options = {key: typed(key, value) for key, value in (word.split("=", 1) for word in words)}
        return self.tell("device_add", driver=driver, **options)


def typed(key, value):
    """A property of a device as QMP takes it."""
    if value.isdigit():
        return int(value)
    # Of three states, whose names are text.
    return value == "on" if value in ("on", "off") and key != "disable-legacy" else value


def device(name):
    """QEMU's words for a NIC."""
    kind, _ = KINDS[name.split("-")[0]]
    number = NAMES.index(name)
    slot = f"id={name},bus=root-{name},netdev=wire-{name},mac=02:00:00:00:02:{number:02x}"
    # Without a ROM the firmware does not wait for it.
    return f"{kind},{slot},romfile="


def arguments(folder, image, share):
    """QEMU's, for a machine with an IOMMU and all NICs."""
    words = qemu.arguments(folder, image, share, KERNEL)
    words += ["-no-reboot", "-machine", "q35", "-smp", "4", "-m", "1024"]
    words += ["-device", "intel-iommu,intremap=on,aw-bits=48,device-iotlb=on"]
    words += ["-chardev", "socket,id=monitor,path=weft-nics-monitor,abstract=on,server=on,wait=off"]
    words += ["-mon", "chardev=monitor,mode=control"]
    for number, name in enumerate(NAMES):
        queues = KINDS[name.split("-")[0]][1]
        # The far end is to see what the NIC has computed, and not that it has yet to be.
        wire = f"tap,id=wire-{name},ifname={name},script=no,downscript=no,vnet_hdr=off"
        words += ["-netdev", wire if queues == 1 else f"{wire},queues={queues}"]
        words += ["-device", f"pcie-root-port,id=root-{name},chassis={number + 1},slot={number + 1}"]
        words += ["-device", device(name)]
    return words
