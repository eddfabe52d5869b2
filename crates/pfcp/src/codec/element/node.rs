//! Flags and durations of node and session messages.

use crate::codec::cursor::Cursor;
use crate::codec::flags::flags;
use crate::codec::{Error, Value};

flags! {
    /// Report Type (§8.2.21).
    ReportType(u8) written 1 {
        /// Downlink data.
        DLDR = 0,
        /// Usage.
        USAR = 1,
        /// Error Indication.
        ERIR = 2,
        /// User plane inactivity.
        UPIR = 3,
        /// TSC management information.
        TMIR = 4,
        /// Session report.
        SESR = 5,
        /// The user plane asks to release the session.
        UISR = 6,
    }

    /// Node Report Type (§8.2.69).
    NodeReportType(u8) written 1 {
        /// User plane path failure.
        UPFR = 0,
        /// User plane path recovery.
        UPRR = 1,
        /// Clock drift.
        CKDR = 2,
        /// GTP-U path QoS.
        GPQR = 3,
        /// Restart of a user plane peer.
        PURR = 4,
        /// Vendor-specific.
        VSR = 5,
    }

    /// PFCPSEReq-Flags (§8.2.125).
    EstablishmentFlags(u8) written 1 {
        /// The session is restored after a failure.
        RESTI = 0,
        /// Stop of usage measurement to pause charging.
        SUMPC = 1,
        /// Home-routed session breakout.
        HRSBOM = 2,
    }

    /// PFCPSMReq-Flags (§8.2.34).
    ModificationFlags(u8) written 1 {
        /// Drop buffered packets.
        DROBU = 0,
        /// Send End Markers.
        SNDEM = 1,
        /// Query all URRs.
        QAURR = 2,
        /// Stop of usage measurement to pause charging.
        SUMPC = 3,
        /// Resume of usage measurement.
        RUMUC = 4,
        /// Delete Ethernet information.
        DETEID = 5,
        /// Home-routed session breakout.
        HRSBOM = 6,
    }

    /// PFCPSRReq-Flags (§8.2.122).
    ReportRequestFlags(u8) written 1 {
        /// The user plane has deleted the session.
        PSDBU = 0,
    }

    /// PFCPSRRsp-Flags (§8.2.35).
    ReportResponseFlags(u8) written 1 {
        /// Drop buffered packets.
        DROBU = 0,
    }

    /// PFCP Association Release Request (§8.2.77).
    AssociationRelease(u8) written 1 {
        /// The user plane asks for the release.
        SARR = 0,
        /// Sessions' non-zero usage is still to be sent.
        URSS = 1,
    }

    /// PFCPAUReq-Flags (§8.2.123).
    AssociationUpdateFlags(u8) written 1 {
        /// The release was prepared.
        PARPS = 0,
    }

    /// PFCPASReq-Flags (§8.2.179).
    AssociationRequestFlags(u8) written 1 {
        /// IPUPS instance.
        UUPSI = 0,
    }

    /// PFCPASRsp-Flags (§8.2.121).
    AssociationResponseFlags(u8) written 1 {
        /// Sessions are retained.
        PSREI = 0,
        /// IPUPS instance.
        UUPSI = 1,
    }
}

/// A duration: a unit of 3 bits and a number of 5 (§8.2.29, §8.2.55, §8.2.78).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GracePeriod(pub u8);

impl GracePeriod {
    /// Seconds, or none if the timer never ends.
    #[must_use]
    pub const fn seconds(self) -> Option<u64> {
        let unit = match self.0 >> 5 {
            0 => 2,
            2 => 600,
            3 => 3600,
            4 => 36_000,
            7 => return None,
            // A minute, and so is what is not defined.
            _ => 60,
        };
        Some(unit * (self.0 & 0x1f) as u64)
    }

    /// The shortest duration that is at least so many seconds, or the longest.
    #[must_use]
    pub fn at_least(seconds: u64) -> Self {
        let fits = [(0, 2), (1, 60), (2, 600), (3, 3600), (4, 36_000)];
        let found = fits.into_iter().find(|(_, unit)| seconds.div_ceil(*unit) <= 31);
        Self(found.map_or(0xe0, |(code, unit)| code << 5 | seconds.div_ceil(unit) as u8))
    }
}

impl<'a> Value<'a> for GracePeriod {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(Cursor::new(element, octets).u8()?))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
}

/// PDN Type (§8.2.79).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PdnType(pub u8);

impl PdnType {
    /// IPv4.
    pub const IPV4: Self = Self(1);
    /// IPv6.
    pub const IPV6: Self = Self(2);
    /// IPv4 and IPv6.
    pub const IPV4V6: Self = Self(3);
    /// Non-IP.
    pub const NON_IP: Self = Self(4);
    /// Ethernet.
    pub const ETHERNET: Self = Self(5);
}

impl<'a> Value<'a> for PdnType {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        match cursor.u8()? & 0x07 {
            kind @ 1..=5 => Ok(Self(kind)),
            _ => Err(cursor.wrong()),
        }
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0 & 0x07);
    }
}
