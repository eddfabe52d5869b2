//! What is said about a pair of nodes as octets.

use super::{ParseError, Reader};
use crate::identity::{Epoch, Incarnation, NodeId};
use crate::message::standby::{MAX_RECORDS, Position, StandbyStep, Standing};

impl StandbyStep {
    /// The kind of its message.
    pub(super) fn kind(&self) -> u8 {
        match self {
            StandbyStep::Claim { .. } => 80,
            StandbyStep::Grant { .. } => 81,
            StandbyStep::Deny { .. } => 82,
            StandbyStep::Alive { .. } => 83,
            StandbyStep::Attend { .. } => 84,
            StandbyStep::Records { .. } => 85,
            StandbyStep::Leave { .. } => 86,
        }
    }

    /// Whether it can be written: records have a bound.
    pub(super) fn fits(&self) -> bool {
        !matches!(self, StandbyStep::Records { octets, .. } if octets.len() > MAX_RECORDS)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            StandbyStep::Claim { epoch, stamp, standing, whole, hears, built } => {
                put_numbers(out, &[epoch.0, *stamp]);
                let standing = match standing {
                    Standing::Owns => 0,
                    Standing::Stands => 1,
                    Standing::Leaves => 2,
                };
                out.extend([standing, u8::from(*whole), u8::from(*hears)]);
                // Nodes of the first release do not say it.
                out.extend(built.then_some(1));
            }
            StandbyStep::Grant { epoch, stamp, lease, whole, peer } => {
                put_numbers(out, &[epoch.0, *stamp]);
                out.extend(lease.to_be_bytes());
                out.push(u8::from(*whole));
                out.extend(peer.0.to_be_bytes());
            }
            StandbyStep::Deny { epoch, stamp, lease, peer } => {
                put_numbers(out, &[epoch.0, *stamp]);
                out.extend(lease.to_be_bytes());
                out.extend(peer.0.to_be_bytes());
            }
            StandbyStep::Leave { epoch } => put_numbers(out, &[epoch.0]),
            StandbyStep::Alive { epoch, stamp, newest, leaves } => {
                put_numbers(out, &[epoch.0, *stamp, *newest]);
                out.push(u8::from(*leaves));
            }
            StandbyStep::Attend { epoch, stamp, position } => {
                put_numbers(out, &[epoch.0, *stamp]);
                put_position(out, position);
            }
            StandbyStep::Records { epoch, at, is_last, octets } => {
                put_numbers(out, &[epoch.0]);
                put_position(out, at);
                out.push(u8::from(*is_last));
                out.extend(octets);
            }
        }
    }

    pub(super) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<StandbyStep, ParseError> {
        let epoch = Epoch(reader.u64()?);
        Ok(match kind {
            80 => {
                let stamp = reader.u64()?;
                let standing = match reader.u8()? {
                    0 => Standing::Owns,
                    1 => Standing::Stands,
                    2 => Standing::Leaves,
                    _ => return Err(ParseError::Value),
                };
                let (whole, hears) = (reader.flag()?, reader.flag()?);
                let built = match reader.rest() {
                    [] => false,
                    [1] => true,
                    [_] => return Err(ParseError::Value),
                    _ => return Err(ParseError::Length),
                };
                StandbyStep::Claim { epoch, stamp, standing, whole, hears, built }
            }
            81 => StandbyStep::Grant {
                epoch,
                stamp: reader.u64()?,
                lease: reader.u32()?,
                whole: reader.flag()?,
                peer: NodeId(reader.u32()?),
            },
            82 => StandbyStep::Deny {
                epoch,
                stamp: reader.u64()?,
                lease: reader.u32()?,
                peer: NodeId(reader.u32()?),
            },
            83 => StandbyStep::Alive {
                epoch,
                stamp: reader.u64()?,
                newest: reader.u64()?,
                leaves: reader.flag()?,
            },
            84 => StandbyStep::Attend { epoch, stamp: reader.u64()?, position: position(reader)? },
            85 => {
                let (at, is_last) = (position(reader)?, reader.flag()?);
                let octets = reader.rest().to_vec();
                if octets.len() > MAX_RECORDS {
                    return Err(ParseError::Length);
                }
                StandbyStep::Records { epoch, at, is_last, octets }
            }
            86 => StandbyStep::Leave { epoch },
            _ => return Err(ParseError::Kind(kind)),
        })
    }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
}

fn put_position(out: &mut Vec<u8>, position: &Position) {
    out.extend(position.stream.0.to_be_bytes());
    out.push(u8::from(position.whole));
    put_numbers(out, &[position.base, position.number]);
}

fn position(reader: &mut Reader<'_>) -> Result<Position, ParseError> {
    Ok(Position {
        stream: Incarnation(reader.u32()?),
        whole: reader.flag()?,
        base: reader.u64()?,
        number: reader.u64()?,
    })
}
