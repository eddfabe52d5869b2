//! Chains of headers, and what of them is compared, sent and inferred
//! (RFC 2507 §7).

use std::net::{Ipv4Addr, Ipv6Addr};

use arrayvec::ArrayVec;

use super::delta::Reader;
use super::{Compressed, MAX_HEADER, push};
use crate::checksum::{PseudoHeader, add, sum, sum20};
use crate::octets::{array, put_u16, u16_at};
use crate::{Error, Protocol, ipv4, ipv6, tcp, udp};

/// IP headers in a chain at most.
const MAX_LAYERS: usize = 3;
/// More fragments, or a fragment offset (RFC 791 §3.1).
const FRAGMENT: u16 = 0x3fff;

/// What a chain ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A TCP header with its options.
    Tcp,
    /// A UDP header.
    Udp,
    /// The last IP header, or its extension headers.
    Other,
}

/// One IP header of a chain: where it begins, a multiple of four, and in the
/// lowest bit whether it is one of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layer(u8);

impl Layer {
    const V6: u8 = 1;

    #[inline]
    fn new(offset: usize, v6: bool) -> Layer {
        Layer(offset as u8 | if v6 { Self::V6 } else { 0 })
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0 & !Self::V6).into()
    }

    #[inline]
    fn is_v6(self) -> bool {
        self.0 & Self::V6 != 0
    }
}

/// Sets of octets, the first in the lowest bit: those of a header that are sent or
/// inferred.
mod volatile {
    /// Length, identification, checksum.
    pub const IPV4: u64 = 0b1100_0011_1100;
    /// Length.
    pub const IPV6: u64 = 0b11_0000;
    /// Length, checksum.
    pub const UDP: u64 = 0b1111_0000;
}

/// Where the headers of a packet are that compression is about: a description,
/// to be used with the octets it was made of, or others of the same form.
/// Octets that are too short for it are never the same as others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    layers: [Layer; MAX_LAYERS],
    count: u8,
    transport: Transport,
    transport_offset: u8,
    length: u8,
    /// Of the routing header behind the last IP header; 0 without one.
    routing: u8,
}

impl Chain {
    /// No headers at all.
    pub const NONE: Chain = Chain {
        layers: [Layer(0); MAX_LAYERS],
        count: 0,
        transport: Transport::Other,
        transport_offset: 0,
        length: 0,
        routing: 0,
    };

    /// Follows the headers at the front of an IP packet. Length fields and
    /// checksums are not looked at. None when the headers are not ones that can
    /// be compressed: fragments, more than three IP headers, headers that are
    /// cut off or take more than [`MAX_HEADER`] octets.
    #[inline]
    pub fn walk(bytes: &[u8]) -> Option<Chain> {
        let mut chain = Chain::NONE;
        let mut next = match bytes.first()? >> 4 {
            4 => Protocol::IPV4,
            6 => Protocol::IPV6,
            _ => return None,
        };
        let mut at = 0;
        loop {
            let rest = bytes.get(at..)?;
            let (length, following) = match next {
                Protocol::IPV4 => chain.ipv4(rest, at)?,
                Protocol::IPV6 => chain.ipv6(rest, at)?,
                Protocol::TCP => (tcp_length(rest)?, None),
                Protocol::UDP => (udp::HEADER_LENGTH, None),
                Protocol::FRAGMENT => return None,
                _ => match chain.extension(next, rest, at)? {
                    (0, _) => break,
                    extension => extension,
                },
            };
            if rest.len() < length || at + length > MAX_HEADER {
                return None;
            }
            let Some(following) = following else {
                chain.end(next, at);
                at += length;
                break;
            };
            (next, at) = (following, at + length);
        }
        chain.length = at as u8;
        Some(chain)
    }

    #[inline]
    fn ipv4(&mut self, rest: &[u8], at: usize) -> Option<(usize, Option<Protocol>)> {
        let header: &[u8; ipv4::MIN_HEADER_LENGTH] = rest.first_chunk()?;
        let length = usize::from(header[0] & 0xf) * 4;
        let fragment = u16_at(header, 6..8) & FRAGMENT != 0;
        if header[0] >> 4 != 4 || length < ipv4::MIN_HEADER_LENGTH || fragment {
            return None;
        }
        self.push(Layer::new(at, false))?;
        Some((length, Some(Protocol(header[9]))))
    }

    #[inline]
    fn ipv6(&mut self, rest: &[u8], at: usize) -> Option<(usize, Option<Protocol>)> {
        let header: &[u8; ipv6::HEADER_LENGTH] = rest.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        self.push(Layer::new(at, true))?;
        Some((ipv6::HEADER_LENGTH, Some(Protocol(header[6]))))
    }

    #[inline]
    fn push(&mut self, layer: Layer) -> Option<()> {
        *self.layers.get_mut(usize::from(self.count))? = layer;
        self.count += 1;
        self.routing = 0;
        Some(())
    }

    #[inline]
    fn layers(&self) -> &[Layer] {
        self.layers.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// An extension header of IPv6; length 0 where there is none.
    #[cold]
    fn extension(
        &mut self,
        next: Protocol,
        rest: &[u8],
        at: usize,
    ) -> Option<(usize, Option<Protocol>)> {
        let options = [Protocol::HOP_BY_HOP, Protocol::DESTINATION_OPTIONS, Protocol::ROUTING];
        if !self.layers().last()?.is_v6() || !options.contains(&next) {
            return Some((0, None));
        }
        let &[following, words] = rest.first_chunk()?;
        if next == Protocol::ROUTING {
            self.routing = at as u8;
        }
        Some(((usize::from(words) + 1) * 8, Some(Protocol(following))))
    }

    #[inline]
    fn end(&mut self, protocol: Protocol, at: usize) {
        self.transport_offset = at as u8;
        self.transport = match protocol {
            Protocol::TCP => Transport::Tcp,
            _ => Transport::Udp,
        };
    }

    /// Octets of all headers.
    #[inline]
    pub fn length(&self) -> usize {
        self.length.into()
    }

    /// What the chain ends with.
    #[inline]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Where the TCP or UDP header begins.
    #[inline]
    pub fn transport_offset(&self) -> usize {
        self.transport_offset.into()
    }

    /// The length fields, outermost first (RFC 2507 §5.3.2).
    pub(super) fn length_fields(&self) -> impl Iterator<Item = usize> {
        let of_layer = |layer: &Layer| layer.offset() + if layer.is_v6() { 4 } else { 2 };
        let udp = (self.transport == Transport::Udp).then(|| self.transport_offset() + 4);
        self.layers().iter().map(of_layer).chain(udp)
    }

    /// Where the identification of the last IPv4 header stands, if the IP
    /// header in front of TCP is one: the one that is a DELTA field.
    #[inline]
    pub(super) fn identification(&self) -> Option<usize> {
        let last = self
            .layers()
            .last()
            .filter(|last| !last.is_v6() && self.transport == Transport::Tcp)?;
        Some(last.offset() + 4)
    }

    /// The octet with the two ECN bits of the last IP header, and their place.
    #[inline]
    pub(super) fn ecn(&self) -> (usize, u32) {
        match self.layers().last() {
            Some(layer) if layer.is_v6() => (layer.offset() + 1, 4),
            Some(layer) => (layer.offset() + 1, 0),
            None => (0, 0),
        }
    }

    /// Octets that are compared: TCP up to its ports.
    #[inline]
    fn compared(&self) -> usize {
        match self.transport {
            Transport::Tcp => self.transport_offset() + 4,
            _ => self.length(),
        }
    }

    /// Whether no NOCHANGE octet differs between `old`, a chain of this or
    /// another form, and `new`; one of them is of this form. In front of TCP the
    /// ECN bits of the last IP header may differ, which a compressed header has
    /// room for.
    ///
    /// Without TCP the two are of one form then, since what tells the form is
    /// NOCHANGE.
    #[inline]
    pub fn unchanged(&self, old: &[u8], new: &[u8]) -> bool {
        let end = self.compared();
        let (Some(old), Some(new)) = (old.get(..end), new.get(..end)) else { return false };
        for (block, (one, other)) in old.chunks(64).zip(new.chunks(64)).enumerate() {
            let changed = differing(one, other);
            if changed != 0 && !self.may_differ(changed, block * 64, old, new) {
                return false;
            }
        }
        self.same_udp(old, new)
    }

    /// Whether a packet that begins with `new` has headers of this form, in which
    /// no NOCHANGE octet differs from `old`, headers of this form.
    #[inline]
    pub fn is_of(&self, old: &[u8], new: &[u8]) -> bool {
        let same_length = || {
            let at = self.transport_offset() + 12;
            let length = |header: &[u8]| header.get(at).map(|octet| octet >> 4);
            self.transport != Transport::Tcp || length(old) == length(new)
        };
        new.len() >= self.length() && self.unchanged(old, new) && same_length()
    }

    /// Whether the ECN bits of the last IP header are the same in two headers of
    /// this form.
    #[inline]
    pub fn same_ecn(&self, old: &[u8], new: &[u8]) -> bool {
        let (at, shift) = self.ecn();
        let ecn = |header: &[u8]| header.get(at).map(|octet| octet >> shift & 3);
        ecn(old) == ecn(new)
    }

    /// Whether octets may differ: a set of them, of the 64 from a place on.
    #[inline]
    fn may_differ(&self, changed: u64, from: usize, old: &[u8], new: &[u8]) -> bool {
        let fixed = changed & !self.volatile(from);
        if fixed == 0 {
            return true;
        }
        let (at, shift) = self.ecn();
        self.transport == Transport::Tcp
            && at.checked_sub(from).is_some_and(|place| place < 64 && fixed == 1 << place)
            && (old[at] ^ new[at]) & !(3 << shift) == 0
    }

    /// The octets that are sent or inferred, of the 64 from a place on.
    #[inline]
    fn volatile(&self, from: usize) -> u64 {
        let placed = |set: u64, at: usize| match at.checked_sub(from) {
            Some(ahead) => set.checked_shl(ahead as u32).unwrap_or(0),
            None => set.checked_shr((from - at) as u32).unwrap_or(0),
        };
        let udp = match self.transport {
            Transport::Udp => placed(volatile::UDP, self.transport_offset()),
            _ => 0,
        };
        self.layers().iter().fold(udp, |all, layer| {
            let set = if layer.is_v6() { volatile::IPV6 } else { volatile::IPV4 };
            all | placed(set, layer.offset())
        })
    }

    /// A flow has UDP checksums or has none (RFC 2507 §7.11).
    #[inline]
    fn same_udp(&self, old: &[u8], new: &[u8]) -> bool {
        let Some(at) = self.udp_checksum() else { return true };
        let zero = |header: &[u8]| header.get(at..at + 2) == Some(&[0, 0]);
        zero(old) == zero(new)
    }

    #[inline]
    fn udp_checksum(&self) -> Option<usize> {
        (self.transport == Transport::Udp).then(|| self.transport_offset() + 6)
    }

    /// A number that is the same for all packets of a flow: of addresses,
    /// protocols and ports (the DEF fields of RFC 2507 §7).
    #[inline]
    pub fn flow(&self, header: &[u8]) -> u64 {
        let mut hash = u64::from(self.length == 0);
        let mut mix = |value: u64| {
            hash = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        };
        for layer in self.layers() {
            let rest = header.get(layer.offset()..).unwrap_or_default();
            let (addresses, protocol) = match layer.is_v6() {
                true => (rest.get(8..40), rest.get(6)),
                false => (rest.get(12..20), rest.get(9)),
            };
            let (words, _) = addresses.unwrap_or_default().as_chunks::<8>();
            words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
            mix(protocol.copied().unwrap_or_default().into());
        }
        if self.transport != Transport::Other
            && let Some(ports) = header.get(self.transport_offset()..)
            && let Some(ports) = ports.first_chunk()
        {
            mix(u32::from_le_bytes(*ports).into());
        }
        hash
    }

    /// Whether lengths and IPv4 checksums of a packet of `total` octets are
    /// those that [`infer`](Self::infer) would write.
    #[inline]
    pub fn can_be_inferred(&self, header: &[u8], total: usize) -> bool {
        self.layers().iter().all(|layer| layer.agrees(header, total))
            && (self.transport != Transport::Udp
                || self.transport_offset() + usize::from(udp_length(header, self)) == total)
    }

    /// Writes the INFERRED fields of a packet of `total` octets.
    ///
    /// # Errors
    /// [`Error::PayloadTooLong`] above 65,535 octets.
    #[inline]
    pub fn infer(&self, header: &mut [u8], total: usize) -> Result<(), Error> {
        if total > usize::from(u16::MAX) || header.len() < self.length() || total < self.length() {
            return Err(Error::PayloadTooLong);
        }
        for layer in self.layers() {
            layer.infer(header, total);
        }
        if self.transport == Transport::Udp {
            let at = self.transport_offset();
            put_u16(header, at + 4..at + 6, (total - at) as u16);
        }
        Ok(())
    }

    /// Visits the places of the RANDOM fields, two octets each. With `all`, that
    /// of the identification as well which is otherwise a DELTA field.
    #[inline]
    fn each_random(
        &self,
        header: &[u8],
        all: bool,
        mut visit: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let has_checksum = |at: usize| header.get(at..at + 2).is_some_and(|sum| sum != [0, 0]);
        let checksum = self.udp_checksum().filter(|at| has_checksum(*at));
        let delta = if all { None } else { self.identification() };
        for layer in self.layers().iter().filter(|layer| !layer.is_v6()) {
            let at = layer.offset() + 4;
            if Some(at) != delta {
                visit(at)?;
            }
        }
        checksum.map_or(Ok(()), visit)
    }

    /// Appends the RANDOM fields.
    #[inline]
    pub(super) fn write_random(&self, header: &[u8], all: bool, out: &mut Compressed) {
        let written = self.each_random(header, all, |at| {
            let field = header.get(at..).and_then(|rest| rest.first_chunk::<2>());
            push(out, field.ok_or(Error::BadCompressedHeader)?);
            Ok(())
        });
        debug_assert!(written.is_ok(), "a header that is shorter than its chain");
    }

    /// Puts RANDOM fields in their places.
    #[inline]
    pub(super) fn read_random(
        &self,
        header: &mut [u8],
        all: bool,
        from: &mut Reader<'_>,
    ) -> Result<(), Error> {
        let mut places = ArrayVec::<usize, { MAX_LAYERS + 1 }>::new();
        self.each_random(header, all, |at| {
            places.try_push(at).map_err(|_| Error::BadCompressedHeader)
        })?;
        for at in places {
            let field = header.get_mut(at..at + 2).ok_or(Error::BadCompressedHeader)?;
            field.copy_from_slice(&from.array::<2>()?);
        }
        Ok(())
    }

    /// Whether two headers of this form have the same IPv4 checksums.
    pub fn same_checksums(&self, one: &[u8], other: &[u8]) -> bool {
        self.layers().iter().filter(|layer| !layer.is_v6()).all(|layer| {
            let at = layer.offset() + 10;
            one.get(at..at + 2) == other.get(at..at + 2)
        })
    }

    /// Whether the TCP checksum is right; false for headers without TCP, and
    /// behind a routing header of unknown type.
    pub fn tcp_checksum_is_right(&self, header: &[u8], payload: &[u8]) -> bool {
        let tcp = header.get(self.transport_offset()..self.length());
        let (Some(tcp), Transport::Tcp) = (tcp, self.transport) else { return false };
        let Some(pseudo_header) = self.pseudo_header(header) else { return false };
        let length = tcp.len() + payload.len();
        let total = add(pseudo_header.sum(Protocol::TCP, length), sum(tcp));
        add(total, sum(payload)) == 0xffff
    }

    fn pseudo_header(&self, headers: &[u8]) -> Option<PseudoHeader> {
        let layer = self.layers().last()?;
        let header = headers.get(layer.offset()..self.length())?;
        if layer.is_v6() {
            let source = Ipv6Addr::from(array::<16>(header, 8..24));
            let destination = self.final_destination(headers, array(header, 24..40))?;
            return Some(PseudoHeader::V6 { source, destination: destination.into() });
        }
        let source = Ipv4Addr::from(array::<4>(header, 12..16));
        let destination = Ipv4Addr::from(array::<4>(header, 16..20));
        Some(PseudoHeader::V4 { source, destination })
    }

    /// Where a packet goes in the end (RFC 8200 §8.1): the last address of a
    /// routing header of type 0 or 2, the first of type 4 (RFC 8754 §2).
    fn final_destination(&self, headers: &[u8], destination: [u8; 16]) -> Option<[u8; 16]> {
        if self.routing == 0 {
            return Some(destination);
        }
        let header = headers.get(self.routing.into()..self.length())?;
        let &[_, words, kind, left] = header.first_chunk()?;
        let header = header.get(..(usize::from(words) + 1) * 8)?;
        match (left, kind) {
            (0, _) => Some(destination),
            (_, 0 | 2) => header.get(8..)?.last_chunk().copied(),
            (_, 4) => header.get(8..)?.first_chunk().copied(),
            _ => None,
        }
    }
}

impl Layer {
    #[inline]
    fn agrees(self, header: &[u8], total: usize) -> bool {
        let at = self.offset();
        let Some(header) = header.get(at..) else { return false };
        if self.is_v6() {
            return header.len() >= ipv6::HEADER_LENGTH
                && usize::from(u16_at(header, 4..6)) + ipv6::HEADER_LENGTH + at == total;
        }
        let length = header_length(header);
        header.len() >= length
            && length >= ipv4::MIN_HEADER_LENGTH
            && usize::from(u16_at(header, 2..4)) + at == total
            // All ones is no checksum that is ever computed.
            && u16_at(header, 10..12) != 0xffff
            && sum_of(&header[..length]) == 0xffff
    }

    /// The header is there: the chain is of these octets.
    #[inline]
    fn infer(self, header: &mut [u8], total: usize) {
        let at = self.offset();
        let header = &mut header[at..];
        if self.is_v6() {
            put_u16(header, 4..6, (total - at - ipv6::HEADER_LENGTH) as u16);
            return;
        }
        let length = header_length(header).min(header.len());
        put_u16(header, 2..4, (total - at) as u16);
        put_u16(header, 10..12, 0);
        let checksum = !sum_of(&header[..length]);
        put_u16(header, 10..12, checksum);
    }
}

/// Which octets differ, of at most 64; their number is a multiple of four.
#[inline]
fn differing(one: &[u8], other: &[u8]) -> u64 {
    let (words, last) = one.as_chunks::<8>();
    let (other_words, other_last) = other.as_chunks::<8>();
    let (mut changed, mut place) = (0, 0);
    for (one, other) in words.iter().zip(other_words) {
        let word = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if word != 0 {
            changed |= occupied(word) << place;
        }
        place += 8;
    }
    if let (Some(one), Some(other)) = (last.first_chunk(), other_last.first_chunk()) {
        let word = u32::from_le_bytes(*one) ^ u32::from_le_bytes(*other);
        changed |= occupied(word.into()) << place;
    }
    changed
}

/// Which octets of a word are not zero: the first is the lowest bit.
#[inline]
fn occupied(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let high = (((word & LOW) + LOW) | word) & !LOW;
    (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[inline]
fn header_length(header: &[u8]) -> usize {
    header.first().map_or(0, |first| usize::from(first & 0xf) * 4)
}

#[inline]
fn sum_of(header: &[u8]) -> u16 {
    match header.try_into() {
        Ok(header) => sum20(header),
        Err(_) => sum(header),
    }
}

#[inline]
fn udp_length(header: &[u8], chain: &Chain) -> u16 {
    let at = chain.transport_offset() + 4;
    header.get(at..at + 2).map_or(0, |length| u16_at(length, 0..2))
}

#[inline]
fn tcp_length(rest: &[u8]) -> Option<usize> {
    let length = usize::from(rest.get(12)? >> 4) * 4;
    (length >= tcp::MIN_HEADER_LENGTH).then_some(length)
}
