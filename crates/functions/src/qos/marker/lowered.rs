//! The marker in micro-operations: [`Meter::colour`], without its branches.

use weft_function::lower::{Builder, ContextField, Label, Operator, Program, Value};
use weft_function::{Lower, context_field};

use super::meter::{BYTE, Meter};
use super::{Context, Dropped, Marker, StoredMeter};

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
        let (own, pass, punt) = (program.label(), program.label(), program.label());
        program.branch(kind, own);
        match self.meter {
            Some(meter) => {
                let limits = Limits::configured(meter, &mut program);
                self.mark(meter.into(), &limits, punt, &mut program);
            }
            None => program.jump(pass),
        }
        program.place(own);
        let two_rates = program.label();
        let is_two_rates = program.is(kind, StoredMeter::TWO_RATE);
        program.branch(is_two_rates, two_rates);
        let limits = Limits::own(&mut program);
        self.mark(Kind::SingleRate, &limits, punt, &mut program);
        program.place(two_rates);
        let limits = Limits::own(&mut program);
        self.mark(Kind::TwoRate, &limits, punt, &mut program);
        program.place(punt);
        program.punt();
        program.place(pass);
        Some(program.finish())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    SingleRate,
    TwoRate,
}

impl From<Meter> for Kind {
    fn from(meter: Meter) -> Kind {
        match meter {
            Meter::SingleRate(_) => Kind::SingleRate,
            Meter::TwoRate(_) => Kind::TwoRate,
        }
    }
}

/// What a bucket is measured against; the burst in tokens.
struct Limit {
    rate: Value,
    burst: Value,
    /// The burst, where it is known beforehand.
    known: Option<u64>,
}

struct Limits {
    committed: Limit,
    other: Limit,
}

impl Limits {
    fn configured(meter: Meter, program: &mut Builder) -> Limits {
        let meter = StoredMeter::from(Some(meter));
        let mut limit = |rate, burst| {
            let burst = burst * BYTE;
            Limit {
                rate: program.constant(rate),
                burst: program.constant(burst),
                known: Some(burst),
            }
        };
        Limits {
            committed: limit(meter.committed_rate, meter.committed_burst),
            other: limit(meter.other_rate, meter.other_burst),
        }
    }

    /// Those of the context.
    fn own(program: &mut Builder) -> Limits {
        let byte = program.constant(BYTE);
        let mut limit = |rate, burst| {
            let (rate, burst) = (program.load_context(rate), program.load_context(burst));
            Limit { rate, burst: program.arithmetic(Operator::Multiply, burst, byte), known: None }
        };
        Limits {
            committed: limit(COMMITTED_RATE, COMMITTED_BURST),
            other: limit(OTHER_RATE, OTHER_BURST),
        }
    }
}

/// What buckets lack; none for one that never holds anything.
struct Lacks {
    committed: Value,
    other: Option<Value>,
}

impl Marker {
    /// Fills the buckets, colours the packet, and ends its way.
    fn mark(&self, kind: Kind, limits: &Limits, punt: Label, program: &mut Builder) {
        let lacks = fill(kind, limits, punt, program);
        let bytes = program.ip_length();
        let byte = program.constant(BYTE);
        let cost = program.arithmetic(Operator::Multiply, bytes, byte);
        let zero = program.constant(0);
        let before = self.colour_aware.then(|| program.tag(self.colour));
        let fits = |burst, lack, program: &mut Builder| {
            let tokens = program.subtract(burst, lack);
            let lacks = program.less(tokens, cost);
            program.not(lacks)
        };
        let in_committed = fits(limits.committed.burst, lacks.committed, program);
        let in_other = match lacks.other {
            Some(lack) => fits(limits.other.burst, lack, program),
            // Where a packet of no octets fits, it fits in the committed burst as well.
            None if !self.colour_aware => zero,
            None => program.equal(cost, zero),
        };
        let (from_committed, from_other, colour) = match kind {
            Kind::SingleRate => single_rate(in_committed, in_other, before, program),
            Kind::TwoRate => two_rate(in_committed, in_other, before, program),
        };
        let taken = program.select(from_committed, cost, zero);
        let lack = program.add(lacks.committed, taken);
        program.store_context(COMMITTED, lack);
        let other = lacks.other.map(|lack| {
            let taken = program.select(from_other, cost, zero);
            program.add(lack, taken)
        });
        program.store_context(OTHER, other.unwrap_or(zero));
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

/// Lets tokens flow in; what the buckets lack then, at most their bursts.
///
/// A flow of more than 64 bits is cut off there. That fills any bucket; only where
/// both bursts together take more may what spills over from the one be too little
/// for the other, and the packet is punted.
fn fill(kind: Kind, limits: &Limits, punt: Label, program: &mut Builder) -> Lacks {
    let Limits { committed, other } = limits;
    let (now, filled_at) = (program.now(), program.load_context(FILLED_AT));
    let time = program.subtract_to_zero(now, filled_at);
    let last = program.maximum(now, filled_at);
    let (flow, is_cut) = flow(committed.rate, time, program);
    let fits_both = committed.known.zip(other.known).map(|(one, two)| one.checked_add(two));
    match (kind, fits_both) {
        (Kind::TwoRate, _) | (_, Some(Some(_))) => {}
        (_, Some(None)) => program.branch(is_cut, punt),
        (_, None) => {
            let both = program.add(committed.burst, other.burst);
            let is_beyond = program.less(both, committed.burst);
            program.branch(is_beyond, punt);
        }
    }
    program.store_context(FILLED_AT, last);
    let before = program.load_context(COMMITTED);
    let (lack, spilled) = pour(before, committed.burst, flow, program);
    if other.known == Some(0) {
        return Lacks { committed: lack, other: None };
    }
    let flow = match kind {
        Kind::SingleRate => spilled,
        Kind::TwoRate => self::flow(other.rate, time, program).0,
    };
    let before = program.load_context(OTHER);
    let (other, _) = pour(before, other.burst, flow, program);
    Lacks { committed: lack, other: Some(other) }
}

/// Tokens that come in a time, and what is not 0 where they were cut off.
fn flow(rate: Value, time: Value, program: &mut Builder) -> (Value, Value) {
    let low = program.arithmetic(Operator::Multiply, rate, time);
    let high = program.arithmetic(Operator::MultiplyHigh, rate, time);
    let most = program.constant(u64::MAX);
    (program.select(high, most, low), high)
}

/// What a bucket lacks after tokens flowed in, and those that did not fit.
fn pour(lack: Value, burst: Value, flow: Value, program: &mut Builder) -> (Value, Value) {
    let before = program.minimum(lack, burst);
    let after = program.subtract_to_zero(before, flow);
    (after, program.subtract_to_zero(flow, before))
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
