"""The history of ownership of a site that runs, for `weft simulate site --check`.

What nodes say of users (`WEFT_LOG=debug`), deaths, and what replicas of the controller answer
become records, one JSON object on a line, with times of this machine's clock. The form of a
record is in docs/design/site.md."""

import http.client
import json
import random
import re
import threading
import time
from datetime import datetime, timezone

from handover_kill import OWNING, Local, Process

NUMBERS = {"gateway": 1, "station-a": 2, "station-b": 3, "station-c": 4}
OWNED = re.compile(
    r'^(\S+)Z +DEBUG .*?user=(?:user )?(\d+) from="(\w+)" to="(\w+)" event=".*"(?: epoch=(\d+))?$'
)
TAKES = re.compile(
    r"^(\S+)Z +DEBUG taken by epoch user=(?:user )?(\d+)(?: takes=(\d+))?(?: next=(\d+))?$"
)
# Between two questions to one replica.
PAUSE = 0.01


def microseconds(text):
    when = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    return int(when.timestamp() * 1e6 + 0.5)


class History:
    """A file of records, which several threads write."""

    def __init__(self, path):
        self.file, self.lock = open(path, "w"), threading.Lock()

    def note(self, **record):
        with self.lock:
            self.file.write(json.dumps(record) + "\n")

    def close(self):
        with self.lock:
            self.file.close()


class RecordedNode(Process):
    """A node whose users and death are noted."""

    def __init__(self, folder, name, history):
        super().__init__(folder, name)
        self.history, self.number = history, NUMBERS[name]

    def changes(self, lines):
        for line in lines:
            self.note(line.decode(errors="replace"))
        return super().changes(lines)

    def time(self, text):
        """When a line was written; what is dead writes nothing."""
        at = microseconds(text)
        return at if self.died is None else min(at, int(self.died * 1e6) - 1)

    def note(self, line):
        if (match := OWNED.match(line)) and self.number != NUMBERS["gateway"]:
            when, user, before, after, epoch = match.groups()
            if (before in OWNING) != (after in OWNING):
                owns = int(epoch) if after in OWNING else None
                self.history.note(at=self.time(when), node=self.number, user=int(user), owns=owns)
        elif match := TAKES.match(line):
            when, user, *epochs = match.groups()
            takes = [int(epoch) for epoch in epochs if epoch]
            self.history.note(at=self.time(when), node=self.number, user=int(user), takes=takes)

    def kill(self):
        said = super().kill()
        self.history.note(at=int(self.died * 1e6), node=self.number, dies=True)
        return said


class Asks(threading.Thread):
    """Asks a replica where users are, again and again, and notes what it answers."""

    def __init__(self, socket, users, history):
        super().__init__(daemon=True)
        self.socket, self.users, self.history = socket, users, history
        self.answers, self.ends = 0, False

    def run(self):
        while not self.ends:
            time.sleep(PAUSE)
            user, connection, asked = random.choice(self.users), Local(self.socket), time.time()
            try:
                connection.request("GET", f"/v1/users/{user}")
                answer = connection.getresponse()
                said = json.loads(answer.read())
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                # It is dead, or stands still.
                continue
            finally:
                connection.close()
            # Others than the leader send clients to the leader.
            if answer.status == 200:
                self.answers += 1
                self.note(said, asked, time.time())

    def note(self, said, asked, answered):
        self.history.note(
            asked=int(asked * 1e6), answered=int(answered * 1e6) + 1, user=said["user"],
            owner=NUMBERS.get(said["owner"]), owned=said["owned"], epoch=said["epoch"],
        )
