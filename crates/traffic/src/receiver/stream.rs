//! What arrived of one stream.

use std::net::IpAddr;

use hdrhistogram::Histogram;

use crate::receiver::arrived::Arrived;
use crate::receiver::density::{Density, Displacements};
use crate::receiver::flow::{Arrival, Flow, Flows};
use crate::stamp::Stamp;
use crate::template::Template;
use crate::template::endpoints::Endpoints;

/// Longest delay that is told from longer ones: a minute, in nanoseconds.
const LONGEST_DELAY: u64 = 60_000_000_000;
/// Largest extent that is told from larger ones, packets.
const MOST_EXTENT: u64 = 1 << 24;
/// Significant decimal digits of delays and extents.
const DIGITS: u8 = 3;

/// A stream that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its number.
    pub stream: u16,
    /// How many users it has.
    pub users: u32,
    /// Bearers of each user, at least 1: as many flows does a user have.
    pub bearers: u16,
    /// The addresses with which its packets arrive.
    pub endpoints: Endpoints,
}

impl Expected {
    /// The packets of `users` users as `template` makes them.
    pub fn of(template: &Template, users: u32) -> Expected {
        let Template { stream, bearers, endpoints, .. } = *template;
        Expected { stream, users, bearers, endpoints }
    }

    fn flows(&self) -> u32 {
        self.users.saturating_mul(self.bearers.into())
    }
}

/// What arrived of one stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What was expected.
    pub expected: Expected,
    /// Different packets that arrived.
    pub received: u64,
    /// Bytes of these, from the Ethernet header on.
    pub bytes: u64,
    /// Copies of packets that had arrived.
    pub duplicated: u64,
    /// Packets received behind one of the same user that was sent after them.
    pub reordered: u64,
    /// Packets received that did not have the addresses expected.
    pub misaddressed: u64,
    /// Delays from sender to receiver in nanoseconds (RFC 7679), without
    /// duplicates.
    pub delays: Histogram<u64>,
    /// Reordering extents (RFC 4737 §4.2): how many packets of the flow arrived
    /// since the first that overtook one, that one included.
    pub extents: Histogram<u64>,
    /// Packets reordered of which the extent is not known: more gaps were open
    /// than are remembered.
    pub extents_unknown: u64,
    /// Arrivals of flows that are watched.
    pub timelines: Vec<Timeline>,
    flows: Flows,
    displacements: Displacements,
    /// Addresses of each flow, where those expected are not in a row.
    addresses: Option<Vec<(IpAddr, IpAddr)>>,
}

/// When the packets of one flow arrived, in the order in which they did.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The flow.
    pub flow: u32,
    /// Its arrivals, copies included, as many as there was to be room for.
    pub seen: Vec<Seen>,
    /// Arrivals that found no room.
    pub unseen: u64,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the packet in its flow.
    pub sequence: u32,
    /// When it was sent, in cycles of the time-stamp counter.
    pub sent: u64,
    /// When it arrived, in cycles of the time-stamp counter.
    pub arrived: u64,
}

impl Stream {
    pub(crate) fn new(expected: Expected) -> Stream {
        let delays = Histogram::new_with_max(LONGEST_DELAY, DIGITS);
        let extents = Histogram::new_with_max(MOST_EXTENT, DIGITS);
        Stream {
            expected,
            received: 0,
            bytes: 0,
            duplicated: 0,
            reordered: 0,
            misaddressed: 0,
            delays: delays.expect("these bounds are valid"),
            extents: extents.expect("these bounds are valid"),
            extents_unknown: 0,
            timelines: Vec::new(),
            flows: Flows::new(expected.flows() as usize),
            displacements: Displacements::new(expected.flows() as usize),
            addresses: None,
        }
    }

    /// What arrived of each flow.
    pub fn flows(&self) -> &[Flow] {
        &self.flows.flows
    }

    /// Packets that were lost if `sent` were sent.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.received)
    }

    /// The reorder density of its packets so far (RFC 5236 §4), all flows together;
    /// none where there are too many flows for it.
    pub fn density(&self) -> Option<Density> {
        Some(self.displacements.density()).filter(|density| density.threshold > 0)
    }

    /// How many packets of its flow may lie between a packet and a copy of it
    /// that is still told from a late packet.
    pub fn window(&self) -> usize {
        self.flows.window()
    }

    /// Notes when the packets of a flow arrive, up to `most` of them.
    pub(crate) fn watch(&mut self, flow: u32, most: usize) {
        self.timelines.push(Timeline { flow, seen: Vec::with_capacity(most), unseen: 0 });
    }

    /// Sets the addresses of each flow.
    pub(crate) fn expect(&mut self, addresses: &[(IpAddr, IpAddr)]) {
        self.addresses = Some(addresses.to_vec());
    }

    #[inline]
    pub(crate) fn has(&self, arrived: &Arrived) -> bool {
        arrived.stamp.stream == self.expected.stream && arrived.stamp.flow < self.expected.flows()
    }

    /// Notes a packet of `bytes` that arrived at cycle `now` and took `delay`
    /// nanoseconds.
    #[inline]
    pub(crate) fn arrive(&mut self, arrived: &Arrived, bytes: usize, now: u64, delay: u64) {
        let Stamp { flow, sequence, sent, .. } = arrived.stamp;
        if !self.timelines.is_empty() {
            self.note(flow, Seen { sequence, sent, arrived: now });
        }
        match self.flows.arrive(flow, sequence) {
            Arrival::Duplicated => {
                self.duplicated += 1;
                return;
            }
            Arrival::Reordered { extent } => self.reorder(extent),
            Arrival::InOrder => {}
        }
        self.displacements.arrive(flow, sequence);
        self.received += 1;
        self.bytes += bytes as u64;
        self.delays.saturating_record(delay);
        let expected = match &self.addresses {
            Some(addresses) => addresses.get(flow as usize).copied(),
            None => {
                let user = flow / u32::from(self.expected.bearers.max(1));
                Some(self.expected.endpoints.of(user))
            }
        };
        if expected != Some((arrived.source, arrived.destination)) {
            self.misaddressed += 1;
        }
    }

    fn reorder(&mut self, extent: Option<u64>) {
        self.reordered += 1;
        match extent {
            Some(extent) => self.extents.saturating_record(extent),
            None => self.extents_unknown += 1,
        }
    }

    fn note(&mut self, flow: u32, seen: Seen) {
        for timeline in self.timelines.iter_mut().filter(|timeline| timeline.flow == flow) {
            match timeline.seen.len() < timeline.seen.capacity() {
                true => timeline.seen.push(seen),
                false => timeline.unseen += 1,
            }
        }
    }
}
