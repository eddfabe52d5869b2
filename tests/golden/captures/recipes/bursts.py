"""One user's 200-octet UDP packets in bursts, and the colours that they are due."""

from scapy.layers.inet import UDP

from .capture import Capture
from .meters import SingleRate, TwoRate
from .plan import payload, uplink4

USER = 1
IP_SIZE = 200  # octets, what a meter counts
CIR, CBS, EBS = 100_000, 2_000, 4_000  # 800 kbit/s
PIR, PBS = 200_000, 4_000  # 1.6 Mbit/s
DRIFT = 0.0002  # no colour may change when the rates are this much off

# Start and gap in microseconds, packets.
PHASES = (
    (0, 0, 1),
    (120, 1, 7),  # a burst within CBS
    (40_000, 0, 1),  # both buckets full again
    (40_120, 1, 54),  # far beyond both
    (50_120, 2_500, 40),  # 0.8 of CIR
    (151_000, 0, 1),
    (152_120, 1_250, 60),  # 1.6 of CIR, 0.8 of PIR
    (226_900, 0, 1),
    (227_120, 750, 90),  # 2.7 of CIR, 1.3 of PIR
    (305_120, 1, 25),  # a burst into buckets that are not full
    (500_000, 0, 1),  # all full after a pause
    (500_120, 1, 34),  # the largest burst that full buckets meet, and a little more
    (2_000_000, 0, 1),
)

HEADER = f"""\
# bursts.pcap: the colour of each packet, colour-blind, buckets full at the first packet.
# One user (10.0.0.{USER}), IP packets of {IP_SIZE} octets; the meters count IP octets.
# srTCM (RFC 2697): CIR {8 * CIR} bit/s, CBS {CBS} octets, EBS {EBS} octets.
# trTCM (RFC 2698): CIR {8 * CIR} bit/s, CBS {CBS} octets, PIR {8 * PIR} bit/s, PBS {PBS} octets.
"""


def build() -> Capture:
    """The bursts; bursts.txt says the colours."""
    capture = Capture()
    number = 0
    for start_us, gap_us, packets in PHASES:
        capture.now_us, capture.gap_us = start_us, gap_us
        for _ in range(packets):
            number += 1
            datagram = UDP(sport=40000, dport=5001) / payload(IP_SIZE - 28, number)
            capture.add(uplink4(USER, id=number) / datagram)
    capture.side_files["bursts.txt"] = colours(capture)
    return capture


def colours(capture: Capture) -> str:
    """The table of colours, with a count of each."""
    rows = measure(capture, 1.0)
    if not rows == measure(capture, 1 - DRIFT) == measure(capture, 1 + DRIFT):
        raise ValueError("a colour hangs on how an implementation rounds: choose other times")
    lines = [
        HEADER + f"# srTCM: {tally([row[1] for row in rows])}",
        f"# trTCM: {tally([row[2] for row in rows])}",
    ]
    lines.append("# frame (from 1)  microseconds since the first  srTCM  trTCM")
    lines += [
        f"{number} {time_us} {single} {two}"
        for number, (time_us, single, two) in enumerate(rows, 1)
    ]
    return "\n".join(lines) + "\n"


def measure(capture: Capture, speed: float) -> list[tuple[int, str, str]]:
    """Time and both colours of each packet, with the rates multiplied by `speed`."""
    cir, pir = round(CIR * speed), round(PIR * speed)
    single, two = SingleRate(cir, CBS, EBS), TwoRate(pir, PBS, cir, CBS)
    times = [record.time_us for record in capture.records]
    return [(now, single.colour(now, IP_SIZE), two.colour(now, IP_SIZE)) for now in times]


def tally(seen: list[str]) -> str:
    """How often each colour occurs."""
    return ", ".join(f"{seen.count(colour)} {colour}" for colour in ("green", "yellow", "red"))
