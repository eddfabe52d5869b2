//! Writes programs.

use super::{
    Base, Checksum, ContextField, HeaderField, Label, Lower, Note, Operation, Operator, Program,
    Value,
};
use crate::tag::TagSlot;

/// Writes the [`Program`] of a function, one micro-operation after the other.
#[derive(Debug)]
pub struct Builder {
    program: Program,
    values: u32,
    labels: u32,
}

impl Builder {
    /// For the functions of type `F`.
    pub fn of<F: Lower>() -> Builder {
        let program = Program {
            operations: Vec::new(),
            context_octets: size_of::<F::Context>(),
            fields: F::FIELDS,
            drops: F::DROPS.len(),
        };
        Builder { program, values: 1, labels: 0 }
    }

    /// The program, which ends by letting the packet go on.
    pub fn finish(mut self) -> Program {
        self.forward();
        self.program
    }

    fn define(&mut self, operation: impl FnOnce(Value) -> Operation) -> Value {
        let to = Value(self.values);
        self.values += 1;
        self.program.operations.push(operation(to));
        to
    }

    fn push(&mut self, operation: Operation) {
        self.program.operations.push(operation);
    }

    /// A number.
    pub fn constant(&mut self, number: u64) -> Value {
        self.define(|to| Operation::Constant { to, number })
    }

    /// Bytes of the frame.
    pub fn length(&mut self) -> Value {
        self.define(|to| Operation::Length { to })
    }

    /// The time, in nanoseconds.
    pub fn now(&mut self) -> Value {
        self.define(|to| Operation::Now { to })
    }

    /// What was noted of the packet.
    pub fn note(&mut self, note: Note) -> Value {
        self.define(|to| Operation::Note { to, note })
    }

    /// The value of a tag.
    pub fn tag(&mut self, slot: TagSlot) -> Value {
        self.define(|to| Operation::Tag { to, slot })
    }

    /// Two numbers make one.
    pub fn arithmetic(&mut self, operator: Operator, left: Value, right: Value) -> Value {
        self.define(|to| Operation::Arithmetic { to, operator, left, right })
    }

    /// Sum.
    pub fn add(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::Add, left, right)
    }

    /// Difference.
    pub fn subtract(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::Subtract, left, right)
    }

    /// Difference, or 0 where the right is more.
    pub fn subtract_to_zero(&mut self, left: Value, right: Value) -> Value {
        let is_more = self.less(left, right);
        let (zero, difference) = (self.constant(0), self.subtract(left, right));
        self.select(is_more, zero, difference)
    }

    /// The lesser of two numbers.
    pub fn minimum(&mut self, left: Value, right: Value) -> Value {
        let is_less = self.less(left, right);
        self.select(is_less, left, right)
    }

    /// The greater of two numbers.
    pub fn maximum(&mut self, left: Value, right: Value) -> Value {
        let is_less = self.less(left, right);
        self.select(is_less, right, left)
    }

    /// Bits of both.
    pub fn and(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::And, left, right)
    }

    /// Bits of either.
    pub fn or(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::Or, left, right)
    }

    /// 1 where `flag` is 0, 0 where it is 1.
    pub fn not(&mut self, flag: Value) -> Value {
        let one = self.constant(1);
        self.arithmetic(Operator::ExclusiveOr, flag, one)
    }

    /// The bits that `mask` has.
    pub fn masked(&mut self, value: Value, mask: u64) -> Value {
        let mask = self.constant(mask);
        self.and(value, mask)
    }

    /// Shifted to the left.
    pub fn shift_left(&mut self, value: Value, bits: u32) -> Value {
        let bits = self.constant(bits.into());
        self.arithmetic(Operator::ShiftLeft, value, bits)
    }

    /// Shifted to the right.
    pub fn shift_right(&mut self, value: Value, bits: u32) -> Value {
        let bits = self.constant(bits.into());
        self.arithmetic(Operator::ShiftRight, value, bits)
    }

    /// Whether both are equal.
    pub fn equal(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::Equal, left, right)
    }

    /// Whether a value is this number.
    pub fn is(&mut self, value: Value, number: u64) -> Value {
        let number = self.constant(number);
        self.equal(value, number)
    }

    /// Whether the left is less.
    pub fn less(&mut self, left: Value, right: Value) -> Value {
        self.arithmetic(Operator::Less, left, right)
    }

    /// One of two values.
    pub fn select(&mut self, when: Value, then: Value, otherwise: Value) -> Value {
        self.define(|to| Operation::Select { to, when, then, otherwise })
    }

    /// Jumps unless the packet has that many bytes from `base` on.
    pub fn require(&mut self, base: Base, octets: u16, otherwise: Label) {
        self.push(Operation::Require { base, octets, otherwise });
    }

    /// Bytes of the packet.
    pub fn load(&mut self, base: Base, offset: u16, octets: u8) -> Value {
        let place = HeaderField { base, offset, octets };
        self.define(|to| Operation::LoadPacket { to, place })
    }

    /// Bytes into the packet.
    pub fn store(&mut self, base: Base, offset: u16, octets: u8, value: Value) {
        let place = HeaderField { base, offset, octets };
        self.push(Operation::StorePacket { place, value });
    }

    /// A field of the context.
    pub fn load_context(&mut self, field: ContextField) -> Value {
        let context = Value::CONTEXT;
        self.define(|to| Operation::LoadContext { to, context, field })
    }

    /// Sets a field of the context.
    pub fn store_context(&mut self, field: ContextField, value: Value) {
        self.push(Operation::StoreContext { context: Value::CONTEXT, field, value });
    }

    /// Adds to a field of the context.
    pub fn add_context(&mut self, field: ContextField, value: Value) {
        self.push(Operation::AddContext { context: Value::CONTEXT, field, value });
    }

    /// Sets a tag.
    pub fn set_tag(&mut self, slot: TagSlot, value: Value) {
        self.push(Operation::SetTag { slot, value });
    }

    /// Repairs a checksum.
    pub fn repair(&mut self, checksum: Checksum, change: Value) {
        self.push(Operation::Repair { checksum, change });
    }

    /// Makes the frame begin `octets` before what is at `offset` in it, in a tunnel
    /// whose IP header is at `outer`, or jumps.
    pub fn front(&mut self, offset: Value, octets: u16, outer: u16, otherwise: Label) {
        self.push(Operation::Front { offset, octets, outer, otherwise });
    }

    /// Cuts off what is behind so many octets of the frame.
    pub fn truncate(&mut self, octets: Value) {
        self.push(Operation::Truncate { octets });
    }

    /// A label, to be [placed](Self::place) later.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Jumps to `label` lead here.
    pub fn place(&mut self, label: Label) {
        self.push(Operation::Label { label });
    }

    /// Jumps if `when` is not 0.
    pub fn branch(&mut self, when: Value, to: Label) {
        self.push(Operation::Branch { when, to });
    }

    /// Jumps.
    pub fn jump(&mut self, to: Label) {
        self.push(Operation::Jump { to });
    }

    /// The packet goes on.
    pub fn forward(&mut self) {
        self.push(Operation::Forward);
    }

    /// The packet is dropped for the reason of that number in
    /// [`DROPS`](crate::UserPlaneFunction::DROPS).
    pub fn drop_for(&mut self, reason: u8) {
        self.push(Operation::Drop { function: 0, reason });
    }

    /// `process` handles the packet.
    pub fn punt(&mut self) {
        self.push(Operation::Punt { function: 0 });
    }

    /// Bytes of the IP packet, or of the frame where there is none: what
    /// [`Headers::ip_length`](crate::Headers::ip_length) says.
    pub fn ip_length(&mut self) -> Value {
        let noted = self.note(Note::NetworkLength);
        let frame = self.length();
        self.select(noted, noted, frame)
    }
}
