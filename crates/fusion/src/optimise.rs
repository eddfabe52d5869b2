//! Shares between functions what they have in common.
//!
//! The way of a packet is followed from the start, along both sides of every
//! branch, with what is known there: which bytes are there, what was loaded,
//! computed or compared before. What is known needs no micro-operation, and a
//! branch that was decided before is not decided again. A checksum is repaired
//! as late as can be, so that several changes make one repair.
//!
//! As each side of a branch is followed to the end, code is doubled behind it. A
//! function of which there are [`COPIES`] already gets one more for all other
//! packets, which knows nothing of what came before.

mod state;
mod unused;

use std::collections::{BTreeMap, HashMap};

use weft_function::lower::{Base, Checksum, HeaderField, Label, Note, Operation, Operator, Value};

use crate::LinkedProgram;
use crate::bits::Bits;
use state::{Aliasing, Expression, State};
use unused::{without_overwritten, without_unused};

/// Copies of one function, for packets of which something is known.
const COPIES: usize = 6;
/// A way that becomes longer than this is left as it was.
const MOST: usize = 8192;

/// The same way with less to do. It does with every packet what `way` does.
pub fn optimise(way: &LinkedProgram) -> LinkedProgram {
    let mut optimiser = Optimiser::new(way);
    match optimiser.run() {
        Some(()) => {
            let operations = without_unused(without_overwritten(optimiser.out));
            LinkedProgram { operations, functions: way.functions.clone(), ends: Vec::new() }
        }
        None => way.clone(),
    }
}

struct Optimiser<'a> {
    way: &'a LinkedProgram,
    out: Vec<Operation>,
    /// Where each label stands in `way`.
    places: HashMap<Label, usize>,
    /// How often each end of a function was come by, by label.
    copies: HashMap<Label, usize>,
    /// Copies for packets of which nothing is known, by the end they begin at.
    plain: HashMap<Label, Label>,
    /// Those of them that are still to be followed, by where they begin: jumps
    /// lead forward.
    plain_queue: BTreeMap<usize, Label>,
    /// Sides of branches that are still to be followed.
    queue: Vec<(Label, usize, State)>,
    values: u32,
    labels: u32,
    bits: Bits,
}

impl<'a> Optimiser<'a> {
    fn new(way: &'a LinkedProgram) -> Optimiser<'a> {
        let place = |(at, operation): (usize, &Operation)| match operation {
            Operation::Label { label } => Some((*label, at)),
            _ => None,
        };
        Optimiser {
            way,
            out: Vec::new(),
            places: way.operations.iter().enumerate().filter_map(place).collect(),
            copies: HashMap::new(),
            plain: HashMap::new(),
            plain_queue: BTreeMap::new(),
            queue: Vec::new(),
            values: 0,
            labels: 0,
            bits: Bits::default(),
        }
    }

    /// None when there would be too many micro-operations.
    fn run(&mut self) -> Option<()> {
        let mut state = State::default();
        self.follow(0, &mut state)?;
        loop {
            let next = self.queue.pop().or_else(|| {
                let (at, label) = self.plain_queue.pop_first()?;
                Some((label, at, State::default()))
            });
            let Some((label, at, mut state)) = next else { return Some(()) };
            self.out.push(Operation::Label { label });
            self.follow(at, &mut state)?;
        }
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        Value(self.values)
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Follows packets from the micro-operation at `at` to the end.
    fn follow(&mut self, mut at: usize, state: &mut State) -> Option<()> {
        loop {
            if self.out.len() > MOST {
                return None;
            }
            let operation = *self.way.operations.get(at)?;
            at += 1;
            match operation {
                Operation::Label { label } => {
                    if self.way.ends.contains(&label) && !self.begin(label, at, state) {
                        return Some(());
                    }
                }
                Operation::Jump { to } => at = *self.places.get(&to)?,
                Operation::Branch { when, to } => {
                    let when = state.name(when);
                    match state.truth(when, &self.bits) {
                        Some(true) => at = *self.places.get(&to)?,
                        Some(false) => {}
                        None => self.branch(when, to, state)?,
                    }
                }
                Operation::Require { base, octets, otherwise } => {
                    if !state.has(base, octets) {
                        self.require(base, octets, otherwise, state)?;
                    }
                }
                Operation::Locate { to, function, index, otherwise } => {
                    self.locate((to, function, index), otherwise, state)?;
                }
                Operation::Front { offset, octets, outer, otherwise } => {
                    self.front((offset, octets, outer), otherwise, state)?;
                }
                Operation::Forward | Operation::Drop { .. } | Operation::Punt { .. } => {
                    self.settle_all(state);
                    self.out.push(operation);
                    return Some(());
                }
                other => self.straight(other, state),
            }
        }
    }

    /// Begins what stands behind the end of a function. False when packets go on
    /// in a copy that knows nothing of them.
    fn begin(&mut self, end: Label, at: usize, state: &mut State) -> bool {
        state.forget_names();
        let copies = self.copies.entry(end).or_default();
        *copies += 1;
        if *copies <= COPIES {
            return true;
        }
        self.settle_all(state);
        let to = match self.plain.get(&end) {
            Some(label) => *label,
            None => {
                let label = self.label();
                self.plain.insert(end, label);
                self.plain_queue.insert(at, label);
                label
            }
        };
        self.out.push(Operation::Jump { to });
        false
    }

    /// A label for the other side of a branch.
    fn aside(&mut self, to: Label, state: State) -> Option<Label> {
        let label = self.label();
        self.queue.push((label, *self.places.get(&to)?, state));
        Some(label)
    }

    fn branch(&mut self, when: Value, to: Label, state: &mut State) -> Option<()> {
        let mut aside = state.clone();
        aside.learn(when, true);
        let to = self.aside(to, aside)?;
        // A jump for each of several flags costs less than to join them.
        for when in self.alternatives(when, state) {
            self.out.push(Operation::Branch { when, to });
        }
        state.learn(when, false);
        Some(())
    }

    /// Flags of which at least one is set where `flag` is.
    fn alternatives(&mut self, flag: Value, state: &mut State) -> Vec<Value> {
        if let Some((left, right)) = state.either(flag) {
            return [left, right].map(|flag| self.alternatives(flag, state)).concat();
        }
        if let Some((left, right)) = state.inverted(flag).and_then(|both| state.both(both)) {
            let alternatives = [left, right].map(|flag| {
                let not = self.not(flag, state);
                self.alternatives(not, state)
            });
            return alternatives.concat();
        }
        vec![flag]
    }

    /// 1 where a flag is 0.
    fn not(&mut self, flag: Value, state: &mut State) -> Value {
        if let Some(inverted) = state.inverted(flag) {
            return inverted;
        }
        let one = self.once(Expression::Constant(1), state);
        let (left, right) = (one.min(flag), one.max(flag));
        self.once(Expression::Arithmetic(Operator::ExclusiveOr, left, right), state)
    }

    fn require(
        &mut self,
        base: Base,
        octets: u16,
        otherwise: Label,
        state: &mut State,
    ) -> Option<()> {
        let otherwise = self.aside(otherwise, state.clone())?;
        self.out.push(Operation::Require { base, octets, otherwise });
        state.learn_octets(base, octets);
        Some(())
    }

    /// The frame begins elsewhere.
    fn front(
        &mut self,
        (offset, octets, outer): (Value, u16, u16),
        otherwise: Label,
        state: &mut State,
    ) -> Option<()> {
        self.settle_all(state);
        let offset = state.name(offset);
        let otherwise = self.aside(otherwise, state.clone())?;
        self.out.push(Operation::Front { offset, octets, outer, otherwise });
        for (note, at) in state.moved(offset, (octets, outer)) {
            let constant = self.once(Expression::Constant(at.into()), state);
            state.noted(note, constant);
        }
        Some(())
    }

    fn locate(
        &mut self,
        (to, function, index): (Value, u8, Value),
        otherwise: Option<Label>,
        state: &mut State,
    ) -> Option<()> {
        let index = state.name(index);
        let otherwise = match otherwise {
            Some(label) if !state.is_good(index) => Some(self.aside(label, state.clone())?),
            _ => None,
        };
        let new = self.value();
        self.out.push(Operation::Locate { to: new, function, index, otherwise });
        state.learn_index(index);
        state.call(to, new);
        Some(())
    }

    /// A micro-operation behind which the next one follows.
    fn straight(&mut self, operation: Operation, state: &mut State) {
        let operation = operation.renamed(|value| state.name(value), |label| label);
        match operation {
            Operation::StorePacket { place, value } => {
                self.settle(place, state);
                // What stands there already is not written again.
                if state.known(&Expression::Packet(place)) != Some(value) {
                    self.out.push(operation);
                    state.stored(place, value, &self.bits);
                }
            }
            Operation::StoreContext { context, field, value } => {
                self.out.push(operation);
                state.stored_context(context, field, value, &self.bits);
            }
            Operation::AddContext { context, field, .. } => {
                self.out.push(operation);
                state.forget_context(context, field);
            }
            Operation::SetTag { slot, value } => {
                self.out.push(operation);
                state.tagged(slot, value, &self.bits);
            }
            Operation::Repair { checksum, change } => self.repair(checksum, change, state),
            Operation::Truncate { .. } => {
                self.settle_all(state);
                self.out.push(operation);
                state.cut();
            }
            _ => self.define(operation, state),
        }
    }

    /// A value: what it is called if it is known already, or else a new one.
    fn define(&mut self, operation: Operation, state: &mut State) {
        let Some(to) = operation.defines() else { return };
        if let Operation::LoadPacket { place, .. } = operation {
            self.settle(place, state);
        }
        let Some(expression) = state.expression(&operation, &self.bits) else { return };
        let value = match expression {
            Expression::Same(value) => value,
            _ => self.once(expression, state),
        };
        state.call(to, value);
    }

    /// The value of an expression, computed unless it is known.
    fn once(&mut self, expression: Expression, state: &mut State) -> Value {
        state.known(&expression).unwrap_or_else(|| {
            let new = self.value();
            if let Some(operation) = expression.operation(new) {
                self.bits.note(new, &operation);
                self.out.push(operation);
            }
            state.learn_value(expression, new);
            new
        })
    }

    /// Notes a change of what a checksum covers.
    fn repair(&mut self, checksum: Checksum, change: Value, state: &mut State) {
        if self.bits.constant(change) == Some(0) {
            return;
        }
        if let Some(before) = state.pending(checksum) {
            let bits = self.bits.of(before).max(self.bits.of(change)) + 1;
            if bits <= crate::expression::CHANGE_BITS {
                let sum = self.value();
                let operation = Operation::Arithmetic {
                    to: sum,
                    operator: Operator::Add,
                    left: before,
                    right: change,
                };
                self.bits.note(sum, &operation);
                self.out.push(operation);
                state.set_pending(checksum, Some(sum));
                return;
            }
        }
        self.settle(checksum.place(), state);
        state.set_pending(checksum, Some(change));
    }

    /// Does the repairs that are pending of checksums that `place` may touch.
    fn settle(&mut self, place: HeaderField, state: &mut State) {
        for checksum in [Checksum::Ipv4, Checksum::Udp, Checksum::Tcp] {
            if state.aliasing(checksum.place(), place) != Aliasing::Apart {
                self.settle_one(checksum, state);
            }
        }
    }

    fn settle_all(&mut self, state: &mut State) {
        for checksum in [Checksum::Ipv4, Checksum::Udp, Checksum::Tcp] {
            self.settle_one(checksum, state);
        }
    }

    fn settle_one(&mut self, checksum: Checksum, state: &mut State) {
        if let Some(change) = state.pending(checksum) {
            self.out.push(Operation::Repair { checksum, change });
            state.set_pending(checksum, None);
            state.forget_packet(checksum.place());
        }
    }
}

/// The note that says where a base begins.
fn note_of(base: Base) -> Option<Note> {
    match base {
        Base::Frame => None,
        Base::Network => Some(Note::NetworkOffset),
        Base::Transport => Some(Note::TransportOffset),
        Base::Outer => Some(Note::OuterOffset),
    }
}
