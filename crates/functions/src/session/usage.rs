//! What usage reporting rules have measured (3GPP TS 29.244 §7.5.8.3).

use serde::{Deserialize, Serialize};
use weft_function::{ContextError, Fields};

use super::rules::{Triggers, UrrId};

/// Octets of IP packets, and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Octets from the user.
    pub uplink_octets: u64,
    /// Octets to the user.
    pub downlink_octets: u64,
    /// Packets from the user.
    pub uplink_packets: u64,
    /// Packets to the user.
    pub downlink_packets: u64,
}

impl Volume {
    /// Octets of both directions.
    pub fn octets(&self) -> u64 {
        self.uplink_octets.saturating_add(self.downlink_octets)
    }

    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.uplink_packets.saturating_add(self.downlink_packets)
    }

    /// Adds another.
    pub fn add(&mut self, other: &Volume) {
        self.uplink_octets = self.uplink_octets.saturating_add(other.uplink_octets);
        self.downlink_octets = self.downlink_octets.saturating_add(other.downlink_octets);
        self.uplink_packets = self.uplink_packets.saturating_add(other.uplink_packets);
        self.downlink_packets = self.downlink_packets.saturating_add(other.downlink_packets);
    }
}

/// One usage report: what one rule has measured since the report before. Times are
/// nanoseconds since the node started, below 0 where they were before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The rule.
    pub urr: UrrId,
    /// Number of the report of this rule, from 0 (UR-SEQN, §8.2.71).
    pub sequence: u32,
    /// What led to it.
    pub triggers: Triggers,
    /// What has passed.
    pub volume: Volume,
    /// How long the use lasted, in nanoseconds (§8.2.45); 0 of a rule that measures no time.
    pub duration: u64,
    /// When the measurement began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// When the first packet passed, if one did.
    pub first_packet: Option<i64>,
    /// When the last packet passed, if one did.
    pub last_packet: Option<i64>,
    /// It ended at the monitoring time, and another report follows for what came after
    /// (§8.2.66, Usage Information: BEF and AFT).
    pub before_monitoring_time: bool,
}

impl Usage {
    /// Writes it as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Usage { urr, sequence, triggers, volume, duration, start, end, .. } = self;
        for field in [urr.0, *sequence, triggers.bits()] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let Volume { uplink_octets, downlink_octets, uplink_packets, downlink_packets } = *volume;
        let volume = [uplink_octets, downlink_octets, uplink_packets, downlink_packets];
        let times = [*duration, start.cast_unsigned(), end.cast_unsigned()];
        let packets = [self.first_packet, self.last_packet].map(field_of);
        for field in volume.into_iter().chain(times).chain(packets) {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.push(self.before_monitoring_time.into());
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn read(fields: &mut Fields<'_>) -> Result<Usage, ContextError> {
        Ok(Usage {
            urr: UrrId(fields.u32()?),
            sequence: fields.u32()?,
            triggers: Triggers::from_bits(fields.u32()?),
            volume: Volume {
                uplink_octets: fields.u64()?,
                downlink_octets: fields.u64()?,
                uplink_packets: fields.u64()?,
                downlink_packets: fields.u64()?,
            },
            duration: fields.u64()?,
            start: fields.u64()?.cast_signed(),
            end: fields.u64()?.cast_signed(),
            first_packet: time_of(fields.u64()?),
            last_packet: time_of(fields.u64()?),
            before_monitoring_time: fields.u8()? != 0,
        })
    }
}

/// What the node asks of a session's usage. It travels as bytes, as contexts do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// What is due by now.
    Due,
    /// The usage of these rules (Query URR).
    Of(Vec<UrrId>),
    /// The usage of all rules (QAURR).
    All,
    /// The last usage of these rules, which go.
    Last(Vec<UrrId>),
    /// The last usage of all rules, as the session goes.
    End,
    /// What there is, without a report: of each rule, since the last one.
    Show,
    /// Nothing: it is said of these rules what their next reports are, as reports were given
    /// that a state of before does not know.
    Reported(Vec<(UrrId, NextReport)>),
}

impl Question {
    /// Writes it as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        if let Question::Reported(rules) = self {
            let mut out = vec![6];
            for (rule, next) in rules {
                out.extend([rule.0, next.number].into_iter().flat_map(u32::to_le_bytes));
                out.extend(field_of(next.since).to_le_bytes());
            }
            return out;
        }
        let (kind, rules): (u8, &[UrrId]) = match self {
            Question::Due => (0, &[]),
            Question::Of(rules) => (1, rules),
            Question::All => (2, &[]),
            Question::Last(rules) => (3, rules),
            Question::End => (4, &[]),
            Question::Show | Question::Reported(_) => (5, &[]),
        };
        let rules = rules.iter().flat_map(|rule| rule.0.to_le_bytes());
        std::iter::once(kind).chain(rules).collect()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote; none of other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Question> {
        let (kind, rules) = bytes.split_first()?;
        if *kind == 6 {
            let mut fields = Fields::new(rules);
            let mut reported = Vec::new();
            while fields.clone().end().is_err() {
                let rule = UrrId(fields.u32().ok()?);
                let (number, since) = (fields.u32().ok()?, time_of(fields.u64().ok()?));
                reported.push((rule, NextReport { number, since }));
            }
            return Some(Question::Reported(reported));
        }
        let rules = rules.as_chunks().0.iter().map(|rule| UrrId(u32::from_le_bytes(*rule)));
        Some(match kind {
            0 => Question::Due,
            1 => Question::Of(rules.collect()),
            2 => Question::All,
            3 => Question::Last(rules.collect()),
            4 => Question::End,
            5 => Question::Show,
            _ => return None,
        })
    }
}

/// What the next report of a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextReport {
    /// Its number.
    pub number: u32,
    /// When the one before ended, in nanoseconds of the node's clock; none where that is not
    /// known.
    pub since: Option<i64>,
}

/// What a session answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Reports.
    pub usage: Vec<Usage>,
    /// When something is due next, if no packet passes.
    pub next: Option<u64>,
    /// When the last packet passed, or the rules came, if none passed since.
    pub last_packet: Option<i64>,
}

impl Answer {
    /// Writes it as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        for field in [self.next.unwrap_or(u64::MAX), field_of(self.last_packet)] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        self.usage.iter().for_each(|usage| usage.write(out));
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn read(bytes: &[u8]) -> Result<Answer, ContextError> {
        let mut fields = Fields::new(bytes);
        let next = Some(fields.u64()?).filter(|time| *time != u64::MAX);
        let last_packet = time_of(fields.u64()?);
        let mut usage = Vec::new();
        while fields.clone().end().is_err() {
            usage.push(Usage::read(&mut fields)?);
        }
        Ok(Answer { usage, next, last_packet })
    }
}

/// A time as bytes have it; all bits are 1 where there is none.
fn field_of(time: Option<i64>) -> u64 {
    // The last nanosecond before the node started is told as the first.
    time.map_or(u64::MAX, |time| if time == -1 { 0 } else { time.cast_unsigned() })
}

fn time_of(field: u64) -> Option<i64> {
    (field != u64::MAX).then_some(field.cast_signed())
}

/// What the function reports to the agent: something is due, which [`Question::Due`] asks for.
pub const USAGE: u32 = 0;

/// The code of the report that the first packet of a rule waits: above 0.
pub fn waits(pdr: super::rules::PdrId) -> u32 {
    0x1_0000 | u32::from(pdr.0)
}

/// The rule whose first packet waits.
pub fn waiting_rule(code: u32) -> Option<super::rules::PdrId> {
    (code >> 16 == 1).then_some(super::rules::PdrId(code as u16))
}
