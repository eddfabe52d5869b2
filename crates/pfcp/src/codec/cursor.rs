//! Fields of an information element, front to back.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Defect, Error};

/// The octets of one information element that are still to be read.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    element: u16,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) const fn new(element: u16, octets: &'a [u8]) -> Self {
        Self { element, rest: octets }
    }

    /// An element with a value that cannot be.
    pub(crate) const fn wrong(&self) -> Error {
        Error::new(Defect::Content, self.element)
    }

    /// An element with a length that cannot be.
    pub(crate) const fn short(&self) -> Error {
        Error::new(Defect::Length, self.element)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    #[inline]
    pub(crate) fn octets(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (octets, rest) = self.rest.split_at_checked(count).ok_or(self.short())?;
        self.rest = rest;
        Ok(octets)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (octets, rest) = self.rest.split_first_chunk::<N>().ok_or(self.short())?;
        self.rest = rest;
        Ok(*octets)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u24(&mut self) -> Result<u32, Error> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u40(&mut self) -> Result<u64, Error> {
        let [a, b, c, d, e] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn ipv4(&mut self) -> Result<Ipv4Addr, Error> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    #[inline]
    pub(crate) fn ipv6(&mut self) -> Result<Ipv6Addr, Error> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// Octets behind a length of two octets.
    #[inline]
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Error> {
        let length = self.u16()?;
        self.octets(usize::from(length))
    }

    /// A field that is there if a flag says so.
    #[inline]
    pub(crate) fn when<T>(
        &mut self,
        present: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if present { read(self).map(Some) } else { Ok(None) }
    }
}

/// The lowest 3 octets of a number.
pub(crate) fn put_u24(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes()[1..]);
}

/// The lowest 5 octets of a number.
pub(crate) fn put_u40(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes()[3..]);
}

/// Octets behind a length of two octets. What is too long for it is cut.
pub(crate) fn put_counted(out: &mut Vec<u8>, octets: &[u8]) {
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&octets[..usize::from(length)]);
}
