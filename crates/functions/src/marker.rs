//! `marker`: measures traffic against token buckets and tags it with a colour
//! (RFC 2697, RFC 2698; Pinczel et al. §IV.A b), for each bearer or user or for
//! groups of users together (Pinczel et al. §II.A).

pub mod meter;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::COLOUR;
use weft_function::{
    ByteSize, Colour, ConfigError, ContextError, Emit, Fields, Headers, Packet, Rate, Reason,
    Scope, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};

use meter::{Buckets, Meter, SingleRate, TwoRate};

const RED: Reason = Reason("marker_red");
const YELLOW: Reason = Reason("marker_yellow");

/// Whose traffic is measured together, against what, and what follows.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Whose traffic is measured together.
    #[serde(default)]
    pub scope: Scope,
    /// The meter of all who have none of their own, each with buckets of their
    /// own. Without it the others pass untouched.
    #[serde(default)]
    pub meter: Option<Meter>,
    /// Whether a packet's colour so far counts: it then never improves. A
    /// colour-blind meter takes every packet for green.
    #[serde(default)]
    pub colour_aware: bool,
    /// Which packets are dropped here. The others are tagged only.
    #[serde(default)]
    pub drop: Dropped,
}

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Dropped {
    /// None: rules may steer by the colour.
    #[default]
    None,
    /// Red ones.
    Red,
    /// Yellow and red ones.
    YellowAndRed,
}

/// The meter of a bearer, user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// The meter. Each of several users has buckets of their own.
    pub meter: Meter,
}

/// The state of one meter: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Context {
    /// Its own meter, in place of the configured one.
    meter: Option<Meter>,
    buckets: Buckets,
}

const _: () = assert!(size_of::<Context>() == 64);

/// Tags packets with a colour.
#[derive(Debug)]
pub struct Marker {
    scope: Scope,
    meter: Option<Meter>,
    colour_aware: bool,
    drop: Dropped,
    colour: TagSlot,
}

impl UserPlaneFunction for Marker {
    const NAME: &'static str = "marker";
    const SUMMARY: &'static str =
        "Measures traffic against token buckets and tags it green, yellow or red.";
    const READS: &'static [Tag] = &[COLOUR];
    const WRITES: &'static [Tag] = &[COLOUR];
    const DROPS: &'static [Reason] = &[RED, YELLOW];

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Marker, ConfigError> {
        let Config { scope, meter, colour_aware, drop } = config;
        if let Some(meter) = meter {
            meter.check()?;
        }
        Ok(Marker { scope, meter, colour_aware, drop, colour: setup.tag(&COLOUR)? })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let Some(meter) = context.meter.as_ref().or(self.meter.as_ref()) else {
            return Verdict::Forward;
        };
        let before = match self.colour_aware {
            true => Colour::from_tag(self.colour.get(packet.annotations())),
            false => Colour::Green,
        };
        let colour = meter.colour(&mut context.buckets, emit.now(), packet.ip_length(), before);
        self.colour.set(packet.annotations_mut(), colour as u32);
        match (colour, self.drop) {
            (Colour::Red, Dropped::Red | Dropped::YellowAndRed) => Verdict::Drop(RED),
            (Colour::Yellow, Dropped::YellowAndRed) => Verdict::Drop(YELLOW),
            _ => Verdict::Forward,
        }
    }

    fn check(&self, settings: &Settings, _: u32) -> Result<(), ConfigError> {
        settings.meter.check()
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, _: u32) {
        // What was used up stays used up, unless the buckets mean something else.
        let previous = context.meter.as_ref().or(self.meter.as_ref());
        if previous.is_some_and(|meter| !meter.is_like(&settings.meter)) {
            context.buckets = Buckets::default();
        }
        context.meter = Some(settings.meter);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        export_meter(context.meter.as_ref(), out);
        let Buckets { committed, other, filled_at } = context.buckets;
        for field in [committed, other, filled_at] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let meter = import_meter(&mut fields)?;
        let buckets =
            Buckets { committed: fields.u64()?, other: fields.u64()?, filled_at: fields.u64()? };
        fields.end()?;
        Ok(Context { meter, buckets })
    }

    fn rebase(&self, context: &mut Context, then: u64, now: u64) {
        if let Some(meter) = context.meter.as_ref().or(self.meter.as_ref()) {
            meter.fill(&mut context.buckets, then);
        }
        context.buckets.filled_at = now;
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let Some(meter) = context.meter.as_ref().or(self.meter.as_ref()) else {
            return Vec::new();
        };
        let [committed, other] = meter.held(&context.buckets);
        let name = match meter {
            Meter::SingleRate(_) => "excess_bytes",
            Meter::TwoRate(_) => "peak_bytes",
        };
        vec![("committed_bytes", committed), (name, other)]
    }
}

fn export_meter(meter: Option<&Meter>, out: &mut Vec<u8>) {
    let (kind, fields): (u8, &[u64]) = match meter {
        None => (0, &[]),
        Some(Meter::SingleRate(meter)) => {
            (1, &[meter.committed_rate.0, meter.committed_burst.0, meter.excess_burst.0])
        }
        Some(Meter::TwoRate(meter)) => (
            2,
            &[
                meter.committed_rate.0,
                meter.committed_burst.0,
                meter.peak_rate.0,
                meter.peak_burst.0,
            ],
        ),
    };
    out.push(kind);
    for field in fields {
        out.extend_from_slice(&field.to_le_bytes());
    }
}

fn import_meter(fields: &mut Fields<'_>) -> Result<Option<Meter>, ContextError> {
    let meter = match fields.u8()? {
        0 => return Ok(None),
        1 => Meter::SingleRate(SingleRate {
            committed_rate: Rate(fields.u64()?),
            committed_burst: ByteSize(fields.u64()?),
            excess_burst: ByteSize(fields.u64()?),
        }),
        2 => Meter::TwoRate(TwoRate {
            committed_rate: Rate(fields.u64()?),
            committed_burst: ByteSize(fields.u64()?),
            peak_rate: Rate(fields.u64()?),
            peak_burst: ByteSize(fields.u64()?),
        }),
        _ => return Err(ContextError::Damaged),
    };
    match meter.check() {
        Ok(()) => Ok(Some(meter)),
        Err(_) => Err(ContextError::Damaged),
    }
}
