//! The reference: micro-operations one by one.

use weft_function::lower::{Base, ContextField, HeaderField, Label, Note, Operation, Value};
use weft_function::{Metadata, Packet, PacketMetadata};

use crate::LinkedProgram;
use crate::expression::{evaluate, repaired};

/// How the way of a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It goes on behind the last function.
    Forwarded,
    /// A function drops it.
    Dropped {
        /// Number of the function on the way.
        function: u8,
        /// Number of the reason.
        reason: u8,
    },
    /// It goes the rest of the way, from this function on, called.
    Punted {
        /// Number of the function on the way.
        function: u8,
    },
}

/// An access that a verified program never makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("micro-operation {0} touches what is not there")]
pub struct Fault(pub usize);

/// Lets a packet go a way at time `now`. `contexts` are the bytes of the
/// contexts of each function, one context after the other.
///
/// # Errors
/// [`Fault`], unless the way was verified.
pub fn interpret(
    way: &LinkedProgram,
    packet: &mut Packet,
    contexts: &mut [&mut [u8]],
    now: u64,
) -> Result<Ended, Fault> {
    let capacity = way.capacity(contexts);
    let mut machine = Machine { packet, contexts, now, capacity, values: Vec::new(), way };
    let mut at = 0;
    while let Some(operation) = way.operations.get(at) {
        match machine.step(operation).ok_or(Fault(at))? {
            Next::Step => at += 1,
            Next::Jump(label) => {
                let label = Operation::Label { label };
                let ahead = way.operations[at..].iter().position(|one| *one == label);
                at += ahead.ok_or(Fault(at))?;
            }
            Next::End(ended) => return Ok(ended),
        }
    }
    Err(Fault(at))
}

impl LinkedProgram {
    /// Contexts that all functions have that have any.
    pub(crate) fn capacity(&self, contexts: &[&mut [u8]]) -> u64 {
        let with =
            self.functions.iter().zip(contexts).filter(|(shape, _)| shape.context_octets > 0);
        with.map(|(shape, bytes)| bytes.len() / shape.context_octets).min().unwrap_or(0) as u64
    }
}

enum Next {
    Step,
    Jump(Label),
    End(Ended),
}

struct Machine<'a, 'c> {
    way: &'a LinkedProgram,
    packet: &'a mut Packet,
    contexts: &'a mut [&'c mut [u8]],
    now: u64,
    capacity: u64,
    values: Vec<Option<u64>>,
}

/// A context as a number: which function's, and where its bytes begin.
const CONTEXT_SHIFT: u32 = 48;

impl Machine<'_, '_> {
    fn get(&self, value: Value) -> Option<u64> {
        self.values.get(value.0 as usize).copied().flatten()
    }

    fn set(&mut self, value: Value, number: u64) -> Option<()> {
        let index = value.0 as usize;
        if self.values.len() <= index {
            self.values.resize(index + 1, None);
        }
        self.values[index] = Some(number);
        Some(())
    }

    /// None for an access to what is not there.
    fn step(&mut self, operation: &Operation) -> Option<Next> {
        use Operation::*;
        match *operation {
            Require { base, octets, otherwise } => {
                if self.start(base) + usize::from(octets) > self.packet.len() {
                    return Some(Next::Jump(otherwise));
                }
            }
            Front { offset, octets, outer, otherwise } => {
                if !begin(self.packet, self.get(offset)?, octets.into()) {
                    return Some(Next::Jump(otherwise));
                }
                self.packet.metadata_mut().outer_offset = outer;
            }
            Branch { when, to } => {
                if self.get(when)? != 0 {
                    return Some(Next::Jump(to));
                }
            }
            Jump { to } => return Some(Next::Jump(to)),
            Label { .. } => {}
            Locate { to, function, index, otherwise } => {
                let index = self.get(index)?;
                if index >= self.capacity {
                    return otherwise.map(Next::Jump);
                }
                let octets = self.way.functions.get(usize::from(function))?.context_octets as u64;
                self.set(to, (u64::from(function) << CONTEXT_SHIFT) + index * octets)?;
            }
            Forward => return Some(Next::End(Ended::Forwarded)),
            Drop { function, reason } => {
                return Some(Next::End(Ended::Dropped { function, reason }));
            }
            Punt { function } => return Some(Next::End(Ended::Punted { function })),
            _ => self.operate(operation)?,
        }
        Some(Next::Step)
    }

    /// An operation behind which the next one follows. None for an access to what is not there.
    fn operate(&mut self, operation: &Operation) -> Option<()> {
        use Operation::*;
        match *operation {
            Constant { to, number } => self.set(to, number)?,
            Length { to } => self.set(to, self.packet.len() as u64)?,
            Now { to } => self.set(to, self.now)?,
            Note { to, note } => self.set(to, noted(self.packet.metadata(), note))?,
            Tag { to, slot } => self.set(to, slot.get(self.packet.metadata()).into())?,
            Arithmetic { to, operator, left, right } => {
                self.set(to, evaluate(operator, self.get(left)?, self.get(right)?))?;
            }
            Select { to, when, then, otherwise } => {
                let chosen = if self.get(when)? != 0 { then } else { otherwise };
                self.set(to, self.get(chosen)?)?;
            }
            LoadPacket { to, place } => self.set(to, self.load(place)?)?,
            StorePacket { place, value } => self.store(place, self.get(value)?)?,
            LoadContext { to, context, field } => {
                let number = little(self.field(context, field)?);
                self.set(to, number)?;
            }
            StoreContext { context, field, value } => {
                let bytes = self.get(value)?.to_le_bytes();
                let field = self.field(context, field)?;
                field.copy_from_slice(bytes.get(..field.len())?);
            }
            AddContext { context, field, value } => {
                let value = self.get(value)?;
                let field = self.field(context, field)?;
                let sum = little(field).wrapping_add(value).to_le_bytes();
                field.copy_from_slice(sum.get(..field.len())?);
            }
            SetTag { slot, value } => {
                let value = self.get(value)? as u32;
                slot.set(self.packet.metadata_mut(), value);
            }
            Repair { checksum, change } => {
                let place = checksum.place();
                let after = repaired(checksum, self.load(place)? as u16, self.get(change)?);
                self.store(place, after.into())?;
            }
            Truncate { octets } => {
                let octets = self.get(octets)?;
                self.packet.truncate(octets.try_into().unwrap_or(usize::MAX));
            }
            // Those say what comes next.
            Require { .. }
            | Front { .. }
            | Branch { .. }
            | Jump { .. }
            | Label { .. }
            | Locate { .. }
            | Forward
            | Drop { .. }
            | Punt { .. } => {}
        }
        Some(())
    }

    fn start(&self, base: Base) -> usize {
        let metadata = self.packet.metadata();
        match base {
            Base::Frame => 0,
            Base::Network => metadata.network_offset.into(),
            Base::Transport => metadata.transport_offset.into(),
            Base::Outer => metadata.outer_offset.into(),
        }
    }

    fn range(&self, place: HeaderField) -> std::ops::Range<usize> {
        let start = self.start(place.base) + usize::from(place.offset);
        start..start + usize::from(place.octets)
    }

    fn load(&self, place: HeaderField) -> Option<u64> {
        let bytes = self.packet.data().get(self.range(place))?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn store(&mut self, place: HeaderField, value: u64) -> Option<()> {
        let range = self.range(place);
        let octets = value.to_be_bytes();
        let low = octets.get(8_usize.checked_sub(place.octets.into())?..)?;
        self.packet.data_mut().get_mut(range)?.copy_from_slice(low);
        Some(())
    }

    fn field(&mut self, context: Value, field: ContextField) -> Option<&mut [u8]> {
        let context = self.get(context)?;
        let bytes = self.contexts.get_mut((context >> CONTEXT_SHIFT) as usize)?;
        let start = (context & ((1 << CONTEXT_SHIFT) - 1)) as usize + usize::from(field.offset);
        bytes.get_mut(start..start + usize::from(field.octets))
    }
}

/// Makes the frame begin `octets` before what is at `offset`. False, and nothing is
/// changed, where that cannot be.
fn begin(packet: &mut Packet, offset: u64, octets: usize) -> bool {
    let Some(offset) = usize::try_from(offset).ok().filter(|offset| *offset <= packet.len()) else {
        return false;
    };
    let is_done = match octets.checked_sub(offset) {
        Some(missing) => packet.prepend(missing).is_some(),
        None => packet.trim_front(offset - octets),
    };
    if is_done {
        let metadata = packet.metadata_mut();
        for at in [&mut metadata.network_offset, &mut metadata.transport_offset] {
            if *at != 0 {
                *at = (usize::from(*at) + octets).saturating_sub(offset) as u16;
            }
        }
    }
    is_done
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What was noted of a packet.
pub(crate) fn noted(metadata: &PacketMetadata, note: Note) -> u64 {
    match note {
        Note::User => metadata.user.into(),
        Note::Bearer => metadata.bearer.into(),
        Note::Group => metadata.group.into(),
        Note::NetworkOffset => metadata.network_offset.into(),
        Note::TransportOffset => metadata.transport_offset.into(),
        Note::EtherType => metadata.ether_type.into(),
        Note::Protocol => metadata.protocol.into(),
        Note::Flags => metadata.flags.into(),
        Note::NetworkLength => metadata.network_length.into(),
        Note::OuterOffset => metadata.outer_offset.into(),
    }
}
