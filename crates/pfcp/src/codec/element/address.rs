//! Where traffic comes from and goes to: F-TEID, UE IP Address, Remote GTP-U Peer.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::Text;
use crate::codec::cursor::{Cursor, put_counted};
use crate::codec::{Error, Value};

/// A tunnel endpoint with its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GivenFTeid {
    /// Tunnel endpoint identifier.
    pub teid: u32,
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

/// A tunnel endpoint (§8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FTeid {
    /// This one.
    Given(GivenFTeid),
    /// One that the user plane chooses.
    Choose {
        /// It has an IPv4 address.
        ipv4: bool,
        /// It has an IPv6 address.
        ipv6: bool,
        /// PDRs of the session with the same number have the same F-TEID.
        id: Option<u8>,
    },
}

impl Default for FTeid {
    fn default() -> Self {
        Self::Given(GivenFTeid { teid: 0, ipv4: Some(Ipv4Addr::UNSPECIFIED), ipv6: None })
    }
}

impl<'a> Value<'a> for FTeid {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let (ipv4, ipv6) = (flags & 0x01 != 0, flags & 0x02 != 0);
        if !(ipv4 || ipv6) {
            return Err(cursor.wrong());
        }
        if flags & 0x04 != 0 {
            let id = cursor.when(flags & 0x08 != 0, Cursor::u8)?;
            return Ok(Self::Choose { ipv4, ipv6, id });
        }
        Ok(Self::Given(GivenFTeid {
            teid: cursor.u32()?,
            ipv4: cursor.when(ipv4, Cursor::ipv4)?,
            ipv6: cursor.when(ipv6, Cursor::ipv6)?,
        }))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Given(GivenFTeid { teid, ipv4, ipv6 }) => {
                out.push(u8::from(ipv6.is_some()) << 1 | u8::from(ipv4.is_some()));
                out.extend_from_slice(&teid.to_be_bytes());
                if let Some(address) = ipv4 {
                    out.extend_from_slice(&address.octets());
                }
                if let Some(address) = ipv6 {
                    out.extend_from_slice(&address.octets());
                }
            }
            Self::Choose { ipv4, ipv6, id } => {
                let with_id = u8::from(id.is_some()) << 3;
                out.push(with_id | 0x04 | u8::from(ipv6) << 1 | u8::from(ipv4));
                out.extend(id);
            }
        }
    }
}

/// Addresses of a user (§8.2.62).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct UeIpAddress {
    /// The address is the packet's destination, and not its source.
    pub destination: bool,
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address or prefix.
    pub ipv6: Option<Ipv6Addr>,
    /// Bits by which the prefix is shorter than 64, for prefix delegation.
    pub delegation: Option<u8>,
    /// Length of the prefix, in place of 64.
    pub prefix_length: Option<u8>,
    /// The user plane chooses an IPv4 address.
    pub choose_ipv4: bool,
    /// The user plane chooses an IPv6 prefix.
    pub choose_ipv6: bool,
}

impl<'a> Value<'a> for UeIpAddress {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let has = |bit: u8| flags & 1 << bit != 0;
        // An address both given and to be chosen is neither.
        if has(1) && has(4) || has(0) && has(5) {
            return Err(cursor.wrong());
        }
        let value = Self {
            destination: has(2),
            ipv4: cursor.when(has(1), Cursor::ipv4)?,
            ipv6: cursor.when(has(0), Cursor::ipv6)?,
            delegation: cursor.when(has(3), Cursor::u8)?,
            prefix_length: cursor.when(has(6), Cursor::u8)?,
            choose_ipv4: has(4),
            choose_ipv6: has(5),
        };
        if value.delegation.is_some_and(|bits| bits > 64)
            || value.prefix_length.is_some_and(|length| length > 128)
        {
            return Err(cursor.wrong());
        }
        Ok(value)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(
            u8::from(self.ipv6.is_some())
                | u8::from(self.ipv4.is_some()) << 1
                | u8::from(self.destination) << 2
                | u8::from(self.delegation.is_some()) << 3
                | u8::from(self.choose_ipv4) << 4
                | u8::from(self.choose_ipv6) << 5
                | u8::from(self.prefix_length.is_some()) << 6,
        );
        if let Some(address) = self.ipv4 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(address) = self.ipv6 {
            out.extend_from_slice(&address.octets());
        }
        out.extend(self.delegation);
        out.extend(self.prefix_length);
    }
}

/// A far end of tunnels (§8.2.70).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteGtpuPeer<'a> {
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// Destination interface.
    pub interface: Option<u8>,
    /// Network instance.
    pub network_instance: Option<Text<'a>>,
}

impl<'a> Value<'a> for RemoteGtpuPeer<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let ipv4 = cursor.when(flags & 0x02 != 0, Cursor::ipv4)?;
        let ipv6 = cursor.when(flags & 0x01 != 0, Cursor::ipv6)?;
        let interface = cursor.when(flags & 0x04 != 0, |cursor| {
            cursor.counted()?.first().copied().ok_or(cursor.short())
        })?;
        let network_instance =
            cursor.when(flags & 0x08 != 0, |cursor| cursor.counted().map(Text))?;
        Ok(Self { ipv4, ipv6, interface, network_instance })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(
            u8::from(self.ipv6.is_some())
                | u8::from(self.ipv4.is_some()) << 1
                | u8::from(self.interface.is_some()) << 2
                | u8::from(self.network_instance.is_some()) << 3,
        );
        if let Some(address) = self.ipv4 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(address) = self.ipv6 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(interface) = self.interface {
            put_counted(out, &[interface]);
        }
        if let Some(name) = self.network_instance {
            put_counted(out, name.0);
        }
    }
}
