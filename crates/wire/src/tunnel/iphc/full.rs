//! FULL_HEADER: the headers as they are, but for the length fields, which carry
//! the context (RFC 2507 §5.3.2).
//!
//! ```text
//!             non-TCP, 8-bit CID     non-TCP, 16-bit CID    TCP
//! first      |0|D|generation| CID |  |1|D|generation| data | | number, lower | CID |
//! second     |      0       | data|  |        CID          | | number, upper |  0  |
//! ```
//!
//! Data is for other compression above UDP (RFC 2507 §12); it is 0 here and not
//! looked at. The number of the packet is there where both ends agreed on it
//! (§11.2), and 0 elsewhere.

use super::{Chain, ContextId, Generation, Transport};
use crate::Error;
use crate::octets::{put_u16, u16_at};

/// The context identifier has 16 bits.
const WIDE: u8 = 0x80;

/// What the length fields of a full header say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The context, below 256 for TCP and where there is one length field only.
    pub id: ContextId,
    /// Which of its headers this is; 0 for TCP.
    pub generation: Generation,
    /// With TCP, the number of the packet, 0 without; with one length field, its
    /// lower octet only.
    pub number: u16,
}

/// Whether the length fields have room for any of so many context identifiers
/// other than TCP's: more than 256 take two fields.
#[inline]
pub fn has_room(chain: &Chain, ids: u32) -> bool {
    ids <= 1 << 8 || chain.length_fields().count() > 1
}

/// Whether the length fields have room for a whole packet number.
#[inline]
pub fn has_whole_number(chain: &Chain) -> bool {
    chain.length_fields().count() > 1
}

/// Writes the context into the length fields of the headers.
///
/// # Errors
/// [`Error::BadCompressedHeader`] for an identifier that does not fit: TCP has
/// 8 bits, as have headers with one length field.
pub fn write(chain: &Chain, header: &mut [u8], context: Context) -> Result<(), Error> {
    let mut fields = chain.length_fields();
    let (first, second) = (fields.next(), fields.next());
    let first = first.ok_or(Error::BadCompressedHeader)?;
    if header.len() < chain.length() {
        return Err(Error::Truncated);
    }
    let [high, low] = context.id.0.to_be_bytes();
    let generation = context.generation.value();
    let (one, two) = match (high, chain.transport(), second) {
        (0, Transport::Tcp, _) => {
            let [upper, lower] = context.number.to_be_bytes();
            ([lower, low], u16::from(upper) << 8)
        }
        (0, ..) => ([generation, low], 0),
        (_, Transport::Tcp, _) | (_, _, None) => return Err(Error::BadCompressedHeader),
        _ => ([WIDE | generation, 0], context.id.0),
    };
    put_u16(header, first..first + 2, u16::from_be_bytes(one));
    if let Some(second) = second {
        put_u16(header, second..second + 2, two);
    }
    Ok(())
}

/// Reads the context from the length fields of the headers.
///
/// # Errors
/// [`Error::BadCompressedHeader`] for an identifier of 16 bits where the
/// headers have no room for it; [`Error::Truncated`].
pub fn read(chain: &Chain, header: &[u8]) -> Result<Context, Error> {
    let mut fields = chain.length_fields();
    let (first, second) = (fields.next(), fields.next());
    let first = first.ok_or(Error::BadCompressedHeader)?;
    if header.len() < chain.length() {
        return Err(Error::Truncated);
    }
    let [high, low] = u16_at(header, first..first + 2).to_be_bytes();
    let narrow = ContextId(low.into());
    if chain.transport() == Transport::Tcp {
        let upper = second.map_or(0, |second| u16_at(header, second..second + 2) & 0xff00);
        let number = upper | u16::from(high);
        return Ok(Context { id: narrow, generation: Generation::default(), number });
    }
    let id = match (high & WIDE, second) {
        (0, _) => narrow,
        (_, Some(second)) => ContextId(u16_at(header, second..second + 2)),
        (_, None) => return Err(Error::BadCompressedHeader),
    };
    Ok(Context { id, generation: Generation::new(high), number: 0 })
}
