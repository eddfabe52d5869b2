//! Who speaks: Node ID, F-SEID, FQ-CSID.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::Text;
use crate::codec::cursor::Cursor;
use crate::codec::{Error, Value};

/// The identity of a node (§8.2.38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeId<'a> {
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// A domain name.
    Fqdn(Text<'a>),
}

impl Default for NodeId<'_> {
    fn default() -> Self {
        Self::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl std::fmt::Display for NodeId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Fqdn(name) => name.fmt(f),
        }
    }
}

impl<'a> Value<'a> for NodeId<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        match cursor.u8()? & 0x0f {
            0 => Ok(Self::Address(cursor.ipv4()?.into())),
            1 => Ok(Self::Address(cursor.ipv6()?.into())),
            2 if cursor.is_empty() => Err(cursor.short()),
            2 => Ok(Self::Fqdn(Text(cursor.rest()))),
            _ => Err(cursor.wrong()),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Address(IpAddr::V4(address)) => {
                out.push(0);
                out.extend_from_slice(&address.octets());
            }
            Self::Address(IpAddr::V6(address)) => {
                out.push(1);
                out.extend_from_slice(&address.octets());
            }
            Self::Fqdn(name) => {
                out.push(2);
                out.extend_from_slice(name.0);
            }
        }
    }
}

/// A session endpoint identifier and the addresses of its owner (§8.2.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// Session endpoint identifier.
    pub seid: u64,
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

impl FSeid {
    /// A session at one address.
    #[must_use]
    pub const fn at(seid: u64, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self { seid, ipv4: Some(address), ipv6: None },
            IpAddr::V6(address) => Self { seid, ipv4: None, ipv6: Some(address) },
        }
    }

    /// The address of the same version as another, if there is one.
    #[must_use]
    pub fn like(&self, other: IpAddr) -> Option<IpAddr> {
        match other {
            IpAddr::V4(_) => self.ipv4.map(Into::into).or(self.ipv6.map(Into::into)),
            IpAddr::V6(_) => self.ipv6.map(Into::into).or(self.ipv4.map(Into::into)),
        }
    }
}

impl Default for FSeid {
    fn default() -> Self {
        Self::at(0, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl<'a> Value<'a> for FSeid {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let seid = cursor.u64()?;
        if flags & 0x03 == 0 {
            return Err(cursor.wrong());
        }
        Ok(Self {
            seid,
            ipv4: cursor.when(flags & 0x02 != 0, Cursor::ipv4)?,
            ipv6: cursor.when(flags & 0x01 != 0, Cursor::ipv6)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.ipv4.is_some()) << 1 | u8::from(self.ipv6.is_some()));
        out.extend_from_slice(&self.seid.to_be_bytes());
        if let Some(address) = self.ipv4 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(address) = self.ipv6 {
            out.extend_from_slice(&address.octets());
        }
    }
}

/// Who allocated connection set identifiers (§8.2.45).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeAddress {
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// MCC, MNC and an integer of the operator, as they were sent.
    Operator(u32),
}

/// Fully qualified connection set identifiers (§8.2.45; TS 23.007 §23).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FqCsid {
    /// Who allocated them.
    pub node: NodeAddress,
    /// The identifiers, at most 15.
    pub identifiers: Vec<u16>,
}

impl Default for FqCsid {
    fn default() -> Self {
        Self {
            node: NodeAddress::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            identifiers: Vec::new(),
        }
    }
}

impl<'a> Value<'a> for FqCsid {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let head = cursor.u8()?;
        let node = match head >> 4 {
            0 => NodeAddress::Address(cursor.ipv4()?.into()),
            1 => NodeAddress::Address(cursor.ipv6()?.into()),
            2 => NodeAddress::Operator(cursor.u32()?),
            _ => return Err(cursor.wrong()),
        };
        let identifiers = (0..head & 0x0f).map(|_| cursor.u16()).collect::<Result<_, _>>()?;
        Ok(Self { node, identifiers })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let identifiers = &self.identifiers[..self.identifiers.len().min(15)];
        let count = identifiers.len() as u8;
        match self.node {
            NodeAddress::Address(IpAddr::V4(address)) => {
                out.push(count);
                out.extend_from_slice(&address.octets());
            }
            NodeAddress::Address(IpAddr::V6(address)) => {
                out.push(0x10 | count);
                out.extend_from_slice(&address.octets());
            }
            NodeAddress::Operator(value) => {
                out.push(0x20 | count);
                out.extend_from_slice(&value.to_be_bytes());
            }
        }
        for identifier in identifiers {
            out.extend_from_slice(&identifier.to_be_bytes());
        }
    }
}
