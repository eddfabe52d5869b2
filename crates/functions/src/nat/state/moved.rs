//! Blocks and mappings on their way to another node.

use std::net::Ipv4Addr;

use weft_function::{ContextError, Fields};
use weft_wire::Protocol;

use super::{Holding, Inside, Mapping, Record, State};
use crate::nat::blocks::NONE;

impl State {
    /// Writes block and mappings, the oldest first.
    pub fn export(&self, holding: &Holding, out: &mut Vec<u8>) {
        let known = self.knows(holding) && holding.block != NONE;
        out.push(known.into());
        if !known {
            return;
        }
        let (address, port) = self.pool().place(holding.block);
        out.extend_from_slice(&address.to_le_bytes());
        out.extend_from_slice(&port.to_le_bytes());
        let mut mappings = Vec::new();
        let mut index = holding.first;
        for _ in 0..holding.count {
            let Some(&Record { inside, next, .. }) = self.records.get(index as usize) else {
                break;
            };
            mappings.extend(self.mapping(index, inside).map(|mapping| (inside, mapping)));
            index = next;
        }
        out.extend_from_slice(&(mappings.len() as u32).to_le_bytes());
        for (inside, mapping) in mappings.into_iter().rev() {
            let Mapping { port, established, closing, expires, .. } = mapping;
            out.extend_from_slice(&inside.address.to_le_bytes());
            out.extend_from_slice(&inside.port.to_le_bytes());
            out.push(inside.protocol);
            out.extend_from_slice(&port.to_le_bytes());
            out.push(u8::from(established) | u8::from(closing) << 1);
            out.extend_from_slice(&expires.to_le_bytes());
        }
    }

    /// Moves the ends of the user's mappings from another clock to this one.
    pub fn rebase(&mut self, holding: &Holding, then: u64, now: u64) {
        let mut index = holding.first;
        for _ in 0..holding.count {
            let Some(record) = self.records.get(index as usize) else { return };
            if let Some(mapping) = self.by_inside.get_mut(&record.inside.key()) {
                mapping.expires = now.saturating_add(mapping.expires.saturating_sub(then));
            }
            index = record.next;
        }
    }
}

/// Block and mappings as they came from another node.
#[derive(Debug, Default)]
pub struct Moved {
    /// Address and first port of the block.
    pub block: Option<(Ipv4Addr, u16)>,
    mappings: Vec<MovedMapping>,
}

#[derive(Debug)]
struct MovedMapping {
    inside: Inside,
    /// Public port.
    port: u16,
    established: bool,
    closing: bool,
    /// On the clock of the other node, nanoseconds.
    expires: u64,
}

impl Moved {
    /// Reads what [`State::export`] wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn read(fields: &mut Fields<'_>) -> Result<Moved, ContextError> {
        match fields.u8()? {
            0 => return Ok(Moved::default()),
            1 => {}
            _ => return Err(ContextError::Damaged),
        }
        let block = Some((Ipv4Addr::from_bits(fields.u32()?), fields.u16()?));
        let count = fields.u32()?;
        let mut mappings = Vec::new();
        for _ in 0..count {
            let inside =
                Inside { address: fields.u32()?, port: fields.u16()?, protocol: fields.u8()? };
            let (port, flags, expires) = (fields.u16()?, fields.u8()?, fields.u64()?);
            let known = [Protocol::TCP, Protocol::UDP, Protocol::ICMP];
            if flags > 3 || !known.contains(&Protocol(inside.protocol)) {
                return Err(ContextError::Damaged);
            }
            let (established, closing) = (flags & 1 != 0, flags & 2 != 0);
            mappings.push(MovedMapping { inside, port, established, closing, expires });
        }
        Ok(Moved { block, mappings })
    }

    /// Takes the block and the mappings into `state`, as far as they are free there:
    /// another pool, or one where another user has the block, leaves the user without.
    pub fn settle(self, state: &mut State) -> Holding {
        let mut holding = Holding::default();
        let block =
            self.block.and_then(|(address, port)| state.pool().block(address.to_bits(), port));
        if block.is_none() || state.claim(&mut holding, block, 0).is_err() {
            return holding;
        }
        let (_, first) = state.pool().place(holding.block);
        for mapping in self.mappings {
            let offset = mapping.port.wrapping_sub(first);
            let key = mapping.inside.key();
            let twice = state.find_inside(key).is_some();
            if offset >= state.pool().size || twice {
                continue;
            }
            // A port that is taken gives way to the next one: never for what was
            // exported.
            if state.map(&mut holding, mapping.inside, mapping.expires, offset.into(), 0).is_ok()
                && let Some(made) = state.find_inside(key)
            {
                (made.established, made.closing) = (mapping.established, mapping.closing);
            }
        }
        holding
    }
}
