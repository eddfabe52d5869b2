//! What an end of the link knows of a flow.

use weft_function::{ContextError, Fields};
use weft_wire::iphc::{Chain, ContextId, Generation, MAX_HEADER, Transport};

use super::NONE;

/// One of the two spaces of context identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Tcp,
    NonTcp,
}

impl Space {
    /// That of a chain of headers.
    #[inline]
    pub fn of(chain: &Chain) -> Space {
        match chain.transport() {
            Transport::Tcp => Space::Tcp,
            Transport::Udp | Transport::Other => Space::NonTcp,
        }
    }
}

/// What an end of the link knows of a flow. What most packets need lies in front,
/// in one cache line where the headers are those of IPv4 and UDP.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Flow {
    /// Octets of the headers.
    pub length: u8,
    pub generation: Generation,
    /// What the next packet must do, or whether this end has lost the context.
    pub repair: Repair,
    pub(super) space: Space,
    pub id: ContextId,
    /// Octets of data that the last segment carried.
    pub data: u16,
    /// Compressed headers since the last full one; for TCP, segments since the IP
    /// headers last changed.
    pub sent: u16,
    /// Compressed headers until the next full one; for TCP, whether the last
    /// segment followed the one before it.
    pub period: u16,
    pub(super) key: u32,
    /// When the last full header was sent, nanoseconds on the clock of the user.
    pub refreshed: u64,
    /// The form of the headers.
    pub(super) chain: Chain,
    /// The headers.
    pub(super) header: [u8; MAX_HEADER],
    /// When the generation last changed, on the same clock.
    pub changed: u64,
    /// The number of the last packet, where segments are numbered; and whether only
    /// its lower octet is known.
    pub number: u16,
    pub is_partial: bool,
    pub(super) owner: u32,
    /// Towards the oldest, and towards the newest, of the user's list.
    pub(super) older: u32,
    pub(super) newer: u32,
    /// The next record of the same bucket, or the next free one.
    pub(super) next: u32,
}

const _: () = assert!(std::mem::offset_of!(Flow, header) + 28 <= 64 && size_of::<Flow>() == 256);

/// What is due for a flow before differences mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Repair {
    None,
    /// The whole TCP header.
    Segment,
    /// All headers.
    Full,
}

impl Repair {
    fn of(value: u8) -> Option<Repair> {
        [Repair::None, Repair::Segment, Repair::Full].into_iter().find(|one| *one as u8 == value)
    }
}

impl Flow {
    pub(super) const VACANT: Flow = Flow {
        length: 0,
        generation: Generation::new(0),
        repair: Repair::None,
        space: Space::NonTcp,
        id: ContextId(0),
        data: 0,
        sent: 0,
        period: 0,
        key: 0,
        number: 0,
        is_partial: false,
        owner: 0,
        older: NONE,
        newer: NONE,
        next: NONE,
        refreshed: 0,
        changed: 0,
        chain: Chain::NONE,
        header: [0; MAX_HEADER],
    };

    /// The headers.
    #[inline]
    pub fn headers(&self) -> &[u8] {
        &self.header[..usize::from(self.length).min(MAX_HEADER)]
    }

    /// The headers, to be mended.
    #[inline]
    pub fn headers_mut(&mut self) -> &mut [u8] {
        &mut self.header[..usize::from(self.length).min(MAX_HEADER)]
    }

    /// Their form.
    #[inline]
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Takes over headers of another form, at most [`MAX_HEADER`] octets.
    #[inline]
    pub fn set_headers(&mut self, chain: &Chain, headers: &[u8]) {
        self.chain = *chain;
        let length = headers.len().min(MAX_HEADER);
        self.header[..length].copy_from_slice(&headers[..length]);
        self.length = length as u8;
    }

    pub(super) fn export(&self, offset: u64, out: &mut Vec<u8>) {
        out.extend([self.length, self.generation.value(), self.repair as u8]);
        for value in [self.id.0, self.data, self.sent, self.period, self.number] {
            out.extend(value.to_le_bytes());
        }
        out.push(self.is_partial.into());
        out.extend(self.key.to_le_bytes());
        for time in [self.refreshed, self.changed] {
            out.extend(time.wrapping_sub(offset).to_le_bytes());
        }
        out.extend(self.headers());
    }

    pub(super) fn import(space: Space, fields: &mut Fields<'_>) -> Result<Flow, ContextError> {
        let [length, generation, repair] = fields.array()?;
        let mut flow = Flow {
            generation: Generation::new(generation),
            repair: Repair::of(repair).ok_or(ContextError::Damaged)?,
            space,
            id: ContextId(fields.u16()?),
            data: fields.u16()?,
            sent: fields.u16()?,
            period: fields.u16()?,
            number: fields.u16()?,
            is_partial: fields.u8()? != 0,
            key: fields.u32()?,
            refreshed: fields.u64()?,
            changed: fields.u64()?,
            ..Flow::VACANT
        };
        for place in flow.header.get_mut(..length.into()).ok_or(ContextError::Damaged)? {
            *place = fields.u8()?;
        }
        flow.length = length;
        let chain = Chain::within(flow.headers(), length.into()).ok_or(ContextError::Damaged)?;
        flow.chain = chain;
        match chain.length() == usize::from(flow.length) && Space::of(&chain) == space {
            true => Ok(flow),
            false => Err(ContextError::Damaged),
        }
    }
}
