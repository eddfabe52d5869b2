//! Chains of headers, and what of them is compared, sent and inferred
//! (RFC 2507 §7).

mod compare;
mod extension;
mod infer;
mod random;

use crate::octets::u16_at;
use crate::{Protocol, ipv4, ipv6, tcp, udp};

use super::MAX_HEADER;
use extension::Extension;

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
    /// The last IP header, or its extension headers: of a fragment, for example.
    Other,
}

/// One IP header of a chain: where it begins, a multiple of four, and in the
/// lowest bits of which kind it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layer(u8);

impl Layer {
    /// It is one of IPv6.
    const V6: u8 = 1;
    /// It is one of IPv4 with options or of a fragment, which is sent whole
    /// (RFC 2507 §7.13 b).
    const WHOLE: u8 = 2;
    const KIND: u8 = Self::V6 | Self::WHOLE;

    #[inline]
    fn offset(self) -> usize {
        (self.0 & !Self::KIND).into()
    }

    #[inline]
    fn is_v6(self) -> bool {
        self.0 & Self::V6 != 0
    }

    #[inline]
    fn is_whole(self) -> bool {
        self.0 & Self::WHOLE != 0
    }

    /// Where the length field is.
    #[inline]
    fn length_field(self) -> usize {
        self.offset() + if self.is_v6() { 4 } else { 2 }
    }

    /// The protocol of what follows, and where that begins.
    fn next(self, header: &[u8]) -> Option<(Protocol, usize)> {
        let rest = header.get(self.offset()..)?;
        let (protocol, length) = match self.is_v6() {
            true => (*rest.get(6)?, ipv6::HEADER_LENGTH),
            false => (*rest.get(9)?, header_length(rest)),
        };
        Some((Protocol(protocol), self.offset() + length))
    }
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
    /// Of the routing header behind the last IP header, a multiple of four; 0
    /// without one. The lowest bit is [`SPECIAL`](Self::SPECIAL).
    routing: u8,
}

impl Chain {
    /// A header is sent as it is, or octets of an extension header are. What is
    /// sent is then found by walking the headers, out of the way of most packets.
    const SPECIAL: u8 = 1;

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
    /// be compressed: jumbograms, options that do not fit their header, minimal
    /// encapsulation (RFC 2004), more than three IP headers, headers that are cut
    /// off or take more than [`MAX_HEADER`] octets.
    #[inline]
    pub fn walk(bytes: &[u8]) -> Option<Chain> {
        Chain::follow(bytes, MAX_HEADER, false)
    }

    /// As [`walk`](Self::walk), but the chain ends in front of a header that
    /// would reach beyond `most` octets, as RFC 2507 §5.2 has it for contexts of
    /// bounded size.
    pub fn within(bytes: &[u8], most: usize) -> Option<Chain> {
        Chain::follow(bytes, most.min(MAX_HEADER), true)
    }

    #[inline]
    fn follow(bytes: &[u8], most: usize, ends: bool) -> Option<Chain> {
        let mut chain = Chain::NONE;
        let mut next = match bytes.first()? >> 4 {
            4 => Protocol::IPV4,
            6 => Protocol::IPV6,
            _ => return None,
        };
        let mut at = 0;
        while !ends || at < most {
            let before = chain;
            let rest = bytes.get(at..)?;
            let (length, following) = match next {
                Protocol::IPV4 => chain.ipv4(rest, at)?,
                Protocol::IPV6 => chain.ipv6(rest, at)?,
                Protocol::TCP => (tcp_length(rest)?, None),
                Protocol::UDP => (udp::HEADER_LENGTH, None),
                _ => match chain.extension(next, rest, at)? {
                    (0, _) => break,
                    extension => extension,
                },
            };
            if at + length > most {
                if !ends || at == 0 {
                    return None;
                }
                chain = before;
                break;
            }
            if rest.len() < length {
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
        let length = header_length(header);
        let fragment = u16_at(header, 6..8) & FRAGMENT != 0;
        if header[0] >> 4 != 4 || length < ipv4::MIN_HEADER_LENGTH {
            return None;
        }
        let whole = fragment || length > ipv4::MIN_HEADER_LENGTH;
        self.push(at as u8 | if whole { Layer::WHOLE } else { 0 })?;
        // A fragment ends the chain (RFC 2507 §7 b).
        Some((length, (!fragment).then_some(Protocol(header[9]))))
    }

    #[inline]
    fn ipv6(&mut self, rest: &[u8], at: usize) -> Option<(usize, Option<Protocol>)> {
        let header: &[u8; ipv6::HEADER_LENGTH] = rest.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        self.push(at as u8 | Layer::V6)?;
        Some((ipv6::HEADER_LENGTH, Some(Protocol(header[6]))))
    }

    #[inline]
    fn push(&mut self, layer: u8) -> Option<()> {
        *self.layers.get_mut(usize::from(self.count))? = Layer(layer);
        self.count += 1;
        self.routing = self.routing & Self::SPECIAL | u8::from(Layer(layer).is_whole());
        Some(())
    }

    #[inline]
    fn layers(&self) -> &[Layer] {
        self.layers.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// An extension header; length 0 where there is none.
    #[cold]
    fn extension(
        &mut self,
        next: Protocol,
        rest: &[u8],
        at: usize,
    ) -> Option<(usize, Option<Protocol>)> {
        let Some(found) = Extension::read(next, rest, self.layers().last()?.is_v6())? else {
            return Some((0, None));
        };
        if next == Protocol::ROUTING {
            self.routing = at as u8 | self.routing & Self::SPECIAL;
        }
        if found.is_sent() {
            self.routing |= Self::SPECIAL;
        }
        Some((found.length(), found.following()))
    }

    #[inline]
    fn end(&mut self, protocol: Protocol, at: usize) {
        self.transport = match protocol {
            Protocol::TCP => Transport::Tcp,
            Protocol::UDP => Transport::Udp,
            _ => return,
        };
        self.transport_offset = at as u8;
    }

    #[inline]
    fn is_special(&self) -> bool {
        self.routing & Self::SPECIAL != 0
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

    /// Where the IP headers and what belongs to them ends.
    #[inline]
    fn network_length(&self) -> usize {
        match self.transport {
            Transport::Other => self.length(),
            Transport::Tcp | Transport::Udp => self.transport_offset(),
        }
    }

    /// The length fields, outermost first (RFC 2507 §5.3.2).
    pub(super) fn length_fields(&self) -> impl Iterator<Item = usize> {
        let udp = (self.transport == Transport::Udp).then(|| self.transport_offset() + 4);
        self.layers().iter().map(|layer| layer.length_field()).chain(udp)
    }

    /// The last IP header, if it is one of IPv4 that TCP follows immediately, so
    /// that both are compressed as a unit (RFC 2507 §7.13 a).
    #[inline]
    fn unit(&self) -> Option<Layer> {
        let last = *self.layers().last()?;
        let follows = last.offset() + ipv4::MIN_HEADER_LENGTH == self.transport_offset();
        let is_unit = last.0 & Layer::KIND == 0 && self.transport == Transport::Tcp && follows;
        is_unit.then_some(last)
    }

    /// Where the identification of the last IPv4 header stands, if it is a DELTA
    /// field.
    #[inline]
    pub(super) fn identification(&self) -> Option<usize> {
        self.unit().map(|layer| layer.offset() + 4)
    }

    /// The octet with the two ECN bits of the IP header in front of TCP, and their
    /// place in it; none where no compressed header says them apart (RFC 2507 §6 a
    /// and §7.1).
    #[inline]
    pub(super) fn ecn(&self) -> Option<(usize, u32)> {
        match self.layers().last() {
            Some(layer) if layer.is_v6() => Some((layer.offset() + 1, 4)),
            _ => self.unit().map(|layer| (layer.offset() + 1, 0)),
        }
    }

    /// A number that is the same for all packets of a flow: of addresses,
    /// protocols, flow labels, ports and SPIs (the DEF fields of RFC 2507 §7).
    #[inline]
    pub fn flow(&self, header: &[u8]) -> u64 {
        let mut hash = Hash(u64::from(self.length == 0));
        let mut plain = 0;
        for layer in self.layers() {
            let rest = header.get(layer.offset()..).unwrap_or_default();
            let (addresses, protocol) = match layer.is_v6() {
                true => (rest.get(8..40), rest.get(6)),
                false => (rest.get(12..20), rest.get(9)),
            };
            let (words, _) = addresses.unwrap_or_default().as_chunks::<8>();
            words.iter().for_each(|word| hash.mix(u64::from_le_bytes(*word)));
            // Fragments are known as such, whatever they are of (RFC 2507 §7.13).
            let fragment = layer.is_whole()
                && rest.get(6..8).is_some_and(|at| u16_at(at, 0..2) & FRAGMENT != 0);
            let kind = u64::from(layer.0 & Layer::KIND) << 8 | u64::from(fragment) << 16;
            let protocol = protocol.copied().filter(|_| !fragment);
            hash.mix(kind | u64::from(protocol.unwrap_or_default()));
            if layer.is_v6() {
                let label = rest.first_chunk().map(|word| u32::from_be_bytes(*word) & 0xf_ffff);
                hash.mix(label.unwrap_or_default().into());
            }
            plain += if layer.is_v6() { ipv6::HEADER_LENGTH } else { ipv4::MIN_HEADER_LENGTH };
        }
        if plain != self.network_length() {
            self.each_extension(header, |_, extension| extension.defining(|value| hash.mix(value)));
        }
        if self.transport != Transport::Other
            && let Some(ports) = header.get(self.transport_offset()..)
            && let Some(ports) = ports.first_chunk()
        {
            hash.mix(u32::from_le_bytes(*ports).into());
        }
        hash.0
    }

    /// Visits the extension headers of headers of this form, and where they are.
    #[cold]
    fn each_extension<'a>(&self, header: &'a [u8], mut visit: impl FnMut(usize, Extension<'a>)) {
        for (place, layer) in self.layers().iter().enumerate() {
            let end = self.layers().get(place + 1);
            let end = end.map_or(self.network_length(), |next| next.offset());
            let Some((mut next, mut at)) = layer.next(header) else { return };
            while at < end
                && let Some(rest) = header.get(at..)
                && let Some(Some(found)) = Extension::read(next, rest, layer.is_v6())
            {
                visit(at, found);
                let Some(following) = found.following() else { break };
                (next, at) = (following, at + found.length());
            }
        }
    }
}

/// Addresses and the like, mixed into a number.
struct Hash(u64);

impl Hash {
    #[inline]
    fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

#[inline]
fn header_length(header: &[u8]) -> usize {
    header.first().map_or(0, |first| usize::from(first & 0xf) * 4)
}

#[inline]
fn tcp_length(rest: &[u8]) -> Option<usize> {
    let length = usize::from(rest.get(12)? >> 4) * 4;
    (length >= tcp::MIN_HEADER_LENGTH).then_some(length)
}
