//! What the operators come to.

use weft_function::lower::{Checksum, Operator};

/// What an operator makes of two numbers.
pub(crate) fn evaluate(operator: Operator, left: u64, right: u64) -> u64 {
    match operator {
        Operator::Add => left.wrapping_add(right),
        Operator::Subtract => left.wrapping_sub(right),
        Operator::Multiply => left.wrapping_mul(right),
        Operator::MultiplyHigh => ((u128::from(left) * u128::from(right)) >> 64) as u64,
        Operator::And => left & right,
        Operator::Or => left | right,
        Operator::ExclusiveOr => left ^ right,
        Operator::ShiftLeft => {
            if right < 64 {
                left << right
            } else {
                0
            }
        }
        Operator::ShiftRight => {
            if right < 64 {
                left >> right
            } else {
                0
            }
        }
        Operator::Equal => u64::from(left == right),
        Operator::Less => u64::from(left < right),
        Operator::Difference16 => (!left & 0xffff) + (right & 0xffff),
        Operator::Difference32 => (!left & 0xffff_ffff) + (right & 0xffff_ffff),
    }
}

/// Bits of a change that count.
pub(crate) const CHANGE_BITS: u32 = 40;

/// A checksum after a change (RFC 1624 §3).
pub(crate) fn repaired(checksum: Checksum, before: u16, change: u64) -> u16 {
    let mut sum = u64::from(!before) + (change & ((1 << CHANGE_BITS) - 1));
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let after = !(sum as u16);
    match checksum {
        Checksum::Udp if before == 0 => 0,
        Checksum::Udp if after == 0 => 0xffff,
        _ => after,
    }
}
