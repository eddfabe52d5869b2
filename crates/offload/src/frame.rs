//! A packet between a node and a function process: an Ethernet header, a network
//! service header (RFC 8300) of MD type 2 with one context header, and the frame
//! itself.
//!
//! The context header has an experimental class (RFC 8300 §9.1.4), type 1, and
//! holds a [`Record`] and behind it the values of the node's tags, each of four
//! octets. All numbers are in network byte order:
//!
//! | octets | |
//! |---|---|
//! | 0–3 | ticket: comes back as it was |
//! | 4 | what the frame is, see [`FrameKind`] |
//! | 5 | number of the reason of a drop |
//! | 6–7 | worker of the node, on the way through a NIC; otherwise 0 |
//! | 8–15 | time in nanoseconds since the node started |
//! | 16–19 | number of the last order that concerns the packet |
//! | 20–31 | slots of user, bearer and group |
//! | 32–47 | network and transport offset, Ethernet type, VLAN, port, length of the IP packet, offset of the outer header (two octets each), protocol, flags |
//! | 48– | tags |

pub use weft_dataplane::offload::FrameKind;
use weft_dataplane::offload::HOPS;
use weft_dpdk::Packet;
use weft_function::{Metadata as _, PacketMetadata, StepValue, TAG_SLOTS};
use weft_wire::nsh::{self, Context, Metadata, NextProtocol, Repr, ServicePathId};

/// Class of the context header (RFC 8300 §9.1.4: experimental).
pub const CLASS: u16 = 0xfff6;
/// Type of the context header.
pub const TYPE: u8 = 1;

pub(crate) const ETHERNET: usize = 14;
const ETHER_TYPE: [u8; 2] = [0x89, 0x4f];
/// Ethernet header, NSH without context headers, and the head of the one there is.
pub(crate) const BEFORE_RECORD: usize = ETHERNET + nsh::MIN_HEADER_LENGTH + 4;
pub(crate) const RECORD: usize = 48;
/// Where the service path identifier stands.
pub(crate) const PATH: usize = ETHERNET + 4;

/// Octets of an entry of a [direct path](crate::vf).
pub(crate) const ENTRY: usize = 6;
/// Octets of all entries at most, in whole words.
pub(crate) const ENTRIES: usize = (ENTRY * HOPS).next_multiple_of(4);

/// Octets in front of a packet at most.
pub const MAX_HEADER: usize = BEFORE_RECORD + RECORD + 4 * TAG_SLOTS + ENTRIES;

/// Room that buffers of a ring have beyond that for a packet.
pub const ROOM: u16 = MAX_HEADER.next_multiple_of(64) as u16;

/// What travels in front of a packet, but for its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which packet of the node it is.
    pub ticket: u32,
    /// What the frame is.
    pub what: FrameKind,
    /// Number of the reason of a drop.
    pub reason: u8,
    /// Nanoseconds since the node started.
    pub now: u64,
    /// Number of the last order that concerns the packet.
    pub order: u32,
}

/// What travels in front of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which packet of the node it is.
    pub ticket: u32,
    /// What the frame is.
    pub what: FrameKind,
    /// Number of the reason of a drop.
    pub reason: u8,
    /// Nanoseconds since the node started.
    pub now: u64,
    /// Number of the last order that concerns the packet.
    pub order: u32,
    /// Where things are, whose packet it is, and its tags.
    pub metadata: PacketMetadata,
}

/// The form of all frames of one function.
#[derive(Clone, Debug)]
pub struct Form {
    /// What frames begin with.
    begin: [u8; BEFORE_RECORD],
    tags: usize,
}

impl Form {
    /// Frames on service path `path` with that many tags.
    pub fn new(path: u32, tags: usize) -> Form {
        // Locally administered addresses: the two ends of the ring.
        let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let begin = before(path, tags, link, u8::MAX, 0);
        Form { begin, tags: tags.min(TAG_SLOTS) }
    }

    /// Octets in front of a packet.
    #[inline(always)]
    pub fn header_length(&self) -> usize {
        BEFORE_RECORD + RECORD + 4 * self.tags
    }

    /// Writes the header to the front of `bytes`, which has room for it.
    #[inline]
    pub fn write(&self, record: &Record, bytes: &mut [u8]) {
        let Some((before, bytes)) = bytes.split_first_chunk_mut::<BEFORE_RECORD>() else { return };
        *before = self.begin;
        put_fields(record, 0, self.tags, bytes);
    }

    /// Takes the header off a packet: one that this form wrote, or that a node on the way
    /// changed as RFC 8300 allows (service index, TTL, further context headers). What it
    /// says of the packet is written to the metadata, one by one: the code that reads them next
    /// would wait for a copy made of pieces. None for anything else.
    #[inline]
    pub fn open(&self, packet: &mut Packet) -> Option<Head> {
        let (bytes, metadata) = packet.parts_mut();
        let (head, length) = self.take_in(bytes, metadata)?;
        packet.trim_front(length);
        Some(head)
    }

    /// What a header says, and how long it is; see [`open`](Self::open).
    pub fn read(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut metadata = PacketMetadata::default();
        let (head, length) = self.take_in(bytes, &mut metadata)?;
        let Head { ticket, what, reason, now, order } = head;
        Some((Record { ticket, what, reason, now, order, metadata }, length))
    }

    /// What a header says, which is written to `metadata`, too, and how long it is.
    #[inline]
    fn take_in(&self, bytes: &[u8], metadata: &mut PacketMetadata) -> Option<(Head, usize)> {
        if let Some((before, content)) = bytes.split_first_chunk::<BEFORE_RECORD>()
            && *before == self.begin
        {
            let content = content.get(..RECORD + 4 * self.tags)?;
            return Some((head(content, metadata)?, self.header_length()));
        }
        self.read_changed(bytes, metadata)
    }

    #[cold]
    fn read_changed(&self, bytes: &[u8], metadata: &mut PacketMetadata) -> Option<(Head, usize)> {
        let (ethernet, rest) = bytes.split_first_chunk::<ETHERNET>()?;
        let header = nsh::Packet::new_checked(rest).ok()?;
        let is_packet = header.next_protocol() == NextProtocol::ETHERNET;
        if ethernet[12..] != ETHER_TYPE || !is_packet {
            return None;
        }
        let mut contexts = header.contexts().filter_map(Result::ok);
        let context = contexts.find(|one| one.class == CLASS && one.kind == TYPE)?;
        let content = context.content.get(..RECORD + 4 * self.tags)?;
        Some((head(content, metadata)?, ETHERNET + header.header_length()))
    }

    /// Puts the header in front of a packet; false when there is no room.
    #[inline]
    pub fn put(&self, record: &Record, packet: &mut Packet) -> bool {
        match packet.prepend(self.header_length()) {
            Some(bytes) => {
                self.write(record, bytes);
                true
            }
            None => false,
        }
    }
}

/// Writes a record, and so many tags behind it.
#[inline]
pub(crate) fn put_fields(record: &Record, worker: u16, count: usize, bytes: &mut [u8]) {
    let Some((fields, tags)) = bytes.split_first_chunk_mut::<RECORD>() else { return };
    let one = &record.metadata;
    fields[0..4].copy_from_slice(&record.ticket.to_be_bytes());
    fields[4..6].copy_from_slice(&[record.what as u8, record.reason]);
    fields[6..8].copy_from_slice(&worker.to_be_bytes());
    fields[8..16].copy_from_slice(&record.now.to_be_bytes());
    fields[16..20].copy_from_slice(&record.order.to_be_bytes());
    fields[20..24].copy_from_slice(&one.user.to_be_bytes());
    fields[24..28].copy_from_slice(&one.bearer.to_be_bytes());
    fields[28..32].copy_from_slice(&one.group.to_be_bytes());
    fields[32..34].copy_from_slice(&one.network_offset.to_be_bytes());
    fields[34..36].copy_from_slice(&one.transport_offset.to_be_bytes());
    fields[36..38].copy_from_slice(&one.ether_type.to_be_bytes());
    fields[38..40].copy_from_slice(&one.vlan.to_be_bytes());
    fields[40..42].copy_from_slice(&one.port.to_be_bytes());
    fields[42..44].copy_from_slice(&one.network_length.to_be_bytes());
    fields[44..46].copy_from_slice(&one.outer_offset.to_be_bytes());
    fields[46..48].copy_from_slice(&[one.protocol, one.flags]);
    for (place, tag) in tags.as_chunks_mut::<4>().0.iter_mut().zip(one.tags).take(count) {
        *place = tag.to_be_bytes();
    }
}

/// Reads a record, and the tags behind it.
#[inline]
pub(crate) fn head(content: &[u8], metadata: &mut PacketMetadata) -> Option<Head> {
    let (fields, tags) = content.split_first_chunk::<RECORD>()?;
    let u16_at = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
    let what = FrameKind::of(fields[4])?;
    metadata.user = u32_at(20);
    metadata.bearer = u32_at(24);
    metadata.group = u32_at(28);
    metadata.step = StepValue::NONE;
    metadata.network_offset = u16_at(32);
    metadata.transport_offset = u16_at(34);
    metadata.ether_type = u16_at(36);
    metadata.vlan = u16_at(38);
    metadata.port = u16_at(40);
    metadata.network_length = u16_at(42);
    metadata.outer_offset = u16_at(44);
    metadata.protocol = fields[46];
    metadata.flags = fields[47];
    let mut tags = tags.as_chunks::<4>().0.iter();
    for tag in &mut metadata.tags {
        *tag = tags.next().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    }
    Some(Head {
        ticket: u32_at(0),
        what,
        reason: fields[5],
        now: u64::from(u32_at(8)) << 32 | u64::from(u32_at(12)),
        order: u32_at(16),
    })
}

/// What frames begin with, up to their record; behind the tags are so many octets.
pub(crate) fn before(
    path: u32,
    tags: usize,
    link: [u8; 12],
    index: u8,
    behind: usize,
) -> [u8; BEFORE_RECORD] {
    let tags = tags.min(TAG_SLOTS);
    let content = [0; RECORD + 4 * TAG_SLOTS + ENTRIES];
    let length = RECORD + 4 * tags + behind;
    let context = Context { class: CLASS, kind: TYPE, content: &content[..length] };
    let repr = Repr {
        oam: false,
        time_to_live: nsh::DEFAULT_TTL,
        next_protocol: NextProtocol::ETHERNET,
        path: ServicePathId::new(path).unwrap_or_default(),
        index,
        metadata: Metadata::Variable { length: context.buffer_len() as u8 },
    };
    let mut bytes = [0; MAX_HEADER];
    bytes[..12].copy_from_slice(&link);
    bytes[12..ETHERNET].copy_from_slice(&ETHER_TYPE);
    // The buffer is as long as the longest header, so that both fit.
    let emitted = repr.emit(&mut bytes[ETHERNET..]);
    let emitted =
        emitted.and_then(|()| context.emit(&mut bytes[ETHERNET + nsh::MIN_HEADER_LENGTH..]));
    debug_assert!(emitted.is_ok());
    let mut before = [0; BEFORE_RECORD];
    before.copy_from_slice(&bytes[..BEFORE_RECORD]);
    before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        Record {
            ticket: 0x0102_0304,
            what: FrameKind::Dropped,
            reason: 2,
            now: 0x0506_0708_090a_0b0c,
            order: 7,
            metadata: PacketMetadata {
                tags: [1, 2, 3, 4, 5, 0, 0, 0],
                user: 9,
                bearer: 10,
                group: PacketMetadata::NONE,
                step: StepValue::NONE,
                network_offset: 14,
                transport_offset: 34,
                ether_type: 0x0800,
                vlan: PacketMetadata::NO_VLAN,
                port: 1,
                network_length: 46,
                outer_offset: 0,
                protocol: 17,
                flags: 1,
            },
        }
    }

    #[test]
    fn what_is_written_is_read_and_is_an_nsh() {
        let form = Form::new(3, 5);
        let mut bytes = vec![0; form.header_length() + 60];
        form.write(&record(), &mut bytes);
        assert_eq!(form.read(&bytes), Some((record(), form.header_length())));
        let header = nsh::Packet::new_checked(&bytes[ETHERNET..]).unwrap();
        assert_eq!((header.path().value(), header.index()), (3, 255));
        assert_eq!(header.payload().len(), 60);
    }

    #[test]
    fn a_function_may_count_down_the_service_index() {
        let form = Form::new(3, 5);
        let mut bytes = vec![0; form.header_length()];
        form.write(&record(), &mut bytes);
        let mut header = nsh::Packet::new_checked(&mut bytes[ETHERNET..]).unwrap();
        header.set_index(254);
        assert!(header.decrement_time_to_live());
        assert_eq!(form.read(&bytes), Some((record(), form.header_length())));
    }

    proptest! {
        #[test]
        fn nothing_that_comes_back_breaks_the_reader(
            at in 0..MAX_HEADER, value: u8, length in 0..2 * MAX_HEADER, tags in 0..=TAG_SLOTS,
        ) {
            let form = Form::new(1, tags);
            let mut bytes = vec![0; 2 * MAX_HEADER];
            form.write(&record(), &mut bytes);
            bytes[at] = value;
            bytes.truncate(length);
            if let Some((_, header)) = form.read(&bytes) {
                prop_assert!(header <= length);
            }
        }

        #[test]
        fn random_octets_do_not_either(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((_, header)) = Form::new(1, 3).read(&bytes) {
                prop_assert!(header <= bytes.len());
            }
        }
    }
}
