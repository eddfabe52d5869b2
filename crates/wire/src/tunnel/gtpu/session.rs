//! The PDU session container (TS 38.415 §5.5.2).

use std::fmt;

use crate::Error;

/// Identifier of a quality-of-service flow, 0 to 63 (TS 23.501 §5.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qfi(u8);

impl Qfi {
    /// The identifier of a number; `None` above 63.
    #[inline]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= mask::QFI { Some(Self(value)) } else { None }
    }

    /// The number, 0 to 63.
    #[inline]
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Qfi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

mod mask {
    pub const QFI: u8 = 0x3f;
    /// Downlink, first octet.
    pub const DL_QMP: u8 = 0x08;
    pub const DL_SNP: u8 = 0x04;
    pub const DL_MSNP: u8 = 0x02;
    /// Downlink, second octet.
    pub const PPP: u8 = 0x80;
    pub const RQI: u8 = 0x40;
    /// Uplink, first octet.
    pub const UL_QMP: u8 = 0x08;
    pub const UL_DL_DELAY: u8 = 0x04;
    pub const UL_UL_DELAY: u8 = 0x02;
    pub const UL_SNP: u8 = 0x01;
    /// Uplink, second octet.
    pub const UL_N3_N9_DELAY: u8 = 0x80;
    pub const UL_NEW_IE: u8 = 0x40;
}

/// What the ends of an N3 or N9 tunnel tell each other with each packet. Time
/// stamps, delays and sequence numbers are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PduSession {
    /// PDU type 0: towards the user.
    Downlink {
        /// The flow that the packet belongs to.
        qfi: Qfi,
        /// The user's equipment makes a rule for the way back (RQI).
        reflective: bool,
        /// Paging policy indicator, 0 to 7; the lower three bits count.
        paging_policy: Option<u8>,
    },
    /// PDU type 1: from the user.
    Uplink {
        /// The flow that the packet belongs to.
        qfi: Qfi,
    },
}

impl PduSession {
    /// The container in the content of an extension header.
    ///
    /// # Errors
    /// [`Error::BadGtpExtensionContent`] when the PDU type is neither, or less
    /// is there than its flags announce.
    #[inline]
    pub fn parse(content: &[u8]) -> Result<Self, Error> {
        let [first, second, rest @ ..] = content else { return Err(Error::BadGtpExtensionContent) };
        let qfi = Qfi(second & mask::QFI);
        let (session, announced) = match first >> 4 {
            0 => {
                let policy = second & mask::PPP != 0;
                let paging_policy = rest.first().filter(|_| policy).map(|octet| octet >> 5);
                let reflective = second & mask::RQI != 0;
                (Self::Downlink { qfi, reflective, paging_policy }, downlink(*first, *second))
            }
            1 => (Self::Uplink { qfi }, uplink(*first, *second)),
            _ => return Err(Error::BadGtpExtensionContent),
        };
        if rest.len() < announced { Err(Error::BadGtpExtensionContent) } else { Ok(session) }
    }

    /// The flow that the packet belongs to.
    #[inline]
    pub const fn qfi(&self) -> Qfi {
        match self {
            Self::Downlink { qfi, .. } | Self::Uplink { qfi } => *qfi,
        }
    }

    /// Octets of the container with padding: 4n − 2.
    #[inline]
    pub(super) const fn buffer_len(&self) -> usize {
        match self {
            Self::Downlink { paging_policy: Some(_), .. } => 6,
            _ => 2,
        }
    }

    /// Writes the container over octets that are 0.
    #[inline]
    pub(super) fn emit(&self, content: &mut [u8]) {
        match *self {
            Self::Downlink { qfi, reflective, paging_policy } => {
                content[1] = qfi.0 | if reflective { mask::RQI } else { 0 };
                if let Some(policy) = paging_policy {
                    content[1] |= mask::PPP;
                    content[2] = policy << 5;
                }
            }
            Self::Uplink { qfi } => {
                content[0] = 1 << 4;
                content[1] = qfi.0;
            }
        }
    }
}

/// Octets behind the first two that the flags of PDU type 0 announce: paging
/// policy, sending time, sequence number, and that of a multicast session.
#[inline]
const fn downlink(first: u8, second: u8) -> usize {
    (if second & mask::PPP != 0 { 1 } else { 0 })
        + (if first & mask::DL_QMP != 0 { 8 } else { 0 })
        + (if first & mask::DL_SNP != 0 { 3 } else { 0 })
        + (if first & mask::DL_MSNP != 0 { 4 } else { 0 })
}

/// The same of PDU type 1: three times, two delays, a sequence number, the delay
/// of N3 and N9, and more flags.
#[inline]
const fn uplink(first: u8, second: u8) -> usize {
    (if first & mask::UL_QMP != 0 { 24 } else { 0 })
        + (if first & mask::UL_DL_DELAY != 0 { 4 } else { 0 })
        + (if first & mask::UL_UL_DELAY != 0 { 4 } else { 0 })
        + (if first & mask::UL_SNP != 0 { 3 } else { 0 })
        + (if second & mask::UL_N3_N9_DELAY != 0 { 4 } else { 0 })
        + (if second & mask::UL_NEW_IE != 0 { 1 } else { 0 })
}

impl fmt::Display for PduSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Downlink { qfi, reflective, paging_policy } => {
                write!(f, "downlink qfi {qfi}")?;
                if *reflective {
                    f.write_str(" reflective")?;
                }
                paging_policy.map_or(Ok(()), |policy| write!(f, " paging policy {policy}"))
            }
            Self::Uplink { qfi } => write!(f, "uplink qfi {qfi}"),
        }
    }
}
