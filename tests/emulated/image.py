"""The initial file system of the emulated machine, as the kernel takes it (cpio, `newc`):
programs of this machine with the libraries that they load, DPDK's drivers, and modules
of the kernel that it boots."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

# In the guest these are loaded, and before them what they depend on: what the folder takes
# that it shares with the test.
MODULES = ["virtio_pci", "9pnet_virtio", "9p"]

FOLDERS = ["dev", "proc", "sys", "tmp", "run", "share", "bin", "sbin", "etc", "var"]

# Links to folders; of a library that is there twice, DPDK would load both.
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run"}


class Missing(Exception):
    """Something that this machine lacks; what, and what to do."""


class Image:
    """Files by their path in the guest."""

    def __init__(self):
        # DPDK takes no drivers from below a folder that all may write to.
        self.files = {".": (stat.S_IFDIR | 0o755, b"")}
        for folder in FOLDERS:
            self.folder(folder)
        for path, target in LINKS.items():
            self.link(path, target)

    def folder(self, path):
        for parent in reversed([Path(path), *Path(path).parents][:-1]):
            self.files.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))

    def put(self, path, content, mode=0o755):
        path = merged(path)
        self.folder(Path(path).parent)
        self.files[path] = (stat.S_IFREG | mode, content)

    def link(self, path, target):
        self.folder(Path(path).parent)
        self.files[str(path)] = (stat.S_IFLNK | 0o777, str(target).encode())

    def copy(self, source, path=None):
        """A file as it is, at its own path or at another; links stay links, and what
        they lead to comes along."""
        source = Path(source)
        path = merged(path or source)
        if source.is_symlink():
            target = os.readlink(source)
            self.link(path, target)
            self.copy(source.parent / target, os.path.normpath(Path(path).parent / target))
        else:
            self.put(path, source.read_bytes())

    def write(self, path):
        """The archive: for each file a header of hexadecimal numbers, its name and what is
        in it, each filled up to four octets."""
        with open(path, "wb") as archive:
            entries = [*sorted(self.files.items()), ("TRAILER!!!", (0, b""))]
            for number, (name, (mode, content)) in enumerate(entries):
                fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
                header = b"070701" + b"".join(b"%08X" % field for field in fields)
                header += name.encode() + b"\0"
                archive.write(header + bytes(-len(header) % 4))
                archive.write(content + bytes(-len(content) % 4))


def merged(path):
    """A path without its first `/`, and below `usr` if that is where it leads."""
    path = str(path).lstrip("/")
    return f"usr/{path}" if path.startswith(("lib/", "lib64/")) else path


def libraries(program):
    """What the dynamic linker loads for a program or library."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    missing = re.findall(r"(\S+) => not found", said.stdout)
    if missing:
        raise Missing(f"{program}: its libraries {', '.join(missing)} are not installed")
    return re.findall(r"(/\S+) \(0x", said.stdout)


def add_program(image, program, path):
    image.put(path, stripped(program))
    for library in libraries(program):
        image.copy(library)


def stripped(program):
    """A program without what only a debugger reads, where there is `strip`."""
    if not shutil.which("strip"):
        return Path(program).read_bytes()
    with tempfile.NamedTemporaryFile() as smaller:
        subprocess.run(["strip", "--strip-debug", "-o", smaller.name, program], check=True)
        return Path(smaller.name).read_bytes()


def add_drivers(image, drivers):
    folders = sorted(Path("/usr/lib").glob("*/dpdk/pmds-*"))
    folder = folders[-1] if folders else Path("/usr/lib")
    for driver in drivers:
        names = sorted(folder.glob(f"librte_{driver}.so.*"))
        if not names:
            raise Missing(f"DPDK's driver {driver} is not in {folder}; install libdpdk-dev")
        for name in names:
            image.copy(name)
            for library in libraries(name):
                image.copy(library)


def add_modules(image, root, modules):
    """Modules, and the order to load them in. What is built into the kernel is no file."""
    versions = sorted((Path(root) / "lib/modules").iterdir())
    files = {}
    for path in versions[-1].rglob("*.ko"):
        files[path.stem.replace("-", "_")] = path
    order = []

    def add(name):
        path = files.get(name.replace("-", "_"))
        if path is None or path in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for other in depends.group(1).decode().split(",") if depends else []:
            add(other)
        order.append(path)

    for name in modules:
        add(name)
    for path in order:
        image.put(path.relative_to(root), path.read_bytes())
    text = "".join(f"/{path.relative_to(root)}\n" for path in order)
    image.put("modules", text.encode(), 0o644)


def build(path, guest, programs, drivers=(), modules=()):
    """Makes the archive `path` from the packages in `guest`, with these programs by their paths
    there, drivers of DPDK beyond those that they are linked with, and modules."""
    image = Image()
    image.copy(Path(guest) / "bin/busybox", "bin/busybox")
    image.put("init", (Path(__file__).resolve().parent / "init.sh").read_bytes())
    for inside, file in programs.items():
        add_program(image, os.path.realpath(file), inside)
    add_drivers(image, drivers)
    add_modules(image, guest, [*MODULES, *modules])
    image.write(path)


def program(name, package):
    """Where a program is that comes with a package."""
    path = shutil.which(name, path="/sbin:/usr/sbin:/bin:/usr/bin")
    if not path:
        raise Missing(f"there is no program {name}; install {package}")
    return path
