//! `marker`: measures traffic against token buckets and tags it with a colour
//! (RFC 2697, RFC 2698; Pinczel et al. §IV.A b), for each bearer or user or for
//! groups of users together (Pinczel et al. §II.A).

mod lowered;
pub mod meter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_function::tag::COLOUR;
use weft_function::{
    ByteSize, Colour, ConfigError, ContextError, Emit, Fields, Headers, Metadata, Packet, Rate,
    Reason, Scope, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use meter::{Buckets, Meter, SingleRate, TwoRate};

const RED: Reason = Reason::new("marker_red", "more than the meter lets through");
const YELLOW: Reason = Reason::new("marker_yellow", "more than the committed rate and burst");

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
pub struct Context {
    /// Its own meter, in place of the configured one.
    own: StoredMeter,
    buckets: Buckets,
}

const _: () = assert!(size_of::<Context>() == 64);

/// A meter, or none, as plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct StoredMeter {
    /// 0 for none, [`StoredMeter::SINGLE_RATE`] or [`StoredMeter::TWO_RATE`].
    kind: u64,
    /// Bits per second.
    committed_rate: u64,
    /// Bytes.
    committed_burst: u64,
    /// The peak rate, of two rates.
    other_rate: u64,
    /// The excess burst of a single rate, the peak burst of two.
    other_burst: u64,
}

impl StoredMeter {
    const SINGLE_RATE: u64 = 1;
    const TWO_RATE: u64 = 2;
}

impl From<Option<Meter>> for StoredMeter {
    fn from(meter: Option<Meter>) -> StoredMeter {
        match meter {
            None => StoredMeter::default(),
            Some(Meter::SingleRate(meter)) => StoredMeter {
                kind: StoredMeter::SINGLE_RATE,
                committed_rate: meter.committed_rate.0,
                committed_burst: meter.committed_burst.0,
                other_rate: 0,
                other_burst: meter.excess_burst.0,
            },
            Some(Meter::TwoRate(meter)) => StoredMeter {
                kind: StoredMeter::TWO_RATE,
                committed_rate: meter.committed_rate.0,
                committed_burst: meter.committed_burst.0,
                other_rate: meter.peak_rate.0,
                other_burst: meter.peak_burst.0,
            },
        }
    }
}

impl Context {
    /// Its own meter, if it has one.
    #[inline(always)]
    fn meter(&self) -> Option<Meter> {
        let own = &self.own;
        let (committed_rate, committed_burst) =
            (Rate(own.committed_rate), ByteSize(own.committed_burst));
        match own.kind {
            StoredMeter::SINGLE_RATE => Some(Meter::SingleRate(SingleRate {
                committed_rate,
                committed_burst,
                excess_burst: ByteSize(own.other_burst),
            })),
            StoredMeter::TWO_RATE => Some(Meter::TwoRate(TwoRate {
                committed_rate,
                committed_burst,
                peak_rate: Rate(own.other_rate),
                peak_burst: ByteSize(own.other_burst),
            })),
            _ => None,
        }
    }
}

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
        let Some(meter) = context.meter().or(self.meter) else {
            return Verdict::Forward;
        };
        let before = match self.colour_aware {
            true => Colour::from_tag(self.colour.get(packet.metadata())),
            false => Colour::Green,
        };
        let colour = meter.colour(&mut context.buckets, emit.now(), packet.ip_length(), before);
        self.colour.set(packet.metadata_mut(), colour as u32);
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
        let previous = context.meter().or(self.meter);
        if previous.is_some_and(|meter| !meter.is_like(&settings.meter)) {
            context.buckets = Buckets::default();
        }
        context.own = Some(settings.meter).into();
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        export_meter(context.meter().as_ref(), out);
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
        Ok(Context { own: meter.into(), buckets })
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        if let Some(meter) = context.meter().or(self.meter) {
            meter.fill(&mut context.buckets, then);
        }
        context.buckets.filled_at = now;
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let Some(meter) = context.meter().or(self.meter) else {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kind;
    use crate::testing::{Rig, Seen, Spec};

    const SECOND: u64 = 1_000_000_000;

    fn marker(config: Value) -> Rig {
        Rig::new(kind("marker").unwrap(), config).unwrap()
    }

    /// 1000 bytes per second, and as many at once; 128 bytes may be yellow.
    fn meter() -> Value {
        json!({ "singleRate": {
            "committedRate": "8 kbit/s", "committedBurst": "1 kB", "excessBurst": 128
        } })
    }

    /// An IP packet of that many bytes.
    fn packet(bytes: usize) -> Spec {
        Spec::udp(&vec![0; bytes - 28])
    }

    fn colour(rig: &Rig, seen: &Seen) -> Colour {
        Colour::from_tag(rig.tag("colour", &seen.metadata))
    }

    #[test]
    fn packets_are_tagged_and_otherwise_untouched() {
        let mut rig = marker(json!({ "meter": meter() }));
        let spec = packet(500);
        for expected in [Colour::Green, Colour::Green, Colour::Red] {
            let seen = rig.send(&spec);
            assert_eq!(colour(&rig, &seen), expected);
            assert_eq!((seen.bytes, seen.dropped), (spec.frame(), None));
        }
        let seen = rig.send(&packet(128));
        assert_eq!(colour(&rig, &seen), Colour::Yellow);
        rig.now = SECOND / 2;
        let seen = rig.send(&spec);
        assert_eq!(colour(&rig, &seen), Colour::Green);
    }

    #[test]
    fn without_a_meter_packets_pass_untouched() {
        let mut rig = marker(Value::Null);
        for _ in 0..10 {
            let seen = rig.send(&packet(1500));
            assert_eq!((colour(&rig, &seen), seen.dropped), (Colour::Green, None));
        }
    }

    #[test]
    fn packets_above_the_rate_are_dropped_where_that_is_wanted() {
        let dropped = |drop: &str| {
            let mut rig = marker(json!({ "meter": meter(), "drop": drop }));
            [1000, 128, 100].map(|bytes| rig.send(&packet(bytes)).dropped)
        };
        assert_eq!(dropped("none"), [None, None, None]);
        assert_eq!(dropped("red"), [None, None, Some("marker_red")]);
        assert_eq!(dropped("yellowAndRed"), [None, Some("marker_yellow"), Some("marker_red")]);
    }

    #[test]
    fn a_colour_aware_meter_looks_at_the_colour() {
        for (aware, expected) in [(true, Colour::Red), (false, Colour::Green)] {
            let mut rig = marker(json!({ "meter": meter(), "colourAware": aware }));
            let slot = rig.slot("colour");
            let seen = rig.send_as(&packet(100), |metadata| {
                slot.set(metadata, Colour::Red as u32);
            });
            assert_eq!(colour(&rig, &seen), expected);
        }
    }

    #[test]
    fn traffic_is_measured_together_by_scope() {
        let colours = |scope: &str| {
            let mut rig = marker(json!({ "meter": meter(), "scope": scope }));
            // Two users of one group; the second one on two bearers.
            [(1, 1, 5), (2, 2, 5), (2, 3, 5)].map(|(user, bearer, group)| {
                let seen = rig.send_as(&packet(600), |metadata| {
                    (metadata.user, metadata.bearer) = (user, bearer);
                    metadata.group = group;
                });
                colour(&rig, &seen)
            })
        };
        use Colour::{Green, Red};
        assert_eq!(colours("bearer"), [Green, Green, Green]);
        assert_eq!(colours("user"), [Green, Green, Red]);
        assert_eq!(colours("group"), [Green, Red, Red]);
    }

    #[test]
    fn a_user_without_a_group_passes() {
        let mut rig = marker(json!({ "meter": meter(), "scope": "group", "drop": "red" }));
        for _ in 0..10 {
            let seen = rig.send_as(&packet(1000), |metadata| {
                metadata.group = weft_function::PacketMetadata::NONE;
            });
            assert_eq!(seen.dropped, None);
        }
    }

    #[test]
    fn settings_go_before_the_default() {
        let mut rig = marker(json!({ "meter": meter() }));
        let own = json!({ "meter": { "twoRate": {
            "committedRate": "8 kbit/s", "committedBurst": 2000,
            "peakRate": "16 kbit/s", "peakBurst": 3000
        } } });
        rig.configure(0, own, 0, 1).unwrap();
        assert_eq!([rig.shown(0, "committed_bytes"), rig.shown(0, "peak_bytes")], [2000, 3000]);
        assert_eq!([rig.shown(1, "committed_bytes"), rig.shown(1, "excess_bytes")], [1000, 128]);
        let seen = rig.send(&packet(1500));
        assert_eq!(colour(&rig, &seen), Colour::Green);
        let seen = rig.send(&packet(1500));
        assert_eq!(colour(&rig, &seen), Colour::Yellow);
        let seen = rig.send_as(&packet(1500), |metadata| metadata.user = 1);
        assert_eq!(colour(&rig, &seen), Colour::Red);
    }

    #[test]
    fn a_changed_meter_does_not_give_back_what_was_used() {
        let single = |burst: u64| {
            json!({ "meter": { "singleRate": {
                "committedRate": "8 kbit/s", "committedBurst": burst
            } } })
        };
        let mut rig = marker(Value::Null);
        rig.configure(0, single(1000), 0, 1).unwrap();
        rig.send(&packet(1000));
        rig.configure(0, single(1500), 0, 1).unwrap();
        assert_eq!(rig.shown(0, "committed_bytes"), 500);
        let two_rates = json!({ "meter": { "twoRate": {
            "committedRate": "8 kbit/s", "committedBurst": 700,
            "peakRate": "8 kbit/s", "peakBurst": 800
        } } });
        rig.configure(0, two_rates, 0, 1).unwrap();
        assert_eq!([rig.shown(0, "committed_bytes"), rig.shown(0, "peak_bytes")], [700, 800]);
    }

    /// The clocks of two nodes have nothing to do with each other.
    #[test]
    fn a_moved_bucket_fills_as_if_it_had_stayed() {
        let mut source = marker(json!({ "meter": meter() }));
        source.now = 1_000_000 * SECOND;
        source.send(&packet(1000));
        source.now += SECOND / 4;
        let mut target = marker(json!({ "meter": meter() }));
        target.now = 5 * SECOND;
        target.instance.import(0, target.now, &source.export(0)).unwrap();
        assert_eq!(target.shown(0, "committed_bytes"), 250);
        target.now += SECOND / 4;
        let seen = target.send(&packet(501));
        assert_eq!(colour(&target, &seen), Colour::Red);
        let seen = target.send(&packet(500));
        assert_eq!(colour(&target, &seen), Colour::Green);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config| Rig::new(kind("marker").unwrap(), config).err().unwrap();
        let slow = json!({ "meter": { "singleRate": {
            "committedRate": "1 bit/s", "committedBurst": 1500
        } } });
        assert_eq!(error(slow.clone()).path, "meter.singleRate.committedRate");
        assert_eq!(
            marker(Value::Null).configure(0, slow, 0, 1).unwrap_err().path,
            "meter.singleRate.committedRate"
        );
        let word = json!({ "meter": { "singleRate": {
            "committedRate": "fast", "committedBurst": 1500
        } } });
        assert_eq!(error(word).path, "meter.singleRate.committedRate");
        assert_eq!(error(json!({ "drop": "green" })).path, "drop");
        assert_eq!(error(json!({ "meter": { "threeRates": {} } })).path, "meter");
    }
}
