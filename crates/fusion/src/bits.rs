//! How large values can be.

use std::collections::HashMap;

use weft_function::lower::{Note, Operation, Operator, Value};

/// What is known of values wherever they are: how many bits they have, and which
/// are constant.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    bits: HashMap<Value, u32>,
    constants: HashMap<Value, u64>,
}

impl Bits {
    /// A value is less than two to the power of this.
    pub fn of(&self, value: Value) -> u32 {
        self.bits.get(&value).copied().unwrap_or(64)
    }

    /// The number that a value is, if that is known.
    pub fn constant(&self, value: Value) -> Option<u64> {
        self.constants.get(&value).copied()
    }

    /// A value is defined so.
    pub fn note(&mut self, value: Value, operation: &Operation) {
        let bits = match *operation {
            Operation::Constant { number, .. } => {
                self.constants.insert(value, number);
                64 - number.leading_zeros()
            }
            Operation::Length { .. } => 16,
            Operation::Note { note, .. } => match note {
                Note::User | Note::Bearer | Note::Group => 32,
                Note::Protocol | Note::Flags => 8,
                _ => 16,
            },
            Operation::Tag { .. } => 32,
            Operation::LoadPacket { place, .. } => u32::from(place.octets) * 8,
            Operation::LoadContext { field, .. } => u32::from(field.octets) * 8,
            Operation::Select { then, otherwise, .. } => self.of(then).max(self.of(otherwise)),
            Operation::Arithmetic { operator, left, right, .. } => {
                let (left, right) = (self.of(left), self.of(right));
                match operator {
                    Operator::Equal | Operator::Less => 1,
                    Operator::And => left.min(right),
                    Operator::Or | Operator::ExclusiveOr => left.max(right),
                    Operator::Add => left.max(right) + 1,
                    Operator::Multiply => left + right,
                    Operator::ShiftRight => left,
                    Operator::Difference16 => 17,
                    Operator::Difference32 => 33,
                    _ => 64,
                }
                .min(64)
            }
            _ => 64,
        };
        self.bits.insert(value, bits);
    }
}
