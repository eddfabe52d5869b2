//! What is done with numbers, and flags: numbers that are 0 or 1.
//!
//! A flag becomes a number only where it is used as one. What jumps or selects by
//! it compares anew, which the processor does in the same instruction.

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value as Number, types};
use weft_function::lower::{Operation, Operator, Value};

use super::Emitter;

/// A value that is 0 or 1.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    /// How two numbers compare.
    Compared(IntCC, Number, Number),
    /// A byte.
    Made(Number),
}

impl Emitter<'_> {
    /// The flag that a micro-operation defines, if it defines one.
    pub(super) fn flag(&mut self, operation: &Operation) -> Option<Flag> {
        let Operation::Arithmetic { operator, left, right, .. } = *operation else { return None };
        match operator {
            Operator::Equal => Some(self.compared(IntCC::Equal, left, right)),
            Operator::Less => Some(self.compared(IntCC::UnsignedLessThan, left, right)),
            Operator::And | Operator::Or | Operator::ExclusiveOr => {
                self.joined(operator, left, right)
            }
            _ => None,
        }
    }

    fn compared(&mut self, how: IntCC, left: Value, right: Value) -> Flag {
        Flag::Compared(how, self.number(left), self.number(right))
    }

    /// What comes of two flags.
    fn joined(&mut self, operator: Operator, left: Value, right: Value) -> Option<Flag> {
        if operator == Operator::ExclusiveOr {
            for (flag, one) in [(left, right), (right, left)] {
                if self.bits.constant(one) == Some(1)
                    && let Some(flag) = self.flags.get(&flag).copied()
                {
                    return Some(self.inverted(flag));
                }
            }
        }
        let (left, right) = (*self.flags.get(&left)?, *self.flags.get(&right)?);
        let (left, right) = (self.make(left), self.make(right));
        let ins = self.builder.ins();
        Some(Flag::Made(match operator {
            Operator::And => ins.band(left, right),
            Operator::Or => ins.bor(left, right),
            _ => ins.bxor(left, right),
        }))
    }

    fn inverted(&mut self, flag: Flag) -> Flag {
        match flag {
            Flag::Compared(how, left, right) => Flag::Compared(how.complement(), left, right),
            Flag::Made(flag) => Flag::Made(self.builder.ins().bxor_imm(flag, 1)),
        }
    }

    /// The byte of a flag.
    pub(super) fn make(&mut self, flag: Flag) -> Number {
        match flag {
            Flag::Compared(how, left, right) => self.builder.ins().icmp(how, left, right),
            Flag::Made(flag) => flag,
        }
    }

    /// What is 0 where `value` is 0, and only there.
    pub(super) fn condition(&mut self, value: Value) -> Number {
        match self.flags.get(&value).copied() {
            Some(flag) => self.make(flag),
            None => self.number(value),
        }
    }

    pub(super) fn arithmetic(&mut self, operator: Operator, left: Value, right: Value) -> Number {
        let of = [left, right].map(|value| self.bits.of(value));
        let (left, right) = (self.number(left), self.number(right));
        let ins = self.builder.ins();
        match operator {
            Operator::Add => ins.iadd(left, right),
            Operator::Subtract => ins.isub(left, right),
            Operator::Multiply => ins.imul(left, right),
            Operator::MultiplyHigh => ins.umulhi(left, right),
            Operator::And => ins.band(left, right),
            Operator::Or => ins.bor(left, right),
            Operator::ExclusiveOr => ins.bxor(left, right),
            Operator::ShiftLeft | Operator::ShiftRight => self.shift(operator, left, right),
            Operator::Equal => self.compare(IntCC::Equal, left, right),
            Operator::Less => self.compare(IntCC::UnsignedLessThan, left, right),
            Operator::Difference16 => self.difference(16, of, (left, right)),
            Operator::Difference32 => self.difference(32, of, (left, right)),
        }
    }

    /// The processor takes the number of bits modulo 64.
    fn shift(&mut self, operator: Operator, left: Number, right: Number) -> Number {
        let ins = self.builder.ins();
        let shifted = match operator {
            Operator::ShiftLeft => ins.ishl(left, right),
            _ => ins.ushr(left, right),
        };
        let beyond = self.builder.ins().icmp_imm(IntCC::UnsignedGreaterThan, right, 63);
        let zero = self.constant(0);
        self.builder.ins().select(beyond, zero, shifted)
    }

    fn compare(&mut self, how: IntCC, left: Number, right: Number) -> Number {
        let flag = self.builder.ins().icmp(how, left, right);
        self.builder.ins().uextend(types::I64, flag)
    }

    /// `~m + m'` of RFC 1624 §3, for fields of `bits`; the numbers have so many.
    fn difference(&mut self, bits: u32, of: [u32; 2], (old, new): (Number, Number)) -> Number {
        let mask = (1 << bits) - 1;
        let [old, new] = [(old, of[0]), (new, of[1])].map(|(number, has)| match has <= bits {
            true => number,
            false => self.builder.ins().band_imm(number, mask),
        });
        let inverted = self.builder.ins().bxor_imm(old, mask);
        self.builder.ins().iadd(inverted, new)
    }
}
