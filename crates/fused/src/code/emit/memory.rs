//! Loads and stores of packets' octets, and the repair of checksums.

use cranelift_codegen::ir::{InstBuilder, MemFlags, Value as Number, types};
use weft_function::lower::{Checksum, Place, Value};

use super::{BYTES, Emitter, flags};
use crate::expression::CHANGE_BITS;

impl Emitter<'_> {
    pub(super) fn load_number(
        &mut self,
        octets: u8,
        flags: MemFlags,
        base: Number,
        offset: i32,
    ) -> Number {
        let ins = self.builder.ins();
        match octets {
            1 => ins.uload8(types::I64, flags, base, offset),
            2 => ins.uload16(types::I64, flags, base, offset),
            4 => ins.uload32(flags, base, offset),
            _ => ins.load(types::I64, flags, base, offset),
        }
    }

    pub(super) fn store_number(
        &mut self,
        octets: u8,
        flags: MemFlags,
        value: Number,
        base: Number,
        offset: i32,
    ) {
        let ins = self.builder.ins();
        match octets {
            1 => ins.istore8(flags, value, base, offset),
            2 => ins.istore16(flags, value, base, offset),
            4 => ins.istore32(flags, value, base, offset),
            _ => ins.store(flags, value, base, offset),
        };
    }

    pub(super) fn load(&mut self, place: Place) -> Number {
        let start = self.start(place.base);
        let offset = place.offset.into();
        let (small, flags) = (swapped(place.octets), flags(BYTES));
        let Some(small) = small else {
            return self.load_number(place.octets, flags, start, offset);
        };
        let loaded = self.builder.ins().load(small, flags, start, offset);
        let turned = self.builder.ins().bswap(loaded);
        match small {
            types::I64 => turned,
            _ => self.builder.ins().uextend(types::I64, turned),
        }
    }

    pub(super) fn store(&mut self, place: Place, value: Number) {
        let start = self.start(place.base);
        let offset = place.offset.into();
        let Some(small) = swapped(place.octets) else {
            return self.store_number(place.octets, flags(BYTES), value, start, offset);
        };
        let low = match small {
            types::I64 => value,
            _ => self.builder.ins().ireduce(small, value),
        };
        let turned = self.builder.ins().bswap(low);
        self.builder.ins().store(flags(BYTES), turned, start, offset);
    }

    /// As [`repaired`](crate::expression::repaired) has it.
    pub(super) fn repair(&mut self, checksum: Checksum, change: Value) {
        let place = checksum.place();
        let before = self.load(place);
        let inverted = self.builder.ins().bxor_imm(before, 0xffff);
        let change = self.number(change);
        let change = self.builder.ins().band_imm(change, (1 << CHANGE_BITS) - 1);
        let mut sum = self.builder.ins().iadd(inverted, change);
        // 41 bits become at most 26, then 17, then 16.
        for _ in 0..3 {
            let high = self.builder.ins().ushr_imm(sum, 16);
            let low = self.builder.ins().band_imm(sum, 0xffff);
            sum = self.builder.ins().iadd(high, low);
        }
        let mut after = self.builder.ins().bxor_imm(sum, 0xffff);
        if checksum == Checksum::Udp {
            let ones = self.constant(0xffff);
            after = self.builder.ins().select(after, after, ones);
            after = self.builder.ins().select(before, after, before);
        }
        self.store(place, after);
    }
}

/// The type of a number whose octets are turned round on their way; none for a
/// single octet.
fn swapped(octets: u8) -> Option<types::Type> {
    match octets {
        2 => Some(types::I16),
        4 => Some(types::I32),
        8 => Some(types::I64),
        _ => None,
    }
}
