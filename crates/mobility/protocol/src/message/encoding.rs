//! Messages as octets, in network byte order.
//!
//! ```text
//! octet  0        version, 1; 2 where version 1 has no place for what is said
//!        1        kind of message
//!        2..4     0
//!        4..8     octets of the whole message, these among them
//!        8..12    sender          12..16  its incarnation
//!       16..20    receiver        20..24  its incarnation
//! of a step:
//!       24..32    user            32..40  epoch
//!       40..      what the step says; of version 2 only Prepare without a source, with the epoch
//!                 from which the user is given back behind the rest
//! of a step of a function's move:
//!       24..32    epoch           32..34  octets of the function's name
//!       34..      the name, and what the step says
//! of a pair of nodes:
//!       24..      what is said
//! ```
//! A way (a leg) is 16 octets: node, incarnation, epoch. One that may be absent
//! has an octet 0 or 1 in front. Messages follow one another without padding.

mod function_step;
mod standby;

use self::function_step::{put_text, text};
use super::function_step::FunctionStep;
use super::{Envelope, Message, Reason, RouteStage, StandbyStep, Step};
use crate::identity::{Epoch, Incarnation, Leg, NodeId, User};

/// The version that most messages are written in.
pub const VERSION: u8 = 1;
/// Of a Prepare that gives a user back: version 1 has no place for the epoch from which.
pub const VERSION_GIVEN_BACK: u8 = 2;
/// Octets of contexts that one message carries at most.
pub const MAX_CONTEXTS: usize = 16 << 20;

const HEADER: usize = 24;
const LONGEST: usize = HEADER + 16 + MAX_CONTEXTS;

/// What can be wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// More octets are needed; of a stream, they may still come.
    #[error("the message is cut off")]
    Truncated,
    /// A version that is not read.
    #[error("the message is of version {0}, which is not read")]
    Version(u8),
    /// A kind that there is not.
    #[error("there is no message of kind {0}")]
    Kind(u8),
    /// The length is not that of what the message says, or beyond the longest.
    #[error("the message's length does not fit what it says")]
    Length,
    /// A field has a value that means nothing.
    #[error("a field has a value that means nothing")]
    Value,
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let (value, rest) = self.bytes.split_first_chunk().ok_or(ParseError::Length)?;
        self.bytes = rest;
        Ok(*value)
    }

    pub fn octets(&mut self, count: usize) -> Result<&'a [u8], ParseError> {
        let (octets, rest) = self.bytes.split_at_checked(count).ok_or(ParseError::Length)?;
        self.bytes = rest;
        Ok(octets)
    }

    fn u8(&mut self) -> Result<u8, ParseError> {
        self.take::<1>().map(|[octet]| octet)
    }

    pub fn u32(&mut self) -> Result<u32, ParseError> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, ParseError> {
        self.take().map(u64::from_be_bytes)
    }

    pub fn flag(&mut self) -> Result<bool, ParseError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ParseError::Value),
        }
    }

    fn leg(&mut self) -> Result<Leg, ParseError> {
        Ok(Leg {
            node: NodeId(self.u32()?),
            incarnation: Incarnation(self.u32()?),
            epoch: Epoch(self.u64()?),
        })
    }

    fn optional_leg(&mut self) -> Result<Option<Leg>, ParseError> {
        self.flag()?.then(|| self.leg()).transpose()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}

fn put_leg(out: &mut Vec<u8>, leg: &Leg) {
    out.extend(leg.node.0.to_be_bytes());
    out.extend(leg.incarnation.0.to_be_bytes());
    out.extend(leg.epoch.0.to_be_bytes());
}

fn put_optional_leg(out: &mut Vec<u8>, leg: &Option<Leg>) {
    out.push(u8::from(leg.is_some()));
    if let Some(leg) = leg {
        put_leg(out, leg);
    }
}

impl Envelope {
    /// Appends the message's octets.
    ///
    /// # Errors
    /// [`ParseError::Length`] for contexts above [`MAX_CONTEXTS`], or
    /// [`MAX_PIECE`](crate::function_move::MAX_PIECE) of a function, and for records above
    /// [`MAX_RECORDS`](crate::standby::MAX_RECORDS); nothing is appended then.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<(), ParseError> {
        if let Message::Handover { step: Step::Contexts(bytes), .. } = &self.message
            && bytes.len() > MAX_CONTEXTS
        {
            return Err(ParseError::Length);
        }
        if let Message::FunctionMove { step, .. } = &self.message
            && !step.fits()
        {
            return Err(ParseError::Length);
        }
        if let Message::Standby(step) = &self.message
            && !step.fits()
        {
            return Err(ParseError::Length);
        }
        let start = out.len();
        out.extend([version(&self.message), kind(&self.message), 0, 0]);
        for number in [0, self.from.0, self.from_incarnation.0, self.to.0, self.to_incarnation.0] {
            out.extend(number.to_be_bytes());
        }
        if let Message::Handover { user, epoch, step } = &self.message {
            out.extend(user.0.to_be_bytes());
            out.extend(epoch.0.to_be_bytes());
            emit_step(step, out);
        }
        if let Message::FunctionMove { function, epoch, step } = &self.message {
            out.extend(epoch.0.to_be_bytes());
            put_text(out, function);
            step.emit(out);
        }
        if let Message::Standby(step) = &self.message {
            step.emit(out);
        }
        // At most LONGEST, which fits.
        let length = (out.len() - start) as u32;
        out[start + 4..start + 8].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Reads the message that `bytes` begin with, and says how long it was.
    ///
    /// # Errors
    /// What is wrong with it; [`ParseError::Truncated`] when more octets may help.
    pub fn parse(bytes: &[u8]) -> Result<(Envelope, usize), ParseError> {
        let of_version = match *bytes {
            [version, ..] if ![VERSION, VERSION_GIVEN_BACK].contains(&version) => {
                return Err(ParseError::Version(version));
            }
            [VERSION_GIVEN_BACK, kind, ..] if kind != PREPARE => {
                return Err(ParseError::Version(VERSION_GIVEN_BACK));
            }
            [version, ..] if bytes.len() >= HEADER => version,
            _ => return Err(ParseError::Truncated),
        };
        let mut reader = Reader { bytes: &bytes[1..] };
        let kind = reader.u8()?;
        if reader.take()? != [0, 0] {
            return Err(ParseError::Value);
        }
        let length = reader.u32()? as usize;
        if !(HEADER..=LONGEST).contains(&length) {
            return Err(ParseError::Length);
        }
        if bytes.len() < length {
            return Err(ParseError::Truncated);
        }
        let mut reader = Reader { bytes: &bytes[8..length] };
        let envelope = Envelope {
            from: NodeId(reader.u32()?),
            from_incarnation: Incarnation(reader.u32()?),
            to: NodeId(reader.u32()?),
            to_incarnation: Incarnation(reader.u32()?),
            message: parse_message(of_version, kind, &mut reader)?,
        };
        if reader.bytes.is_empty() { Ok((envelope, length)) } else { Err(ParseError::Length) }
    }
}

/// The kind of a Prepare.
const PREPARE: u8 = 16;

fn version(message: &Message) -> u8 {
    match message {
        Message::Handover { step: Step::Prepare { kept: Some(_), .. }, .. } => VERSION_GIVEN_BACK,
        _ => VERSION,
    }
}

fn kind(message: &Message) -> u8 {
    let Message::Handover { step, .. } = message else {
        return match message {
            Message::Hello => 1,
            Message::Probe => 2,
            Message::FunctionMove { step, .. } => step.kind(),
            Message::Standby(step) => step.kind(),
            _ => 3,
        };
    };
    match step {
        Step::Prepare { .. } => PREPARE,
        Step::Prepared => 17,
        Step::Move { .. } => 18,
        Step::Moved => 19,
        Step::Contexts(_) => 20,
        Step::Taken => 21,
        Step::Adopt { .. } => 22,
        Step::Imported => 23,
        Step::Refused(_) => 24,
        Step::Abort => 25,
        Step::Aborted => 26,
        Step::Resume { .. } => 27,
        Step::Resumed => 28,
        Step::Release => 29,
        Step::Released => 30,
        Step::Complete => 31,
        Step::Completed => 32,
        Step::Remove => 33,
        Step::Removed => 34,
        Step::Route { .. } => 35,
        Step::Routed(_) => 36,
        Step::Arrived => 37,
    }
}

fn emit_step(step: &Step, out: &mut Vec<u8>) {
    match step {
        Step::Prepare { source, kept, anchor, settled } => {
            put_optional_leg(out, source);
            out.extend(anchor.0.to_be_bytes());
            out.extend(settled.0.to_be_bytes());
            out.extend(kept.iter().flat_map(|epoch| epoch.0.to_be_bytes()));
        }
        Step::Move { target } => put_leg(out, target),
        Step::Contexts(bytes) => out.extend(bytes),
        Step::Adopt { lost } => out.push(u8::from(*lost)),
        Step::Refused(reason) => out.push(match reason {
            Reason::Stale => 0,
            Reason::Unknown => 1,
            Reason::Busy => 2,
            Reason::Full => 3,
            Reason::Import => 4,
        }),
        Step::Resume { target, certain, target_gone } => {
            put_leg(out, target);
            out.extend([u8::from(*certain), u8::from(*target_gone)]);
        }
        Step::Route { stage, old, new } => {
            out.push(stage_number(*stage));
            put_optional_leg(out, old);
            put_optional_leg(out, new);
        }
        Step::Routed(stage) => out.push(stage_number(*stage)),
        _ => {}
    }
}

fn parse_message(version: u8, kind: u8, reader: &mut Reader) -> Result<Message, ParseError> {
    match kind {
        1 => return Ok(Message::Hello),
        2 => return Ok(Message::Probe),
        3 => return Ok(Message::Welcome),
        16..=37 => {}
        64..=73 => {
            let (epoch, function) = (Epoch(reader.u64()?), text(reader)?);
            let step = FunctionStep::parse(kind, reader)?;
            return Ok(Message::FunctionMove { function, epoch, step });
        }
        80..=86 => return StandbyStep::parse(kind, reader).map(Message::Standby),
        _ => return Err(ParseError::Kind(kind)),
    }
    let (user, epoch) = (User(reader.u64()?), Epoch(reader.u64()?));
    let step = match kind {
        PREPARE => parse_prepare(version, epoch, reader)?,
        17 => Step::Prepared,
        18 => Step::Move { target: reader.leg()? },
        19 => Step::Moved,
        20 => Step::Contexts(reader.rest().to_vec()),
        21 => Step::Taken,
        22 => Step::Adopt { lost: reader.flag()? },
        23 => Step::Imported,
        24 => Step::Refused(match reader.u8()? {
            0 => Reason::Stale,
            1 => Reason::Unknown,
            2 => Reason::Busy,
            3 => Reason::Full,
            4 => Reason::Import,
            _ => return Err(ParseError::Value),
        }),
        25 => Step::Abort,
        26 => Step::Aborted,
        27 => Step::Resume {
            target: reader.leg()?,
            certain: reader.flag()?,
            target_gone: reader.flag()?,
        },
        28 => Step::Resumed,
        29 => Step::Release,
        30 => Step::Released,
        31 => Step::Complete,
        32 => Step::Completed,
        33 => Step::Remove,
        34 => Step::Removed,
        35 => Step::Route {
            stage: parse_stage(reader)?,
            old: reader.optional_leg()?,
            new: reader.optional_leg()?,
        },
        36 => Step::Routed(parse_stage(reader)?),
        _ => Step::Arrived,
    };
    Ok(Message::Handover { user, epoch, step })
}

fn parse_prepare(version: u8, epoch: Epoch, reader: &mut Reader) -> Result<Step, ParseError> {
    let source = reader.optional_leg()?;
    let (anchor, settled) = (NodeId(reader.u32()?), Epoch(reader.u64()?));
    let kept = match version {
        VERSION_GIVEN_BACK => Some(Epoch(reader.u64()?)),
        _ => None,
    };
    let is_before = |kept: Epoch| source.is_none() && kept > Epoch(0) && kept < epoch;
    if !kept.is_none_or(is_before) {
        return Err(ParseError::Value);
    }
    Ok(Step::Prepare { source, kept, anchor, settled })
}

fn stage_number(stage: RouteStage) -> u8 {
    match stage {
        RouteStage::Prepare => 0,
        RouteStage::Switch => 1,
        RouteStage::Complete => 2,
        RouteStage::Abort => 3,
        RouteStage::Remove => 4,
    }
}

fn parse_stage(reader: &mut Reader) -> Result<RouteStage, ParseError> {
    Ok(match reader.u8()? {
        0 => RouteStage::Prepare,
        1 => RouteStage::Switch,
        2 => RouteStage::Complete,
        3 => RouteStage::Abort,
        4 => RouteStage::Remove,
        _ => return Err(ParseError::Value),
    })
}
