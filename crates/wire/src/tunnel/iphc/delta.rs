//! Differences of 16 bits, in one octet where they are 1 to 255, otherwise in
//! three of which the first is 0 (RFC 1144 §3.2.3, RFC 2507 §6).

use super::{Compressed, push};
use crate::Error;

/// Octets that are read one field after the other.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::BadCompressedHeader)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::BadCompressedHeader)?;
        self.0 = rest;
        Ok(*taken)
    }

    #[inline]
    pub fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(|[octet]| octet)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// A difference as [`write`] writes it.
    #[inline]
    pub fn delta(&mut self) -> Result<u16, Error> {
        match self.u8()? {
            0 => self.u16(),
            small => Ok(small.into()),
        }
    }
}

/// Writes a difference.
#[inline]
pub(super) fn write(out: &mut Compressed, delta: u16) {
    match u8::try_from(delta) {
        Ok(small) if small != 0 => push(out, &[small]),
        _ => {
            let [high, low] = delta.to_be_bytes();
            push(out, &[0, high, low]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_differences_take_one_octet() {
        for (delta, octets) in [
            (1, &[1][..]),
            (255, &[255]),
            (256, &[0, 1, 0]),
            (0, &[0, 0, 0]),
            (0xffff, &[0, 255, 255]),
        ] {
            let mut out = Compressed::new();
            write(&mut out, delta);
            assert_eq!(&out[..], octets);
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(delta: u16, cut in 0..3_usize) {
            let mut out = Compressed::new();
            write(&mut out, delta);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.delta(), Ok(delta));
            prop_assert!(reader.0.is_empty());
            if cut < out.len() {
                prop_assert_eq!(Reader(&out[..cut]).delta(), Err(Error::BadCompressedHeader));
            }
        }
    }
}
