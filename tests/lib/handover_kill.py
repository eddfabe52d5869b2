#!/usr/bin/env python3
"""Kills processes of a site under traffic while users move, and checks what is promised.

    handover_kill.py FOLDER SERVER-NS UE-NS USERS PACKETS-PER-SECOND KILLS [SEED]

FOLDER has what `handover_site.sh` writes. Starts gateway, stations and controller by their
`.start` files and reads every change of a user's state from their logs (`WEFT_LOG=debug`).
In each round some users are ordered to move; when a process says that one of them has come
into a chosen state, or at a random moment, source, target, gateway or controller gets
SIGKILL, and is started again. In some rounds a second one is killed meanwhile.

After each round: no two stations have owned a user at a time; each user has one owner, the
one that the controller knows, and nobody moves; no gate is left; the traffic of each user
flows. No packet comes twice, and none is counted twice: a station that goes on with the contexts of
its last checkpoint has counted no more than was sent. Users that were neither ordered nor at a killed process lose
nothing, and theirs come in order; where only the controller was killed, those of all users
do. Prints in which state kills have met moves, and what was lost; exit code 1 at the first
broken promise, with the changes of state of its round."""

import collections
import fcntl
import http.client
import json
import os
import random
import re
import select
import socket
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

STATIONS = ("station-a", "station-b")
NODES = ("gateway", *STATIONS)
ALL = ("site", *NODES)
OWNING = ("Settling", "Owning", "Resuming")
CHANGE = re.compile(
    r'^(\S+)Z +DEBUG .*?user=(?:user )?(\d+) from="(\w+)" to="(\w+)" event="(.*)"'
)
# States that a kill may wait for, by who comes into them.
STATES = {
    "site": ("Storing", "PreparingTarget", "PreparingAnchor", "Moving", "Switching", "Releasing", "Completing"),
    "gateway": ("Prepared", "Switched", "Closing"),
    "source": ("Exporting", "Exported", "Forwarding"),
    "target": ("Prepared", "Importing", "Settling", "Owning"),
}
VICTIMS = ("source", "target", "gateway", "site")
# Nothing takes so long, however busy the machine is.
PATIENCE = 120.0


class Broken(Exception):
    """A promise that was not kept."""


class Change:
    """A user's change of state at one process."""

    def __init__(self, name, match):
        when, user, self.before, self.after, self.event = match.groups()
        self.time = datetime.fromisoformat(when).replace(tzinfo=timezone.utc).timestamp()
        self.name, self.user = name, int(user)

    def __str__(self):
        return f"{self.time:.6f} {self.name}: user {self.user} {self.before} -> {self.after} ({self.event})"


def make_room(pipe):
    """Lets lines wait while something else is asked: who writes them would wait, too."""
    for octets in (16 << 20, 1 << 20):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, octets)
            return
        except OSError:  # more than this user may have
            pass


class Process:
    """One of the four, which dies and starts again."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.states = {}
        self.child = None
        self.died = None

    def start(self):
        self.ready, self.rest, self.died = False, b"", None
        environment = {**os.environ, "WEFT_LOG": "debug"}
        self.child = subprocess.Popen(
            ["sh", self.folder / f"{self.name}.start"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )
        make_room(self.child.stderr)
        os.set_blocking(self.child.stdout.fileno(), False)
        os.set_blocking(self.child.stderr.fileno(), False)

    def read(self):
        """Changes that it has told since."""
        if b" is ready" in (self.child.stdout.read() or b""):
            self.ready = True
        lines = (self.rest + (self.child.stderr.read() or b"")).split(b"\n")
        self.rest = lines.pop()
        with open(self.folder / f"{self.name}.log", "ab") as log:
            log.writelines(line + b"\n" for line in lines)
        return self.changes(lines)

    def changes(self, lines):
        matches = (CHANGE.match(line.decode(errors="replace")) for line in lines)
        changes = [Change(self.name, match) for match in matches if match]
        for change in changes:
            self.states[change.user] = change.after
        return changes

    def kill(self):
        """What it still told, and when it died."""
        self.child.kill()
        self.died = time.time()
        try:
            self.child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"{self.name} does not end by SIGKILL") from None
        died = time.time()
        changes = self.read()
        self.child.stdout.close()
        self.child.stderr.close()
        return changes, died


class Local(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path):
        super().__init__("weft", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Traffic:
    """handover_traffic.py, which answers for the traffic of users."""

    def __init__(self, *arguments):
        program = Path(__file__).with_name("handover_traffic.py")
        self.child = subprocess.Popen(
            [program, *arguments, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self):
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise Broken("the traffic has ended")
        return json.loads(line)


def counts_of(snapshot):
    counts = {f"{drop['reason']}": drop["packets"] for drop in snapshot["drops"]}
    for port in snapshot["ports"]:
        counts |= {f"{port['name']} {way}": port[f"{way}_packets"] for way in ("rx", "tx")}
    counts |= {name: snapshot[name] for name in ("local", "originated")}
    return counts | {"free buffers": snapshot["buffers"]["available"]}


class Site:
    """All processes, and who has owned whom."""

    stations, nodes = STATIONS, NODES

    def __init__(self, folder, users):
        self.folder, self.users = folder, range(1, users + 1)
        self.processes = {name: Process(folder, name) for name in ALL}
        self.changes = []
        self.deaths = []
        # By user: whom it was owned by, since when, and until when.
        self.owned = {user: [] for user in self.users}

    def start(self, name):
        self.processes[name].start()

    def pump(self, longest):
        """Reads what processes tell, for so long at most if there is nothing."""
        living = [one for one in self.processes.values() if one.child and one.child.returncode is None]
        pipes = {pipe: one for one in living for pipe in (one.child.stdout, one.child.stderr)}
        ready, _, _ = select.select(list(pipes), [], [], longest)
        told = []
        for one in {pipes[pipe] for pipe in ready}:
            if one.child.poll() is not None:
                raise Broken(f"{one.name} has ended by itself with {one.child.returncode}")
            told += one.read()
        self.note(told)
        return told

    def note(self, changes):
        self.changes += changes
        for change in changes:
            if change.name not in self.stations or change.user not in self.owned:
                continue
            was, owns = change.before in OWNING, change.after in OWNING
            if owns and not was:
                self.owned[change.user].append([change.name, change.time, None])
            elif was and not owns:
                self.end_ownership(change.user, change.name, change.time)

    def end_ownership(self, user, name, when):
        for one in self.owned[user]:
            if one[0] == name and one[2] is None:
                one[2] = when

    def kill(self, name):
        """When it was killed."""
        when = time.time()
        changes, died = self.processes[name].kill()
        self.note(changes)
        for user in self.users:
            self.end_ownership(user, name, died)
        self.processes[name].states.clear()
        self.deaths.append((name, when))
        return when

    def go_on(self, seconds):
        """Reads what processes tell for a while."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.pump(left)

    def wait(self, what, holds):
        """Until something holds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if holds():
                    return
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                pass
            if time.monotonic() > deadline:
                raise Broken(f"after {PATIENCE:.0f} s: {what}")
            self.pump(0.01)

    def ask(self, name, path):
        socket_name = "site.controller" if name == "site" else f"{name}.sock"
        connection = Local(self.folder / "weft" / socket_name)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def counts(self):
        """What nodes have received, sent and dropped since they started."""
        return {name: counts_of(self.ask(name, "/v1/snapshot")) for name in self.nodes}

    def order(self, body):
        """Gives an order, and does not wait for the answer."""
        connection = Local(self.folder / "weft" / "site.controller")
        connection.request("POST", "/v1/handovers", json.dumps(body))
        return connection

    def owners(self):
        """By user, as the stations say."""
        return {
            user: [name for name in self.stations if self.processes[name].states.get(user) in OWNING]
            for user in self.users
        }

    def is_settled(self):
        """Everybody is there, each user has one owner, and nobody moves."""
        if not all(one.ready for one in self.processes.values()):
            return False
        # What logs say costs nothing to look at.
        if any(len(owners) != 1 for owners in self.owners().values()):
            return False
        if any(not node["connected"] or node["incarnation"] is None for node in self.ask("site", "/v1/nodes")):
            return False
        users = self.ask("site", f"/v1/users?first=1&count={len(self.users)}")
        if len(users) != len(self.users) or any(user["state"] != "Settled" for user in users):
            return False
        views = {name: self.ask(name, "/v1/snapshot")["handover"] for name in self.nodes}
        if views["gateway"]["users"] != {"Serving": len(self.users)}:
            return False
        for name in self.stations:
            count = sum(user["owner"] == name for user in users)
            if views[name]["users"] != ({"Owning": count} if count else {}):
                return False
        return not any(view["gated"] for view in views.values())

    def counted(self, user, owner):
        """Packets that functions have counted of a user, both ways."""
        contexts = self.ask(owner, f"/v1/users/ue-{user - 1}")["contexts"]
        return sum(one["values"]["packets"] for one in contexts if one["function"] == "count")

    def check_owners(self):
        """No two stations have owned a user at a time, and the controller knows which does."""
        for user, owned in self.owned.items():
            for before, after in zip(owned, owned[1:]):
                if before[2] is None or before[2] > after[1]:
                    raise Broken(f"user {user} is owned by two stations: {before}, {after}")
            del owned[:-1]
        known = {user["user"]: user["owner"] for user in self.ask("site", f"/v1/users?first=1&count={len(self.users)}")}
        for user, owners in self.owners().items():
            if owners != [known[user]]:
                raise Broken(f"user {user} is owned by {owners}, and the controller says {known[user]}")


class Rounds:
    """Kills, one round after the other."""

    def __init__(self, site, traffic, seed):
        self.site, self.traffic = site, traffic
        self.random = random.Random(seed)
        # Kills by state of the move at the controller and victim; by victim and its own state.
        self.met, self.own = collections.Counter(), collections.Counter()
        self.lost, self.deaths = collections.Counter(), collections.Counter()
        self.missed, self.turn, self.kept = 0, 0, 0
        # Packets of each user until now, and what was counted of them.
        self.sent, self.counted = collections.Counter(), {}
        self.counts, self.said = {}, []

    def wishes(self):
        """Whom to kill, and which state of whom to wait for: all of them in turn."""
        every = [(victim, who, state) for who, states in STATES.items() for state in states for victim in VICTIMS]
        self.turn += 1
        # Steps are coprime to the number of wishes, so that few rounds meet many states.
        return every[self.turn * 23 % len(every)]

    def round(self):
        site, chance = self.site, self.random
        site.changes.clear()
        site.deaths.clear()
        self.counts = site.counts()
        owners = {user: names[0] for user, names in site.owners().items()}
        held = {name: [user for user, owner in owners.items() if owner == name] for name in STATIONS}
        source = max(STATIONS, key=lambda name: len(held[name])) if chance.random() < 0.5 else chance.choice(STATIONS)
        source = source if len(held[source]) > 2 else max(STATIONS, key=lambda name: len(held[name]))
        target = STATIONS[1 - STATIONS.index(source)]
        names = {"source": source, "target": target, "gateway": "gateway", "site": "site"}
        if chance.random() < 0.1:
            ordered = set(held[source])
            bodies = [{"allFrom": source, "to": target}]
        else:
            ordered = set(chance.sample(held[source], chance.randint(1, min(4, len(held[source])))))
            bodies = [{"user": user, "to": target} for user in sorted(ordered)]
        victim, who, state = self.wishes()
        touched = set(ordered)

        orders = [site.order(body) for body in bodies]
        self.await_state(ordered, names[who], state)
        self.kill(names[victim], victim, ordered, touched)
        second = chance.random() < 0.15
        site.go_on(chance.uniform(0.0, 0.1))
        site.start(names[victim])
        if second:
            site.go_on(chance.uniform(0.0, 0.6))
            other = chance.choice(VICTIMS)
            self.kill(names[other], other, ordered, touched)
            site.start(names[other])
        for order in orders:
            order.close()
        site.wait("not settled", site.is_settled)
        site.check_owners()
        self.counted = {user: site.counted(user, names[0]) for user, names in site.owners().items()}
        for name in {name for name, _ in site.deaths if name in STATIONS}:
            self.kept += site.ask(name, "/v1/snapshot")["handover"]["counts"]["context_kept"]
        self.traffic.ask()
        self.judge(self.traffic.answer(), touched)

    def await_state(self, ordered, name, state):
        """Until a process says that an ordered user has come into a state."""
        chance, deadline = self.random, time.monotonic() + 0.4
        while True:
            for change in self.site.pump(0.01):
                if change.user in ordered and (change.name, change.after) == (name, state):
                    # At once, or somewhat later.
                    time.sleep(chance.choice((0.0, 0.0, chance.uniform(0.0, 0.002))))
                    return
            if time.monotonic() > deadline:
                self.missed += 1
                return

    def kill(self, name, role, ordered, touched):
        site = self.site
        states = dict(site.processes[name].states)
        held = [user for user, owners in site.owners().items() if name in owners]
        when = site.kill(name)
        self.deaths[role] += 1
        if name == "gateway":
            touched.update(site.users)
        touched.update(held)
        self.met[(self.step_of(ordered, when), role)] += 1
        told = [change for change in site.changes if change.name == name and change.user in ordered]
        last = max(told, key=lambda change: change.time, default=None)
        self.own[(role, last.after if last else states.get(min(ordered), "Absent"))] += 1

    def step_of(self, ordered, when):
        """The state of the ordered users' moves at a time, at the controller: the latest
        of those that are under way."""
        states = {}
        for change in self.site.changes:
            if change.name == "site" and change.user in ordered and change.time <= when:
                states[change.user] = change
        under_way = [change for change in states.values() if change.after != "Settled"]
        if not under_way:
            return "Settled" if states else "before"
        return max(under_way, key=lambda change: change.time).after

    def judge(self, said, touched):
        only_controller = all(name == "site" for name, _ in self.site.deaths)
        wrong = []
        self.said = said
        for user, one in zip(self.site.users, said):
            is_touched = user in touched and not only_controller
            # There and back.
            self.sent[user] += 2 * one["sent"]
            counted = self.counted.get(user, 0)
            if counted > self.sent[user]:
                wrong.append(f"user {user}: {counted} packets are counted of {self.sent[user]}")
            if is_touched:
                self.lost["touched"] += one["lost"]
                self.lost["disordered"] += one["disordered"]
            else:
                self.lost["sent of others"] += one["sent"]
            may_not = ("doubled",) if is_touched else ("lost", "doubled", "disordered")
            if not one["flows"] or any(one[name] for name in may_not):
                wrong.append(f"user {user}, {'touched' if is_touched else 'untouched'}: {json.dumps(one)}")
        if wrong:
            raise Broken("\n".join(wrong))

    def tell(self):
        """What happened in the round."""
        for change in sorted(self.site.changes, key=lambda change: change.time)[-400:]:
            print(change)
        for name, when in self.site.deaths:
            print(f"{when:.6f} {name} was killed")
        try:
            behind = self.site.counts()
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            behind = {name: str(error) for name in self.site.nodes}
        for name, before in self.counts.items():
            print(f"{name} before the round: {json.dumps(before)}")
            print(f"{name} behind it: {json.dumps(behind[name])}")
        for user, one in zip(self.site.users, self.said):
            if not one["flows"] or one["lost"] or one["doubled"] or one["disordered"]:
                print(f"user {user}: {json.dumps(one)}")

    def say(self, kills, took):
        say = lambda counter, keys: ", ".join(f"{key} {counter[key]}" for key in keys)
        print(f"{kills} rounds in {took:.0f} s, {sum(self.deaths.values())} kills: {say(self.deaths, VICTIMS)}")
        print(f"the awaited state did not come in {self.missed} rounds")
        print("state of the move at the controller, and who was killed:")
        steps = sorted({step for step, _ in self.met})
        for step in steps:
            counts = {victim: self.met[(step, victim)] for victim in VICTIMS}
            print(f"  {step}: {sum(counts.values())} ({say(counts, VICTIMS)})")
        for victim in VICTIMS:
            states = {state: count for (role, state), count in sorted(self.own.items()) if role == victim}
            print(f"state of the user at the killed {victim}: {say(states, states)}")
        print(f"packets lost of users ordered or at a killed process: {self.lost['touched']}, "
              f"out of order: {self.lost['disordered']}; of others: 0 of {self.lost['sent of others']}")
        print(f"users that went on with contexts of their last checkpoint: {self.kept}")


def main():
    folder, server_ns, ue_ns, users, rate, kills = sys.argv[1:7]
    seed = int(sys.argv[7]) if len(sys.argv) > 7 else random.randrange(1 << 32)
    site = Site(Path(folder), int(users))
    for name in ALL:
        site.start(name)
        site.wait(f"{name} is not ready", lambda name=name: site.processes[name].ready)
    site.wait("users have no owners", site.is_settled)
    traffic = Traffic(server_ns, ue_ns, users, rate)
    traffic.ask()
    rounds, done = Rounds(site, traffic, seed), 0
    begin = time.monotonic()
    try:
        # What was sent before all knew each other's addresses may be lost.
        first = traffic.answer()
        if not all(one["flows"] for one in first):
            raise Broken("traffic does not flow at first")
        rounds.sent.update({user: 2 * one["sent"] for user, one in zip(site.users, first)})
        while done < int(kills):
            rounds.round()
            done += 1
            if done >= 16 and not rounds.kept:
                raise Broken("no user goes on with contexts of its last checkpoint")
            if done % 50 == 0:
                print(f"{done} rounds after {time.monotonic() - begin:.0f} s", flush=True)
    except Broken as broken:
        rounds.tell()
        print(f"round {done + 1}, seed {seed}: {broken}")
        return 1
    finally:
        rounds.say(done, time.monotonic() - begin)
        traffic.child.kill()
        for one in site.processes.values():
            one.child.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
