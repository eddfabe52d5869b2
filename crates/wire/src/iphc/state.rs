//! CONTEXT_STATE: the decompressor asks for the headers of TCP contexts that it
//! has lost (RFC 2507 §10.2).
//!
//! ```text
//! | 3 | count | CID | CID | …
//! ```

use crate::Error;

/// Type code of a request for TCP headers.
const TCP_HEADERS: u8 = 3;

/// Octets of a request for one context.
pub const REQUEST_LENGTH: usize = 3;

/// A request for the header of one TCP context.
#[inline]
pub const fn request(id: u8) -> [u8; REQUEST_LENGTH] {
    [TCP_HEADERS, 1, id]
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
        assert_eq!(requested(&request(9)), Ok(&[9][..]));
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
