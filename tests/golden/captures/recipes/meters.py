"""RFC 2697 and RFC 2698 by the letter, colour-blind, in exact integers.

Written from the RFCs alone, so that it can judge an implementation. Rates are
in octets per second, sizes in octets of the IP packet, times in microseconds.
Buckets start full. A meter gains one token each 1/rate seconds, counted from
the first packet.
"""

GREEN, YELLOW, RED = "green", "yellow", "red"


def ticks(rate: int, earlier_us: int, now_us: int) -> int:
    """How often a clock of `rate` per second ticks between two times."""
    return rate * now_us // 1_000_000 - rate * earlier_us // 1_000_000


class SingleRate:
    """The single rate three colour marker of RFC 2697."""

    def __init__(self, cir: int, cbs: int, ebs: int):
        self.cir, self.cbs, self.ebs = cir, cbs, ebs
        self.committed, self.excess, self.time_us = cbs, ebs, 0

    def colour(self, now_us: int, size: int) -> str:
        """Section 3: fill Tc first, what it cannot hold goes to Te; then decide."""
        for _ in range(ticks(self.cir, self.time_us, now_us)):
            if self.committed < self.cbs:
                self.committed += 1
            elif self.excess < self.ebs:
                self.excess += 1
            else:
                break
        self.time_us = now_us
        if self.committed >= size:
            self.committed -= size
            return GREEN
        if self.excess >= size:
            self.excess -= size
            return YELLOW
        return RED


class TwoRate:
    """The two rate three colour marker of RFC 2698."""

    def __init__(self, pir: int, pbs: int, cir: int, cbs: int):
        self.pir, self.pbs, self.cir, self.cbs = pir, pbs, cir, cbs
        self.peak, self.committed, self.time_us = pbs, cbs, 0

    def colour(self, now_us: int, size: int) -> str:
        """Section 3: the peak bucket is tested first, and green takes from both."""
        self.peak = min(self.pbs, self.peak + ticks(self.pir, self.time_us, now_us))
        self.committed = min(self.cbs, self.committed + ticks(self.cir, self.time_us, now_us))
        self.time_us = now_us
        if self.peak < size:
            return RED
        self.peak -= size
        if self.committed < size:
            return YELLOW
        self.committed -= size
        return GREEN
