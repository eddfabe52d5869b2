//! Gates, rates and markings of QERs, and counts of BARs.

use crate::codec::cursor::{Cursor, put_u40};
use crate::codec::flags::flags;
use crate::codec::{Error, Value};

/// Whether packets may pass, by direction (§8.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// Uplink packets are dropped.
    pub uplink_closed: bool,
    /// Downlink packets are dropped.
    pub downlink_closed: bool,
}

impl<'a> Value<'a> for GateStatus {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let octet = Cursor::new(element, octets).u8()?;
        // 0 is open, 1 closed; what later releases may add is closed, as §8.2.7 has it.
        Ok(Self { uplink_closed: octet >> 2 & 0x03 != 0, downlink_closed: octet & 0x03 != 0 })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.uplink_closed) << 2 | u8::from(self.downlink_closed));
    }
}

/// MBR or GBR (§8.2.8, §8.2.9): kilobits (1,000 bits) a second, 40 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Uplink.
    pub uplink: u64,
    /// Downlink.
    pub downlink: u64,
}

impl<'a> Value<'a> for Rate {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        Ok(Self { uplink: cursor.u40()?, downlink: cursor.u40()? })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        put_u40(out, self.uplink);
        put_u40(out, self.downlink);
    }
}

/// Packets in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// Unit of time: 0 a minute, 1 six minutes, 2 an hour, 3 a day, 4 a week.
    pub unit: u8,
    /// Packets in one unit.
    pub packets: u16,
}

impl RateLimit {
    /// Seconds of the unit; others count as a minute (§8.2.63).
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self.unit {
            1 => 360,
            2 => 3600,
            3 => 86_400,
            4 => 604_800,
            _ => 60,
        }
    }
}

/// Packet Rate (§8.2.63).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketRate {
    /// Uplink.
    pub uplink: Option<RateLimit>,
    /// Downlink.
    pub downlink: Option<RateLimit>,
}

impl<'a> Value<'a> for PacketRate {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let limit = |cursor: &mut Cursor<'a>| {
            Ok(RateLimit { unit: cursor.u8()? & 0x07, packets: cursor.u16()? })
        };
        Ok(Self {
            uplink: cursor.when(flags & 0x01 != 0, limit)?,
            downlink: cursor.when(flags & 0x02 != 0, limit)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.uplink.is_some()) | u8::from(self.downlink.is_some()) << 1);
        for limit in [self.uplink, self.downlink].into_iter().flatten() {
            out.push(limit.unit & 0x07);
            out.extend_from_slice(&limit.packets.to_be_bytes());
        }
    }
}

/// Marking of downlink packets (§8.2.66).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DlFlowLevelMarking {
    /// ToS or Traffic Class: value and mask.
    pub traffic_class: Option<(u8, u8)>,
    /// Service Class Indicator, an extension header of GTP-U.
    pub service_class: Option<u16>,
}

impl<'a> Value<'a> for DlFlowLevelMarking {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        Ok(Self {
            traffic_class: cursor
                .when(flags & 0x01 != 0, |cursor| Ok((cursor.u8()?, cursor.u8()?)))?,
            service_class: cursor.when(flags & 0x02 != 0, Cursor::u16)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        let (class, service) = (self.traffic_class, self.service_class);
        out.push(u8::from(class.is_some()) | u8::from(service.is_some()) << 1);
        if let Some((value, mask)) = class {
            out.extend_from_slice(&[value, mask]);
        }
        if let Some(service) = service {
            out.extend_from_slice(&service.to_be_bytes());
        }
    }
}

flags! {
    /// QER Control Indications (§8.2.174).
    QerControl(u8) written 1 {
        /// Report the packet rate status.
        RCSR = 0,
        /// Enforce the monthly downlink limit.
        MOED = 1,
        /// Do not enforce.
        NORD = 2,
    }
}

/// A number of packets, in one octet or two (§8.2.30).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketCount(pub u16);

impl<'a> Value<'a> for PacketCount {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        Ok(Self(if octets.len() == 1 { u16::from(cursor.u8()?) } else { cursor.u16()? }))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        match u8::try_from(self.0) {
            Ok(count) => out.push(count),
            Err(_) => out.extend_from_slice(&self.0.to_be_bytes()),
        }
    }
}
