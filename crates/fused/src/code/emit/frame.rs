//! Where a frame begins and ends.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value as Number};
use weft_dpdk::layout;
use weft_function::lower::{Base, Label, Value};

use super::{Emitter, NOTES, Scope, flags};

impl Emitter<'_> {
    pub(super) fn front(&mut self, offset: Value, octets: u16, otherwise: Label) {
        let offset = self.number(offset);
        let (length, start) = (self.length(), self.start(Base::Frame));
        let is_beyond = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, offset, length);
        self.branch(is_beyond, otherwise, true);
        let before = self.load_number(2, flags(NOTES), self.packet, layout::DATA_OFF);
        let end = self.builder.ins().iadd(before, offset);
        let octets = self.constant(octets.into());
        let has_no_room = self.builder.ins().icmp(IntCC::UnsignedLessThan, end, octets);
        self.branch(has_no_room, otherwise, true);

        let begin = self.builder.ins().isub(end, octets);
        self.store_number(2, flags(NOTES), begin, self.packet, layout::DATA_OFF);
        for at in [layout::NETWORK_OFFSET, layout::TRANSPORT_OFFSET, layout::OUTER_OFFSET] {
            self.shift_note(at, offset, octets);
        }
        let longer = self.builder.ins().iadd(length, octets);
        let length = self.builder.ins().isub(longer, offset);
        self.set_length(length);
        let there = self.builder.ins().iadd(start, offset);
        let start = self.builder.ins().isub(there, octets);
        let starts = [Some(start), None, None, None];
        self.here = Some(Scope { starts, length: Some(length), ..Scope::default() });
    }

    /// Moves where a header begins; 0 stays, and nothing goes below it.
    fn shift_note(&mut self, at: i32, offset: Number, octets: Number) {
        let before = self.load_number(2, flags(NOTES), self.packet, at);
        let sum = self.builder.ins().iadd(before, octets);
        let moved = self.builder.ins().isub(sum, offset);
        let zero = self.constant(0);
        let is_below = self.builder.ins().icmp(IntCC::UnsignedLessThan, sum, offset);
        let moved = self.builder.ins().select(is_below, zero, moved);
        let moved = self.builder.ins().select(before, moved, before);
        self.store_number(2, flags(NOTES), moved, self.packet, at);
    }

    fn set_length(&mut self, length: Number) {
        self.store_number(2, flags(NOTES), length, self.packet, layout::DATA_LEN);
        self.store_number(4, flags(NOTES), length, self.packet, layout::PKT_LEN);
    }

    pub(super) fn truncate(&mut self, octets: Value) {
        let (octets, before) = (self.number(octets), self.length());
        let is_less = self.builder.ins().icmp(IntCC::UnsignedLessThan, octets, before);
        let length = self.builder.ins().select(is_less, octets, before);
        self.set_length(length);
        let scope = self.here.unwrap_or_default();
        self.here = Some(Scope { length: Some(length), ..scope });
    }

    pub(super) fn note_outer(&mut self, offset: Value) {
        let offset = self.number(offset);
        self.store_number(2, flags(NOTES), offset, self.packet, layout::OUTER_OFFSET);
        let mut scope = self.here.unwrap_or_default();
        (scope.starts[Base::Outer as usize], scope.offsets[Base::Outer as usize]) = (None, None);
        self.here = Some(scope);
    }
}
