#!/usr/bin/env python3
"""NICs with several queues, which QEMU emulates: packets of many users are spread over workers,
come back in order, and are counted; checksums are computed by a NIC and by the node; links go down
and a NIC is unplugged under traffic. See ../README.md.

    run.py                 NICs of each kind
    run.py igb             those of one kind; `taps`: flow rules of TAP devices
    PACKETS=20000 run.py   with so many packets in each step

$WEFT is the program, by default target/release/weft; $EMULATED the folder with what the machine
is made of, by default target/emulated. Ends with `N passed, N failed, N skipped`.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "emulated"))

import image
import network
import qemu
from machine import KINDS, NAMES, QUEUES, Machine, wires
from report import Report, tail
from traffic import DOWNLINK, JUMBO, UPLINK, USERS, WINDOW, Exchange, inner_number, is_tunnelled
from traffic import towards_tunnels

PACKETS = int(os.environ.get("PACKETS", "2000"))
TUNNELLED, LONG = 200, 400
BOOT_SECONDS, START_SECONDS, STILL_SECONDS = 180, 120, 60
# How often a machine may be started of which a processor stands still.
ATTEMPTS = 3
MODULES = ["vfio_iommu_type1", "vfio-pci"]
DRIVERS = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_ring"]
# TAP devices, and what their flow rules become in the kernel.
TAPS = "taps"
MODULES += ["tun", "sch_multiq", "sch_ingress", "cls_flower", "act_skbedit"]
DRIVERS += ["net_tap", "net_af_packet", "net_null"]
# By vendor the guest tells the kinds of NICs apart.
VENDORS = {"igb": "0x8086", "virtio": "0x1af4"}


class Node:
    """A node in the guest, by what it writes into the shared folder."""

    def __init__(self, report, machine, name):
        self.report, self.machine, self.name = report, machine, name
        self.folder = machine.share / name
        self.asked = 0

    def check(self, name, wrong):
        return self.report.check(f"{self.name}: {name}", not wrong, wrong)

    def text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def starts(self, seconds):
        ready = self.machine.until(f"{self.name}/ready", seconds)
        return self.check("a node starts", "" if ready else tail(self.text("node")))

    def snapshot(self):
        """What it tells of itself; nothing while it does not answer."""
        self.asked += 1
        (self.folder / f"ask-{self.asked}").touch()
        said = f"said-{self.asked}"
        if not self.machine.until(f"{self.name}/{said}", STILL_SECONDS):
            return None
        try:
            return json.loads(self.text(said))
        except ValueError:
            return None

    def port(self, number):
        snapshot = self.snapshot()
        return snapshot["ports"][number] if snapshot else {}

    def until(self, number, state):
        """Waits until a port is so; what it is instead."""
        end = time.monotonic() + STILL_SECONDS
        while time.monotonic() < end:
            if (found := self.port(number).get("state")) == state:
                return ""
        return f"its port is {found}: {tail(self.text('node'))}"

    def ends(self):
        (self.folder / "end").touch()
        self.machine.until(f"{self.name}/done", START_SECONDS)
        status = self.text("status").strip()
        self.check("it ends when it is told to", "" if status == "0" else f"with {status}")


def settled(exchange, plan, meanwhile=lambda: None):
    """Sends, and takes what comes back; what is wrong with that."""
    back = exchange.run(plan, STILL_SECONDS, meanwhile)
    while exchange.take(0.5):
        pass  # what comes twice
    wrong = "; ".join(exchange.faults[:5])
    exchange.faults.clear()
    if not back:
        wrong = f"{wrong} {len(exchange.away)} of {len(exchange.sent)} did not come back"
    return wrong.strip()


def changes(port):
    """How often the redirection table of a port was changed."""
    found = re.search(r"changed (\d+) times for even loads", port.get("spread", ""))
    return int(found[1]) if found else 0


class Spread:
    """The test of NICs of one kind with a queue for each worker."""

    def __init__(self, node, kind, wires_of_host):
        self.node, self.kind = node, kind
        ports = [NAMES.index(f"{kind}-access"), NAMES.index(f"{kind}-core")]
        # A TAP device with several queues may change that of a flow, and so the order.
        self.exchange = Exchange(wires_of_host, ports, turns=KINDS[kind][1] > 1)

    def run(self):
        if not self.node.starts(BOOT_SECONDS + START_SECONDS):
            return
        if self.one_direction() and self.both():
            self.park()
            self.uneven()
            self.books("what both count is the same")
            self.link()
            self.unplug()
        self.node.ends()

    def one_direction(self):
        """All users send, then all receive: their workers get the same from either side."""
        by_worker = []
        for direction, word in ((UPLINK, "uplink"), (DOWNLINK, "downlink")):
            plan = [(user, direction) for user in self.exchange.users(PACKETS)]
            name = f"packets of {USERS} users come back once, in order, as they should be: {word}"
            if not self.node.check(name, settled(self.exchange, plan)):
                print(tail(self.node.text("node")))
                return False
            port = self.node.port(direction)
            by_worker.append(port["by_worker"])
            share = port["misdirected"] / port["rx_packets"]
            print(f"     {word}: {port['spread']}; by worker {port['by_worker']}, "
                  f"{share:.1%} handed over")
        idle = [counts for counts in by_worker if min(counts) * 2 * QUEUES < PACKETS]
        self.node.check(f"each of {QUEUES} queues has its share", f"{idle}" if idle else "")
        up, down = by_worker
        wrong = "" if up == down else f"{up} and {down}"
        self.node.check("both directions of a user come to the same queue", wrong)
        return True

    def both(self):
        plan = [(user, number % 2) for number, user in enumerate(self.exchange.users(PACKETS))]
        name = "packets of both directions come back once, in order, as they should be"
        if not self.node.check(name, settled(self.exchange, plan)):
            return False
        name = "each user has all of its packets at one worker"
        return self.node.check(name, self.exchange.miscounted())

    def park(self):
        """Workers are parked at threads of others and go on, while packets of both directions come;
        at the end threads have slept long enough to wait for interrupts."""
        wanted, orders = [1, 3, 2, 4], []

        def said():
            return self.node.text("parked").splitlines()

        def order():
            # One at a time, as the guest gets to it.
            if len(orders) < len(wanted) and len(said()) == len(orders):
                orders.append(wanted[len(orders)])
                (self.node.folder / f"workers-{orders[-1]}").touch()

        wrong, end = "", time.monotonic() + STILL_SECONDS
        while not wrong and len(said()) < len(wanted) and time.monotonic() < end:
            plan = [(user, number % 2) for number, user in enumerate(self.exchange.users(PACKETS // 2))]
            wrong = settled(self.exchange, plan, order)
        kept = [line for line in said() if "of 4 workers have threads of their own" in line]
        if not wrong and len(kept) != len(wanted):
            wrong = f"{said()}"
        print(f"     {tail(self.node.text('parked'))}")
        name = "packets pass once and in order while workers are parked and go on"
        self.node.check(name, wrong)
        offloads = self.node.port(UPLINK).get("offloads", [])
        wrong = "" if "receive interrupts" in offloads else f"its port does {offloads}"
        self.node.check("its NIC has receive interrupts", wrong)
        wrong = settled(self.exchange, [(user, user % 2) for user in range(16)])
        self.node.check("packets wake workers that sleep", wrong or self.exchange.miscounted())

    def uneven(self):
        """Users whose packets come to one queue send much more than others: entries of the
        redirection table go to other workers, and packets stay in order."""
        hot = self.of_one_queue()
        wrong, end = "", time.monotonic() + 2 * STILL_SECONDS
        before, number = self.node.port(UPLINK), 0
        while not wrong and time.monotonic() < end:
            number += 1
            wrong = settled(self.exchange, [(user, UPLINK) for user in hot * (PACKETS // len(hot))])
            after = self.node.port(UPLINK)
            if not after or changes(after) > changes(before):
                break
        print(f"     {len(hot)} users, {number * PACKETS} packets: {after.get('spread')}")
        name = "uneven loads change the redirection table, and packets stay in order"
        wrong = wrong or ("" if changes(after) > changes(before) else f"{after}")
        if not self.node.check(name, wrong):
            return
        middle = self.node.port(UPLINK)["by_worker"]
        wrong = settled(self.exchange, [(user, UPLINK) for user in hot * (PACKETS // len(hot))])
        share = [now - was for now, was in zip(self.node.port(UPLINK)["by_worker"], middle)]
        print(f"     by worker {share} behind it, from {before['by_worker']}")
        wrong = wrong or ("" if sum(1 for one in share if one) > 1 else f"{share}")
        self.node.check("their packets come to more than one queue then", wrong)

    def of_one_queue(self):
        """Users whose packets come to the same queue, as the node counts them."""
        by_queue, before = {}, self.node.port(UPLINK)["by_worker"]
        for user in range(3 * QUEUES):
            settled(self.exchange, [(user, UPLINK)])
            after = self.node.port(UPLINK)["by_worker"]
            queue = next(at for at in range(QUEUES) if after[at] != before[at])
            by_queue.setdefault(queue, []).append(user)
            before = after
        return max(by_queue.values(), key=len)

    def books(self, name):
        """The node, its drivers and the test count the same."""
        # The node asks drivers once a second.
        time.sleep(1.5)
        snapshot = self.node.snapshot()
        wrong = "; ".join(self.wrong_books(snapshot)) if snapshot else "it does not answer"
        self.node.check(name, wrong)

    def wrong_books(self, snapshot):
        sent = self.exchange.sent
        for direction, port in enumerate(snapshot["ports"]):
            came = [one for one in sent if one.direction == direction]
            left = [one for one in sent if one.direction != direction and one.count is not None]
            wanted = {
                "rx_packets": len(came),
                "tx_packets": len(left),
                "rx_bytes": sum(len(one.frame) for one in came),
                "rx_missed": 0,
                "rx_errors": 0,
            }
            counted = {key: port[key] for key in wanted}
            if counted != wanted:
                yield f"{port['name']} has {counted}, not {wanted}"
            if sum(port["by_worker"]) != port["rx_packets"]:
                yield f"{port['name']}: workers have {port['by_worker']}"
            driver = snapshot["extended"][direction]["counters"]
            if driver.get("rx_good_packets") != len(came):
                yield f"{port['name']}: its driver has counted {driver}"
        if drops := {one["reason"]: one["packets"] for one in snapshot["drops"] if one["packets"]}:
            yield f"it has dropped {drops}"

    def link(self):
        """The wire of a NIC is pulled out and put in."""
        name = f"{self.kind}-access"
        refused = self.node.machine.tell("set_link", name=name, up=False)
        wrong = refused or self.node.until(UPLINK, "down")
        if not self.node.check("a link that goes down is told", wrong):
            return
        self.node.machine.tell("set_link", name=name, up=True)
        wrong = self.node.until(UPLINK, "up")
        plan = [(user, number % 2) for number, user in enumerate(self.exchange.users(WINDOW))]
        wrong = wrong or settled(self.exchange, plan)
        self.node.check("packets pass when it is up again", wrong)

    def unplug(self):
        """A NIC is taken out of its slot under traffic, and put back."""
        machine, name, before = self.node.machine, f"{self.kind}-access", self.node.snapshot()
        # So many that some are left when the guest has let go of the NIC.
        plan = [(user, DOWNLINK) for user in self.exchange.users(4 * PACKETS)]
        first = len(self.exchange.sent)
        refused = []

        def pull():
            if len(self.exchange.sent) > first + PACKETS // 4 and not refused:
                refused.append(machine.unplug(name) or "")
            # What the NIC had, or was dropped in front of it, is not waited for.
            if refused and len(self.exchange.away) >= WINDOW:
                self.exchange.give_up()

        self.exchange.run(plan, 3, pull)
        wrong = "".join(refused) or self.node.until(UPLINK, "gone")
        if not self.node.check("a NIC that is unplugged under traffic is gone", wrong):
            return
        while self.exchange.take(0.5):
            pass
        self.exchange.give_up()
        self.accounted(first, before)
        self.plug(name)

    def accounted(self, first, before):
        """Of what was sent meanwhile the other port has received all, and what did not come back
        was dropped for that reason but for what the NIC had."""
        now = self.node.snapshot()
        sent = self.exchange.sent[first:]
        came = sum(one.count is not None for one in sent)
        received = now["ports"][DOWNLINK]["rx_packets"] - before["ports"][DOWNLINK]["rx_packets"]
        drops = sum(one["packets"] for one in now["drops"])
        within = len(sent) - came - drops
        print(f"     {len(sent)} sent meanwhile: {came} came, {drops} dropped, {within} with the NIC")
        wrong = ""
        if received != len(sent) or not 0 <= within <= WINDOW or not drops:
            wrong = f"{received} received; {now['drops']}"
        reasons = {one["reason"] for one in now["drops"] if one["packets"]}
        if reasons - {"port_gone", "tx_full"}:
            wrong = f"drops for {reasons}"
        self.node.check("all of its packets are accounted for", wrong)

    def plug(self, name):
        machine, end = self.node.machine, time.monotonic() + STILL_SECONDS
        # The slot is free once the guest has let the NIC go.
        while (refused := machine.plug(name)) and time.monotonic() < end:
            time.sleep(0.5)
        wrong = refused or self.node.until(UPLINK, "up")
        plan = [(user, number % 2) for number, user in enumerate(self.exchange.users(PACKETS))]
        self.exchange.latest.clear()
        wrong = wrong or settled(self.exchange, plan)
        self.node.check("packets pass when it is back", wrong)


class Jumbo:
    """Frames of up to 9,014 octets through a node whose NICs take them."""

    def __init__(self, report, machine, kind, wires_of_host):
        self.node = Node(report, machine, f"{kind}-jumbo")
        ports = [NAMES.index(f"{kind}-access"), NAMES.index(f"{kind}-core")]
        self.exchange = Exchange(wires_of_host, ports, turns=False, longest=JUMBO)

    def run(self):
        if not self.node.starts(START_SECONDS):
            return
        plan = [(user, number % 2) for number, user in enumerate(self.exchange.users(LONG))]
        wrong = settled(self.exchange, plan)
        longest = max(len(one.frame) for one in self.exchange.sent)
        if not wrong and longest != 9014:
            wrong = f"the longest was of {longest} octets"
        self.node.check("frames of up to 9,014 octets come back as they should be", wrong)
        ports = [self.node.port(number) for number in (UPLINK, DOWNLINK)]
        lost = [(port["rx_errors"], port["rx_missed"]) for port in ports]
        wrong = "" if lost == [(0, 0), (0, 0)] else f"{lost}"
        self.node.check("none of them is an error to a port", wrong)
        self.node.ends()


class Rules:
    """A node on TAP devices with four queues: the kernel of the machine sends packets of each user
    to the queue of its worker, by flow rules."""

    def __init__(self, report, machine):
        self.node = Node(report, machine, TAPS)

    def run(self):
        if not self.node.starts(BOOT_SECONDS + START_SECONDS):
            return
        self.node.machine.until(f"{TAPS}/done", START_SECONDS + STILL_SECONDS)
        said = self.node.text("changes")
        wrong = "" if "added 1" in said and "removed 1" in said and "users" in said else said
        self.node.check("users come and go", wrong)
        try:
            told = [json.loads(self.node.text(name)) for name in ("traffic", "with", "again", "few")]
        except ValueError:
            said = [self.node.text(name) for name in ("generator", "with", "again", "few", "node")]
            self.node.check("it tells what it has done", "\n".join(map(tail, said)))
            return
        traffic, used, *_ = told
        self.judge(traffic, used["ports"])
        before, again, left = ([port["flow_rules"] for port in one["ports"]] for one in told[1:])
        wrong = "" if before == again else f"{before}, then {again}"
        self.node.check("it has the same rules when it starts again", wrong)
        wrong = "" if all(0 < now < was for now, was in zip(left, before)) else f"{before}, then {left}"
        self.node.check("rules of users that are gone are taken back", wrong)
        status = self.node.text("status").strip()
        self.node.check("it ends when it is told to", "" if status == "0" else f"with {status}")

    def judge(self, traffic, ports):
        for port in ports:
            share = port["misdirected"] / max(port["rx_packets"], 1)
            print(f"     {port['name']}: {port['spread']}; by worker {port['by_worker']}, "
                  f"{share:.2%} handed over")
            wrong = "" if port["rx_packets"] > 200 and share < 0.01 else f"{port}"
            self.node.check(f"{port['name']}: packets come to the workers of their users", wrong)
            wrong = "" if port["flow_rules"] and not port["flow_rules_refused"] else f"{port}"
            self.node.check(f"{port['name']}: the device takes its rules", wrong)
            idle = min(port["by_worker"]) * 2 * QUEUES < port["rx_packets"]
            self.node.check(f"{port['name']}: each queue has its share", f"{port}" if idle else "")
        streams = [stream for source in traffic["sources"] for stream in source["streams"]]
        wrong = [
            stream["name"]
            for stream in streams
            if stream["arrived"]["received"] != stream["sent"] or stream["arrived"]["reordered"]
        ]
        self.node.check("none is lost, and none comes behind a later one", ", ".join(wrong))


class Tunnels:
    """The same packets through a node whose NICs compute checksums, and one that does itself."""

    def __init__(self, report, machine, kind, wires_of_host):
        self.report, self.machine, self.kind, self.wires = report, machine, kind, wires_of_host
        self.came = {}

    def run(self, checksums, used):
        node = Node(self.report, self.machine, f"{self.kind}-{checksums}")
        if not node.starts(START_SECONDS):
            return
        self.came[checksums] = self.exchange()
        port = node.port(UPLINK)
        said = "sums UDP" in port.get("offloads", [])
        node.check("its NIC does what it should", "" if said == used else f"{port}")
        self.judge(node, self.came[checksums])
        node.ends()

    def exchange(self):
        """What comes out of tunnels' ends, by the packets' numbers."""
        access, core = NAMES.index(f"{self.kind}-access"), NAMES.index(f"{self.kind}-core")
        came, latest = {}, time.monotonic()
        waiting = list(reversed(towards_tunnels(TUNNELLED)))
        sent = 0
        while len(came) < TUNNELLED and time.monotonic() - latest < STILL_SECONDS:
            while waiting and sent - len(came) < WINDOW:
                self.wires.send(core, waiting.pop())
                sent += 1
            for wire, octets in self.wires.listen(0.2):
                if wire == access and is_tunnelled(octets):
                    came[inner_number(octets)] = octets
                    latest = time.monotonic()
        return came

    def judge(self, node, came):
        capture = node.folder / "far-end.pcap"
        with open(capture, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for _, octets in sorted(came.items()):
                file.write(struct.pack("<IIII", 0, 0, len(octets), len(octets)) + octets)
        words = ["tshark", "-r", capture, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
        words += ["-Y", "udp.dstport == 2152 && udp.checksum.status == 1", "-T", "fields"]
        words += ["-e", "frame.number"]
        said = subprocess.run(words, capture_output=True, text=True, check=False)
        good = len(said.stdout.split())
        wrong = "" if good == TUNNELLED else f"{good} of {TUNNELLED} are right: {said.stderr[:300]}"
        node.check("tshark finds each packet's checksum right", wrong)

    def compare(self):
        ones = list(self.came.values())
        if len(ones) == 2:
            differ = [number for number in ones[0] if ones[0][number] != ones[1].get(number)]
            self.report.check(f"{self.kind}: NIC and node compute the same octets",
                              not differ and len(ones[0]) == TUNNELLED, f"packets {differ[:9]}")


def runs(kinds):
    """Nodes in their order: name, vendor, file, who computes checksums."""
    plan = [(TAPS, TAPS, "rules.yaml", "-")] if TAPS in kinds else []
    for kind in [kind for kind in KINDS if kind in kinds]:
        plan.append((kind, VENDORS[kind], "spread.yaml", "auto"))
        if kind == "igb":
            plan += [(f"{kind}-{way}", VENDORS[kind], "tunnel.yaml", way) for way in ("software", "auto")]
            plan.append((f"{kind}-jumbo", VENDORS[kind], "jumbo.yaml", "auto"))
        else:
            plan += [(f"{kind}-{way}", VENDORS[kind], "tunnel.yaml", way) for way in ("software", "device")]
    return plan


def main():
    kinds = sys.argv[1:]
    known = [TAPS, *KINDS]
    if strange := [kind for kind in kinds if kind not in known]:
        sys.exit(f"run.py: there is no {strange[0]}; there are {', '.join(known)}")
    kinds = kinds or known
    weft = Path(os.environ.get("WEFT", ROOT / "target/release/weft")).resolve()
    folder = Path(os.environ.get("EMULATED", ROOT / "target/emulated")).resolve()
    if not weft.is_file():
        sys.exit(f"run.py: {weft} is not there: build it (cargo build --release) or set WEFT")
    if not shutil.which("tshark"):
        sys.exit("run.py: there is no program tshark; install tshark")
    if not qemu.prepare(folder):
        sys.exit("run.py: prepare.sh has not got what the machine is made of, as it says above")
    network.own(wires())
    try:
        programs = {"bin/weft": weft, "sbin/ip": image.program("ip", "iproute2")}
        image.build(folder / "nics.img", folder / "guest", programs, DRIVERS, MODULES)
    except image.Missing as missing:
        sys.exit(f"run.py: {missing}")
    wires_of_host = network.Wires(NAMES)
    for left in reversed(range(ATTEMPTS)):
        report, stood_still = one_run(folder, kinds, wires_of_host)
        if not report.failed or not left or not stood_still:
            break
        # That is the host's doing, who had no time for it: it says nothing of the program.
        print("     the emulated machine stood still, as its kernel says: once more")
    return report.close()


def one_run(folder, kinds, wires_of_host):
    """A machine from its start to its end."""
    work = folder / "nics"
    share = work / "share"
    shutil.rmtree(share, ignore_errors=True)
    share.mkdir(parents=True)
    for name in ("guest.sh", "spread.yaml", "tunnel.yaml", "rules.yaml", "flows.yaml",
                 "jumbo.yaml"):
        shutil.copy(HERE / name, share)
    plan = runs(kinds)
    for name, *_ in plan:
        (share / name).mkdir()
    (share / "runs").write_text("".join(" ".join(words) + "\n" for words in plan))
    report = Report()
    began = time.monotonic()
    with Machine(folder, folder / "nics.img", share, work / "console.log") as machine:
        if not machine.connect(BOOT_SECONDS):
            sys.exit(f"run.py: QEMU does not run: {tail(machine.console())}")
        if TAPS in kinds:
            Rules(report, machine).run()
        for kind in [kind for kind in KINDS if kind in kinds]:
            Spread(Node(report, machine, kind), kind, wires_of_host).run()
            if kind == "igb":
                tunnels = Tunnels(report, machine, kind, wires_of_host)
                tunnels.run("software", used=False)
                tunnels.run("auto", used=True)
                tunnels.compare()
                Jumbo(report, machine, kind, wires_of_host).run()
            else:
                # QEMU offers no checksums of a device whose frames have no header of virtio's.
                tunnels = Tunnels(report, machine, kind, wires_of_host)
                tunnels.run("software", used=False)
                tunnels.run("device", used=False)
                tunnels.compare()
    print(f"     it took {time.monotonic() - began:.0f} s; what was seen is in {work}")
    return report, machine.stood_still()


sys.exit(main())
