//! Functions at other nodes: what carries a queue's packets there and back, and how the
//! node knows that the path is there.
//!
//! A [`Carriage`] belongs to the queue, its [`ServicePathEndpoint`] to the worker's service paths; two
//! rings lie between them, though one thread has both, as a queue knows no ports. The
//! path is tried at an interval with a packet for maintenance (O bit), which nodes on
//! the path let pass functions by: if it comes back, all of them are there.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use weft_dataplane::clock::Clock;
use weft_dataplane::offload::sum_of;
use weft_dataplane::offload::{
    Carrier, Coming, FrameKind, NextHops, Refusal, SendQueue, Shared, WINDOW,
};
use weft_dataplane::service_path::encapsulate::{Encapsulation, prepend};
use weft_dataplane::service_path::record::{self, Record, RecordKind};
use weft_dataplane::service_path::{NOTHING, RemotePath, RemotePlan, ServicePathEndpoint, read};
use weft_dpdk::{Packet, Pool};
use weft_function::{Direction, Metadata as _, PacketMetadata, TAG_SLOTS, TagSlot};
use weft_wire::MacAddress;
use weft_wire::nsh::{self, Metadata, NextProtocol, ServicePathId};

/// Frames that wait between a carriage and its endpoint. There are no more than tickets
/// and what functions emit.
const RING: usize = 2 * WINDOW;
/// Frames taken from the ring at once.
const BURST: usize = 32;
/// Probes in a row that may be lost.
const LOST: u32 = 3;
/// Octets of the longest header with a record and tags.
const HEADER: usize = nsh::MIN_HEADER_LENGTH + 4 + record::LENGTH + 4 + 4 + 4 * TAG_SLOTS;

/// The form of the service headers of one function.
#[derive(Clone, Debug)]
struct Form {
    paths: [u32; 2],
    index: u8,
    fixed: bool,
    names: u32,
    tags: usize,
    worker: u8,
}

impl Form {
    /// Writes a header; how many octets.
    fn write(
        &self,
        record: &Record,
        metadata: &PacketMetadata,
        oam: bool,
        octets: &mut [u8; HEADER],
    ) -> usize {
        let direction = TagSlot::DIRECTION.get(metadata) == Direction::Downlink as u32;
        let mut length = 0;
        let metadata = match self.fixed {
            true => Metadata::Fixed(record.octets()),
            false => {
                let (tags, room) = (&metadata.tags[..self.tags], nsh::MIN_HEADER_LENGTH);
                length = record::write(record, self.names, tags, &mut octets[room..]);
                Metadata::Variable { length: length as u8 }
            }
        };
        let repr = nsh::Repr {
            oam,
            time_to_live: nsh::DEFAULT_TTL,
            next_protocol: NextProtocol::ETHERNET,
            path: ServicePathId::new(self.paths[usize::from(direction)]).unwrap_or_default(),
            index: self.index,
            metadata,
        };
        // There is room for the longest.
        let emitted = repr.emit(&mut octets[..]);
        debug_assert!(emitted.is_ok());
        repr.buffer_len() + length
    }
}

/// Carries the packets of a queue.
#[derive(Debug)]
pub struct Carriage {
    form: Form,
    function: u8,
    leaving: SendQueue,
    back: Consumer<(Packet, Record)>,
    session: u64,
    clock: Clock,
    pool: Pool,
}

/// The other end of a carriage, at the ports.
#[derive(Debug)]
struct Endpoint {
    form: Form,
    out: Consumer<Packet>,
    back: Producer<(Packet, Record)>,
    shared: Arc<Shared>,
    session: u64,
    interval: u64,
    /// When the next probes leave.
    due: u64,
    /// Probes in a row that have not come back, by path.
    missing: [u32; 2],
    /// Number of the last probe.
    number: u32,
    is_up: bool,
}

/// What a carriage is made of.
pub struct Parts<'a> {
    /// How packets get there.
    pub plan: &'a RemotePlan,
    /// Name of the instance.
    pub instance: &'a str,
    /// Name of the function.
    pub function: &'a str,
    /// MAC address of the port that leads there.
    pub mac: MacAddress,
    /// What says which tags the node has, and how many.
    pub names: (u32, usize),
    /// Number of the worker.
    pub worker: u8,
    /// The time.
    pub clock: Clock,
    /// Shared with the queue.
    pub shared: Arc<Shared>,
    /// Where copies come from.
    pub pool: Pool,
}

/// A carriage with its path.
pub fn new(parts: Parts<'_>) -> (Carriage, RemotePath) {
    let Parts { plan, function, instance, mac, names: (names, tags), worker, clock, shared, pool } =
        parts;
    let form = Form {
        paths: plan.paths,
        index: plan.index,
        fixed: plan.fixed,
        names,
        tags: tags.min(TAG_SLOTS),
        worker,
    };
    let (sent, out) = RingBuffer::new(RING);
    let (arriving, back) = RingBuffer::new(RING);
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let endpoint = Endpoint {
        form: form.clone(),
        out,
        back: arriving,
        shared,
        session: session(),
        interval: nanoseconds(plan.probe),
        due: 0,
        missing: [LOST; 2],
        number: 0,
        is_up: false,
    };
    let carriage = Carriage {
        form,
        function: sum_of(function),
        leaving: SendQueue::new(sent, nanoseconds(plan.timeout)),
        back,
        session: session(),
        clock,
        pool,
    };
    let path = RemotePath {
        function: instance.to_owned(),
        remote_queue: 0,
        ways: plan.paths.map(|path| Encapsulation::new(&plan.hop, mac, path)),
        peer: plan.peer.clone(),
        endpoint: Box::new(endpoint),
    };
    (carriage, path)
}

/// A number that no other session has, and that only those know who see packets of it: a
/// keyed hash, under a key that the operating system has drawn.
fn session() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    RandomState::new().hash_one(number) >> (u64::BITS - record::SESSION_BITS)
}

impl Carriage {
    fn sort(&mut self, mut packet: Packet, record: Record) -> Coming {
        if record.session != self.session {
            return Coming::Stray;
        }
        let ticket = record.ticket;
        if record.what == RecordKind::Emitted {
            return match unpack(&mut packet, &record, &self.form) {
                true => Coming::Ticketed {
                    ticket,
                    what: FrameKind::Emitted,
                    reason: 0,
                    past: None,
                    packet,
                },
                false => Coming::Stray,
            };
        }
        if !self.leaving.settle(ticket) {
            return Coming::Stray;
        }
        match record.what {
            RecordKind::Dropped if record.reason != u8::MAX && record.function == self.function => {
                let reason = record.reason;
                Coming::Ticketed { ticket, what: FrameKind::Dropped, reason, past: None, packet }
            }
            RecordKind::Packet if unpack(&mut packet, &record, &self.form) => {
                Coming::Ticketed { ticket, what: FrameKind::Packet, reason: 0, past: None, packet }
            }
            _ => Coming::Lost(ticket),
        }
    }
}

/// Takes a packet out of its service header, and notes what came with it.
fn unpack(packet: &mut Packet, record: &Record, form: &Form) -> bool {
    let at = usize::from(packet.metadata().network_offset);
    let port = packet.metadata().port;
    let octets = packet.data().get(at..).unwrap_or_default();
    let Ok(header) = nsh::Packet::new_checked(octets) else { return false };
    if header.next_protocol() != NextProtocol::ETHERNET {
        return false;
    }
    let mut tags = [0; TAG_SLOTS];
    if let Some((start, length)) = record::tags_in(&header, form.names) {
        let values = octets[start..start + length].as_chunks::<4>().0;
        for (tag, value) in tags.iter_mut().zip(values) {
            *tag = u32::from_be_bytes(*value);
        }
    }
    let length = header.header_length();
    packet.trim_front(at + length);
    // What is malformed is found where it goes on.
    let _ = read(packet, port, Some(*record));
    packet.metadata_mut().tags = tags;
    true
}

impl Carrier for Carriage {
    fn put(
        &mut self,
        mut packet: Packet,
        ticket: u32,
        now: u64,
        _: &NextHops,
    ) -> Result<(), Refusal> {
        let mut record = Record {
            session: self.session,
            ticket,
            worker: self.form.worker,
            what: RecordKind::Packet,
            reason: 0,
            network_offset: 0,
            outer_offset: 0,
            flags: 0,
            function: 0,
        };
        if !record.place(packet.metadata()) {
            return Err(Refusal::TooLong);
        }
        let mut octets = [0; HEADER];
        let length = self.form.write(&record, packet.metadata(), false, &mut octets);
        if !prepend(&mut packet, length, &self.pool) {
            return Err(Refusal::TooLong);
        }
        packet.data_mut()[..length].copy_from_slice(&octets[..length]);
        self.leaving.take(packet, ticket, now)
    }

    fn in_hand(&self) -> usize {
        self.leaving.in_hand()
    }

    fn is_full(&self) -> bool {
        self.leaving.is_full()
    }

    fn send(&mut self) {
        self.leaving.send();
    }

    fn drop_last(&mut self) {
        self.leaving.drop_last();
    }

    fn clear(&mut self) {
        self.leaving.clear();
        while self.back.pop().is_ok() {}
        // What is still on its way is of a session that is over.
        self.session = session();
    }

    fn receive(&mut self, sort: &mut dyn FnMut(Coming)) -> usize {
        let mut count = 0;
        while count < BURST
            && let Ok((packet, record)) = self.back.pop()
        {
            count += 1;
            let coming = self.sort(packet, record);
            sort(coming);
        }
        count + self.leaving.give_up(BURST - count, || self.clock.now(), sort)
    }

    fn keeps_order(&self) -> bool {
        false
    }
}

impl ServicePathEndpoint for Endpoint {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn next_leaving(&mut self) -> Option<(Packet, usize)> {
        let packet = self.out.pop().ok()?;
        let downlink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Downlink as u32;
        Some((packet, usize::from(downlink)))
    }

    fn take(&mut self, packet: Packet, record: Record, path: u32) -> bool {
        if record.what != RecordKind::Probe {
            return self.back.push((packet, record)).is_ok();
        }
        if record.session == self.session && record.ticket == self.number {
            for (missing, own) in self.missing.iter_mut().zip(self.form.paths) {
                if own == path {
                    *missing = 0;
                }
            }
            if !self.is_up && self.missing == [0; 2] {
                self.is_up = true;
                self.shared.go_up();
            }
        }
        true
    }

    fn begin_up(&mut self) {
        (self.is_up, self.missing) = (true, [0; 2]);
        self.shared.go_up();
    }

    #[inline]
    fn is_due(&self, now: u64) -> bool {
        now >= self.due
    }

    #[cold]
    fn probes(&mut self, now: u64, pool: &Pool) -> [Option<Packet>; 2] {
        self.due = now + self.interval;
        if self.is_up && self.missing.iter().any(|missing| *missing >= LOST) {
            self.is_up = false;
            self.shared.go_down();
        }
        self.missing = self.missing.map(|missing| missing.saturating_add(1).min(LOST));
        self.number = self.number.wrapping_add(1);
        let one_path = self.form.paths[0] == self.form.paths[1];
        [Direction::Uplink, Direction::Downlink].map(|direction| {
            let skipped = one_path && direction == Direction::Downlink;
            if skipped { None } else { self.probe(direction, pool) }
        })
    }
}

impl Endpoint {
    fn probe(&self, direction: Direction, pool: &Pool) -> Option<Packet> {
        let record = Record {
            session: self.session,
            ticket: self.number,
            worker: self.form.worker,
            what: RecordKind::Probe,
            reason: 0,
            network_offset: 0,
            outer_offset: 0,
            flags: 0,
            function: 0,
        };
        let mut metadata = PacketMetadata::default();
        TagSlot::DIRECTION.set(&mut metadata, direction as u32);
        let mut octets = [0; HEADER];
        let length = self.form.write(&record, &metadata, true, &mut octets);
        let mut packet = pool.allocate()?;
        *packet.metadata_mut() = metadata;
        packet.append(length)?.copy_from_slice(&octets[..length]);
        packet.append(NOTHING.len())?.copy_from_slice(&NOTHING);
        Some(packet)
    }
}
