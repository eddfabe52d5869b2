//! COMPRESSED_TCP and COMPRESSED_TCP_NODELTA (RFC 2507 §6).
//!
//! ```text
//! COMPRESSED_TCP          | CID |R|O|I|P|S|A|W|U| TCP checksum | packet number
//!                         | RANDOM fields | R octet | urgent pointer | window delta
//!                         | acknowledgment delta | sequence delta
//!                         | identification delta | options
//! COMPRESSED_TCP_NODELTA  | CID | RANDOM fields, identification
//!                         | TCP header behind the ports
//! ```
//!
//! Each field behind the RANDOM ones is there if its bit is set, the packet number
//! if both ends agreed on it (§11.2). The R octet has the six reserved bits of RFC 793, of which two are ECN's by now
//! (RFC 3168), and the ECN bits of IP; it does not change the context, so that
//! what TCP does not sum cannot go wrong by a loss. Two combinations of S, A, W and U mean
//! what nearly all segments do instead (RFC 1144 §3.2.2): the sequence number,
//! or both numbers, advance by the data of the segment before. Of the other flags
//! ACK is inferred to be set, RST, SYN and FIN to be clear (§7.12.1).

use super::delta::{Reader, write as write_delta};
use super::{Chain, Compressed, ContextId, push};
use crate::octets::{put_u16, put_u32, u16_at, u32_at};
use crate::tcp::MIN_HEADER_LENGTH;
use crate::{Error, checksum};

mod bit {
    pub const RESERVED: u8 = 0x80;
    pub const OPTIONS: u8 = 0x40;
    pub const IDENTIFICATION: u8 = 0x20;
    pub const PUSH: u8 = 0x10;
    pub const SEQUENCE: u8 = 0x08;
    pub const ACKNOWLEDGMENT: u8 = 0x04;
    pub const WINDOW: u8 = 0x02;
    pub const URGENT: u8 = 0x01;

    pub const CHANGES: u8 = SEQUENCE | ACKNOWLEDGMENT | WINDOW | URGENT;
    /// Both numbers advance by the data of the segment before.
    pub const INTERACTIVE: u8 = SEQUENCE | WINDOW | URGENT;
    /// The sequence number does.
    pub const DATA: u8 = CHANGES;
}

/// Flags of TCP that are inferred, and those that a compressed header has.
mod flag {
    pub const INFERRED: u8 = 0x17;
    pub const ACK: u8 = 0x10;
    pub const PUSH: u8 = 0x08;
    pub const URGENT: u8 = 0x20;
    /// CWR and ECE, in the R octet.
    pub const RESERVED: u8 = 0xc0;

    /// Of the octets with length and flags: what the next compressed header takes
    /// from the context.
    pub const VISIBLE: u16 = !(PUSH | URGENT | INFERRED) as u16 | 0xff00;
    /// What is in the R octet.
    pub const ALL_RESERVED: u16 = 0x0f00 | RESERVED as u16;
}

/// What a compressed header says that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta<'a> {
    /// TCP checksum.
    checksum: u16,
    /// Packet number, where both ends agreed on it.
    number: Option<u16>,
    push: bool,
    /// Reserved bits and ECN, if other than before.
    reserved: Option<u8>,
    urgent: Option<u16>,
    window: u16,
    acknowledgment: u32,
    sequence: u32,
    /// Of IPv4; none where the innermost IP header is IPv6.
    identification: Option<u16>,
    /// Options, of the same length, if other than before.
    options: Option<&'a [u8]>,
}

/// The TCP header of a chain.
fn segment<'a>(chain: &Chain, header: &'a [u8]) -> Option<&'a [u8]> {
    header
        .get(chain.transport_offset()..chain.length())
        .filter(|tcp| tcp.len() >= MIN_HEADER_LENGTH)
}

/// What the R octet says of headers with TCP: the reserved bits of TCP and the
/// ECN bits of IP. A compressed header that has it does not change it in the
/// context (RFC 2507 §6 a).
#[inline]
pub fn reserved(chain: &Chain, header: &[u8]) -> u8 {
    segment(chain, header).map_or(0, |tcp| reserved_of(chain, header, tcp))
}

#[inline]
fn reserved_of(chain: &Chain, header: &[u8], tcp: &[u8]) -> u8 {
    let ecn = |(at, shift): (usize, u32)| header.get(at).map_or(0, |octet| octet >> shift & 3);
    let ecn = chain.ecn().map_or(0, ecn);
    tcp[12] << 4 | (tcp[13] & flag::RESERVED) >> 4 | ecn
}

/// Puts reserved bits and ECN into the headers, if TCP is there.
#[inline]
pub fn put_reserved(chain: &Chain, header: &mut [u8], octet: u8) {
    if let Some((at, shift)) = chain.ecn()
        && let Some(place) = header.get_mut(at)
    {
        *place = *place & !(3 << shift) | (octet & 3) << shift;
    }
    if let Some(tcp) = header.get_mut(chain.transport_offset()..)
        && let Some(tcp) = tcp.first_chunk_mut::<MIN_HEADER_LENGTH>()
    {
        tcp[12] = tcp[12] & 0xf0 | octet >> 4;
        tcp[13] = tcp[13] & !flag::RESERVED | octet << 4 & flag::RESERVED;
    }
}

/// Whether the loss of `new` behind `old`, both of the form of `chain`, could
/// go unnoticed: what it changes in the context leaves the TCP checksum of the
/// segments behind it as it was. Such are an identification alone, and an
/// acknowledgment that the window shrinks by. `whole` is how `new` is sent: by
/// its differences, or with all of TCP, which changes reserved bits as well.
pub fn loss_is_hidden(chain: &Chain, old: &[u8], new: &[u8], whole: bool) -> bool {
    let (Some(before), Some(after)) = (segment(chain, old), segment(chain, new)) else {
        return false;
    };
    let same = |at: usize, length: usize| old.get(at..at + length) == new.get(at..at + length);
    let same_identification = chain.identification().is_none_or(|at| same(at, 2));
    let kept = before[4..12] == after[4..12]
        && before[14..16] == after[14..16]
        && before[18..] == after[18..]
        && same_identification;
    let acknowledgment =
        |tcp: &[u8]| checksum::add(checksum::sum(&tcp[8..12]), checksum::sum(&tcp[14..16]));
    let cancelled =
        before[14..16] != after[14..16] && congruent(acknowledgment(before), acknowledgment(after));
    let mask = if whole { flag::VISIBLE } else { flag::VISIBLE & !flag::ALL_RESERVED };
    cancelled || !kept && congruent(visible_sum(before, mask), visible_sum(after, mask))
}

/// Both zeros of ones-complement are the same.
fn congruent(one: u16, other: u16) -> bool {
    one == other || one ^ other == 0xffff && (one == 0 || other == 0)
}

/// Sum of what the TCP checksum covers of the header, but for the ports; of
/// the octets with length and flags only what `mask` has.
fn visible_sum(tcp: &[u8], mask: u16) -> u16 {
    let flags = u16_at(tcp, 12..14) & mask;
    let numbers = checksum::add(checksum::sum(&tcp[4..12]), checksum::sum(&tcp[14..16]));
    checksum::add(checksum::add(numbers, flags), checksum::sum(&tcp[18..]))
}

impl<'a> Delta<'a> {
    /// What changed from `old` to `new`, headers of which `chain` is the form
    /// and between which no NOCHANGE octet differs. None when that cannot be
    /// said by differences: flags other than ACK, PSH and URG, no ACK, numbers that
    /// went back or far ahead (RFC 2507 §7.12.1).
    pub fn between(chain: &Chain, old: &[u8], new: &'a [u8]) -> Option<Delta<'a>> {
        let (before, tcp) = (segment(chain, old)?, segment(chain, new)?);
        let flags = tcp[13];
        if old.len() != chain.length()
            || before[12] >> 4 != tcp[12] >> 4
            || flags & flag::INFERRED != flag::ACK
        {
            return None;
        }
        let urgent = flags & flag::URGENT != 0;
        if !urgent && before[18..20] != tcp[18..20] {
            return None;
        }
        let ahead = |field: std::ops::Range<usize>| {
            let delta = u32_at(tcp, field.clone()).wrapping_sub(u32_at(before, field));
            (delta <= 0xffff).then_some(delta)
        };
        let octet = reserved_of(chain, new, tcp);
        let identification = |at: usize| {
            let (old, new) = (old.get(at..at + 2)?, new.get(at..at + 2)?);
            Some(u16_at(new, 0..2).wrapping_sub(u16_at(old, 0..2)))
        };
        Some(Delta {
            checksum: u16_at(tcp, 16..18),
            number: None,
            push: flags & flag::PUSH != 0,
            reserved: (octet != reserved_of(chain, old, before)).then_some(octet),
            urgent: urgent.then(|| u16_at(tcp, 18..20)),
            window: u16_at(tcp, 14..16).wrapping_sub(u16_at(before, 14..16)),
            acknowledgment: ahead(8..12)?,
            sequence: ahead(4..8)?,
            identification: chain.identification().and_then(identification),
            options: (before[20..] != tcp[20..]).then_some(&tcp[20..]),
        })
    }

    /// With the number of the packet among those of its flow, 1 to 65,535
    /// (RFC 2507 §11.2).
    #[must_use]
    pub fn numbered(self, number: Option<u16>) -> Delta<'a> {
        Delta { number, ..self }
    }

    /// The packet number, if the compressed header has one.
    pub fn number(&self) -> Option<u16> {
        self.number
    }

    /// Writes a compressed header for `header`. `data` is what the segment
    /// before carried, in octets. False, and nothing of use is written, when
    /// the changes look like one of the two combinations that mean others.
    pub fn write(
        &self,
        chain: &Chain,
        header: &[u8],
        id: ContextId,
        data: u16,
        out: &mut Compressed,
    ) -> bool {
        let set = |is: bool, bit: u8| if is { bit } else { 0 };
        let mut changes = set(self.sequence != 0, bit::SEQUENCE)
            | set(self.acknowledgment != 0, bit::ACKNOWLEDGMENT)
            | set(self.window != 0, bit::WINDOW)
            | set(self.urgent.is_some(), bit::URGENT);
        if changes == bit::INTERACTIVE || changes == bit::DATA {
            return false;
        }
        let advanced = data != 0 && self.sequence == data.into();
        if changes == bit::SEQUENCE && advanced {
            changes = bit::DATA;
        } else if changes == bit::SEQUENCE | bit::ACKNOWLEDGMENT
            && advanced
            && self.acknowledgment == self.sequence
        {
            changes = bit::INTERACTIVE;
        }
        let flags = changes
            | set(self.reserved.is_some(), bit::RESERVED)
            | set(self.options.is_some(), bit::OPTIONS)
            | set(self.identification.is_some_and(|delta| delta != 1), bit::IDENTIFICATION)
            | set(self.push, bit::PUSH);
        let [high, low] = self.checksum.to_be_bytes();
        push(out, &[id.0 as u8, flags, high, low]);
        if let Some(number) = self.number {
            push(out, &number.to_be_bytes());
        }
        chain.write_random(header, false, out);
        self.write_fields(flags, out);
        true
    }

    fn write_fields(&self, flags: u8, out: &mut Compressed) {
        if let Some(octet) = self.reserved {
            push(out, &[octet]);
        }
        if !is_special(flags) {
            if let Some(urgent) = self.urgent {
                write_delta(out, urgent);
            }
            if flags & bit::WINDOW != 0 {
                write_delta(out, self.window);
            }
            if flags & bit::ACKNOWLEDGMENT != 0 {
                write_delta(out, self.acknowledgment as u16);
            }
            if flags & bit::SEQUENCE != 0 {
                write_delta(out, self.sequence as u16);
            }
        }
        if flags & bit::IDENTIFICATION != 0 {
            write_delta(out, self.identification.unwrap_or_default());
        }
        push(out, self.options.unwrap_or_default());
    }

    /// Reads what follows the context identifier: RANDOM fields go into
    /// `header`, the headers of the context, the rest is what changed. `data`
    /// is what the segment before carried, in octets; `numbered`, whether there is
    /// a packet number. Gives back the form of the headers and the payload as well.
    ///
    /// # Errors
    /// [`Error::BadCompressedHeader`] when a field is cut off, or one is there that
    /// these headers do not have.
    pub fn read(
        chain: &Chain,
        header: &mut [u8; super::MAX_HEADER],
        data: u16,
        numbered: bool,
        bytes: &'a [u8],
    ) -> Result<(Delta<'a>, Chain, &'a [u8]), Error> {
        let mut reader = Reader(bytes);
        let flags = reader.u8()?;
        let has = |bit: u8| flags & bit != 0;
        let mut delta = Delta { checksum: reader.u16()?, push: has(bit::PUSH), ..Delta::default() };
        if numbered {
            delta.number = Some(reader.u16()?);
        }
        let chain = chain.read_random(header, false, &mut reader)?;
        if has(bit::RESERVED) {
            delta.reserved = Some(reader.u8()?);
        }
        match flags & bit::CHANGES {
            bit::DATA => delta.sequence = data.into(),
            bit::INTERACTIVE => (delta.sequence, delta.acknowledgment) = (data.into(), data.into()),
            _ => delta.read_changes(flags, &mut reader)?,
        }
        delta.identification = match (has(bit::IDENTIFICATION), chain.identification()) {
            (true, Some(_)) => Some(reader.delta()?),
            // Zero unless IPv4 is immediately in front of TCP (RFC 2507 §6 a).
            (true, None) => return Err(Error::BadCompressedHeader),
            (false, _) => Some(1),
        };
        if has(bit::OPTIONS) {
            let options =
                chain.length().saturating_sub(chain.transport_offset() + MIN_HEADER_LENGTH);
            delta.options = Some(reader.take(options)?);
        }
        Ok((delta, chain, reader.0))
    }

    fn read_changes(&mut self, flags: u8, reader: &mut Reader<'_>) -> Result<(), Error> {
        if flags & bit::URGENT != 0 {
            self.urgent = Some(reader.delta()?);
        }
        if flags & bit::WINDOW != 0 {
            self.window = reader.delta()?;
        }
        if flags & bit::ACKNOWLEDGMENT != 0 {
            self.acknowledgment = reader.delta()?.into();
        }
        if flags & bit::SEQUENCE != 0 {
            self.sequence = reader.delta()?.into();
        }
        Ok(())
    }

    /// Applies what changed to headers of the form of `chain`, which has TCP.
    /// Applied once more, it repairs a context that missed one segment like
    /// this one ("twice", RFC 2507 §10.1).
    pub fn apply(&self, chain: &Chain, header: &mut [u8]) {
        if let Some(delta) = self.identification
            && let Some(at) = chain.identification()
            && let Some(place) = header.get_mut(at..at + 2)
        {
            let old = u16_at(place, 0..2);
            put_u16(place, 0..2, old.wrapping_add(delta));
        }
        if let Some(octet) = self.reserved {
            put_reserved(chain, header, octet);
        }
        let Some(tcp) = header.get_mut(chain.transport_offset()..chain.length()) else { return };
        if tcp.len() < MIN_HEADER_LENGTH {
            return;
        }
        let sequence = u32_at(tcp, 4..8).wrapping_add(self.sequence);
        let acknowledgment = u32_at(tcp, 8..12).wrapping_add(self.acknowledgment);
        let window = u16_at(tcp, 14..16).wrapping_add(self.window);
        put_u32(tcp, 4..8, sequence);
        put_u32(tcp, 8..12, acknowledgment);
        put_u16(tcp, 14..16, window);
        put_u16(tcp, 16..18, self.checksum);
        tcp[13] &= !(flag::INFERRED | flag::PUSH | flag::URGENT);
        tcp[13] |= flag::ACK;
        if self.push {
            tcp[13] |= flag::PUSH;
        }
        if let Some(urgent) = self.urgent {
            tcp[13] |= flag::URGENT;
            put_u16(tcp, 18..20, urgent);
        }
        if let Some(options) = self.options
            && let Some(place) = tcp.get_mut(MIN_HEADER_LENGTH..)
            && place.len() == options.len()
        {
            place.copy_from_slice(options);
        }
    }
}

fn is_special(flags: u8) -> bool {
    matches!(flags & bit::CHANGES, bit::INTERACTIVE | bit::DATA)
}

/// Writes a COMPRESSED_TCP_NODELTA header for `header`.
pub fn write_nodelta(chain: &Chain, header: &[u8], id: ContextId, out: &mut Compressed) {
    push(out, &[id.0 as u8]);
    chain.write_random(header, true, out);
    push(out, segment(chain, header).map_or(&[], |tcp| &tcp[4..]));
}

/// Reads what follows the context identifier of a COMPRESSED_TCP_NODELTA
/// header into `header`, whose IP headers and ports are those of the context
/// and of which `chain` is the form. Gives back the form of the new headers,
/// whose options may be others, and the payload.
///
/// # Errors
/// [`Error::BadCompressedHeader`] when it is cut off or too long.
pub fn read_nodelta<'a>(
    chain: &Chain,
    header: &mut [u8; super::MAX_HEADER],
    bytes: &'a [u8],
) -> Result<(Chain, &'a [u8]), Error> {
    let mut reader = Reader(bytes);
    let chain = chain.read_random(header, true, &mut reader)?;
    let offset = reader.0.get(8).ok_or(Error::BadCompressedHeader)?;
    let length = usize::from(offset >> 4) * 4;
    let (start, end) = (chain.transport_offset(), chain.transport_offset() + length);
    if length < MIN_HEADER_LENGTH {
        return Err(Error::BadCompressedHeader);
    }
    let place = header.get_mut(start + 4..end).ok_or(Error::BadCompressedHeader)?;
    place.copy_from_slice(reader.take(length - 4)?);
    let new = Chain::within(&header[..end], end).filter(|new| new.length() == end);
    Ok((new.ok_or(Error::BadCompressedHeader)?, reader.0))
}
