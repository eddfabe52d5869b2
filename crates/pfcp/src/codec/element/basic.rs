//! Numbers.

use crate::codec::cursor::Cursor;
use crate::codec::{Cause, Error, Value};

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident($type:ty, $read:ident);)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $type);

        impl<'a> Value<'a> for $name {
            fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
                Ok(Self(Cursor::new(element, octets).$read()?))
            }
            fn emit(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0.to_be_bytes());
            }
        }
    )+ };
}

number! {
    /// Number of a packet detection rule (§8.2.36).
    PdrId(u16, u16);
    /// Number of a forwarding action rule (§8.2.74).
    FarId(u32, u32);
    /// Number of a QoS enforcement rule (§8.2.75).
    QerId(u32, u32);
    /// Number of a usage reporting rule (§8.2.54).
    UrrId(u32, u32);
    /// Number of a buffering action rule (§8.2.57).
    BarId(u8, u8);
    /// Number of a traffic endpoint (§8.2.92).
    TrafficEndpointId(u8, u8);
    /// A duration in seconds.
    Seconds(u32, u32);
    /// A point in time: seconds since 1900-01-01 00:00:00 UTC, as in NTP (RFC 5905 §6).
    Time(u32, u32);
}

/// Seconds from the start of NTP's era to that of Unix.
const NTP_TO_UNIX: u64 = 2_208_988_800;

impl Time {
    /// The time of a number of seconds since 1970-01-01 00:00:00 UTC. NTP's seconds begin
    /// anew in 2036.
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        Self((seconds + NTP_TO_UNIX) as u32)
    }

    /// Seconds since 1970-01-01 00:00:00 UTC: a number below 1968's is of the era from 2036 on
    /// (RFC 4330 §3), and one from 1968 or 1969 counts as 0.
    #[must_use]
    pub const fn unix(self) -> u64 {
        let era = if self.0 < 0x8000_0000 { 1 << 32 } else { 0 };
        (era + self.0 as u64).saturating_sub(NTP_TO_UNIX)
    }
}

macro_rules! plain {
    ($($type:ty: $read:ident;)+) => { $(
        impl<'a> Value<'a> for $type {
            fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
                Cursor::new(element, octets).$read()
            }
            fn emit(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )+ };
}

plain! {
    u8: u8;
    u16: u16;
    u32: u32;
}

/// A number of `N` bits in one octet; the octet's other bits are spare, and 0 when written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits<const N: u32>(pub u8);

impl<'a, const N: u32> Value<'a> for Bits<N> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(Cursor::new(element, octets).u8()? & ((1 << N) - 1)))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0 & ((1 << N) - 1));
    }
}

/// Octets that this codec passes on as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Octets<'a>(pub &'a [u8]);

impl<'a> Value<'a> for Octets<'a> {
    fn parse(_: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(octets))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }

    #[cfg(test)]
    fn random(element: u16, _: &mut crate::codec::tests::strategy::Draw) -> Vec<u8> {
        crate::codec::tests::strategy::passed_on(element).to_vec()
    }
}

/// The rule that could not be created or changed (§8.2.80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleId {
    /// A PDR.
    Pdr(PdrId),
    /// A FAR.
    Far(FarId),
    /// A QER.
    Qer(QerId),
    /// A URR.
    Urr(UrrId),
    /// A BAR.
    Bar(BarId),
    /// A rule of a kind that is not supported (MAR, SRR): kind and number.
    Other(u8, u16),
}

impl Default for RuleId {
    fn default() -> Self {
        Self::Pdr(PdrId(0))
    }
}

impl std::fmt::Display for RuleId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pdr(id) => write!(f, "PDR {}", id.0),
            Self::Far(id) => write!(f, "FAR {}", id.0),
            Self::Qer(id) => write!(f, "QER {}", id.0),
            Self::Urr(id) => write!(f, "URR {}", id.0),
            Self::Bar(id) => write!(f, "BAR {}", id.0),
            Self::Other(kind, _) => write!(f, "rule of kind {kind}"),
        }
    }
}

impl<'a> Value<'a> for RuleId {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        Ok(match cursor.u8()? & 0x1f {
            0 => Self::Pdr(PdrId(cursor.u16()?)),
            1 => Self::Far(FarId(cursor.u32()?)),
            2 => Self::Qer(QerId(cursor.u32()?)),
            3 => Self::Urr(UrrId(cursor.u32()?)),
            4 => Self::Bar(BarId(cursor.u8()?)),
            kind @ 6 => Self::Other(kind, u16::from(cursor.u8()?)),
            kind @ 5 => Self::Other(kind, cursor.u16()?),
            _ => return Err(cursor.wrong()),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Pdr(id) => {
                out.push(0);
                id.emit(out);
            }
            Self::Far(id) => {
                out.push(1);
                id.emit(out);
            }
            Self::Qer(id) => {
                out.push(2);
                id.emit(out);
            }
            Self::Urr(id) => {
                out.push(3);
                id.emit(out);
            }
            Self::Bar(id) => out.extend_from_slice(&[4, id.0]),
            Self::Other(6, id) => out.extend_from_slice(&[6, id.to_be_bytes()[1]]),
            Self::Other(kind, id) => {
                out.push(kind & 0x1f);
                out.extend_from_slice(&id.to_be_bytes());
            }
        }
    }
}

impl<'a> Value<'a> for Cause {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(Cursor::new(element, octets).u8()?))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
}
