//! Usage reporting rules (3GPP TS 29.244 §5.2.2).

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{FarId, UrrId};

/// Usage reporting rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Urr {
    /// Its number in the session.
    pub id: UrrId,
    /// Tells rules apart that had the number one after the other: one with another value here is
    /// another rule, which measures from 0 on.
    pub created: u32,
    /// What is measured (§8.2.40).
    pub method: Method,
    /// What leads to a report (§8.2.19).
    pub triggers: Triggers,
    /// Seconds between periodic reports (§8.2.41).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u32>,
    /// Volume that is reported when it has passed (§8.2.13).
    #[serde(skip_serializing_if = "Volumes::is_none")]
    pub volume_threshold: Volumes,
    /// Volume beyond which nothing passes (§8.2.50).
    #[serde(skip_serializing_if = "Volumes::is_none")]
    pub volume_quota: Volumes,
    /// Seconds of use after which it is reported (§8.2.14).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_threshold: Option<u32>,
    /// Seconds of use beyond which nothing passes (§8.2.51).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_quota: Option<u32>,
    /// Packets after which they are reported, of a rule that measures events (§8.2.113).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_threshold: Option<u32>,
    /// Packets beyond which nothing passes (§8.2.112).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_quota: Option<u32>,
    /// Number of the grant of the quotas: when it changes, they are used from 0 on, whatever
    /// their values.
    pub grant: u32,
    /// Seconds without a packet after which a quota is given back (§8.2.48).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_holding: Option<u32>,
    /// Seconds for which a quota is good (§8.2.147).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_validity: Option<u32>,
    /// What passes beyond a quota, in place of nothing (§8.2.74, FAR ID for Quota Action).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_action: Option<FarId>,
    /// Downlink packets that are dropped until it is reported (§8.2.49).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Downlink octets that are dropped until it is reported (§8.2.49).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_octets: Option<u64>,
    /// Seconds without a packet that are no use (§8.2.45, Inactivity Detection Time).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactivity: Option<u32>,
    /// When usage before and after is reported apart: seconds since 1970 (§8.2.20).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring_time: Option<u64>,
    /// The volume threshold behind that time (§8.2.21).
    #[serde(skip_serializing_if = "Volumes::is_none")]
    pub subsequent_volume_threshold: Volumes,
    /// The volume quota behind that time (§8.2.86).
    #[serde(skip_serializing_if = "Volumes::is_none")]
    pub subsequent_volume_quota: Volumes,
    /// The time threshold behind that time (§8.2.22).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsequent_time_threshold: Option<u32>,
    /// The time quota behind that time (§8.2.87).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsequent_time_quota: Option<u32>,
    /// Rules whose reports lead to one of this rule (§8.2.55), if it has the trigger.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<UrrId>,
    /// Packets are measured before rates and gates (MBQE, §8.2.68).
    pub before_qos: bool,
    /// It measures nothing for the time being (INAM).
    pub paused: bool,
    /// Time is measured from the first, and not from the first packet on (ISTM).
    pub immediate_start: bool,
}

impl Urr {
    /// Whether it is that rule, perhaps changed.
    pub fn is(&self, other: &Urr) -> bool {
        (self.id, self.created) == (other.id, other.created)
    }
}

/// What a rule measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Method {
    /// Octets and packets.
    pub volume: bool,
    /// Time.
    pub duration: bool,
    /// Packets, as events.
    pub event: bool,
}

/// Octets, of both directions together and of each; none for no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Volumes {
    /// Of both directions together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// From the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<u64>,
    /// To the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downlink: Option<u64>,
}

impl Volumes {
    /// Whether nothing is bounded.
    pub fn is_none(&self) -> bool {
        *self == Volumes::default()
    }
}

/// What leads, or led, to a usage report: *Reporting Triggers* (§8.2.19) and *Usage Report
/// Trigger* (§8.2.41).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[repr(u8)]
pub enum Trigger {
    /// PERIO.
    Periodic,
    /// VOLTH.
    VolumeThreshold,
    /// TIMTH.
    TimeThreshold,
    /// QUHTI.
    QuotaHoldingTime,
    /// START.
    StartOfTraffic,
    /// STOPT.
    StopOfTraffic,
    /// DROTH.
    DroppedDownlink,
    /// LIUSA.
    Linked,
    /// VOLQU.
    VolumeQuota,
    /// TIMQU.
    TimeQuota,
    /// EVETH.
    EventThreshold,
    /// EVEQU.
    EventQuota,
    /// QUVTI.
    QuotaValidityTime,
    /// IMMER, of a report only: the control plane has asked.
    Immediate,
    /// MONIT, of a report only: the monitoring time has come.
    MonitoringTime,
    /// TERMR, of a report only: the rule or its session is gone.
    Termination,
}

impl Trigger {
    /// All of them, in the order of their numbers.
    pub const ALL: [Trigger; 16] = {
        use Trigger::*;
        [
            Periodic,
            VolumeThreshold,
            TimeThreshold,
            QuotaHoldingTime,
            StartOfTraffic,
            StopOfTraffic,
            DroppedDownlink,
            Linked,
            VolumeQuota,
            TimeQuota,
            EventThreshold,
            EventQuota,
            QuotaValidityTime,
            Immediate,
            MonitoringTime,
            Termination,
        ]
    };
}

/// A set of triggers. It is written as a list.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Triggers(u32);

impl Triggers {
    /// None.
    pub const NONE: Triggers = Triggers(0);

    /// Whether one is in it.
    #[inline]
    pub const fn has(self, trigger: Trigger) -> bool {
        self.0 >> trigger as u8 & 1 == 1
    }

    /// The same with one more.
    #[inline]
    pub const fn with(self, trigger: Trigger) -> Triggers {
        Triggers(self.0 | 1 << trigger as u8)
    }

    /// All that are in either.
    #[inline]
    pub const fn or(self, other: Triggers) -> Triggers {
        Triggers(self.0 | other.0)
    }

    /// All that are in both.
    #[inline]
    pub const fn and(self, other: Triggers) -> Triggers {
        Triggers(self.0 & other.0)
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Trigger> {
        Trigger::ALL.into_iter().filter(move |trigger| self.has(*trigger))
    }

    /// One bit for each, by its number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The triggers of these bits; others are ignored.
    pub const fn from_bits(bits: u32) -> Triggers {
        Triggers(bits & ((1 << Trigger::ALL.len()) - 1))
    }
}

impl FromIterator<Trigger> for Triggers {
    fn from_iter<I: IntoIterator<Item = Trigger>>(triggers: I) -> Triggers {
        triggers.into_iter().fold(Triggers::NONE, Triggers::with)
    }
}

impl fmt::Debug for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for Triggers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Triggers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Trigger>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for Triggers {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Triggers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Trigger>();
        json_schema!({
            "description": "What leads to a report.",
            "type": "array",
            "items": one
        })
    }
}
