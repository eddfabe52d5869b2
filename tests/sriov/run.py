#!/usr/bin/env python3
"""Chains over virtual functions of an emulated NIC: QEMU's `igb`, a kernel of Debian, DPDK's
driver, and the program under test. See ../README.md.

    run.py                 all chains, and a NIC that is reset
    run.py chain-2         one of them
    PACKETS=20000 run.py   with so many packets each

$WEFT is the program, by default target/release/weft; $EMULATED the folder with what
the machine is made of, by default target/emulated. Ends with `N passed, N failed, N skipped`.
"""

import os
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "emulated"))

import image
import judge
import qemu
from machine import Machine
from report import Report, tail
from traffic import Exchange

PACKETS = int(os.environ.get("PACKETS", "4000"))
# Packets that are on their way at once: fewer than a queue holds and than a worker may
# have away, so that none may be lost.
WINDOW = 64
BOOT_SECONDS, START_SECONDS, STILL_SECONDS = 120, 90, 60
ARP = bytes.fromhex("0806")
# How often a machine may be started of which a processor stands still.
ATTEMPTS = 3
# In the guest: drivers of its kernel, and DPDK's that are loaded at its start.
MODULES = ["igb", "vfio_iommu_type1", "vfio-pci"]
DRIVERS = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_ring"]


class Chain:
    """What is known of a chain: its functions in order, and what they do."""

    def __init__(self, name, functions, virtual_functions):
        self.name, self.functions = name, functions
        self.virtual_functions = virtual_functions
        self.filters = "guard" in functions
        self.rewrites = "service" in functions
        # What the frames between node and functions have in front is beyond an MTU of 1500,
        # which the port of these has.
        self.longest = 1300 if name in ("chain-1", "reset") else 1457
        # Functions that write what they have counted, in the order of the counts' places.
        self.counters = [one for one in functions if one not in ("guard", "service")]


# A NIC that is reset while packets pass.
RESET = Chain("reset", ["count"], 4)
CHAINS = [
    Chain("chain-1", ["count"], 4),
    Chain("chain-2", ["first", "second"], 5),
    Chain("chain-4", ["first", "guard", "service", "last"], 7),
]


def exchange(machine, chain, packets):
    """Sends packets through a node, never more at once than a window."""
    traffic = Exchange(chain, packets)
    latest = time.monotonic()
    frame = traffic.next_frame()
    try:
        while (frame or traffic.away()) and time.monotonic() - latest < STILL_SECONDS:
            while frame and traffic.away() < WINDOW:
                machine.send(frame)
                frame = traffic.next_frame()
            for came in machine.listen(0.2):
                latest = time.monotonic()
                traffic.take(came)
        # What comes later came twice, or was nobody's.
        for came in machine.listen(1):
            traffic.take(came)
    except ConnectionError:
        traffic.faults.append("the machine is gone")
    return traffic


def run_chain(report, machine, chain):
    """Judges one chain while the guest goes through its life."""
    seen = judge.Seen(machine.share / chain.name)
    runs = machine.until(f"{chain.name}/ready", BOOT_SECONDS + START_SECONDS)
    if not runs:
        machine.until(f"{chain.name}/done", START_SECONDS)
    said = seen.text("node") + seen.text("create.error") + seen.text("starting")
    report.check(f"{chain.name}: its functions run", runs, tail(said))
    if not runs:
        return
    exchanged = exchange(machine, chain, PACKETS)
    (seen.folder / "sent").touch()
    judge.traffic(report, chain, exchanged)
    kill_one(report, machine, chain, seen)
    done = machine.until(f"{chain.name}/done", START_SECONDS)
    report.check(f"{chain.name}: the machine is done with it", done, "it is not")
    judge.books(report, chain, exchanged, seen)
    judge.making(report, chain, seen)
    judge.showing(report, chain, seen)
    judge.removing(report, chain, seen)


def kill_one(report, machine, chain, seen):
    """A function that is killed takes its virtual function again when it comes back."""
    name = f"{chain.name}: a function that was killed has its virtual function again"
    back = machine.until(f"{chain.name}/ready-again", START_SECONDS) and seen.did("killed")
    if back:
        wrong = judge.wrong_traffic(exchange(machine, chain, PACKETS // 4))
    else:
        wrong = f"{chain.functions[-1]} does not: {tail(seen.text('node'))}"
    (seen.folder / "sent-again").touch()
    report.check(name, not wrong, wrong)


def run_reset(report, machine):
    """A NIC is reset while packets pass: the node opens its ports again, and none comes twice or
    behind a later one."""
    seen = judge.Seen(machine.share / RESET.name)
    if not machine.until(f"{RESET.name}/ready", BOOT_SECONDS + START_SECONDS):
        report.check("reset: the node runs", False, tail(seen.text("node")))
        return
    judge.back(report, "reset: every packet comes back", exchange(machine, RESET, PACKETS))
    (seen.folder / "sent").touch()
    meanwhile = send_until(machine, f"{RESET.name}/ready-again", START_SECONDS)
    again = exchange(machine, RESET, PACKETS)
    (seen.folder / "sent-again").touch()
    judge.reset(report, seen, meanwhile)
    judge.back(report, "reset: behind it every packet comes back", again)
    machine.until(f"{RESET.name}/done", START_SECONDS)
    report.check("reset: the node ends when it is told to", seen.did("node"), seen.text("node"))


def send_until(machine, name, seconds):
    """Sends packets, some hundred a second, until the guest has written a file."""
    traffic = Exchange(RESET, 1 << 20)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (machine.share / name).exists():
        machine.send(traffic.next_frame())
        take_all(traffic, machine.listen(0.005))
    while came := machine.listen(1):
        take_all(traffic, came)
    return traffic


def take_all(traffic, frames):
    """Takes what came, but for what a node announces of a port that it has opened."""
    for came in frames:
        if came[12:14] != ARP:
            traffic.take(came)


def main():
    names = sys.argv[1:]
    known = {chain.name: chain for chain in [RESET, *CHAINS]}
    if strange := [name for name in names if name not in known]:
        sys.exit(f"run.py: there is no {strange[0]}; there are {', '.join(known)}")
    chains = [known[name] for name in names or known]
    weft = Path(os.environ.get("WEFT", ROOT / "target/release/weft")).resolve()
    folder = Path(os.environ.get("EMULATED", ROOT / "target/emulated")).resolve()
    if not weft.is_file():
        sys.exit(f"run.py: {weft} is not there: build it (cargo build --release) or set WEFT")
    if not qemu.prepare(folder):
        sys.exit("run.py: prepare.sh has not got what the machine is made of, as it says above")
    try:
        programs = {"bin/weft": weft, "sbin/ip": image.program("ip", "iproute2")}
        image.build(folder / "sriov.img", folder / "guest", programs, DRIVERS, MODULES)
    except image.Missing as missing:
        sys.exit(f"run.py: {missing}")
    for left in reversed(range(ATTEMPTS)):
        report, stood_still = one_run(folder, chains)
        if not report.failed or not left or not stood_still:
            break
        # That is the host's doing, who had no time for it: it says nothing of the program.
        print("     the emulated machine stood still, as its kernel says: once more")
    return report.close()


def one_run(folder, chains):
    """A machine from its start to its end."""
    work = folder / "sriov"
    share = work / "share"
    shutil.rmtree(share, ignore_errors=True)
    share.mkdir(parents=True)
    shutil.copy(HERE / "guest.sh", share)
    for chain in chains:
        shutil.copy(HERE / f"{chain.name}.yaml", share)
        (share / chain.name).mkdir()
    report = Report()
    began = time.monotonic()
    with Machine(folder, folder / "sriov.img", share, work / "console.log") as machine:
        if not machine.connect(BOOT_SECONDS):
            sys.exit(f"run.py: QEMU does not run: {tail(machine.console())}")
        for chain in chains:
            if chain is RESET:
                run_reset(report, machine)
            else:
                run_chain(report, machine, chain)
    seconds = time.monotonic() - began
    print(f"     it took {seconds:.0f} s; what was seen is in {work}")
    return report, machine.stood_still()


sys.exit(main())
