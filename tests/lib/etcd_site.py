#!/usr/bin/env python3
"""Kills, stops and cuts off parts of a site on etcd while users move with their traffic.

    etcd_site.py FOLDER SERVER-NS UE-NS USERS PACKETS-PER-SECOND ROUNDS [SEED]

FOLDER has what `etcd_site.sh` writes. Starts three members of etcd, two replicas of the
controller, a gateway and three stations by their `.start` files. In each round some users are
ordered to move, and one party in turn meets with a fault: SIGKILL for the replica that leads, a
member of etcd, the member that leads etcd, the source, the target or the gateway; SIGSTOP for
the replica that leads, for some seconds; a network that is cut between the replica that leads
and etcd; two parties, whichever, that do not reach each other; a station that reaches no other
party; times of day of replicas that are set; and an etcd whose quota is used up.

After each round what `handover_kill.py` promises holds: each user has one owner, the one that
the replica that leads knows, and no user moves; the traffic of each user flows, and nothing
comes twice. Where no node was killed, no packet is lost, or out of order. Prints how long each fault took until another replica led, and until it
was connected with all nodes; exit code 1 at the first broken promise.

Meanwhile both replicas are asked where users are, and all that is seen of ownership becomes the
file `history` for `weft simulate site --check`."""

import collections
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import handover_kill
from handover_kill import Broken, Local, Process, Rounds, Site, Traffic
from site_history import Asks, History, RecordedNode

STATIONS = ("station-a", "station-b", "station-c")
NODES = ("gateway", *STATIONS)
REPLICAS = {"control-a": "ctl", "control-b": "ctl2"}
MEMBERS = ("etcd-1", "etcd-2", "etcd-3")
# Where each party is in the network `oam`.
PARTIES = {
    "control-a": ("ctl", "192.0.2.1"), "control-b": ("ctl2", "192.0.2.8"),
    "gateway": ("gw", "192.0.2.2"), "station-a": ("sa", "192.0.2.3"), "station-b": ("sb", "192.0.2.4"),
    "station-c": ("sc", "192.0.2.5"),
    "etcd-1": ("e1", "192.0.2.11"), "etcd-2": ("e2", "192.0.2.12"), "etcd-3": ("e3", "192.0.2.13"),
}
FAULTS = (
    "leader killed", "member killed", "source killed", "leader stopped", "two cut off",
    "etcd leader killed", "leader cut off", "clock set", "target killed", "etcd full",
    "gateway killed", "station isolated",
)
# What is added to the time of day of a replica. Certificates of the test are good for two days.
CLOCKS = ("+0", "+1h", "+20h")
# What a failover may take on a machine that does nothing else; more is said, and no failure.
GOAL = 3.0
# What it may take there until users of a station that is cut off are another one's.
ADOPTED = 10.0
# Users that wait to move while etcd is full, to each station in turn.
WAITING = 12


class Member(Process):
    """A member of etcd, which says nothing when it is ready."""

    def start(self):
        super().start()
        self.ready = True


class EtcdSite(Site):
    stations, nodes = STATIONS, NODES

    def __init__(self, folder, users):
        super().__init__(folder, users)
        del self.processes["site"]
        self.history = History(folder / "history")
        self.processes |= {name: RecordedNode(folder, name, self.history) for name in NODES}
        self.processes |= {name: Process(folder, name) for name in REPLICAS}
        self.processes |= {name: Member(folder, name) for name in MEMBERS}

    def request(self, name, method, path, body=None):
        connection = Local(self.folder / "weft" / f"{name}.controller")
        connection.timeout = 20
        try:
            connection.request(method, path, body and json.dumps(body))
            answer = connection.getresponse()
            said = json.loads(answer.read())
            if answer.status != 200 and answer.status != 202:
                raise OSError(f"{name}: {answer.status}: {said}")
            return said
        finally:
            connection.close()

    def leader(self):
        """The replica that says that it leads, if one does."""
        for name in REPLICAS:
            one = self.processes[name]
            if one.child is None or one.child.returncode is not None:
                continue
            try:
                about = self.request(name, "GET", "/v1/controller")
            except (OSError, http.client.HTTPException):
                continue
            if about["leader"] == name:
                return name
        return None

    def ask(self, name, path):
        if name != "site":
            return super().ask(name, path)
        leader = self.leader()
        if leader is None:
            raise OSError("no replica leads")
        return self.request(leader, "GET", path)

    def order_now(self, bodies):
        for body in bodies:
            try:
                self.request(self.leader(), "POST", "/v1/handovers", body)
            except (OSError, http.client.HTTPException):
                # It may have ended, or not be able to write.
                pass

    def order(self, body):
        """Gives an order to the replica that leads, and does not wait for the answer."""
        connection = Local(self.folder / "weft" / f"{self.leader()}.controller")
        connection.request("POST", "/v1/handovers", json.dumps(body))
        return connection

    def check_owners(self):
        """The controller knows who owns whom. A station that is cut off may take itself for the
        owner, and the anchor takes none of its packets: the history shows who owned whom."""
        for owned in self.owned.values():
            del owned[:-1]
        super().check_owners()

    def cut(self, name, others):
        self.script("cut", PARTIES[name][0], *(PARTIES[other][1] for other in others))

    def join(self, name):
        self.script("join", PARTIES[name][0])

    def script(self, name, *arguments):
        done = subprocess.run(
            ["sh", self.folder / f"{name}.start", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        )
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stdout.decode(errors='replace')}")
        return done.stdout.decode()

    def etcd_leader(self):
        status = json.loads(self.script("status").splitlines()[-1])
        for one in status:
            if one["Status"]["leader"] == one["Status"]["header"]["member_id"]:
                return MEMBERS[int(one["Endpoint"].split("192.0.2.1")[1][0]) - 1]
        raise Broken(f"etcd has no leader: {status}")


class Faults(Rounds):
    def __init__(self, site, traffic, seed):
        super().__init__(site, traffic, seed)
        self.times = collections.defaultdict(list)
        self.cuts, self.adopted = [], []
        self.turn = -1

    def round(self):
        site, chance = self.site, self.random
        site.changes.clear()
        site.deaths.clear()
        self.counts = site.counts()
        self.turn += 1
        fault = os.environ.get("FAULT") or FAULTS[self.turn % len(FAULTS)]
        held = collections.defaultdict(list)
        for user, names in site.owners().items():
            held[names[0]].append(user)
        source = max(STATIONS, key=lambda name: len(held[name]))
        target = chance.choice([name for name in STATIONS if name != source])
        most = max(12, len(site.users) // 5)
        ordered = set(chance.sample(held[source], min(len(held[source]), chance.randint(2, most))))
        touched = set(ordered)
        names = {"source": source, "target": target, "gateway": "gateway"}
        site.order_now([{"user": user, "to": target} for user in sorted(ordered)])
        site.go_on(chance.uniform(0.0, 0.05))
        who, _, what = fault.rpartition(" ")
        if who in names:
            victim = names[who]
            touched.update(user for user, owners in site.owners().items() if victim in owners)
            touched.update(site.users if victim == "gateway" else ())
            site.kill(victim)
            site.go_on(chance.uniform(0.0, 0.2))
            site.start(victim)
        elif fault == "two cut off":
            self.cut_two(touched)
        elif fault == "station isolated":
            self.isolate(source, touched)
        else:
            self.strike(fault, ordered)
        site.wait("not settled", site.is_settled)
        site.check_owners()
        self.traffic.ask()
        self.judge(self.traffic.answer(), touched)

    def judge(self, said, touched):
        # For users' packets only deaths of nodes count.
        self.site.deaths = [
            (name if name in NODES else "site", when) for name, when in self.site.deaths
        ]
        super().judge(said, touched)

    def strike(self, fault, ordered):
        """A fault of a controller or of etcd."""
        site, leader = self.site, self.site.leader()
        began = time.monotonic()
        if fault == "leader killed":
            site.kill(leader)
            self.await_other(fault, leader, began)
            site.start(leader)
        elif fault == "leader stopped":
            site.processes[leader].child.send_signal(signal.SIGSTOP)
            try:
                # It cannot be asked.
                self.await_other(fault, leader, began, stopped=True)
                site.go_on(0.5)
            finally:
                site.processes[leader].child.send_signal(signal.SIGCONT)
            site.go_on(0.5)
        elif fault == "leader cut off":
            site.cut(leader, MEMBERS)
            self.await_other(fault, leader, began)
            site.join(leader)
        elif fault == "clock set":
            for name in REPLICAS:
                (site.folder / f"{name}.clock").write_text(self.random.choice(CLOCKS) + "\n")
            # What is written, asked and renewed now is by other times of day.
            site.go_on(1.0)
            self.await_writes(fault, began)
        elif fault == "etcd full":
            site.script("fill")
            # Orders wait, and packets do not.
            some = self.random.sample(site.users, min(len(site.users), WAITING))
            waiting = [site.order({"user": user, "to": name}) for name in STATIONS for user in some]
            site.go_on(1.0)
            self.traffic.ask()
            super().judge(self.traffic.answer(), ordered)
            if site.leader() != leader:
                raise Broken("the leader of a full etcd has gone")
            began = time.monotonic()
            site.script("free")
            self.await_writes(fault, began)
            for order in waiting:
                order.close()
        else:
            member = site.etcd_leader() if fault.startswith("etcd") else self.random.choice(MEMBERS)
            began = time.monotonic()
            site.kill(member)
            site.wait("no leader behind the death of a member", lambda: site.ask("site", "/v1/nodes"))
            self.await_writes(fault, began)
            site.start(member)
            # It catches up before the next one dies.
            site.go_on(2.0)

    def cut_two(self, touched):
        """Two parties, whichever, do not reach each other for a while."""
        site = self.site
        one, other = self.random.sample(sorted(PARTIES), 2)
        site.cut(one, [other])
        try:
            site.go_on(self.random.uniform(0.5, 5.0))
        finally:
            site.join(one)
        self.cuts.append(f"{one} from {other}")

    def isolate(self, source, touched):
        """A station reaches no other party; its users go to others."""
        site, began = self.site, time.monotonic()
        touched.update(user for user, owners in site.owners().items() if source in owners)
        site.cut(source, [name for name in PARTIES if name != source])
        # For packets of its users it is as if it had died.
        site.deaths.append((source, time.time()))
        path = f"/v1/users?first=1&count={len(site.users)}"
        is_adopted = lambda user: user["owner"] != source and user["state"] == "Settled"
        try:
            site.wait("its users are not adopted", lambda: all(map(is_adopted, site.ask("site", path))))
            self.adopted.append(time.monotonic() - began)
            # Its packets are those of no owner.
            site.go_on(1.0)
        finally:
            site.join(source)

    def await_other(self, fault, old, began, stopped=False):
        """Until another replica leads, and has all nodes."""
        site = self.site
        new = next(name for name in REPLICAS if name != old)
        about = lambda: site.request(new, "GET", "/v1/controller")
        site.wait("no other replica leads", lambda: about()["leader"] == new)
        leads = time.monotonic() - began
        nodes = lambda: site.request(new, "GET", "/v1/nodes")
        site.wait("nodes do not come", lambda: all(node["connected"] for node in nodes()))
        self.times[fault].append((leads, time.monotonic() - began))

    def await_writes(self, fault, began):
        """Until a user that is added is durable, and removed again."""
        site, user = self.site, len(self.site.users) + 1
        put = lambda: site.request(
            site.leader(), "PUT", f"/v1/users/{user}", {"anchor": "gateway", "node": "station-a"}
        )
        site.wait("nothing is written", lambda: put() is not None)
        self.times[fault].append((None, time.monotonic() - began))
        site.wait("a user is not removed", lambda: self.removed(user))

    def removed(self, user):
        site = self.site
        try:
            site.request(site.leader(), "GET", f"/v1/users/{user}")
        except OSError as error:
            return "no such user" in str(error)
        connection = Local(site.folder / "weft" / f"{site.leader()}.controller")
        connection.request("DELETE", f"/v1/users/{user}")
        connection.getresponse().read()
        connection.close()
        return False

    def say(self, rounds, took):
        print(f"{rounds} rounds in {took:.0f} s")
        for fault, times in self.times.items():
            leads = [one for one, _ in times if one is not None]
            whole = [one for _, one in times if one is not None]
            if leads:
                print(f"{fault}: another leads after {max(leads):.2f} s at most, with all nodes after {max(whole):.2f} s")
            elif whole:
                print(f"{fault}: written again after {max(whole):.2f} s at most")
            else:
                print(f"{fault}: {len(times)} times")
            if whole and max(whole) > GOAL:
                print(f"  more than {GOAL:.0f} s")
        if self.cuts:
            print(f"cut off: {', '.join(self.cuts)}")
        if self.adopted:
            print(f"users of an isolated station are adopted after {max(self.adopted):.1f} s at most")
            if max(self.adopted) > ADOPTED:
                print(f"  more than {ADOPTED:.0f} s")
        print(f"packets lost of users at a killed node: {self.lost['touched']}; of others: 0 of {self.lost['sent of others']}")


def main():
    folder, server_ns, ue_ns, users, rate, count = sys.argv[1:7]
    seed = int(sys.argv[7]) if len(sys.argv) > 7 else random.randrange(1 << 32)
    site = EtcdSite(Path(folder), int(users))
    for name in (*MEMBERS, *REPLICAS, *NODES):
        site.start(name)
    site.wait("not all are ready", lambda: all(one.ready for one in site.processes.values()))
    began = time.monotonic()
    site.wait("users have no owners", site.is_settled)
    print(f"settled {time.monotonic() - began:.1f} s after all were ready")
    traffic = Traffic(server_ns, ue_ns, users, rate)
    asks = [Asks(site.folder / "weft" / f"{name}.controller", site.users, site.history) for name in REPLICAS]
    for one in asks:
        one.start()
    traffic.ask()
    faults, done = Faults(site, traffic, seed), 0
    begin = time.monotonic()
    try:
        # What was sent before all knew each other's addresses may be lost.
        if not all(one["flows"] for one in traffic.answer()):
            raise Broken("traffic does not flow at first")
        while done < int(count):
            faults.round()
            done += 1
    except Broken as broken:
        faults.tell()
        print(f"round {done + 1}, {FAULTS[faults.turn % len(FAULTS)]}, seed {seed}: {broken}")
        return 1
    finally:
        faults.say(done, time.monotonic() - begin)
        for one in asks:
            one.ends = True
        print(f"answers that were recorded: {sum(one.answers for one in asks)}")
        traffic.child.kill()
        for one in site.processes.values():
            if one.child and one.child.returncode is None:
                one.child.kill()
        site.history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
