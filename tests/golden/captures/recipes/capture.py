"""A capture in the making: records with fixed times and, where they help, notes."""

import struct
from dataclasses import dataclass, field
from pathlib import Path

from scapy.packet import Packet

EPOCH_S = 1_700_000_000  # time of the first record, seconds since 1970
SHORTEST_FRAME = 60  # octets, without the frame check sequence
LINKTYPE_ETHERNET = 1
SNAP_LENGTH = 262_144


@dataclass
class Record:
    """One captured frame."""

    time_us: int  # since EPOCH_S
    frame: bytes
    note: str
    wire_length: int  # more than len(frame) when the capture cut it


@dataclass
class Capture:
    """Records in time order, `gap_us` apart unless told otherwise."""

    gap_us: int = 100
    records: list[Record] = field(default_factory=list)
    now_us: int = 0
    side_files: dict[str, str] = field(default_factory=dict)

    def add(self, packet: Packet | bytes, note: str = "", wire_length: int | None = None) -> None:
        """Appends a frame just as it is."""
        frame = bytes(packet)
        self.records.append(Record(self.now_us, frame, note, wire_length or len(frame)))
        self.now_us += self.gap_us

    def add_padded(self, packet: Packet | bytes, note: str = "") -> None:
        """Appends a frame as a NIC delivers it: zeros fill it up to 60 octets."""
        self.add(bytes(packet).ljust(SHORTEST_FRAME, b"\0"), note)

    def notes(self, title: str) -> str:
        """The text of a side file: one line per record, `frame number: note`."""
        lines = [f"# {title}", "# frame number (from 1): what it is"]
        lines += [f"{number}: {record.note}" for number, record in enumerate(self.records, 1)]
        return "\n".join(lines) + "\n"

    def pcap(self) -> bytes:
        """The capture as a little-endian pcap file with microsecond times."""
        out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET)]
        for record in self.records:
            seconds, micros = divmod(record.time_us, 1_000_000)
            sizes = (len(record.frame), record.wire_length)
            out.append(struct.pack("<IIII", EPOCH_S + seconds, micros, *sizes) + record.frame)
        return b"".join(out)

    def write(self, folder: Path, name: str) -> None:
        """Writes NAME.pcap and the side files into `folder`."""
        (folder / f"{name}.pcap").write_bytes(self.pcap())
        for side_name, text in self.side_files.items():
            (folder / side_name).write_text(text, encoding="ascii")
