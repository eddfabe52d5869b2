#!/usr/bin/env python3
"""A function in a virtual machine: QEMU is the front end of the function's ring, and a kernel
that knows nothing of Weft handles packets. See ../README.md.

    run.py                 under each policy for packets while the machine is not there
    run.py hold            under one of them
    PACKETS=20000 run.py   with so many packets in each

$WEFT is the program, by default target/release/weft; $EMULATED the folder with what machines
are made of, by default target/emulated. Ends with `N passed, N failed, N skipped`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "emulated"))

import network
import qemu
from image import Missing
from machine import Machine, build
from report import Report, tail
from traffic import AWAY, HERE as CALLED, WINDOW, Traffic

PACKETS = int(os.environ.get("PACKETS", "4000"))
# Packets that come while the function is not there; fewer than the policy lets wait.
MEANWHILE = 800
START_SECONDS, BOOT_SECONDS, STILL_SECONDS = 30, 120, 90
# How often a machine may be started of which a processor stands still.
ATTEMPTS = 3

# Linux takes what it finds in the ring, 256 packets at most, before its device may send.
FIRST_LOST = 256
POLICIES = ["hold", "bypass"]

NODE = """
apiVersion: weft/v1
kind: Node
metadata: {{name: vm}}
memory: {{hugePages: false}}
ports:
  access: {{device: "net_af_packet0,iface=access", direction: uplink}}
  core: {{device: "net_af_packet1,iface=core", direction: downlink}}
functions:
  away:
    function: pass
    composition: process
    # An emulated machine has pauses that a real one does not have.
    process: {{start: elsewhere, tags: none, socket: {ring}, onFailure: {policy}, hold: 4096,
              heartbeat: 15000}}
  here: {{function: counter}}
users:
  - {{name: away, count: 2, match: {{ipv4: 10.3.0.0}}, chain: machine}}
  - {{name: here, count: 2, match: {{ipv4: 10.3.0.2}}, chain: called}}
rules: |
  chain machine = away
  chain called = here
  from access when chain == machine -> machine
  from access when chain == called -> called
  from core when chain == machine -> machine
  from core when chain == called -> called
  from machine when direction == uplink -> core
  from machine -> access
  from called when direction == uplink -> core
  from called -> access
"""


class Node:
    """The program under test. Each has its own log and counts from nought."""

    def __init__(self, weft, work, policy, ring):
        self.weft, self.log = weft, work / "node.log"
        file = work / "node.yaml"
        file.write_text(NODE.format(ring=ring, policy=policy))
        self.environment = {**os.environ, "WEFT_SOCKET": str(work / "node.sock")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [weft, "run", file],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                preexec_fn=qemu.end_with_parent,
            )

    def snapshot(self):
        """What it tells of itself; nothing while it does not answer."""
        said = subprocess.run(
            [self.weft, "show", "runtime", "--json"],
            capture_output=True,
            env=self.environment,
            check=False,
        )
        return json.loads(said.stdout) if said.returncode == 0 else None

    def function(self):
        snapshot = self.snapshot()
        functions = snapshot["functions"] if snapshot else []
        return next((one["process"] for one in functions if one["name"] == "away"), None)

    def until(self, state, seconds):
        """Waits until the function is so; whether it is."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            function = self.function()
            if function and function["state"] == state:
                return True
            time.sleep(0.05)
        return False

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait()

    def drops(self):
        return {one["reason"]: one["packets"] for one in self.snapshot()["drops"] if one["packets"]}


class Test:
    """One policy, from the first packet to the last."""

    def __init__(self, report, folder, weft, policy):
        self.report, self.folder, self.weft, self.policy = report, folder, weft, policy
        self.work = folder / f"vm-{policy}"
        shutil.rmtree(self.work, ignore_errors=True)
        self.share = self.work / "share"
        self.share.mkdir(parents=True)
        shutil.copy(HERE / "guest.sh", self.share)
        self.ring = self.work / "ring.sock"
        self.traffic = Traffic(network.Wires(["access-wire", "core-wire"]))
        self.node = self.machine = None
        self.machines = 0
        # Packets that the node at work has said to be lost.
        self.lost = 0
        self.stood_still = False

    def check(self, name, fits, otherwise=""):
        """A check, and whether frames were right until now."""
        faults = "; ".join(self.traffic.faults[:5])
        self.traffic.faults.clear()
        fits = self.report.check(f"{self.policy}: {name}", fits and not faults, faults or otherwise)
        if not fits:
            print(tail(self.node.log.read_text(errors="replace")))
            print(tail(self.machine.console()) if self.machine else "no machine yet")
        return fits

    def start_machine(self):
        self.machines += 1
        log = self.work / f"console-{self.machines}.log"
        self.machine = Machine(self.folder, self.folder / "vm.img", self.share, log, self.ring)

    def end_machine(self):
        if self.machine:
            self.machine.kill()
            self.stood_still |= self.machine.stood_still()
            self.machine = None

    def run(self):
        self.node = Node(self.weft, self.work, self.policy, self.ring)
        try:
            self.late() and self.load() and self.reboot() and self.killed() and self.node_killed()
        finally:
            self.end_machine()
            if self.node.process.poll() is None:
                self.node.end(signal.SIGKILL)

    def meanwhile(self):
        """Packets while the function is not there: those of the other chain come back, and
        those of this as the policy says."""
        traffic, first = self.traffic, len(self.traffic.away(AWAY))
        for _ in range(MEANWHILE):
            traffic.send(AWAY + CALLED)
            traffic.take(0)
        others = traffic.settle(CALLED, STILL_SECONDS)
        self.check("the other chain loses nothing meanwhile", others, self.missing(CALLED))
        if self.policy == "bypass":
            past = traffic.settle(AWAY, STILL_SECONDS, lambda: first)
            self.check("packets go past it meanwhile", past, self.missing(AWAY))
            return others and past
        wait = len([one for one in traffic.sent[-MEANWHILE:] if one.user in AWAY])
        waits = len(traffic.away(AWAY)) == first + wait
        self.check("packets wait for it meanwhile", waits, "some are back")
        return others and waits

    def missing(self, users):
        return f"{len(self.traffic.away(users))} did not come back; {self.node.drops()}"

    def all_known(self, name, at_most):
        """Each packet is back, or the node says that the function has lost it."""

        def lost():
            return self.node.drops().get("function_lost", 0) - self.lost

        known, count = self.traffic.settle(AWAY + CALLED, STILL_SECONDS, lost), lost()
        known = self.check(name, known and count <= at_most, f"{self.missing(AWAY + CALLED)}")
        if count:
            print(f"     {self.policy}: {count} lost, as the node says")
        self.lost += count
        self.traffic.give_up(AWAY)
        return known

    def there_again(self):
        """The function is found, and handles what waits for it, and what comes."""
        running = self.node.until("running", BOOT_SECONDS)
        if not self.check("the function is found", running, str(self.node.function())):
            return False
        # One that it may let lie until it has begun in earnest.
        self.traffic.send(AWAY)
        if not self.all_known("what waited for it is handled, in order", FIRST_LOST):
            return False
        self.traffic.may_bypass = False
        sent = self.traffic.exchange(MEANWHILE, STILL_SECONDS)
        back = self.traffic.settle(AWAY + CALLED, STILL_SECONDS)
        return self.check("it handles what comes", sent and back, self.missing(AWAY + CALLED))

    def late(self):
        """A machine that starts when packets have come already."""
        self.traffic.may_bypass = True
        if not self.check("a node waits for it", self.node.until("absent", START_SECONDS)):
            return False
        if not self.meanwhile():
            return False
        self.start_machine()
        return self.there_again()

    def load(self):
        before = time.monotonic()
        sent = self.traffic.exchange(PACKETS, STILL_SECONDS)
        back = self.traffic.settle(AWAY + CALLED, STILL_SECONDS)
        name = f"each of {PACKETS} packets comes back once, in order, as it should be"
        fits = self.check(name, sent and back, self.missing(AWAY + CALLED))
        print(f"     {self.policy}: {time.monotonic() - before:.1f} s")
        return fits and self.books()

    def books(self):
        """The node's own: what has come has left, or is said to be lost."""
        drops = {"function_lost": self.lost} if self.lost else {}
        snapshot = self.node.snapshot()
        sent = len(self.traffic.sent)
        counted = {
            "received": sum(port["rx_packets"] for port in snapshot["ports"]),
            "sent": sum(port["tx_packets"] for port in snapshot["ports"]),
            "drops": self.node.drops(),
            "strays": self.node.function()["strays"],
        }
        left = sent - sum(drops.values())
        wanted = {"received": sent, "sent": left, "drops": drops, "strays": 0}
        return self.check("its counters say so", counted == wanted, f"{counted}, not {wanted}")

    def reboot(self):
        """A machine that starts again, as from its power switch, while nothing is on its way."""
        self.traffic.may_bypass = True
        (self.share / "reboot").touch()
        down = self.node.until("absent", BOOT_SECONDS)
        if not self.check("a machine that starts again is gone", down, str(self.node.function())):
            return False
        return self.meanwhile() and self.there_again() and self.books()

    def killed(self):
        """A machine that dies under load."""
        traffic, before = self.traffic, len(self.traffic.sent)
        traffic.may_bypass = True

        def is_time():
            if len(traffic.sent) > before + 500 and self.machine:
                self.end_machine()
            return not self.machine

        traffic.exchange(PACKETS, STILL_SECONDS, is_time)
        down = self.node.until("absent", STILL_SECONDS)
        if not self.check("a machine that is killed is gone", down, str(self.node.function())):
            return False
        traffic.settle(CALLED, STILL_SECONDS)
        while traffic.take(0.5):
            pass  # what was back before
        if not self.meanwhile():
            return False
        self.start_machine()
        running = self.node.until("running", BOOT_SECONDS)
        if not self.check("the function is found", running, str(self.node.function())):
            return False
        # What was with it as it died, and what the new one loses.
        at_most = WINDOW + FIRST_LOST
        known = self.all_known("each packet is back or said to be lost", at_most)
        return known and self.there_again() and self.books()

    def node_killed(self):
        """A node that dies, and finds its function again; the machine goes on meanwhile."""
        self.node.end(signal.SIGKILL)
        self.lost = 0
        self.node = Node(self.weft, self.work, self.policy, self.ring)
        running = self.node.until("running", START_SECONDS)
        if not self.check("a node that starts again finds it", running, str(self.node.function())):
            return False
        self.traffic.may_bypass = False
        sent = self.traffic.exchange(MEANWHILE, STILL_SECONDS)
        back = self.traffic.settle(AWAY + CALLED, STILL_SECONDS)
        if not self.check("it handles that node's packets", sent and back, self.missing(AWAY)):
            return False
        status = self.node.end(signal.SIGTERM)
        return self.check("the node ends when it is told to", status == 0, f"with {status}")


def links():
    """The node's ports and their outer ends (ip(8))."""
    commands = []
    for name in ("access", "core"):
        commands.append(f"link add {name} type veth peer name {name}-wire")
        commands += [f"link set {name} up", f"link set {name}-wire up"]
    return commands


def main():
    policies = sys.argv[1:]
    if strange := [policy for policy in policies if policy not in POLICIES]:
        sys.exit(f"run.py: there is no {strange[0]}; there are {', '.join(POLICIES)}")
    weft = Path(os.environ.get("WEFT", ROOT / "target/release/weft")).resolve()
    folder = Path(os.environ.get("EMULATED", ROOT / "target/emulated")).resolve()
    if not weft.is_file():
        sys.exit(f"run.py: {weft} is not there: build it (cargo build --release) or set WEFT")
    if not qemu.prepare(folder):
        sys.exit("run.py: prepare.sh has not got what the machine is made of, as it says above")
    network.own(links())
    try:
        build(folder / "vm.img", folder / "guest")
    except Missing as missing:
        sys.exit(f"run.py: {missing}")
    report = Report()
    for policy in policies or POLICIES:
        report.add(run_policy(folder, weft, policy))
    return report.close()


def run_policy(folder, weft, policy):
    for left in reversed(range(ATTEMPTS)):
        report = Report()
        test = Test(report, folder, weft, policy)
        test.run()
        if not report.failed or not left or not test.stood_still:
            break
        # That is the host's doing, who had no time for it: it says nothing of the program.
        print("     the emulated machine stood still, as its kernel says: once more")
    return report


sys.exit(main())
