"""Whether what the guest has written down, and what came back, is as it should be."""

import json

from report import tail
from traffic import USERS


class Seen:
    """What the guest has written down of one chain: for each thing that it did a file with
    what was said, and others with the errors and the exit code."""

    def __init__(self, folder):
        self.folder = folder

    def text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def status(self, name):
        return self.text(f"{name}.status").strip() or "none"

    def did(self, name):
        return self.status(name) == "0"

    def refused(self, name, because):
        return self.status(name) == "2" and because in self.text(f"{name}.error")

    def said(self, name):
        said = self.text(name) + self.text(f"{name}.error")
        return f"exit code {self.status(name)}: {said}".strip()

    def state(self, name):
        """What the kernel had of virtual functions: numbers by name, and their drivers."""
        words = [line.split() for line in self.text(name).splitlines()]
        state = {word[0]: word[1] for word in words if len(word) == 2 and word[0] != "driver"}
        return state, [word[1] for word in words if len(word) == 2 and word[0] == "driver"]


def making(report, chain, seen):
    """`plan` and `create`."""
    count, name = chain.virtual_functions, f"{chain.name}: "
    fits = seen.refused("early", "weft vf create")
    report.check(name + "before, the node says what to do", fits, seen.said("early"))

    lines = [line for line in seen.text("plan").splitlines() if not line.startswith("#")]
    nothing = seen.state("before") == seen.state("planned")
    fits = seen.did("plan") and len(lines) == 4 + 3 * count and nothing
    report.check(name + "plan says each step and does none", fits, seen.said("plan"))

    state, drivers = seen.state("created")
    fits = seen.did("create") and drivers == ["vfio-pci"] * count
    fits = fits and (state.get("numvfs"), state.get("autoprobe")) == (str(count), "1")
    report.check(name + "create makes them", fits, seen.said("create"))

    fits = seen.refused("again", f"has {count} virtual functions already")
    report.check(name + "create does not touch those that are there", fits, seen.said("again"))


def showing(report, chain, seen):
    """`show`: number, name, address, driver, IOMMU group, MAC address."""
    rows = [line.split() for line in seen.text("show").splitlines()[1:]]
    macs = [f"02:00:00:00:01:{number:02x}" for number in range(chain.virtual_functions)]
    fits = seen.did("show") and [row[6] for row in rows if len(row) > 6] == macs
    fits = fits and all(row[4] == "vfio-pci" for row in rows)
    fits = fits and len({row[5] for row in rows}) == len(rows)
    name = f"{chain.name}: show shows them, each in a group of its own"
    report.check(name, fits, seen.said("show"))


def removing(report, chain, seen):
    """`remove`, behind a node that has ended."""
    name = f"{chain.name}: "
    fits = seen.did("node")
    report.check(name + "the node ends when it is told to", fits, tail(seen.text("node")))
    fits = seen.did("remove") and seen.state("removed") == seen.state("before")
    fits = fits and "no NIC here has virtual functions" in seen.text("shown")
    said = seen.said("remove") + seen.text("removed")
    report.check(name + "remove leaves the NIC as it was", fits, said)


def wrong_traffic(traffic):
    """What is wrong with what came back, if anything is."""
    wrong = traffic.faults[:5]
    if traffic.away():
        wrong.append(f"{traffic.away()} of {traffic.expected} did not come back")
    if len(traffic.sent) < traffic.packets:
        wrong.append(f"only {len(traffic.sent)} of {traffic.packets} were sent")
    return "; ".join(wrong)


def back(report, name, exchanged):
    """Whether all packets of a node without functions came back."""
    wrong = wrong_traffic(exchanged)
    report.check(f"{name} once, in order, as it should be", not wrong, wrong)


def reset(report, seen, meanwhile):
    """What a reset of the NIC did to the node, and to what was sent meanwhile."""
    report.check("reset: the node has its ports again", seen.did("reset"), seen.said("reset"))
    lost = meanwhile.away()
    print(f"     reset: {len(meanwhile.sent)} sent meanwhile, {lost} lost")
    report.check(
        "reset: meanwhile none comes twice or behind a later one",
        not meanwhile.faults and lost < len(meanwhile.sent),
        meanwhile.faults[:5],
    )
    said = seen.text("node")
    report.check("reset: the node's log says so", "the device is gone" in said, tail(said))


def traffic(report, chain, exchanged):
    name, wrong = f"{chain.name}: ", wrong_traffic(exchanged)
    print(
        f"     {chain.name}: {len(exchanged.sent)} sent, {exchanged.expected} to come back, "
        f"{len(exchanged.came)} did"
    )
    report.check(name + "every packet comes back once, in order, as it should be", not wrong, wrong)
    wrong = wrong_counts(chain, exchanged)
    report.check(name + "each counter had each packet once", not wrong, wrong)


def wrong_counts(chain, exchanged):
    """Whether what each counter wrote says that it had all packets of each user: 1, 2, 3, …
    but for those that a filter behind it has dropped."""
    known = [one for one in exchanged.sent if not one.strange]
    for place, counter in enumerate(chain.counters):
        behind = chain.filters and chain.functions.index(counter) > chain.functions.index("guard")
        for user in range(USERS):
            had = [one for one in known if one.user == user and not (behind and one.denied)]
            left = [one.number for one in had if one.number in exchanged.came]
            counts = sorted(exchanged.came[number][place] for number in left)
            if len(set(counts)) != len(counts) or (counts and counts[-1] > len(had)):
                return f"{counter} counted packets of user {user} twice, or others"
            if len(left) == len(had) and counts != list(range(1, len(had) + 1)):
                return f"{counter} has not counted each packet of user {user}"
    return ""


def books(report, chain, exchanged, seen):
    """The node's own: what came in has gone out, or was dropped for the right reason."""
    name = f"{chain.name}: "
    try:
        node = json.loads(seen.text("runtime"))
    except ValueError:
        report.check(name + "the node tells its counters", False, seen.said("runtime"))
        return
    wanted = {
        "unknown_user": sum(one.strange for one in exchanged.sent),
        "filter_denied": sum(one.denied for one in exchanged.sent),
    }
    wanted = {reason: count for reason, count in wanted.items() if count}
    drops = {one["reason"]: one["packets"] for one in node["drops"] if one["packets"]}
    otherwise = f"{drops}, not {wanted}"
    report.check(name + "what is dropped has its reason", drops == wanted, otherwise)
    wrong = "; ".join(wrong_books(chain, exchanged, wanted, node))
    report.check(name + "the node's counters equal those of the test", not wrong, wrong)


def wrong_books(chain, exchanged, drops, node):
    passes = len(exchanged.sent) - drops.get("unknown_user", 0)
    # Each function sends a packet straight to the next, and only the last, or who drops it, back:
    # whatever the length of the chain, one frame leaves by a port and one comes back.
    turns = passes
    functions = {one["name"]: one for one in node["functions"]}
    for name in chain.functions:
        if functions[name]["packets"] != passes:
            yield f"{name} had {functions[name]['packets']} packets, not {passes}"
        for what in ("lost", "strays", "away", "failures"):
            if count := functions[name]["process"][what]:
                yield f"{name}: {what} {count}"
        # What it has denied goes no further.
        passes -= drops.get("filter_denied", 0) if name == "guard" else 0
    for way, ends in (("rx", len(exchanged.sent)), ("tx", exchanged.expected)):
        count = sum(port[f"{way}_packets"] for port in node["ports"])
        if count != ends + turns:
            yield f"{way}_packets of all ports are {count}, not {ends} + {turns}"
    for port in node["ports"]:
        if port["rx_missed"] or port["rx_errors"]:
            yield f"{port['name']}: missed {port['rx_missed']}, errors {port['rx_errors']}"
