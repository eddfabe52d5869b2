//! Makes sure of a program before anything is made of it.
//!
//! What is verified can only touch bytes of the packet that were required on
//! every way to the access, fields of contexts that are declared, and tags; it
//! ends after no more steps than it has.

use std::collections::HashMap;

use weft_function::lower::{Base, HeaderField, Label, Operation, Program, Value};

use crate::{LinkedProgram, MAX_FUNCTIONS, Shape};

/// Most micro-operations of a way.
const MAX_OPERATIONS: usize = 1 << 16;

/// Why a program is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("micro-operation {at}: {what}")]
pub struct Rejected {
    /// Which micro-operation, from 0.
    pub at: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Verifies the program of one function.
///
/// # Errors
/// [`Rejected`].
pub fn verify_program(program: &Program) -> Result<(), Rejected> {
    let shape = Shape {
        context_octets: program.context_octets,
        fields: program.fields,
        drops: program.drops,
    };
    let functions = [shape];
    let mut verifier = Verifier::new(&program.operations, &functions)?;
    verifier.punts_late = false;
    if program.context_octets > 0 {
        let here = verifier.here.as_mut().expect("the first micro-operation is reached");
        here.contexts.insert(Value::CONTEXT, 0);
    }
    verifier.run()
}

/// Verifies the micro-operations of a way.
///
/// # Errors
/// [`Rejected`].
pub fn verify(way: &LinkedProgram) -> Result<(), Rejected> {
    Verifier::new(&way.operations, &way.functions)?.run()
}

/// What holds on all ways to a micro-operation.
#[derive(Clone, Debug, Default)]
struct State {
    /// Numbers that are defined, by value.
    numbers: Vec<u64>,
    /// Contexts, and the function they are of.
    contexts: HashMap<Value, u8>,
    /// Indexes that are good.
    indexes: Vec<Value>,
    /// Bytes that are there, by base.
    octets: [u16; Base::ALL.len()],
    /// Whether something was changed.
    changed: bool,
}

impl State {
    fn define(&mut self, value: Value) {
        let word = (value.0 / 64) as usize;
        if self.numbers.len() <= word {
            self.numbers.resize(word + 1, 0);
        }
        self.numbers[word] |= 1 << (value.0 % 64);
    }

    fn has(&self, value: Value) -> bool {
        let word = self.numbers.get((value.0 / 64) as usize);
        word.is_some_and(|word| word >> (value.0 % 64) & 1 == 1)
    }

    /// What holds on this way and on the other.
    fn meet(&mut self, other: &State) {
        self.numbers.truncate(other.numbers.len());
        self.numbers.iter_mut().zip(&other.numbers).for_each(|(one, other)| *one &= other);
        self.contexts.retain(|value, function| other.contexts.get(value) == Some(function));
        self.indexes.retain(|index| other.indexes.contains(index));
        for (one, other) in self.octets.iter_mut().zip(other.octets) {
            *one = (*one).min(other);
        }
        self.changed |= other.changed;
    }
}

struct Verifier<'a> {
    operations: &'a [Operation],
    functions: &'a [Shape],
    /// None where no way leads.
    here: Option<State>,
    /// What holds on the jumps to labels that are still to come.
    coming: HashMap<Label, State>,
    placed: Vec<Label>,
    defined: State,
    /// Whether something may have been changed before a punt: by functions
    /// before the one that punts.
    punts_late: bool,
}

type Checked = Result<(), &'static str>;

impl<'a> Verifier<'a> {
    fn new(operations: &'a [Operation], functions: &'a [Shape]) -> Result<Verifier<'a>, Rejected> {
        if operations.len() > MAX_OPERATIONS || functions.len() > MAX_FUNCTIONS {
            return Err(Rejected { at: 0, what: "there are too many micro-operations" });
        }
        Ok(Verifier {
            operations,
            functions,
            here: Some(State::default()),
            coming: HashMap::new(),
            placed: Vec::new(),
            defined: State::default(),
            punts_late: true,
        })
    }

    fn run(mut self) -> Result<(), Rejected> {
        for (at, operation) in self.operations.iter().enumerate() {
            self.step(operation).map_err(|what| Rejected { at, what })?;
        }
        let at = self.operations.len();
        match (self.here, self.coming.is_empty()) {
            (None, true) => Ok(()),
            (Some(_), _) => Err(Rejected { at, what: "the end is reached without a verdict" }),
            (None, false) => Err(Rejected { at, what: "a jump leads nowhere, or backwards" }),
        }
    }

    fn step(&mut self, operation: &Operation) -> Checked {
        if let Operation::Label { label } = operation {
            return self.place(*label);
        }
        // What no way leads to does nothing; its labels and values do not count.
        let Some(mut here) = self.here.take() else { return Ok(()) };
        self.check(operation, &here)?;
        self.apply(operation, &mut here)?;
        if let Some(label) = operation.jumps_to() {
            self.jump(label, &here)?;
        }
        self.learn(operation, &mut here);
        self.here = (!operation.ends()).then_some(here);
        Ok(())
    }

    fn place(&mut self, label: Label) -> Checked {
        if self.placed.contains(&label) {
            return Err("the label is placed twice");
        }
        self.placed.push(label);
        self.here = match (self.here.take(), self.coming.remove(&label)) {
            (Some(mut here), Some(other)) => {
                here.meet(&other);
                Some(here)
            }
            (here, coming) => here.or(coming),
        };
        Ok(())
    }

    fn jump(&mut self, label: Label, here: &State) -> Checked {
        if self.placed.contains(&label) {
            return Err("the jump leads backwards");
        }
        match self.coming.get_mut(&label) {
            Some(state) => state.meet(here),
            None => drop(self.coming.insert(label, here.clone())),
        }
        Ok(())
    }

    /// Checks what a micro-operation uses.
    fn check(&self, operation: &Operation, here: &State) -> Checked {
        use Operation::*;
        let number = |value: &Value| match here.has(*value) {
            true => Ok(()),
            false => Err("a value is used that is not defined on all ways here"),
        };
        match operation {
            Arithmetic { left, right, .. } => number(left).and(number(right)),
            Select { when, then, otherwise, .. } => {
                number(when).and(number(then)).and(number(otherwise))
            }
            LoadPacket { place, .. } => covered(place, here),
            StorePacket { place, value } => number(value).and(covered(place, here)),
            LoadContext { context, field, .. } => self.field(context, field, here),
            StoreContext { context, field, value } | AddContext { context, field, value } => {
                number(value).and(self.field(context, field, here))
            }
            SetTag { value, .. } | Front { offset: value, .. } | Truncate { octets: value } => {
                number(value)
            }
            Repair { checksum, change } => number(change).and(covered(&checksum.place(), here)),
            Branch { when, .. } => number(when),
            Locate { function, index, otherwise, .. } => {
                let shape = self.functions.get(usize::from(*function));
                if shape.is_none_or(|shape| shape.context_octets == 0) {
                    return Err("the function has no contexts");
                }
                if otherwise.is_none() && !here.indexes.contains(index) {
                    return Err("the index of a context is not known to be good");
                }
                number(index)
            }
            Drop { function, reason } => match self.functions.get(usize::from(*function)) {
                Some(shape) if usize::from(*reason) < shape.drops => Ok(()),
                _ => Err("there is no such drop reason"),
            },
            Punt { function } if usize::from(*function) >= self.functions.len() => {
                Err("there is no such function")
            }
            Punt { .. } if here.changed && !self.punts_late => {
                Err("a packet is punted after something was changed")
            }
            _ => Ok(()),
        }
    }

    fn field(
        &self,
        context: &Value,
        field: &weft_function::lower::ContextField,
        here: &State,
    ) -> Checked {
        let function = here.contexts.get(context).ok_or("there is no context here")?;
        let shape = &self.functions[usize::from(*function)];
        let end = usize::from(field.offset) + usize::from(field.octets);
        let is_whole = matches!(field.octets, 1 | 2 | 4 | 8);
        match shape.fields.contains(field) && is_whole && end <= shape.context_octets {
            true => Ok(()),
            false => Err("the context has no such field"),
        }
    }

    /// Notes what is defined and changed.
    fn apply(&mut self, operation: &Operation, here: &mut State) -> Checked {
        use Operation::*;
        if let Some(value) = operation.defines() {
            if value.0 > MAX_OPERATIONS as u32 * 2 || value == Value::CONTEXT {
                return Err("the value's number is too large, or that of the context");
            }
            if self.defined.has(value) {
                return Err("a value is defined twice");
            }
            self.defined.define(value);
            if !matches!(operation, Locate { .. }) {
                here.define(value);
            }
        }
        here.changed |= matches!(
            operation,
            StorePacket { .. }
                | StoreContext { .. }
                | AddContext { .. }
                | SetTag { .. }
                | Repair { .. }
        );
        Ok(())
    }

    /// Notes what holds behind a micro-operation, where it did not jump.
    fn learn(&self, operation: &Operation, here: &mut State) {
        match operation {
            Operation::Require { base, octets, .. } => {
                let known = &mut here.octets[*base as usize];
                *known = (*known).max(*octets);
                // What lies behind an offset lies behind the first byte.
                let frame = &mut here.octets[Base::Frame as usize];
                *frame = (*frame).max(*octets);
            }
            // Nothing is changed where it jumps.
            Operation::Front { octets, .. } => {
                here.octets = Default::default();
                here.octets[Base::Frame as usize] = *octets;
                here.changed = true;
            }
            Operation::Truncate { .. } => {
                here.octets = Default::default();
                here.changed = true;
            }
            Operation::Locate { to, function, index, .. } => {
                here.contexts.insert(*to, *function);
                here.indexes.push(*index);
            }
            _ => {}
        }
    }
}

/// Whether the bytes are there.
fn covered(place: &HeaderField, here: &State) -> Checked {
    let end = u32::from(place.offset) + u32::from(place.octets);
    match matches!(place.octets, 1 | 2 | 4 | 8) && end <= here.octets[place.base as usize].into() {
        true => Ok(()),
        false => Err("bytes of the packet are touched that were not required"),
    }
}
