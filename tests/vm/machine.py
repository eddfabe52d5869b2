"""The emulated machine whose NIC is the front end of a function's ring (vhost-user)."""

import image
import qemu

# The NIC's, and those that `guest.sh` has packets changed by.
MODULES = ["virtio_net", "crc32c_generic", "sch_ingress", "cls_matchall"]
MODULES += ["act_pedit", "act_csum", "act_mirred"]


def build(path, guest):
    programs = {
        "sbin/ip": image.program("ip", "iproute2"),
        "sbin/tc": image.program("tc", "iproute2"),
    }
    image.build(path, guest, programs, modules=MODULES)


class Machine(qemu.Machine):
    """Runs from its making until it is left; finds its node again when that starts again."""

    def __init__(self, folder, image_file, share, log, ring):
        words = qemu.arguments(folder, image_file, share)
        words += ["-machine", "q35,memory-backend=memory", "-smp", "2", "-m", "512"]
        # The node has its packets in this memory.
        words += ["-object", "memory-backend-memfd,id=memory,size=512M,share=on"]
        words += ["-chardev", f"socket,id=ring,path={ring},reconnect-ms=100"]
        words += ["-netdev", "vhost-user,id=function,chardev=ring"]
        words += ["-device", "virtio-net-pci,netdev=function"]
        super().__init__(folder, share, log, words)
