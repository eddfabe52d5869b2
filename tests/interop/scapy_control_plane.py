#!/usr/bin/python3
"""A PFCP control plane (3GPP TS 29.244) for tests, whose messages are Scapy's and not Weft's.

    scapy_control_plane.py LOCAL REMOTE

Speaks from LOCAL, port 8805, to the user plane at REMOTE, port 8805. Reads a command a
line from standard input and tells of what it receives in a line each on standard output,
both JSON; tests/interop/README.md lists them. Answers requests of the user plane by itself
and sends its own again (T1, N1; §6.4). Ends with its input. Debian's Python by its path:
Debian's python3-scapy is a module of that one.
"""

import ipaddress
import json
import os
import select
import socket
import sys
import time

from scapy.contrib import pfcp
from scapy_elements import EPOCH_1900, describe, elements

PORT = 8805
T1, N1 = 1.0, 5  # a request is sent again after T1 seconds, N1 times in all
ACCEPTED, NO_CONTEXT = 1, 65

REQUESTS = {
    "associate": (5, pfcp.PFCPAssociationSetupRequest),
    "release": (9, pfcp.PFCPAssociationReleaseRequest),
    "heartbeat": (1, pfcp.PFCPHeartbeatRequest),
    "establish": (50, pfcp.PFCPSessionEstablishmentRequest),
    "modify": (52, pfcp.PFCPSessionModificationRequest),
    "delete": (54, pfcp.PFCPSessionDeletionRequest),
}
# Of a request of the user plane: what it is called, and its answer.
ASKED = {
    1: ("heartbeat", pfcp.PFCPHeartbeatResponse),
    5: ("setup", pfcp.PFCPAssociationSetupResponse),
    7: ("update", pfcp.PFCPAssociationUpdateResponse),
    9: ("release", pfcp.PFCPAssociationReleaseResponse),
    12: ("node-report", pfcp.PFCPNodeReportResponse),
    14: ("set-deletion", pfcp.PFCPSessionSetDeletionResponse),
    56: ("report", pfcp.PFCPSessionReportResponse),
}


def tell(event: dict) -> None:
    print(json.dumps(event), flush=True)


class ControlPlane:
    def __init__(self, local: str, remote: str) -> None:
        self.local, self.remote = ipaddress.ip_address(local), (remote, PORT)
        family = socket.AF_INET6 if self.local.version == 6 else socket.AF_INET
        self.wire = socket.socket(family, socket.SOCK_DGRAM)
        self.wire.bind((local, PORT))
        self.started = int(time.time())
        self.sequence = os.getpid() & 0xFFFF
        self.pending = {}  # by sequence number: what was asked, and the bytes
        self.sessions, self.by_seid = {}, {}
        self.answered = set()
        self.deaf = False  # takes nothing and answers nothing
        self.last = b""  # what was sent last, to repeat it

    def run(self) -> None:
        tell({"event": "ready", "codec": "scapy"})
        unread = b""
        while True:
            ready = select.select([self.wire, 0], [], [], 0.05)[0]
            if self.wire in ready:
                self.receive()
            if 0 in ready:
                read = os.read(0, 1 << 16)
                if not read:
                    return
                *lines, unread = (unread + read).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
            self.send_again()

    # --- what it sends ----------------------------------------------------------

    def obey(self, command: dict) -> None:
        """Does what a line of standard input says."""
        do = command["do"]
        if do == "send":
            self.send(bytes.fromhex(command["hex"]))
        elif do == "repeat":
            self.send(self.last)
        elif do == "deaf":
            self.deaf = command["on"]
        elif do in REQUESTS:
            self.ask(do, command)
        else:
            tell({"event": "error", "what": "command", "why": f"{do} is not known"})

    def ask(self, do: str, command: dict) -> None:
        session = self.sessions.get(command.get("session"))
        if do == "establish":
            session = {"name": command["session"], "local": len(self.by_seid) + 1, "remote": 0}
            self.sessions[session["name"]] = self.by_seid[session["local"]] = session
        if "recovery" in command:
            self.started = command["recovery"]
        number, message = REQUESTS[do]
        self.sequence = self.sequence + 1 & 0xFFFFFF
        header = {"message_type": number, "seq": self.sequence, "S": int(number >= 50)}
        if do in ("modify", "delete"):
            if session is None and "seid" not in command:
                tell({"event": "error", "what": do, "why": "there is no such session"})
                return
            header["seid"] = command.get("seid", session and session["remote"])
        sent = bytes(pfcp.PFCP(**header) / message(IE_list=self.inside(do, session, command)))
        now = time.monotonic()
        self.pending[self.sequence] = {
            "do": do, "session": session, "bytes": sent, "sent": now, "first": now, "attempts": 1
        }
        self.last = sent
        self.send(sent)

    def inside(self, do: str, session, command: dict) -> list:
        node, rules = self.node_id(command.get("node")), command.get("rules", {})
        if do == "associate":
            return [node, self.recovery(), pfcp.IE_CPFunctionFeatures()]
        if do == "release":
            return [node]
        if do == "heartbeat":
            return [self.recovery()]
        if do == "establish":
            return [node, self.fseid(session["local"]), *elements(rules)]
        if do == "modify":
            queried = [
                pfcp.IE_QueryURR(IE_list=[pfcp.IE_URR_Id(id=number)]) for number in command.get("query", ())
            ]
            if command.get("queryAll"):
                queried.append(pfcp.IE_PFCPSMReqFlags(QUARR=1))
            return [*elements(rules), *queried]
        return []

    def node_id(self, node: str | None):
        try:
            address = ipaddress.ip_address(node or self.local)
        except ValueError:
            return pfcp.IE_NodeId(id_type=2, id=node)
        if address.version == 6:
            return pfcp.IE_NodeId(id_type=1, ipv6=str(address))
        return pfcp.IE_NodeId(id_type=0, ipv4=str(address))

    def fseid(self, seid: int):
        if self.local.version == 6:
            return pfcp.IE_FSEID(v6=1, seid=seid, ipv6=str(self.local))
        return pfcp.IE_FSEID(v4=1, seid=seid, ipv4=str(self.local))

    def recovery(self):
        return pfcp.IE_RecoveryTimeStamp(timestamp=self.started + EPOCH_1900 & 0xFFFFFFFF)

    def send(self, message: bytes) -> None:
        try:
            self.wire.sendto(message, self.remote)
        except OSError as error:
            tell({"event": "error", "what": "send", "why": str(error)})

    def send_again(self) -> None:
        now = time.monotonic()
        for sequence, request in list(self.pending.items()):
            if now - request["sent"] < T1:
                continue
            if request["attempts"] == N1:
                del self.pending[sequence]
                tell({"event": "timeout", "to": request["do"], **name(request["session"])})
                continue
            request["attempts"] += 1
            request["sent"] = now
            self.send(request["bytes"])

    # --- what it receives -------------------------------------------------------

    def receive(self) -> None:
        try:
            datagram = self.wire.recv(65536)
        except OSError:
            return  # an ICMP error of a user plane that is not there
        if self.deaf:
            return
        message = pfcp.PFCP(datagram)
        received = getattr(message.payload, "IE_list", [])
        if message.message_type in ASKED:
            self.answer(message, received)
        else:
            self.answer_of(message, received)

    def answer(self, message, received: list) -> None:
        """Answers a request of the user plane and tells of it, once however often it comes."""
        what, answer = ASKED[message.message_type]
        header = {"message_type": message.message_type + 1, "seq": message.seq, "S": message.S}
        event = {"event": what, "sequence": message.seq}
        inside = [pfcp.IE_Cause(cause=ACCEPTED)]
        if what == "report":
            session = self.by_seid.get(message.seid)
            header["seid"] = session["remote"] if session else 0
            event.update(name(session) if session else {"unknown": True})
            if session is None:
                inside = [pfcp.IE_Cause(cause=NO_CONTEXT)]
        elif what == "heartbeat":
            inside = [self.recovery()]
        elif what == "setup":
            inside = [self.node_id(None), *inside, self.recovery()]
        else:
            inside = [self.node_id(None), *inside]
        self.send(bytes(pfcp.PFCP(**header) / answer(IE_list=inside)))
        if message.seq in self.answered:
            tell({"event": "repeated", "what": what, "sequence": message.seq})
        else:
            self.answered.add(message.seq)
            tell(describe(event, received))

    def answer_of(self, message, received: list) -> None:
        """Tells of the answer to a request of ours, or of one to nothing."""
        event = {"event": "answer", "type": message.message_type, "sequence": message.seq}
        request = self.pending.pop(message.seq, None)
        if request is None:
            event["event"] = "unasked"
            tell(describe(event, received))
            return
        session = request["session"]
        event.update(
            to=request["do"], attempts=request["attempts"],
            ms=round((time.monotonic() - request["first"]) * 1000, 3),
            headerSeid=message.seid if message.S else 0, **name(session),
        )
        describe(event, received)
        if session and "seid" in event:
            session["remote"] = event["seid"]
        tell(event)


def name(session) -> dict:
    return {"session": session["name"]} if session else {}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: scapy_control_plane.py LOCAL REMOTE")
    ControlPlane(*sys.argv[1:]).run()
