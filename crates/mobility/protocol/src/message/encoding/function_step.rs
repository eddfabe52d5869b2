//! Steps of a function's move as octets.

use super::{ParseError, Reader};
use crate::identity::Epoch;
use crate::message::function_step::{FunctionStep, MAX_PIECE, Piece, Side};

/// Octets of a name or a reason at most.
const TEXT: usize = 1024;

impl FunctionStep {
    /// The kind of its message.
    pub(super) fn kind(&self) -> u8 {
        match self {
            FunctionStep::Prepare { .. } => 64,
            FunctionStep::Prepared => 65,
            FunctionStep::Contexts(_) => 66,
            FunctionStep::Taken(_) => 67,
            FunctionStep::Fetch(_) => 68,
            FunctionStep::Release => 69,
            FunctionStep::Released => 70,
            FunctionStep::Abort => 71,
            FunctionStep::Aborted => 72,
            FunctionStep::Refused { .. } => 73,
        }
    }

    /// Whether the step can be written: contexts have a bound.
    pub(super) fn fits(&self) -> bool {
        !matches!(self, FunctionStep::Contexts(piece) if piece.octets.len() > MAX_PIECE)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            FunctionStep::Prepare { side, kind } => {
                out.push(u8::from(*side == Side::Target));
                put_text(out, kind);
            }
            FunctionStep::Contexts(Piece { number, is_last, count, octets }) => {
                out.extend(number.to_be_bytes());
                out.push(u8::from(*is_last));
                out.extend(count.to_be_bytes());
                out.extend(octets);
            }
            FunctionStep::Taken(number) | FunctionStep::Fetch(number) => {
                out.extend(number.to_be_bytes());
            }
            FunctionStep::Refused { newest, reason } => {
                out.extend(newest.0.to_be_bytes());
                put_text(out, reason);
            }
            _ => {}
        }
    }

    pub(super) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<FunctionStep, ParseError> {
        Ok(match kind {
            64 => {
                let side = if reader.flag()? { Side::Target } else { Side::Source };
                FunctionStep::Prepare { side, kind: text(reader)? }
            }
            65 => FunctionStep::Prepared,
            66 => {
                let (number, is_last, count) = (reader.u32()?, reader.flag()?, reader.u32()?);
                let octets = reader.rest().to_vec();
                if octets.len() > MAX_PIECE {
                    return Err(ParseError::Length);
                }
                FunctionStep::Contexts(Piece { number, is_last, count, octets })
            }
            67 => FunctionStep::Taken(reader.u32()?),
            68 => FunctionStep::Fetch(reader.u32()?),
            69 => FunctionStep::Release,
            70 => FunctionStep::Released,
            71 => FunctionStep::Abort,
            72 => FunctionStep::Aborted,
            73 => FunctionStep::Refused { newest: Epoch(reader.u64()?), reason: text(reader)? },
            _ => return Err(ParseError::Kind(kind)),
        })
    }
}

/// Writes a name or a reason, behind its length; what is beyond the bound is left out.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // At most TEXT, which fits.
    out.extend((end as u16).to_be_bytes());
    out.extend(&text.as_bytes()[..end]);
}

pub(super) fn text(reader: &mut Reader<'_>) -> Result<String, ParseError> {
    let length = usize::from(u16::from_be_bytes(reader.take()?));
    if length > TEXT {
        return Err(ParseError::Value);
    }
    let octets = reader.octets(length)?.to_vec();
    String::from_utf8(octets).map_err(|_| ParseError::Value)
}
