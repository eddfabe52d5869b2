//! What coordinator and participant say to each other, and its octets.

use crate::encoding::{ParseError, Reader};
use crate::identity::Epoch;

/// Octets of contexts that one piece has at most.
pub const MAX_PIECE: usize = 3 << 20;

/// Octets of a name or a reason at most.
const TEXT: usize = 1024;

/// What the participant is in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// It gives contexts: the function comes back from it.
    Source,
    /// It takes contexts: the function goes to it.
    Target,
}

/// A piece of a function's contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its number, from 0.
    pub number: u32,
    /// None follows.
    pub is_last: bool,
    /// Contexts in it.
    pub count: u32,
    /// The contexts, as the nodes write them.
    pub octets: Vec<u8>,
}

/// A step of a function's move: request and answer beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionStep {
    /// Coordinator to participant: a move begins.
    Prepare {
        /// What the participant is in it.
        side: Side,
        /// What function it is.
        kind: String,
    },
    /// The participant has the function.
    Prepared,
    /// Source to target: a piece of the contexts.
    Contexts(Piece),
    /// The target has written the piece of this number.
    Taken(u32),
    /// Coordinator to source: give the piece of this number, and forget those before it.
    Fetch(u32),
    /// The move has come about, and is over.
    Release,
    /// The participant has forgotten the move.
    Released,
    /// The move is given up, and is over.
    Abort,
    /// The participant has forgotten the move.
    Aborted,
    /// What was asked is not done, and will not be in this epoch.
    Refused {
        /// The newest epoch that the participant knows of; where this is not below the move's,
        /// a move needs a higher one.
        newest: Epoch,
        /// Why, for people.
        reason: String,
    },
}

impl FunctionStep {
    /// The step's name, as tables and logs have it.
    pub fn name(&self) -> &'static str {
        match self {
            FunctionStep::Prepare { .. } => "Prepare",
            FunctionStep::Prepared => "Prepared",
            FunctionStep::Contexts(_) => "Contexts",
            FunctionStep::Taken(_) => "Taken",
            FunctionStep::Fetch(_) => "Fetch",
            FunctionStep::Release => "Release",
            FunctionStep::Released => "Released",
            FunctionStep::Abort => "Abort",
            FunctionStep::Aborted => "Aborted",
            FunctionStep::Refused { .. } => "Refused",
        }
    }

    /// The kind of its message.
    pub(crate) fn kind(&self) -> u8 {
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
    pub(crate) fn fits(&self) -> bool {
        !matches!(self, FunctionStep::Contexts(piece) if piece.octets.len() > MAX_PIECE)
    }

    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
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

    pub(crate) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<FunctionStep, ParseError> {
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
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // At most TEXT, which fits.
    out.extend((end as u16).to_be_bytes());
    out.extend(&text.as_bytes()[..end]);
}

pub(crate) fn text(reader: &mut Reader<'_>) -> Result<String, ParseError> {
    let length = usize::from(u16::from_be_bytes(reader.take()?));
    if length > TEXT {
        return Err(ParseError::Value);
    }
    let octets = reader.octets(length)?.to_vec();
    String::from_utf8(octets).map_err(|_| ParseError::Value)
}
