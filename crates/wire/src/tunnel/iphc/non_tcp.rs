//! COMPRESSED_NON_TCP: context, generation, RANDOM fields (RFC 2507 §6).
//!
//! ```text
//! 8-bit CID   | CID        |0|D|generation|             data if D | RANDOM fields
//! 16-bit CID  | CID, upper |1|D|generation| CID, lower | data if D | RANDOM fields
//! ```

use super::delta::Reader;
use super::{Chain, Compressed, ContextId, Generation, MAX_HEADER, push};
use crate::Error;

/// The context identifier has 16 bits.
const WIDE: u8 = 0x80;
/// An octet of data follows, for other compression above UDP (RFC 2507 §12); it is
/// not looked at.
const DATA: u8 = 0x40;

/// The front of a compressed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The context.
    pub id: ContextId,
    /// Which of its headers this one is compressed against.
    pub generation: Generation,
}

/// Writes a compressed header for `header`, the headers of a packet.
#[inline]
pub fn write(chain: &Chain, header: &[u8], repr: Repr, out: &mut Compressed) {
    let [high, low] = repr.id.0.to_be_bytes();
    match high {
        0 => push(out, &[low, repr.generation.value()]),
        _ => push(out, &[high, WIDE | repr.generation.value(), low]),
    }
    chain.write_random(header, true, out);
}

/// Reads the front of a compressed header; what follows it are the RANDOM
/// fields and the payload.
///
/// # Errors
/// [`Error::BadCompressedHeader`] when it is cut off.
#[inline]
pub fn read(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
    let mut reader = Reader(bytes);
    let [first, flags] = reader.array()?;
    let id = match flags & WIDE {
        0 => ContextId(first.into()),
        _ => ContextId(u16::from_be_bytes([first, reader.u8()?])),
    };
    if flags & DATA != 0 {
        reader.u8()?;
    }
    Ok((Repr { id, generation: Generation::new(flags) }, reader.0))
}

/// Puts the RANDOM fields at the front of `bytes` into `header`, the headers of
/// the context; gives back the form of what came of it, and the payload.
///
/// # Errors
/// [`Error::BadCompressedHeader`] when they are cut off, or make other headers.
#[inline]
pub fn read_random<'a>(
    chain: &Chain,
    header: &mut [u8; MAX_HEADER],
    bytes: &'a [u8],
) -> Result<(Chain, &'a [u8]), Error> {
    let mut reader = Reader(bytes);
    let chain = chain.read_random(header, true, &mut reader)?;
    Ok((chain, reader.0))
}
