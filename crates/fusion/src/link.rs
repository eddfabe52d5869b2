//! Programs one behind the other.

use std::fmt;

use weft_function::lower::{Base, ContextField, Label, Note, Operation, Operator, Program, Value};
use weft_function::{PacketMetadata, Scope, TagSlot};

/// A function on the way of packets.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What it does.
    pub program: &'a Program,
    /// Whose contexts it keeps.
    pub scope: Scope,
    /// A tag that packets get as they go on from here.
    pub sets: Option<(TagSlot, u32)>,
}

/// What machine code must know of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Bytes of a context; 0 for none.
    pub context_octets: usize,
    /// Fields of the context.
    pub fields: &'static [ContextField],
    /// How many drop reasons it has.
    pub drops: usize,
}

/// The micro-operations of all functions on a way, as a packet meets them.
///
/// A packet that is punted goes the rest of the way through functions that are
/// called, so nothing that was found out before has to be found out again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LinkedProgram {
    /// The steps.
    pub operations: Vec<Operation>,
    /// The functions.
    pub functions: Vec<Shape>,
    /// Behind which function each of these labels stands: no value that was
    /// defined before is used behind them.
    pub(crate) ends: Vec<Label>,
}

/// Numbers values and labels.
struct Names {
    values: u32,
    labels: u32,
}

impl Names {
    fn value(&mut self) -> Value {
        self.values += 1;
        Value(self.values)
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }
}

impl LinkedProgram {
    /// The way through these functions. A slot's index is the slot without its
    /// low `shift` bits.
    pub fn link(steps: &[Step<'_>], shift: u32) -> LinkedProgram {
        let mut names = Names { values: 0, labels: 0 };
        let mut operations = Vec::new();
        let mut ends = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let (punt, end) = (names.label(), names.label());
            if number == 0 && touches_ethernet_and_ip(steps) {
                behind_ethernet(punt, &mut names, &mut operations);
            }
            let context =
                locate(step, number as u8, shift, (punt, end), &mut names, &mut operations);
            append(step.program, number as u8, (context, end), &mut names, &mut operations);
            operations.push(Operation::Label { label: punt });
            operations.push(Operation::Punt { function: number as u8 });
            operations.push(Operation::Label { label: end });
            if let Some((slot, number)) = step.sets {
                let value = names.value();
                operations.push(Operation::Constant { to: value, number: number.into() });
                operations.push(Operation::SetTag { slot, value });
            }
            ends.push(end);
        }
        operations.push(Operation::Forward);
        let shape = |step: &Step<'_>| Shape {
            context_octets: step.program.context_octets,
            fields: step.program.fields,
            drops: step.program.drops,
        };
        LinkedProgram { operations, functions: steps.iter().map(shape).collect(), ends }
    }
}

/// Octets of an Ethernet header (IEEE 802.3 §3.2).
const ETHERNET: u64 = 14;

/// Whether the functions touch both the Ethernet header and what is behind it.
fn touches_ethernet_and_ip(steps: &[Step<'_>]) -> bool {
    let operations = || steps.iter().flat_map(|step| &step.program.operations);
    let requires = |frame: bool| {
        operations().any(|operation| match operation {
            Operation::Require { base, .. } => (*base == Base::Frame) == frame,
            _ => false,
        })
    };
    requires(true) && requires(false)
}

/// Punts a packet whose IP header is not behind the Ethernet header, so that a
/// change of the one is known to be none of the other.
fn behind_ethernet(punt: Label, names: &mut Names, operations: &mut Vec<Operation>) {
    let (offset, least, before) = (names.value(), names.value(), names.value());
    operations.extend([
        Operation::Note { to: offset, note: Note::NetworkOffset },
        Operation::Constant { to: least, number: ETHERNET },
        Operation::Arithmetic { to: before, operator: Operator::Less, left: offset, right: least },
        Operation::Branch { when: before, to: punt },
    ]);
}

/// Finds the context of a function. A packet of a user without a group passes a
/// function that keeps contexts of groups.
fn locate(
    step: &Step<'_>,
    function: u8,
    shift: u32,
    (punt, end): (Label, Label),
    names: &mut Names,
    operations: &mut Vec<Operation>,
) -> Value {
    if step.program.context_octets == 0 {
        return Value::CONTEXT;
    }
    let slot = names.value();
    let note = match step.scope {
        Scope::User => Note::User,
        Scope::Bearer => Note::Bearer,
        Scope::Group => Note::Group,
    };
    operations.push(Operation::Note { to: slot, note });
    if step.scope == Scope::Group {
        let (none, without) = (names.value(), names.value());
        operations.push(Operation::Constant { to: none, number: PacketMetadata::NONE.into() });
        operations.push(Operation::Arithmetic {
            to: without,
            operator: Operator::Equal,
            left: slot,
            right: none,
        });
        operations.push(Operation::Branch { when: without, to: end });
    }
    let (bits, index, to) = (names.value(), names.value(), names.value());
    operations.push(Operation::Constant { to: bits, number: shift.into() });
    operations.push(Operation::Arithmetic {
        to: index,
        operator: Operator::ShiftRight,
        left: slot,
        right: bits,
    });
    operations.push(Operation::Locate { to, function, index, otherwise: Some(punt) });
    to
}

/// Appends a program, with names of its own; where it lets packets go on, it
/// jumps to `end`.
fn append(
    program: &Program,
    number: u8,
    (context, end): (Value, Label),
    names: &mut Names,
    operations: &mut Vec<Operation>,
) {
    let (values, labels) = (names.values, names.labels);
    let (mut last_value, mut last_label) = (values, labels);
    for operation in &program.operations {
        let operation = operation.renamed(
            |value| {
                if value == Value::CONTEXT {
                    return context;
                }
                let value = values.saturating_add(value.0);
                last_value = last_value.max(value);
                Value(value)
            },
            |label| {
                let label = labels.saturating_add(label.0).saturating_add(1);
                last_label = last_label.max(label);
                Label(label)
            },
        );
        operations.push(match operation {
            Operation::Forward => Operation::Jump { to: end },
            Operation::Drop { reason, .. } => Operation::Drop { function: number, reason },
            Operation::Punt { .. } => Operation::Punt { function: number },
            other => other,
        });
    }
    (names.values, names.labels) = (last_value, last_label);
}

impl fmt::Display for LinkedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for operation in &self.operations {
            match operation {
                Operation::Label { .. } => writeln!(f, "{operation}")?,
                _ => writeln!(f, "  {operation}")?,
            }
        }
        Ok(())
    }
}
