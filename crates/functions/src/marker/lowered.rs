//! The marker in micro-operations: [`Meter::colour`], without its branches.

use weft_function::lower::{Builder, ContextField, Operator, Program, Value};
use weft_function::{Lower, context_field};

use super::meter::{BYTE, Meter};
use super::{Context, Dropped, Marker, Own};

const KIND: ContextField = context_field!(Context, own.kind: u64);
const COMMITTED_RATE: ContextField = context_field!(Context, own.committed_rate: u64);
const COMMITTED_BURST: ContextField = context_field!(Context, own.committed_burst: u64);
const OTHER_RATE: ContextField = context_field!(Context, own.other_rate: u64);
const OTHER_BURST: ContextField = context_field!(Context, own.other_burst: u64);
const COMMITTED: ContextField = context_field!(Context, buckets.committed: u64);
const OTHER: ContextField = context_field!(Context, buckets.other: u64);
const FILLED_AT: ContextField = context_field!(Context, buckets.filled_at: u64);

impl Lower for Marker {
    const FIELDS: &'static [ContextField] = &[
        KIND,
        COMMITTED_RATE,
        COMMITTED_BURST,
        OTHER_RATE,
        OTHER_BURST,
        COMMITTED,
        OTHER,
        FILLED_AT,
    ];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let kind = program.load_context(KIND);
        // The usual kind comes first, the other is further away.
        let (usual, other) = match self.meter {
            Some(Meter::TwoRate(_)) => (Own::TWO_RATE, Own::SINGLE_RATE),
            _ => (Own::SINGLE_RATE, Own::TWO_RATE),
        };
        let others = program.label();
        let is_other = program.is(kind, other);
        program.branch(is_other, others);
        let pass = program.label();
        if self.meter.is_none() {
            let is_none = program.is(kind, Own::NONE);
            program.branch(is_none, pass);
        }
        let limits = Limits::of(self.meter, kind, &mut program);
        self.mark(usual, &limits, &mut program);
        program.place(others);
        let limits = Limits::of(None, kind, &mut program);
        self.mark(other, &limits, &mut program);
        program.place(pass);
        Some(program.finish())
    }
}

/// What is measured against; bursts in tokens.
struct Limits {
    committed_rate: Value,
    committed_burst: Value,
    other_rate: Value,
    other_burst: Value,
}

impl Limits {
    /// Those of the context, or without any the configured ones.
    fn of(configured: Option<Meter>, kind: Value, program: &mut Builder) -> Limits {
        let byte = program.constant(BYTE);
        let configured = configured.map(|meter| Own::from(Some(meter)));
        let mut limit = |field, configured: Option<u64>, scale: bool| {
            let own = program.load_context(field);
            let own = match scale {
                true => program.arithmetic(Operator::Multiply, own, byte),
                false => own,
            };
            let Some(configured) = configured else { return own };
            let configured = program.constant(configured * if scale { BYTE } else { 1 });
            program.select(kind, own, configured)
        };
        Limits {
            committed_rate: limit(COMMITTED_RATE, configured.map(|own| own.committed_rate), false),
            committed_burst: limit(
                COMMITTED_BURST,
                configured.map(|own| own.committed_burst),
                true,
            ),
            other_rate: limit(OTHER_RATE, configured.map(|own| own.other_rate), false),
            other_burst: limit(OTHER_BURST, configured.map(|own| own.other_burst), true),
        }
    }
}

/// A number of 128 bits.
#[derive(Clone, Copy)]
struct Flow {
    low: Value,
    high: Value,
}

impl Flow {
    fn of(rate: Value, time: Value, program: &mut Builder) -> Flow {
        Flow {
            low: program.arithmetic(Operator::Multiply, rate, time),
            high: program.arithmetic(Operator::MultiplyHigh, rate, time),
        }
    }
}

impl Marker {
    /// Fills the buckets, colours the packet, and ends its way.
    fn mark(&self, kind: u64, limits: &Limits, program: &mut Builder) {
        let (committed, other) = fill(kind, limits, program);
        let bytes = program.ip_length();
        let byte = program.constant(BYTE);
        let cost = program.arithmetic(Operator::Multiply, bytes, byte);
        let before = self.colour_aware.then(|| program.tag(self.colour));
        let fits = |burst, lack, program: &mut Builder| {
            let tokens = program.subtract_to_zero(burst, lack);
            let lacks = program.less(tokens, cost);
            program.not(lacks)
        };
        let in_committed = fits(limits.committed_burst, committed, program);
        let in_other = fits(limits.other_burst, other, program);
        let (from_committed, from_other, colour) = match kind {
            Own::SINGLE_RATE => single_rate(in_committed, in_other, before, program),
            _ => two_rate(in_committed, in_other, before, program),
        };
        let zero = program.constant(0);
        for (field, lack, taken) in
            [(COMMITTED, committed, from_committed), (OTHER, other, from_other)]
        {
            let taken = program.select(taken, cost, zero);
            let lack = program.add(lack, taken);
            program.store_context(field, lack);
        }
        program.set_tag(self.colour, colour);
        self.end(colour, program);
    }

    fn end(&self, colour: Value, program: &mut Builder) {
        let dropped: &[(u64, u8)] = match self.drop {
            Dropped::None => &[],
            Dropped::Red => &[(2, 0)],
            Dropped::YellowAndRed => &[(2, 0), (1, 1)],
        };
        let mut labels = Vec::new();
        for (number, reason) in dropped {
            let label = program.label();
            let is = program.is(colour, *number);
            program.branch(is, label);
            labels.push((label, *reason));
        }
        program.forward();
        for (label, reason) in labels {
            program.place(label);
            program.drop_for(reason);
        }
    }
}

/// Lets tokens flow in; what the buckets lack then.
fn fill(kind: u64, limits: &Limits, program: &mut Builder) -> (Value, Value) {
    let (now, filled_at) = (program.now(), program.load_context(FILLED_AT));
    let time = program.subtract_to_zero(now, filled_at);
    let last = program.maximum(now, filled_at);
    program.store_context(FILLED_AT, last);
    let (committed, other) = (program.load_context(COMMITTED), program.load_context(OTHER));
    let flow = Flow::of(limits.committed_rate, time, program);
    let (committed, spilled) = pour(committed, limits.committed_burst, flow, program);
    let flow = match kind {
        Own::SINGLE_RATE => spilled,
        _ => Flow::of(limits.other_rate, time, program),
    };
    let (other, _) = pour(other, limits.other_burst, flow, program);
    (committed, other)
}

/// What a bucket lacks after tokens flowed in, and those that did not fit.
fn pour(lack: Value, burst: Value, flow: Flow, program: &mut Builder) -> (Value, Flow) {
    let before = program.minimum(lack, burst);
    let (zero, left) = (program.constant(0), program.subtract_to_zero(before, flow.low));
    let after = program.select(flow.high, zero, left);
    let is_less = program.less(flow.low, before);
    let low = program.subtract(flow.low, before);
    let high = program.subtract(flow.high, is_less);
    let is_small = program.equal(flow.high, zero);
    let all_fit = program.and(is_small, is_less);
    let spilled =
        Flow { low: program.select(all_fit, zero, low), high: program.select(all_fit, zero, high) };
    (after, spilled)
}

/// RFC 2697 §3: which bucket pays, and the colour.
fn single_rate(
    in_committed: Value,
    in_other: Value,
    before: Option<Value>,
    program: &mut Builder,
) -> (Value, Value, Value) {
    let (mut is_green, mut may_be_yellow) = (in_committed, in_other);
    if let Some(before) = before {
        let (was_green, two) = (program.is(before, 0), program.constant(2));
        let was_not_red = program.less(before, two);
        is_green = program.and(was_green, is_green);
        may_be_yellow = program.and(was_not_red, may_be_yellow);
    }
    let not_green = program.not(is_green);
    let is_yellow = program.and(not_green, may_be_yellow);
    let (green, yellow, red) = (program.constant(0), program.constant(1), program.constant(2));
    let otherwise = program.select(is_yellow, yellow, red);
    let colour = program.select(is_green, green, otherwise);
    (is_green, is_yellow, colour)
}

/// RFC 2698 §3, in the same way.
fn two_rate(
    in_committed: Value,
    in_peak: Value,
    before: Option<Value>,
    program: &mut Builder,
) -> (Value, Value, Value) {
    let (mut not_red, mut may_be_green) = (in_peak, in_committed);
    if let Some(before) = before {
        let (was_green, two) = (program.is(before, 0), program.constant(2));
        let was_not_red = program.less(before, two);
        not_red = program.and(was_not_red, not_red);
        may_be_green = program.and(was_green, may_be_green);
    }
    let is_green = program.and(not_red, may_be_green);
    let (green, yellow, red) = (program.constant(0), program.constant(1), program.constant(2));
    let otherwise = program.select(not_red, yellow, red);
    let colour = program.select(is_green, green, otherwise);
    (is_green, not_red, colour)
}
