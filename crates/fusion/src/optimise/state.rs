//! What is known of packets at a point of their way.

use std::collections::HashMap;

use weft_function::TagSlot;
use weft_function::lower::{
    Base, Checksum, ContextField, HeaderField, Note, Operation, Operator, Value,
};

use super::note_of;
use crate::bits::Bits;
use crate::expression::evaluate;

/// Octets in front of every IP header: those of Ethernet (IEEE 802.3 §3.2).
const ETHERNET: u16 = 14;

/// What a value is, if it was computed without an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Expression {
    Same(Value),
    Constant(u64),
    Length,
    Now,
    Note(Note),
    Tag(TagSlot),
    Arithmetic(Operator, Value, Value),
    Select(Value, Value, Value),
    Packet(HeaderField),
    Context(Value, ContextField),
}

impl Expression {
    /// The micro-operation that computes it, if one is needed.
    pub fn operation(self, to: Value) -> Option<Operation> {
        Some(match self {
            Expression::Same(_) => return None,
            Expression::Constant(number) => Operation::Constant { to, number },
            Expression::Length => Operation::Length { to },
            Expression::Now => Operation::Now { to },
            Expression::Note(note) => Operation::Note { to, note },
            Expression::Tag(slot) => Operation::Tag { to, slot },
            Expression::Arithmetic(operator, left, right) => {
                Operation::Arithmetic { to, operator, left, right }
            }
            Expression::Select(when, then, otherwise) => {
                Operation::Select { to, when, then, otherwise }
            }
            Expression::Packet(place) => Operation::LoadPacket { to, place },
            Expression::Context(context, field) => Operation::LoadContext { to, context, field },
        })
    }
}

/// How two places of a packet lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aliasing {
    /// They have no byte in common.
    Apart,
    /// They may have.
    Perhaps,
}

/// What is known of packets at a point of their way.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// What the author's values are called.
    names: HashMap<Value, Value>,
    /// Values that are there to be used again.
    known: HashMap<Expression, Value>,
    /// What was compared, and how it came out.
    truths: HashMap<Value, bool>,
    /// Values that were found to be a constant.
    constants: HashMap<Value, u64>,
    octets: [u16; Base::ALL.len()],
    indexes: Vec<Value>,
    /// Changes of which checksums do not know yet.
    pending: [Option<Value>; 3],
    /// Octets between the beginnings of the IP and the transport header.
    gap: Option<u16>,
    /// Whether the IP header begins behind that of Ethernet.
    behind_ethernet: bool,
    /// Where it begins, if that is known.
    network: Option<u16>,
    /// What is said of values that were compared.
    definitions: HashMap<Value, Expression>,
}

impl State {
    pub fn name(&self, value: Value) -> Value {
        self.names.get(&value).copied().unwrap_or(value)
    }

    pub fn call(&mut self, value: Value, new: Value) {
        self.names.insert(value, new);
    }

    pub fn forget_names(&mut self) {
        self.names.clear();
    }

    fn constant(&self, value: Value, bits: &Bits) -> Option<u64> {
        let constant = bits.constant(value).or_else(|| self.constants.get(&value).copied());
        constant.or_else(|| match self.truths.get(&value)? {
            false => Some(0),
            // A flag is 1 where it is not 0; of other values more is not known.
            true => self.is_flag(value).then_some(1),
        })
    }

    /// Whether a value is known to be 0 or not to be 0.
    pub fn truth(&self, value: Value, bits: &Bits) -> Option<bool> {
        let constant = self.constant(value, bits).map(|number| number != 0);
        constant.or_else(|| self.truths.get(&value).copied())
    }

    /// A value was found to be 0, or not to be.
    pub fn learn(&mut self, value: Value, is: bool) {
        self.truths.insert(value, is);
        match self.definitions.get(&value).copied() {
            Some(Expression::Arithmetic(Operator::Equal, left, right)) if is => {
                self.learn_equal(left, right);
                self.learn_equal(right, left);
            }
            Some(Expression::Arithmetic(Operator::ExclusiveOr, ..)) => {
                if let Some(flag) = self.inverted(value) {
                    self.learn(flag, !is);
                }
            }
            // Of flags that are joined by `or`, none is set; by `and`, all are.
            Some(Expression::Arithmetic(Operator::Or, left, right)) if !is => {
                self.learn(left, false);
                self.learn(right, false);
            }
            Some(Expression::Arithmetic(Operator::And, left, right))
                if is && self.is_flag(left) && self.is_flag(right) =>
            {
                self.learn(left, true);
                self.learn(right, true);
            }
            Some(Expression::Arithmetic(Operator::Less, left, right)) if !is => {
                let note = Some(Expression::Note(Note::NetworkOffset));
                if self.definition(left) == note
                    && let Some(Expression::Constant(least)) = self.definition(right)
                {
                    self.behind_ethernet |= least >= u64::from(ETHERNET);
                }
            }
            _ => {}
        }
    }

    fn definition(&self, value: Value) -> Option<Expression> {
        self.definitions.get(&value).copied()
    }

    /// The two flags of which a flag is set where at least one is.
    pub fn either(&self, flag: Value) -> Option<(Value, Value)> {
        self.joined(Operator::Or, flag)
    }

    /// The two flags of which a flag is set where both are.
    pub fn both(&self, flag: Value) -> Option<(Value, Value)> {
        self.joined(Operator::And, flag)
    }

    fn joined(&self, by: Operator, flag: Value) -> Option<(Value, Value)> {
        match self.definition(flag)? {
            Expression::Arithmetic(operator, left, right)
                if operator == by && self.is_flag(left) && self.is_flag(right) =>
            {
                Some((left, right))
            }
            _ => None,
        }
    }

    /// The flag of which this one is the contrary.
    pub fn inverted(&self, flag: Value) -> Option<Value> {
        let Some(Expression::Arithmetic(Operator::ExclusiveOr, left, right)) =
            self.definition(flag)
        else {
            return None;
        };
        let is_one = |value| self.definition(value) == Some(Expression::Constant(1));
        [(left, right), (right, left)]
            .into_iter()
            .find(|(flag, one)| is_one(*one) && self.is_flag(*flag))
            .map(|(flag, _)| flag)
    }

    fn is_flag(&self, value: Value) -> bool {
        use Operator::{And, Equal, ExclusiveOr, Less, Or};
        match self.definition(value) {
            Some(Expression::Constant(number)) => number <= 1,
            Some(Expression::Arithmetic(Equal | Less, ..)) => true,
            Some(Expression::Arithmetic(And | Or | ExclusiveOr, left, right)) => {
                self.is_flag(left) && self.is_flag(right)
            }
            _ => false,
        }
    }

    /// Both are the same.
    fn learn_equal(&mut self, value: Value, other: Value) {
        if let Some(Expression::Constant(number)) = self.definition(other) {
            self.constants.insert(value, number);
        }
        let (note, other) = (self.definition(value), self.definition(other));
        if note != Some(Expression::Note(Note::TransportOffset)) {
            return;
        }
        if let (Some(network), Some(Expression::Constant(transport))) = (self.network, other) {
            let gap = transport.checked_sub(network.into());
            self.gap = gap.and_then(|gap| u16::try_from(gap).ok());
        }
        if let Some(Expression::Arithmetic(Operator::Add, left, right)) = other {
            for (left, right) in [(left, right), (right, left)] {
                let network = Some(Expression::Note(Note::NetworkOffset));
                if self.definition(left) == network
                    && let Some(Expression::Constant(gap)) = self.definition(right)
                {
                    self.gap = u16::try_from(gap).ok();
                }
            }
        }
    }

    pub fn has(&self, base: Base, octets: u16) -> bool {
        self.octets[base as usize] >= octets
    }

    pub fn learn_octets(&mut self, base: Base, octets: u16) {
        for base in [base, Base::Frame] {
            let known = &mut self.octets[base as usize];
            *known = (*known).max(octets);
        }
    }

    pub fn is_good(&self, index: Value) -> bool {
        self.indexes.contains(&index)
    }

    pub fn learn_index(&mut self, index: Value) {
        self.indexes.push(index);
    }

    pub fn pending(&self, checksum: Checksum) -> Option<Value> {
        self.pending[checksum as usize]
    }

    pub fn set_pending(&mut self, checksum: Checksum, change: Option<Value>) {
        self.pending[checksum as usize] = change;
    }

    /// What a value is that the author computes so; simpler where it can be.
    pub fn expression(&self, operation: &Operation, bits: &Bits) -> Option<Expression> {
        Some(match *operation {
            Operation::Constant { number, .. } => Expression::Constant(number),
            Operation::Length { .. } => Expression::Length,
            Operation::Now { .. } => Expression::Now,
            Operation::Note { note, .. } => Expression::Note(note),
            Operation::Tag { slot, .. } => Expression::Tag(slot),
            Operation::Arithmetic { operator, left, right, .. } => {
                self.arithmetic(operator, left, right, bits)
            }
            Operation::Select { when, then, otherwise, .. } => match self.truth(when, bits) {
                Some(true) => Expression::Same(then),
                Some(false) => Expression::Same(otherwise),
                None if then == otherwise => Expression::Same(then),
                None => Expression::Select(when, then, otherwise),
            },
            Operation::LoadPacket { place, .. } => Expression::Packet(place),
            Operation::LoadContext { context, field, .. } => Expression::Context(context, field),
            _ => return None,
        })
    }

    fn arithmetic(&self, operator: Operator, left: Value, right: Value, bits: &Bits) -> Expression {
        use Operator::*;
        let constants = (self.constant(left, bits), self.constant(right, bits));
        if let (Some(left), Some(right)) = constants {
            return Expression::Constant(evaluate(operator, left, right));
        }
        match (operator, constants) {
            (Add | Subtract | Or | ExclusiveOr | ShiftLeft | ShiftRight, (_, Some(0))) => {
                Expression::Same(left)
            }
            (Add | Or | ExclusiveOr, (Some(0), _)) => Expression::Same(right),
            (And | Multiply | MultiplyHigh, (Some(0), _) | (_, Some(0))) => Expression::Constant(0),
            (Multiply, (_, Some(1))) => Expression::Same(left),
            // A mask that leaves all bits there are.
            (And, (_, Some(mask))) if covers(mask, bits.of(left)) => Expression::Same(left),
            (And, (Some(mask), _)) if covers(mask, bits.of(right)) => Expression::Same(right),
            (Equal, _) if left == right => Expression::Constant(1),
            // The order makes no difference, so there is one.
            (Add | And | Or | ExclusiveOr | Equal | Multiply | MultiplyHigh, _) if left > right => {
                Expression::Arithmetic(operator, right, left)
            }
            _ => Expression::Arithmetic(operator, left, right),
        }
    }

    pub fn known(&self, expression: &Expression) -> Option<Value> {
        self.known.get(expression).copied()
    }

    pub fn learn_value(&mut self, expression: Expression, value: Value) {
        self.known.insert(expression, value);
        self.definitions.insert(value, expression);
    }

    /// A value was stored at a place of the packet.
    pub fn stored(&mut self, place: HeaderField, value: Value, bits: &Bits) {
        self.forget_packet(place);
        if bits.of(value) <= u32::from(place.octets) * 8 {
            self.known.insert(Expression::Packet(place), value);
        }
    }

    /// The bytes at a place may have become others.
    pub fn forget_packet(&mut self, place: HeaderField) {
        let mut known = std::mem::take(&mut self.known);
        known.retain(|expression, _| match expression {
            Expression::Packet(other) => self.aliasing(*other, place) == Aliasing::Apart,
            _ => true,
        });
        self.known = known;
    }

    /// The frame begins `octets` before what was at `offset`, in a tunnel at `outer`.
    /// Returns what is noted now, as far as that is known: where the IP header was at
    /// `offset`, it and what follows it stay what they were.
    pub fn moved(&mut self, offset: Value, (octets, outer): (u16, u16)) -> Vec<(Note, u16)> {
        let network = self.known(&Expression::Note(Note::NetworkOffset));
        // Behind an Ethernet header it is not at 0, which would stay.
        let is_network = self.behind_ethernet && network == Some(offset);
        let gap = self.gap.filter(|_| is_network);
        let transport = gap.and_then(|gap| gap.checked_add(octets));
        let stays = |place: &HeaderField| match place.base {
            Base::Network => is_network,
            Base::Transport => transport.is_some(),
            _ => false,
        };
        let is_kept = |expression: &Expression| match expression {
            Expression::Packet(place) => stays(place),
            Expression::Length => false,
            Expression::Note(note) => {
                !matches!(note, Note::NetworkOffset | Note::TransportOffset | Note::OuterOffset)
            }
            _ => true,
        };
        self.known.retain(|expression, _| is_kept(expression));
        self.definitions.retain(|_, expression| is_kept(expression));
        self.octets = Default::default();
        self.octets[Base::Frame as usize] = octets;
        self.behind_ethernet = is_network && octets >= ETHERNET;
        self.network = is_network.then_some(octets);
        self.gap = gap.filter(|_| transport.is_some());
        let notes = [
            (Note::OuterOffset, Some(outer)),
            (Note::NetworkOffset, self.network),
            (Note::TransportOffset, transport),
        ];
        notes.into_iter().filter_map(|(note, at)| Some((note, at?))).collect()
    }

    /// What is noted is a constant now.
    pub fn noted(&mut self, note: Note, constant: Value) {
        self.known.insert(Expression::Note(note), constant);
    }

    /// The frame may have become shorter.
    pub fn cut(&mut self) {
        self.known.remove(&Expression::Length);
        self.octets = Default::default();
    }

    pub fn stored_context(
        &mut self,
        context: Value,
        field: ContextField,
        value: Value,
        bits: &Bits,
    ) {
        self.forget_context(context, field);
        if bits.of(value) <= u32::from(field.octets) * 8 {
            self.known.insert(Expression::Context(context, field), value);
        }
    }

    pub fn forget_context(&mut self, context: Value, field: ContextField) {
        self.known.retain(|expression, _| match expression {
            Expression::Context(other, known) if *other == context => {
                known.offset + u16::from(known.octets) <= field.offset
                    || field.offset + u16::from(field.octets) <= known.offset
            }
            _ => true,
        });
    }

    pub fn tagged(&mut self, slot: TagSlot, value: Value, bits: &Bits) {
        self.known.remove(&Expression::Tag(slot));
        if bits.of(value) <= 32 {
            self.known.insert(Expression::Tag(slot), value);
        }
    }

    /// Whether two places of the packet may have bytes in common.
    pub fn aliasing(&self, one: HeaderField, other: HeaderField) -> Aliasing {
        let (one, other) = (self.rebased(one), self.rebased(other));
        let end = |place: HeaderField| u32::from(place.offset) + u32::from(place.octets);
        let apart = match (one.base == other.base, note_of(one.base), note_of(other.base)) {
            (true, ..) => end(one) <= other.offset.into() || end(other) <= one.offset.into(),
            (false, None, _) => self.is_in_front(one, other),
            (false, _, None) => self.is_in_front(other, one),
            _ => false,
        };
        if apart { Aliasing::Apart } else { Aliasing::Perhaps }
    }

    /// Whether a place of the frame ends before the IP header begins.
    fn is_in_front(&self, frame: HeaderField, other: HeaderField) -> bool {
        let end = frame.offset + u16::from(frame.octets);
        let begin = self.network.unwrap_or(if self.behind_ethernet { ETHERNET } else { 0 });
        other.base == Base::Network && end <= begin
    }

    /// A place of the transport header as one of the IP header's, where their
    /// distance is known.
    fn rebased(&self, place: HeaderField) -> HeaderField {
        match (place.base, self.gap) {
            (Base::Transport, Some(gap)) => match place.offset.checked_add(gap) {
                Some(offset) => HeaderField { base: Base::Network, offset, octets: place.octets },
                None => place,
            },
            _ => place,
        }
    }
}

/// Whether a mask leaves all of the low `bits`.
fn covers(mask: u64, bits: u32) -> bool {
    let low = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    mask & low == low
}
