//! Loads and stores of packets' octets, and the repair of checksums.

use cranelift_codegen::ir::{InstBuilder, MemFlags, Value as Number, types};
use weft_function::lower::{Checksum, HeaderField, Value};

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

    pub(super) fn load(&mut self, place: HeaderField) -> Number {
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

    pub(super) fn store(&mut self, place: HeaderField, value: Number) {
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

    /// As [`repaired`](crate::expression::repaired) has it, in the order of
    /// octets that the machine has (RFC 1071 §2 B).
    ///
    /// `m - c`, less one where that is below 0, is `~(~m + c)` of RFC 1624 §3 for
    /// all `c` of 16 bits, 0 included.
    pub(super) fn repair(&mut self, checksum: Checksum, change: Value) {
        let change = self.folded(change);
        let place = checksum.place();
        let (start, offset) = (self.start(place.base), place.offset.into());
        let before = self.load_number(place.octets, flags(BYTES), start, offset);
        let less = self.builder.ins().isub(before, change);
        let borrow = self.builder.ins().sshr_imm(less, 63);
        let mut after = self.builder.ins().iadd(less, borrow);
        if checksum == Checksum::Udp {
            let ones = self.constant(0xffff);
            after = self.builder.ins().select(after, after, ones);
            after = self.builder.ins().select(before, after, before);
        }
        self.store_number(place.octets, flags(BYTES), after, start, offset);
    }

    /// The 16 bits that a change adds up to, turned round. Only 0 becomes 0. For
    /// several checksums it is the same, and made once.
    ///
    /// A number and itself with its halves changed add up to the sum of both
    /// halves in the upper one, with the carry out of the lower.
    fn folded(&mut self, change: Value) -> Number {
        let bits = self.bits.of(change);
        let mut sum = self.number(change);
        if bits > CHANGE_BITS {
            sum = self.builder.ins().band_imm(sum, (1 << CHANGE_BITS) - 1);
        }
        if bits > 32 {
            let turned = self.builder.ins().rotl_imm(sum, 32);
            let both = self.builder.ins().iadd(sum, turned);
            sum = self.builder.ins().ushr_imm(both, 32);
        }
        let sum = self.builder.ins().ireduce(types::I32, sum);
        let turned = self.builder.ins().rotl_imm(sum, 16);
        let both = self.builder.ins().iadd(sum, turned);
        let sum = self.builder.ins().ushr_imm(both, 16);
        let low = self.builder.ins().ireduce(types::I16, sum);
        let turned = self.builder.ins().bswap(low);
        self.builder.ins().uextend(types::I64, turned)
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
