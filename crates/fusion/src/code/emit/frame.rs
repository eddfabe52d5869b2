//! Where a frame begins and ends.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value as Number, types};
use weft_function::lower::{Base, Label, Value};
use weft_function::metadata::layout;

use super::{Emitter, NOTES, Scope, flags};

impl Emitter<'_> {
    pub(super) fn front(&mut self, offset: Value, (octets, outer): (u16, u16), otherwise: Label) {
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
        let network = self.offset(Base::Network);
        let network = match network == offset {
            true => {
                let zero = self.constant(0);
                self.builder.ins().select(offset, octets, zero)
            }
            false => self.shifted(network, offset, octets),
        };
        let transport = self.offset(Base::Transport);
        let transport = self.shifted(transport, offset, octets);
        let outer = self.constant(outer.into());
        for (at, number) in [
            (layout::NETWORK_OFFSET, network),
            (layout::TRANSPORT_OFFSET, transport),
            (layout::OUTER_OFFSET, outer),
        ] {
            self.store_number(2, flags(NOTES), number, self.packet, at);
        }
        let longer = self.builder.ins().iadd(length, octets);
        let length = self.builder.ins().isub(longer, offset);
        self.set_length(length);
        let there = self.builder.ins().iadd(start, offset);
        let start = self.builder.ins().isub(there, octets);
        let start = self.whole(start);
        let starts = [Some(start), None, None, None];
        let offsets = [None, Some(network), Some(transport), Some(outer)];
        self.here = Some(Scope { starts, offsets, length: Some(length) });
    }

    /// Where a header begins that began at `before`: 0 stays, and nothing goes below.
    fn shifted(&mut self, before: Number, offset: Number, octets: Number) -> Number {
        let sum = self.builder.ins().iadd(before, octets);
        let moved = self.builder.ins().isub(sum, offset);
        let moved = self.builder.ins().ireduce(types::I16, moved);
        let moved = self.builder.ins().uextend(types::I64, moved);
        let zero = self.constant(0);
        let is_below = self.builder.ins().icmp(IntCC::UnsignedLessThan, sum, offset);
        let moved = self.builder.ins().select(is_below, zero, moved);
        self.builder.ins().select(before, moved, before)
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
}
