//! What a worker counts. One thread writes, any may read: a counter is a plain
//! load and store for the worker, and readers add the workers up.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::tsc;
use weft_function::Reason;

/// A number that only one thread changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; for its own thread.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Its value at some recent moment.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why the node itself drops packets; functions have reasons of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the texts below say what each means")]
pub enum DropReason {
    Segmented,
    EthernetMalformed,
    VlanMalformed,
    EtherTypeUnknown,
    Ipv4Malformed,
    Ipv4Checksum,
    Ipv6Malformed,
    TransportMalformed,
    NotForUs,
    Martian,
    UnknownUser,
    NoRule,
    Rule,
    Loop,
    BurstFull,
    KeptFull,
    UserRemoved,
    TtlExceeded,
    PacketTooBig,
    PortGone,
    PortFull,
    NoRoute,
    NeighbourPending,
    NeighbourUnreachable,
    WorkerRingFull,
    PoolExhausted,
    LocalFull,
    Stopped,
}

impl DropReason {
    /// All reasons, in order of their numbers, with the name that metrics carry
    /// and what it tells an operator.
    pub const ALL: &'static [(DropReason, Reason, &'static str)] = {
        use DropReason::*;
        &[
            (Segmented, Reason("segmented"), "longer than one buffer"),
            (EthernetMalformed, Reason("ethernet_malformed"), "shorter than an Ethernet header"),
            (VlanMalformed, Reason("vlan_malformed"), "VLAN tag cut off, reserved, or a third"),
            (EtherTypeUnknown, Reason("ethertype_unknown"), "neither IPv4 nor IPv6"),
            (Ipv4Malformed, Reason("ipv4_malformed"), "impossible lengths in the IPv4 header"),
            (Ipv4Checksum, Reason("ipv4_checksum"), "wrong IPv4 header checksum"),
            (Ipv6Malformed, Reason("ipv6_malformed"), "impossible lengths or extension headers"),
            (TransportMalformed, Reason("transport_malformed"), "impossible UDP or TCP header"),
            (NotForUs, Reason("not_for_us"), "addressed to another station of the link"),
            (Martian, Reason("martian"), "an address that no router forwards"),
            (UnknownUser, Reason("unknown_user"), "no user has this address, VLAN, flow or port"),
            (NoRule, Reason("no_rule"), "no rule says where the packet goes"),
            (Rule, Reason("rule"), "a rule sends the packet to drop"),
            (Loop, Reason("loop"), "went round in the rules too often"),
            (BurstFull, Reason("burst_full"), "a function emitted more than there was room for"),
            (KeptFull, Reason("kept_full"), "more packets kept than the user's queue holds"),
            (UserRemoved, Reason("user_removed"), "kept for a user that was removed"),
            (TtlExceeded, Reason("ttl_exceeded"), "TTL or hop limit used up"),
            (PacketTooBig, Reason("packet_too_big"), "longer than the MTU and not to be cut"),
            (PortGone, Reason("port_gone"), "the port's device has disappeared"),
            (PortFull, Reason("port_full"), "the port's transmit queue was full"),
            (NoRoute, Reason("no_route"), "no subnet or gateway of the port leads there"),
            (NeighbourPending, Reason("neighbour_pending"), "too many wait for one address"),
            (NeighbourUnreachable, Reason("neighbour_unreachable"), "next hop does not answer"),
            (WorkerRingFull, Reason("worker_ring_full"), "the ring to another worker was full"),
            (PoolExhausted, Reason("pool_exhausted"), "no buffer left for a new packet"),
            (LocalFull, Reason("local_full"), "too many packets for the node itself at once"),
            (Stopped, Reason("stopped"), "still waiting for something as the node stopped"),
        ]
    };

    /// The name that metrics carry.
    pub fn reason(self) -> Reason {
        Self::ALL[self as usize].1
    }
}

/// The stages of the way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Stage {
    Receive,
    Parse,
    Classify,
    Forward,
    Transmit,
}

impl Stage {
    /// All stages, in the order packets meet them.
    pub const ALL: [Stage; 5] =
        [Stage::Receive, Stage::Parse, Stage::Classify, Stage::Forward, Stage::Transmit];

    /// Name, as `weft show runtime` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Parse => "parse",
            Stage::Classify => "classify",
            Stage::Forward => "forward",
            Stage::Transmit => "transmit",
        }
    }
}

/// Time spent on packets, measured on a sample of the bursts.
#[derive(Debug, Default)]
pub struct Cycles {
    cycles: Counter,
    packets: Counter,
}

impl Cycles {
    /// Notes that `packets` took `cycles`.
    pub fn note(&self, cycles: u64, packets: usize) {
        self.cycles.add(cycles);
        self.packets.add(packets as u64);
    }

    /// Cycles and packets of the sample so far.
    pub fn get(&self) -> (u64, u64) {
        (self.cycles.get(), self.packets.get())
    }
}

/// One visit in this many is timed.
const SAMPLE_EVERY: u32 = 16;

/// Decides which bursts are timed and keeps the time of the one at hand.
/// Reading the time-stamp counter costs about as much as a small function, so
/// most bursts are left alone.
#[derive(Debug, Default)]
pub struct Stopwatch {
    burst: u32,
    last: u64,
}

impl Stopwatch {
    /// A burst begins: starts the clock if this one is timed.
    #[inline]
    pub fn start(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        self.last = if self.burst % SAMPLE_EVERY == 1 { tsc::now() } else { 0 };
    }

    /// Whether this burst is timed.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.last != 0
    }

    /// Notes what has passed since the last lap under `cycles`.
    #[inline]
    pub fn lap(&mut self, cycles: &Cycles, packets: usize) {
        if self.is_running() {
            let now = tsc::now();
            cycles.note(now.wrapping_sub(self.last), packets);
            self.last = now;
        }
    }
}

/// Packets and bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: Counter,
    /// Their bytes, from the Ethernet header on.
    pub bytes: Counter,
}

impl Traffic {
    /// Counts some packets.
    #[inline(always)]
    pub fn add(&self, packets: usize, bytes: u64) {
        self.packets.add(packets as u64);
        self.bytes.add(bytes);
    }
}

/// What a worker counts for one port.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Received by this worker.
    pub received: Traffic,
    /// Taken by the device.
    pub transmitted: Traffic,
}

/// What a worker counts for one function.
#[derive(Debug)]
pub struct FunctionCounters {
    /// Packets handled.
    pub handled: Traffic,
    /// Visits: bursts of which at least one packet came here.
    pub bursts: Counter,
    /// Time spent, sampled.
    pub cycles: Cycles,
    /// Packets dropped, by the function's reasons; panics behind the last.
    pub drops: Box<[Counter]>,
}

impl FunctionCounters {
    /// For a function with so many drop reasons of its own.
    pub fn new(reasons: usize) -> FunctionCounters {
        FunctionCounters {
            handled: Traffic::default(),
            bursts: Counter::default(),
            cycles: Cycles::default(),
            drops: (0..=reasons).map(|_| Counter::default()).collect(),
        }
    }
}

/// All that one worker counts, but for its functions.
#[derive(Debug)]
pub struct WorkerCounters {
    /// By port.
    pub ports: Box<[PortCounters]>,
    /// By [`DropReason`].
    pub drops: Box<[Counter]>,
    /// By [`Stage`], sampled.
    pub stages: [Cycles; Stage::ALL.len()],
    /// Bursts that held a packet.
    pub bursts: Counter,
    /// Polls that found nothing.
    pub empty_polls: Counter,
    /// Packets handed to another worker.
    pub handed_over: Counter,
    /// Packets that functions generated or copied.
    pub emitted: Counter,
    /// Fragments made of packets longer than the MTU, less those packets.
    pub fragments: Counter,
    /// Packets given to the node itself: ARP, neighbour discovery, and what is
    /// sent to one of its addresses.
    pub local: Counter,
    /// Packets that the node itself sent: answers, requests and ICMP errors.
    pub originated: Counter,
    /// Panics caught in functions.
    pub panics: Counter,
}

impl WorkerCounters {
    /// For a node with so many ports.
    pub fn new(ports: usize) -> WorkerCounters {
        WorkerCounters {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            drops: DropReason::ALL.iter().map(|_| Counter::default()).collect(),
            stages: Default::default(),
            bursts: Counter::default(),
            empty_polls: Counter::default(),
            handed_over: Counter::default(),
            emitted: Counter::default(),
            fragments: Counter::default(),
            local: Counter::default(),
            originated: Counter::default(),
            panics: Counter::default(),
        }
    }

    /// Counts `count` packets dropped by the node.
    #[inline]
    pub fn dropped(&self, reason: DropReason, count: usize) {
        self.drops[reason as usize].add(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_number_and_names_are_unique() {
        for (number, (reason, name, _)) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number, "{name}");
            let same = DropReason::ALL.iter().filter(|(_, other, _)| other == name);
            assert_eq!(same.count(), 1, "{name}");
        }
    }
}
