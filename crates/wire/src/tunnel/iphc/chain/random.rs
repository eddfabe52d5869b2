//! What is sent as it is (RANDOM).

use std::ops::Range;

use arrayvec::ArrayVec;

use super::{Chain, MAX_HEADER, MAX_LAYERS, Transport, header_length};
use crate::tunnel::iphc::delta::Reader;
use crate::tunnel::iphc::{Compressed, push};
use crate::{Error, ipv4};

/// A set of octets of headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Octets([u64; MAX_HEADER.div_ceil(64)]);

impl Octets {
    pub fn add(&mut self, octets: Range<usize>) {
        for at in octets {
            if let Some(word) = self.0.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
        }
    }

    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }
}

impl Chain {
    /// Visits the places of the RANDOM fields, two octets each, of a chain that is
    /// not special. With `all`, that of the identification as well which is
    /// otherwise a DELTA field.
    #[inline]
    fn each_random(
        &self,
        header: &[u8],
        all: bool,
        mut visit: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let checksum = self.sent_checksum(header);
        let delta = if all { None } else { self.identification() };
        for layer in self.layers().iter().filter(|layer| !layer.is_v6()) {
            let at = layer.offset() + 4;
            if Some(at) != delta {
                visit(at)?;
            }
        }
        checksum.map_or(Ok(()), visit)
    }

    /// The checksum of UDP, unless it is zero (RFC 2507 §7.11).
    #[inline]
    fn sent_checksum(&self, header: &[u8]) -> Option<usize> {
        self.udp_checksum().filter(|at| header.get(*at..at + 2).is_some_and(|sum| sum != [0, 0]))
    }

    #[inline]
    pub(super) fn udp_checksum(&self) -> Option<usize> {
        (self.transport == Transport::Udp).then(|| self.transport_offset() + 6)
    }

    /// The RANDOM octets of headers of this form.
    #[cold]
    pub(super) fn sent(&self, header: &[u8], all: bool) -> Octets {
        let mut sent = Octets::default();
        for layer in self.layers().iter().filter(|layer| !layer.is_v6()) {
            let at = layer.offset();
            if layer.is_whole() {
                sent.add(at..at + header.get(at..).map_or(0, header_length));
            } else if all || self.identification() != Some(at + 4) {
                sent.add(at + 4..at + 6);
            }
        }
        self.each_extension(header, |at, extension| {
            extension.each_sent(|octets| sent.add(at + octets.start..at + octets.end));
        });
        if let Some(at) = self.sent_checksum(header) {
            sent.add(at..at + 2);
        }
        sent
    }

    /// Octets that the RANDOM fields of headers of this form take.
    pub fn sent_length(&self, header: &[u8]) -> usize {
        let sent = self.sent(header, true);
        sent.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether a compressed header other than TCP's, with so many octets that the
    /// link adds to it, is shorter than these headers: not where most of them is
    /// sent as it is.
    #[inline]
    pub fn is_shortened(&self, header: &[u8], added: usize) -> bool {
        !self.is_special() || self.sent_length(header) + 3 + added < self.length()
    }

    /// Appends the RANDOM fields.
    #[inline]
    pub(in crate::tunnel::iphc) fn write_random(
        &self,
        header: &[u8],
        all: bool,
        out: &mut Compressed,
    ) {
        if self.is_special() {
            let sent = self.sent(header, all);
            let octets = header.iter().enumerate().take(self.length());
            octets.filter(|(at, _)| sent.has(*at)).for_each(|(_, octet)| push(out, &[*octet]));
            return;
        }
        let written = self.each_random(header, all, |at| {
            let field = header.get(at..).and_then(|rest| rest.first_chunk::<2>());
            push(out, field.ok_or(Error::BadCompressedHeader)?);
            Ok(())
        });
        debug_assert!(written.is_ok(), "a header that is shorter than its chain");
    }

    /// Puts RANDOM fields in their places, and gives back the form of what came of
    /// it: where options are sent, there may be more of them, or fewer.
    #[inline]
    pub(in crate::tunnel::iphc) fn read_random(
        &self,
        header: &mut [u8; MAX_HEADER],
        all: bool,
        from: &mut Reader<'_>,
    ) -> Result<Chain, Error> {
        if self.is_special() {
            return self.read_special(header, all, from);
        }
        let mut places = ArrayVec::<usize, { MAX_LAYERS + 1 }>::new();
        self.each_random(header, all, |at| {
            places.try_push(at).map_err(|_| Error::BadCompressedHeader)
        })?;
        for at in places {
            let field = header.get_mut(at..at + 2).ok_or(Error::BadCompressedHeader)?;
            field.copy_from_slice(&from.array::<2>()?);
        }
        Ok(*self)
    }

    #[cold]
    fn read_special(
        &self,
        header: &mut [u8; MAX_HEADER],
        all: bool,
        from: &mut Reader<'_>,
    ) -> Result<Chain, Error> {
        let sent = self.sent(&header[..], all);
        let mut new = ArrayVec::<u8, MAX_HEADER>::new();
        let mut append = |octets: &[u8]| {
            new.try_extend_from_slice(octets).map_err(|_| Error::BadCompressedHeader)
        };
        let whole =
            |at: usize| self.layers().iter().any(|layer| layer.is_whole() && layer.offset() == at);
        let mut at = 0;
        while at < self.length().min(MAX_HEADER) {
            if whole(at) {
                let front = from.array::<{ ipv4::MIN_HEADER_LENGTH }>()?;
                let options = header_length(&front).checked_sub(ipv4::MIN_HEADER_LENGTH);
                append(&front)?;
                append(from.take(options.ok_or(Error::BadCompressedHeader)?)?)?;
                at += header_length(&header[at..]).max(ipv4::MIN_HEADER_LENGTH);
            } else if sent.has(at) {
                append(&from.array::<1>()?)?;
                at += 1;
            } else {
                append(&header[at..=at])?;
                at += 1;
            }
        }
        let chain = Chain::within(&new, new.len()).filter(|chain| chain.is_like(self));
        let chain = chain.filter(|chain| chain.length() == new.len());
        header[..new.len()].copy_from_slice(&new);
        chain.ok_or(Error::BadCompressedHeader)
    }

    /// Whether two forms have the same headers, options of IPv4 left out.
    fn is_like(&self, other: &Chain) -> bool {
        let kinds = |chain: &Chain| chain.layers.map(|layer| layer.0 & super::Layer::KIND);
        (self.count, self.transport, kinds(self)) == (other.count, other.transport, kinds(other))
    }
}
