//! What happens to packets: actions, interfaces, outer headers, redirection.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Text;
use crate::codec::cursor::{Cursor, put_counted, put_u24};
use crate::codec::flags::flags;
use crate::codec::{Error, Value};

flags! {
    /// Apply Action (§8.2.26).
    ApplyAction(u16) written 1 {
        /// Drop.
        DROP = 0,
        /// Forward.
        FORW = 1,
        /// Buffer.
        BUFF = 2,
        /// Notify the control plane of the first packet.
        NOCP = 3,
        /// Duplicate.
        DUPL = 4,
        /// Accept an IP multicast join.
        IPMA = 5,
        /// Deny an IP multicast join.
        IPMD = 6,
        /// Duplicate for redundant transmission.
        DFRT = 7,
        /// Eliminate duplicates of redundant transmission.
        EDRT = 8,
        /// Notify of the first packet that is buffered.
        BDPN = 9,
        /// Notify of the first packet that is dropped.
        DDPN = 10,
        /// Forward packets of a multicast session.
        FSSM = 11,
        /// Forward by unicast packets of a multicast session.
        MBSU = 12,
    }
}

/// Source Interface or Destination Interface (§8.2.2, §8.2.24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interface(pub u8);

impl Interface {
    /// Towards the user.
    pub const ACCESS: Self = Self(0);
    /// Towards the core: another user plane function.
    pub const CORE: Self = Self(1);
    /// Towards the data network (SGi, N6).
    pub const SGI_LAN: Self = Self(2);
    /// The control plane function.
    pub const CP_FUNCTION: Self = Self(3);
    /// As a destination: a lawful interception function.
    pub const LI_FUNCTION: Self = Self(4);
}

impl<'a> Value<'a> for Interface {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(Cursor::new(element, octets).u8()? & 0x0f))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0 & 0x0f);
    }
}

/// The outer header that packets get (§8.2.56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OuterHeaderCreation {
    /// Flags of octets 5 (upper 8 bits) and 6 (lower 8 bits).
    pub description: OuterHeader,
    /// TEID, with GTP-U.
    pub teid: Option<u32>,
    /// IPv4 address of the far end.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the far end.
    pub ipv6: Option<Ipv6Addr>,
    /// UDP port of the far end, with UDP without GTP-U.
    pub port: Option<u16>,
    /// Customer VLAN tag, as it was sent.
    pub c_tag: Option<u32>,
    /// Service VLAN tag, as it was sent.
    pub s_tag: Option<u32>,
}

flags! {
    /// Kinds of outer headers in Outer Header Creation (§8.2.56).
    OuterHeader(u16) written 2 {
        /// GTP-U over UDP over IPv4.
        GTPU_IPV4 = 0,
        /// GTP-U over UDP over IPv6.
        GTPU_IPV6 = 1,
        /// UDP over IPv4.
        UDP_IPV4 = 2,
        /// UDP over IPv6.
        UDP_IPV6 = 3,
        /// IPv4.
        IPV4 = 4,
        /// IPv6.
        IPV6 = 5,
        /// A customer VLAN tag.
        C_TAG = 6,
        /// A service VLAN tag.
        S_TAG = 7,
        /// The tunnel is one of N19.
        N19 = 8,
        /// The tunnel is one of N6.
        N6 = 9,
        /// The tunnel is a low-layer multicast one.
        LL_SSM = 10,
    }
}

impl OuterHeader {
    const GTPU: Self = Self(0b11);
    const UDP: Self = Self(0b1100);
    const WITH_IPV4: Self = Self(0b1_0101);
    const WITH_IPV6: Self = Self(0b10_1010);
}

impl<'a> Value<'a> for OuterHeaderCreation {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let description = OuterHeader(u16::from_le_bytes([cursor.u8()?, cursor.u8()?]));
        if description.0 & 0xff == 0 {
            return Err(cursor.wrong());
        }
        Ok(Self {
            description,
            teid: cursor.when(description.any(OuterHeader::GTPU), Cursor::u32)?,
            ipv4: cursor.when(description.any(OuterHeader::WITH_IPV4), Cursor::ipv4)?,
            ipv6: cursor.when(description.any(OuterHeader::WITH_IPV6), Cursor::ipv6)?,
            port: cursor.when(description.any(OuterHeader::UDP), Cursor::u16)?,
            c_tag: cursor.when(description.has(OuterHeader::C_TAG), Cursor::u24)?,
            s_tag: cursor.when(description.has(OuterHeader::S_TAG), Cursor::u24)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.description.0.to_le_bytes());
        if let Some(teid) = self.teid {
            out.extend_from_slice(&teid.to_be_bytes());
        }
        if let Some(address) = self.ipv4 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(address) = self.ipv6 {
            out.extend_from_slice(&address.octets());
        }
        if let Some(port) = self.port {
            out.extend_from_slice(&port.to_be_bytes());
        }
        for tag in [self.c_tag, self.s_tag].into_iter().flatten() {
            put_u24(out, tag);
        }
    }
}

impl OuterHeaderCreation {
    /// A GTP-U tunnel to an address.
    #[must_use]
    pub const fn gtpu(teid: u32, peer: std::net::IpAddr) -> Self {
        let (description, ipv4, ipv6) = match peer {
            std::net::IpAddr::V4(address) => (OuterHeader::GTPU_IPV4, Some(address), None),
            std::net::IpAddr::V6(address) => (OuterHeader::GTPU_IPV6, None, Some(address)),
        };
        Self { description, teid: Some(teid), ipv4, ipv6, port: None, c_tag: None, s_tag: None }
    }
}

/// The outer header that packets lose (§8.2.64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval {
    /// Which one.
    pub description: u8,
    /// GTP-U extension headers that are not kept for the next tunnel.
    pub extensions: Option<u8>,
}

impl OuterHeaderRemoval {
    /// GTP-U over UDP over IPv4.
    pub const GTPU_IPV4: u8 = 0;
    /// GTP-U over UDP over IPv6.
    pub const GTPU_IPV6: u8 = 1;
    /// UDP over IPv4.
    pub const UDP_IPV4: u8 = 2;
    /// UDP over IPv6.
    pub const UDP_IPV6: u8 = 3;
    /// IPv4.
    pub const IPV4: u8 = 4;
    /// IPv6.
    pub const IPV6: u8 = 5;
    /// GTP-U over UDP over IPv4 or IPv6.
    pub const GTPU: u8 = 6;
    /// A VLAN tag.
    pub const VLAN: u8 = 7;
    /// Two VLAN tags.
    pub const QINQ: u8 = 8;
}

impl<'a> Value<'a> for OuterHeaderRemoval {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let description = cursor.u8()?;
        let more = !cursor.is_empty();
        Ok(Self { description, extensions: cursor.when(more, Cursor::u8)? })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.description);
        out.extend(self.extensions);
    }
}

/// ToS or Traffic Class that outer headers get: value and mask (§8.2.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransportLevelMarking {
    /// Value.
    pub value: u8,
    /// Bits that the value sets.
    pub mask: u8,
}

impl<'a> Value<'a> for TransportLevelMarking {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        Ok(Self { value: cursor.u8()?, mask: cursor.u8()? })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.value, self.mask]);
    }
}

/// Where HTTP requests are sent (§8.2.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RedirectInformation<'a> {
    /// 0: IPv4 address, 1: IPv6 address, 2: URL, 3: SIP URI, 4: IPv4 and IPv6 address.
    pub kind: u8,
    /// The address or URL as text.
    pub server: Text<'a>,
    /// With kind 4 the second address.
    pub other: Option<Text<'a>>,
}

impl RedirectInformation<'_> {
    /// The kind of an IPv4 address.
    pub const IPV4: u8 = 0;
    /// The kind of an IPv6 address.
    pub const IPV6: u8 = 1;
    /// The kind of a URL.
    pub const URL: u8 = 2;
    /// The kind of an IPv4 and an IPv6 address.
    pub const BOTH: u8 = 4;
}

impl<'a> Value<'a> for RedirectInformation<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let kind = cursor.u8()? & 0x0f;
        let server = Text(cursor.counted()?);
        // Release 15 ends here; later ones have an empty second address where there is none.
        let more = !cursor.is_empty();
        let other = cursor.when(more, |cursor| cursor.counted().map(Text))?;
        Ok(Self { kind, server, other: other.filter(|text| !text.0.is_empty()) })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind & 0x0f);
        put_counted(out, self.server.0);
        put_counted(out, self.other.unwrap_or_default().0);
    }
}

/// What a Downlink Data Report says of the packet (§8.2.27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DownlinkDataServiceInformation {
    /// Paging policy indication: the DSCP of the packet, 6 bits.
    pub dscp: Option<u8>,
    /// QoS flow.
    pub qfi: Option<u8>,
}

impl<'a> Value<'a> for DownlinkDataServiceInformation {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        let six_bits = |cursor: &mut Cursor<'a>| Ok(cursor.u8()? & 0x3f);
        Ok(Self {
            dscp: cursor.when(flags & 0x01 != 0, six_bits)?,
            qfi: cursor.when(flags & 0x02 != 0, six_bits)?,
        })
    }
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.dscp.is_some()) | u8::from(self.qfi.is_some()) << 1);
        out.extend(self.dscp.map(|dscp| dscp & 0x3f));
        out.extend(self.qfi.map(|qfi| qfi & 0x3f));
    }
}

/// The name of a policy that is configured in the user plane (§8.2.23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ForwardingPolicy<'a>(pub Text<'a>);

impl<'a> Value<'a> for ForwardingPolicy<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let length = cursor.u8()?;
        Ok(Self(Text(cursor.octets(usize::from(length))?)))
    }
    fn emit(&self, out: &mut Vec<u8>) {
        let name = &self.0.0[..self.0.0.len().min(255)];
        out.push(name.len() as u8);
        out.extend_from_slice(name);
    }
}
