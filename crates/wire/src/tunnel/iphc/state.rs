//! CONTEXT_STATE: the decompressor asks for the headers of TCP contexts that it
//! has lost (RFC 2507 §10.2).
//!
//! ```text
//! | 3 | count | CID | CID | …
//! ```

use crate::Error;

/// Type code of a request for TCP headers.
const TCP_HEADERS: u8 = 3;

/// Octets of a request in front of the context identifiers.
pub const FRONT_LENGTH: usize = 2;

/// Writes a request for the headers of TCP contexts, of at most 255.
///
/// # Errors
/// [`Error::BufferTooShort`], and [`Error::PayloadTooLong`] for more contexts.
pub fn write_request(ids: &[u8], out: &mut [u8]) -> Result<(), Error> {
    let count = u8::try_from(ids.len()).map_err(|_| Error::PayloadTooLong)?;
    let place = out.get_mut(..FRONT_LENGTH + ids.len()).ok_or(Error::BufferTooShort)?;
    let (front, places) = place.split_at_mut(FRONT_LENGTH);
    front.copy_from_slice(&[TCP_HEADERS, count]);
    places.copy_from_slice(ids);
    Ok(())
}

/// The TCP contexts whose headers are asked for.
///
/// # Errors
/// [`Error::BadCompressedHeader`] for another type code, or fewer identifiers
/// than were announced.
pub fn requested(bytes: &[u8]) -> Result<&[u8], Error> {
    match bytes {
        [TCP_HEADERS, count, ids @ ..] => {
            ids.get(..usize::from(*count)).ok_or(Error::BadCompressedHeader)
        }
        _ => Err(Error::BadCompressedHeader),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_a_request() {
        let mut out = [0; 5];
        write_request(&[9, 4, 250], &mut out).unwrap();
        assert_eq!(out, [3, 3, 9, 4, 250]);
        assert_eq!(requested(&out), Ok(&[9, 4, 250][..]));
        assert_eq!(write_request(&[1; 4], &mut out), Err(Error::BufferTooShort));
        assert_eq!(write_request(&[1; 256], &mut [0; 300]), Err(Error::PayloadTooLong));
        assert_eq!(requested(&[3, 2, 5, 6, 0, 0]), Ok(&[5, 6][..]));
        for bytes in [&[3, 2, 5][..], &[1, 1, 5], &[3], &[]] {
            assert_eq!(requested(bytes), Err(Error::BadCompressedHeader));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(ids) = requested(&bytes) {
                prop_assert_eq!(ids.len(), usize::from(bytes[1]));
            }
        }
    }
}
