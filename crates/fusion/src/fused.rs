//! *Fused*: neighbouring small functions as one loop of machine code.
//!
//! The machine code works on the contexts of the instances that are called
//! otherwise, so a function goes over from one composition to the other without
//! anything being moved. A packet that is punted is handled by the instances, one
//! after the other, with their guard against panics, and then the loop goes on.

use arrayvec::ArrayVec;
use weft_compose::{Burst, Instance, KEEP_REFUSED, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Packet};
use weft_function::lower::Program;
use weft_function::{EmissionKind, Metadata, PacketMetadata, Scope, TagSlot};

use crate::MAX_FUNCTIONS;
use crate::code::{Code, CompileError, DroppedBy, Listing, Punted, Verdicts};
use crate::link::{LinkedProgram, Step};
use crate::optimise::optimise;
use crate::verify::{verify, verify_program};

/// Contexts of fewer bytes stay in the nearest cache by themselves.
const PREFETCH_BYTES: usize = 16 << 10;
/// Octets of a cache line.
const LINE: usize = 64;
/// Contexts that are asked for in one step of a loop.
const AT_ONCE: usize = 4;
const _: () = assert!(Batch::CAPACITY.is_multiple_of(AT_ONCE));

/// A function to be fused with its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FusedPart {
    /// What it does: that of the instance that [`Fused::visit`] is given.
    pub program: Program,
    /// Whose contexts it keeps.
    pub scope: Scope,
    /// A tag that packets get as they go on from here.
    pub sets: Option<(TagSlot, u32)>,
}

/// Neighbouring functions, fused.
#[derive(Debug)]
pub struct Fused {
    parts: Vec<FusedPart>,
    shift: SlotShift,
    code: Code,
}

/// What came of a visit of fused functions.
#[derive(Debug, Default)]
pub struct FusedOutcome {
    /// Dropped packets: at which of the functions, and for which of the
    /// [reasons](weft_compose::Kind::reasons) of its kind.
    pub verdicts: Verdicts,
    /// Contexts that were reset after a panic: of which function, at which slot.
    pub resets: ArrayVec<(u8, u32), { Batch::CAPACITY }>,
    /// Packets that a function emitted though a lowered function must not.
    pub refused: u64,
    called: Outcome,
}

impl FusedOutcome {
    /// Makes it ready for the next visit.
    #[inline]
    pub fn clear(&mut self) {
        self.verdicts.dropped = 0;
        self.resets.clear();
        self.refused = 0;
    }
}

impl Fused {
    /// Fuses functions, at most [`MAX_FUNCTIONS`].
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(parts: Vec<FusedPart>, shift: SlotShift) -> Result<Fused, CompileError> {
        for part in &parts {
            verify_program(&part.program)?;
        }
        let way = Fused::linked(&parts, shift);
        verify(&way)?;
        let code = Code::compile(&optimise(&way))?;
        Ok(Fused { parts, shift, code })
    }

    fn linked(parts: &[FusedPart], shift: SlotShift) -> LinkedProgram {
        // More than can be fused are refused by the verifier.
        let steps: Vec<_> = parts
            .iter()
            .map(|part| Step { program: &part.program, scope: part.scope, sets: part.sets })
            .collect();
        LinkedProgram::link(&steps, shift.0)
    }

    /// The functions.
    pub fn parts(&self) -> &[FusedPart] {
        &self.parts
    }

    /// The micro-operations as the functions give them, one behind the other.
    pub fn way(&self) -> LinkedProgram {
        Fused::linked(&self.parts, self.shift)
    }

    /// The micro-operations that were compiled.
    pub fn optimised(&self) -> &LinkedProgram {
        self.code.way()
    }

    /// The machine code, as an operator reads it.
    ///
    /// # Errors
    /// [`CompileError`], as [`compile`](Self::compile) would have said.
    pub fn list(&self) -> Result<Listing, CompileError> {
        Code::list(self.code.way())
    }

    /// Lets the packets at `selected` pass the functions; `instances` are at work
    /// for them, in their order. Those not dropped go on.
    pub fn visit(
        &self,
        burst: &mut Burst,
        selected: Positions,
        instances: &mut [&mut dyn Instance],
        outcome: &mut FusedOutcome,
    ) {
        debug_assert_eq!(instances.len(), self.parts.len());
        let mut remaining = selected;
        let mut is_first = true;
        while let Some(punted) =
            self.run(burst, (selected, is_first), remaining, instances, &mut outcome.verdicts)
        {
            is_first = false;
            remaining = Positions(punted.remaining);
            self.call(burst, punted.position, punted.function, instances, outcome);
        }
    }

    /// Lets packets pass up to the first that is punted.
    #[inline]
    fn run(
        &self,
        burst: &mut Burst,
        (selected, is_first): (Positions, bool),
        remaining: Positions,
        instances: &mut [&mut dyn Instance],
        verdicts: &mut Verdicts,
    ) -> Option<Punted> {
        let mut contexts: ArrayVec<&mut [u8], MAX_FUNCTIONS> =
            instances.iter_mut().map(|instance| instance.contexts()).collect();
        if is_first {
            self.prefetch(&burst.packets, selected, &contexts);
        }
        self.code.run(&mut burst.packets, &mut contexts, burst.now, remaining.0, verdicts)
    }

    /// Asks the processor for the contexts of packets ahead of use.
    #[inline]
    fn prefetch(&self, packets: &Batch, selected: Positions, contexts: &[&mut [u8]]) {
        let (mut indexes, mut count, mut scope) = ([0; Batch::CAPACITY], 0, None);
        for (part, contexts) in self.parts.iter().zip(contexts) {
            if contexts.len() < PREFETCH_BYTES {
                continue;
            }
            // Packets are looked at once for all functions that keep contexts of the same.
            if scope != Some(part.scope) {
                scope = Some(part.scope);
                count = match part.scope {
                    Scope::User => self.note(packets, selected, |noted| noted.user, &mut indexes),
                    Scope::Bearer => {
                        self.note(packets, selected, |noted| noted.bearer, &mut indexes)
                    }
                    Scope::Group => self.note(packets, selected, |noted| noted.group, &mut indexes),
                };
            }
            let octets = part.program.context_octets;
            // Contexts of a whole line, or of a part of one that fits it, are in one line.
            let more = match LINE.is_multiple_of(octets)
                && contexts.as_ptr().addr().is_multiple_of(octets)
            {
                true => 0,
                false => octets - 1,
            };
            // Some at once; behind the last ones stand others that do no harm.
            for some in indexes.chunks_exact(AT_ONCE).take(count.div_ceil(AT_ONCE)) {
                for index in some {
                    let first = *index as usize * octets;
                    weft_dpdk::prefetch(contexts, first);
                    weft_dpdk::prefetch(contexts, first + more);
                }
            }
        }
    }

    /// Notes the indexes of the contexts of packets, and says how many there are.
    #[inline(always)]
    fn note(
        &self,
        packets: &Batch,
        selected: Positions,
        slot: impl Fn(&PacketMetadata) -> u32,
        indexes: &mut [u32; Batch::CAPACITY],
    ) -> usize {
        let index = |packet: &Packet| self.shift.index(slot(packet.metadata())) as u32;
        if selected == Positions::first(packets.len()) {
            indexes.iter_mut().zip(packets.iter()).for_each(|(to, packet)| *to = index(packet));
        } else {
            let places = indexes.iter_mut().zip(selected);
            places.for_each(|(to, position)| *to = index(&packets[position]));
        }
        selected.len()
    }

    /// Lets one packet go the rest of the way called.
    #[cold]
    fn call(
        &self,
        burst: &mut Burst,
        position: usize,
        first: usize,
        instances: &mut [&mut dyn Instance],
        outcome: &mut FusedOutcome,
    ) {
        let one = Positions(1 << position);
        for (number, instance) in instances.iter_mut().enumerate().skip(first) {
            let called = &mut outcome.called;
            called.clear();
            instance.visit(burst, one, called);
            outcome.refused += called.refused;
            let is_sent = |what: &EmissionKind| matches!(what, EmissionKind::Send(..));
            let sent = called.emissions.drain(..).filter(|emission| is_sent(&emission.what));
            outcome.refused += sent.count() as u64;
            for slot in called.resets.drain(..) {
                // There are no more than packets.
                let _ = outcome.resets.try_push((number as u8, slot));
            }
            if called.kept.contains(position) {
                let mut reasons = instance.kind().reasons();
                let reason = reasons.position(|reason| *reason == KEEP_REFUSED);
                called.reasons[position] = reason.unwrap_or_default() as u8;
                called.dropped.insert(position);
            }
            if called.dropped.contains(position) {
                outcome.verdicts.dropped |= one.0;
                let (function, reason) = (number as u8, called.reasons[position]);
                outcome.verdicts.reasons[position] = DroppedBy { function, reason };
                return;
            }
            if let Some((slot, value)) = self.parts[number].sets {
                slot.set(burst.packets[position].metadata_mut(), value);
            }
        }
    }
}
