//! What URRs measure and report.

use crate::codec::cursor::Cursor;
use crate::codec::flags::flags;
use crate::codec::{Error, Value};

flags! {
    /// Measurement Method (§8.2.40).
    MeasurementMethod(u8) written 1 {
        /// Duration.
        DURAT = 0,
        /// Volume.
        VOLUM = 1,
        /// Events.
        EVENT = 2,
    }

    /// Reporting Triggers (§8.2.19).
    ReportingTriggers(u32) written 3 {
        /// Periodic.
        PERIO = 0,
        /// Volume threshold.
        VOLTH = 1,
        /// Time threshold.
        TIMTH = 2,
        /// Quota holding time.
        QUHTI = 3,
        /// Start of traffic.
        START = 4,
        /// Stop of traffic.
        STOPT = 5,
        /// Dropped downlink traffic.
        DROTH = 6,
        /// Linked usage.
        LIUSA = 7,
        /// Volume quota.
        VOLQU = 8,
        /// Time quota.
        TIMQU = 9,
        /// Envelope closure.
        ENVCL = 10,
        /// MAC addresses.
        MACAR = 11,
        /// Event threshold.
        EVETH = 12,
        /// Event quota.
        EVEQU = 13,
        /// IP multicast join or leave.
        IPMJL = 14,
        /// Quota validity time.
        QUVTI = 15,
        /// Report of the end marker reception.
        REEMR = 16,
        /// User plane inactivity.
        UPINT = 17,
    }

    /// Usage Report Trigger (§8.2.41).
    UsageTrigger(u32) written 3 {
        /// Periodic.
        PERIO = 0,
        /// Volume threshold.
        VOLTH = 1,
        /// Time threshold.
        TIMTH = 2,
        /// Quota holding time.
        QUHTI = 3,
        /// Start of traffic.
        START = 4,
        /// Stop of traffic.
        STOPT = 5,
        /// Dropped downlink traffic.
        DROTH = 6,
        /// Immediate report, on a query.
        IMMER = 7,
        /// Volume quota.
        VOLQU = 8,
        /// Time quota.
        TIMQU = 9,
        /// Linked usage.
        LIUSA = 10,
        /// Termination of the session, or removal of the URR.
        TERMR = 11,
        /// Monitoring time.
        MONIT = 12,
        /// Envelope closure.
        ENVCL = 13,
        /// MAC addresses.
        MACAR = 14,
        /// Event threshold.
        EVETH = 15,
        /// Event quota.
        EVEQU = 16,
        /// Termination by the user plane.
        TEBUR = 17,
        /// IP multicast join or leave.
        IPMJL = 18,
        /// Quota validity time.
        QUVTI = 19,
        /// End marker reception.
        EMRRE = 20,
        /// User plane inactivity.
        UPINT = 21,
    }

    /// Measurement Information (§8.2.68).
    MeasurementInformation(u8) written 1 {
        /// Measure before QoS enforcement.
        MBQE = 0,
        /// The measurement is inactive.
        INAM = 1,
        /// Reduced application detection information.
        RADI = 2,
        /// Immediate start of time metering.
        ISTM = 3,
        /// Measure the number of packets.
        MNOP = 4,
        /// Send start pause of charging.
        SSPOC = 5,
        /// Applicable for start of pause of charging.
        ASPOC = 6,
        /// Control of inactive measurement.
        CIAM = 7,
    }

    /// Usage Information (§8.2.60).
    UsageInformation(u8) written 1 {
        /// Before the monitoring time.
        BEF = 0,
        /// After the monitoring time.
        AFT = 1,
        /// After QoS enforcement.
        UAE = 2,
        /// Before QoS enforcement.
        UBE = 3,
    }
}

/// Volume Threshold, Volume Quota and their subsequent values (§8.2.13, §8.2.50), octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// Both directions.
    pub total: Option<u64>,
    /// Uplink.
    pub uplink: Option<u64>,
    /// Downlink.
    pub downlink: Option<u64>,
}

impl<'a> Value<'a> for Volume {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        if flags & 0x07 == 0 {
            return Err(cursor.wrong());
        }
        Ok(Self {
            total: cursor.when(flags & 0x01 != 0, Cursor::u64)?,
            uplink: cursor.when(flags & 0x02 != 0, Cursor::u64)?,
            downlink: cursor.when(flags & 0x04 != 0, Cursor::u64)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        put(&[self.total, self.uplink, self.downlink], out);
    }
}

/// Volume Measurement (§8.2.46), octets and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeMeasurement {
    /// Octets of both directions.
    pub total: Option<u64>,
    /// Octets uplink.
    pub uplink: Option<u64>,
    /// Octets downlink.
    pub downlink: Option<u64>,
    /// Packets of both directions.
    pub total_packets: Option<u64>,
    /// Packets uplink.
    pub uplink_packets: Option<u64>,
    /// Packets downlink.
    pub downlink_packets: Option<u64>,
}

impl<'a> Value<'a> for VolumeMeasurement {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let mut field = |bit: u8| cursor.when(flags & 1 << bit != 0, Cursor::u64);
        Ok(Self {
            total: field(0)?,
            uplink: field(1)?,
            downlink: field(2)?,
            total_packets: field(3)?,
            uplink_packets: field(4)?,
            downlink_packets: field(5)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        put(
            &[
                self.total,
                self.uplink,
                self.downlink,
                self.total_packets,
                self.uplink_packets,
                self.downlink_packets,
            ],
            out,
        );
    }
}

/// Numbers behind flags that say which are there.
fn put(fields: &[Option<u64>], out: &mut Vec<u8>) {
    let flags = fields.iter().enumerate().map(|(bit, field)| u8::from(field.is_some()) << bit);
    out.push(flags.sum());
    for number in fields.iter().flatten() {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Dropped DL Traffic Threshold (§8.2.49).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DroppedDownlink {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets.
    pub octets: Option<u64>,
}

impl<'a> Value<'a> for DroppedDownlink {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        Ok(Self {
            packets: cursor.when(flags & 0x01 != 0, Cursor::u64)?,
            octets: cursor.when(flags & 0x02 != 0, Cursor::u64)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        put(&[self.packets, self.octets], out);
    }
}

/// How many usage reports follow in later messages (§8.2.91).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdditionalReports {
    /// Their number is not known yet.
    pub more: bool,
    /// Their number, 15 bits.
    pub count: u16,
}

impl<'a> Value<'a> for AdditionalReports {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let value = Cursor::new(element, octets).u16()?;
        Ok(Self { more: value & 0x8000 != 0, count: value & 0x7fff })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        let value = u16::from(self.more) << 15 | self.count & 0x7fff;
        out.extend_from_slice(&value.to_be_bytes());
    }
}
