//! Micro-operations as an operator reads them.

use std::fmt;

use super::{Base, HeaderField, Label, Operation, Operator, Program, Value};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Base::Frame => "frame",
            Base::Network => "network",
            Base::Transport => "transport",
            Base::Outer => "outer",
        })
    }
}

impl fmt::Display for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}:{}", self.base, self.offset, self.octets)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::MultiplyHigh => "*high",
            Operator::And => "&",
            Operator::Or => "|",
            Operator::ExclusiveOr => "^",
            Operator::ShiftLeft => "<<",
            Operator::ShiftRight => ">>",
            Operator::Equal => "==",
            Operator::Less => "<",
            Operator::Difference16 => "difference16",
            Operator::Difference32 => "difference32",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation::*;
        match *self {
            Constant { to, number } => write!(f, "{to} = {number:#x}"),
            Length { to } => write!(f, "{to} = length"),
            Now { to } => write!(f, "{to} = now"),
            Note { to, note } => write!(f, "{to} = note {note:?}"),
            Tag { to, slot } => write!(f, "{to} = tag {}", slot.index()),
            Arithmetic { to, operator, left, right } => {
                write!(f, "{to} = {left} {operator} {right}")
            }
            Select { to, when, then, otherwise } => {
                write!(f, "{to} = if {when} then {then} else {otherwise}")
            }
            Require { base, octets, otherwise } => {
                write!(f, "require {base}+{octets} else {otherwise}")
            }
            LoadPacket { to, place } => write!(f, "{to} = packet {place}"),
            StorePacket { place, value } => write!(f, "packet {place} = {value}"),
            LoadContext { to, context, field } => write!(f, "{to} = {context}.{}", field.name),
            StoreContext { context, field, value } => {
                write!(f, "{context}.{} = {value}", field.name)
            }
            AddContext { context, field, value } => {
                write!(f, "{context}.{} += {value}", field.name)
            }
            SetTag { slot, value } => write!(f, "tag {} = {value}", slot.index()),
            Repair { checksum, change } => write!(f, "repair {checksum:?} checksum by {change}"),
            Front { offset, octets, outer, otherwise } => {
                write!(f, "frame begins {octets} before {offset}, tunnel {outer} else {otherwise}")
            }
            Truncate { octets } => write!(f, "frame ends behind {octets}"),
            Branch { when, to } => write!(f, "if {when} jump {to}"),
            Jump { to } => write!(f, "jump {to}"),
            Label { label } => write!(f, "{label}:"),
            Locate { to, function, index, otherwise } => {
                write!(f, "{to} = context {index} of function {function}")?;
                otherwise.map_or(Ok(()), |label| write!(f, " else {label}"))
            }
            Forward => f.write_str("forward"),
            Drop { function, reason } => write!(f, "drop at function {function}, reason {reason}"),
            Punt { function } => write!(f, "punt to function {function}"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operations.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}
