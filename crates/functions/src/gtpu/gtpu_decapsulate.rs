//! `gtpu-decapsulate`: takes the GTP-U tunnel off a user's packet (TS 29.281),
//! uplink at a UPF or PDN gateway, downlink at a base station.

mod lowered;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Headers, Metadata, NoSettings, Packet,
    PacketMetadata, Reason, Scope, Setup, Tag, TagSlot, Tunnel, UserPlaneFunction, Verdict,
};
use weft_wire::gtpu::{Comprehension, Message, Qfi};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::common::export::{read_address, read_option, write_address, write_option};
use crate::common::prefix::Prefix;

const NO_TUNNEL: Reason = Reason::new("no_tunnel", "the packet is in no tunnel");
const END_MARKER: Reason = Reason::new("end_marker", "an End Marker, which ends with its tunnel");
const WRONG_PEER: Reason = Reason::new("wrong_peer", "the tunnel's packet is not from the peer");
const WRONG_QFI: Reason = Reason::new("wrong_qfi", "another QoS flow, or none");
const UNKNOWN_EXTENSION: Reason =
    Reason::new("unknown_extension", "an extension header that an endpoint must know is not known");
const LINK: Reason =
    Reason::new("link_scope", "neighbour discovery of the link between user and node");
const SPOOFED: Reason = Reason::new("spoofed_address", "the address is not the user's");
const TO_US: Reason = Reason::new("tunnelled_to_us", "a packet in a tunnel is for the node itself");
const MARTIAN: Reason = Reason::new("martian", "an address that no router forwards");

/// Metadata of packets that must not leave their tunnel here.
const INSIDE_ONLY: u8 =
    PacketMetadata::LINK_SCOPE | PacketMetadata::OWN_INSIDE | PacketMetadata::MARTIAN_INSIDE;

/// What a bearer's packets must be like.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Address that the tunnel's packets come from. Without it, any.
    #[serde(default)]
    pub peer: Option<IpAddr>,
    /// QoS flow identifier that packets carry. Without it, any or none.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub qfi: Option<u8>,
    /// IPv4 address of the user; of several, the nth from 0 has the one that is
    /// higher by n.
    #[serde(default)]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 prefix or address of the user, in the same way. Without `ipv4` and
    /// `ipv6` addresses are not checked.
    #[serde(default)]
    pub ipv6: Option<Prefix>,
}

/// What is set for a bearer: one cache line, of plain numbers.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
pub struct Context {
    /// Of IPv6.
    peer: [u8; 16],
    prefix: [u8; 16],
    /// Of IPv4.
    peer_ipv4: u32,
    ipv4: u32,
    /// 0 for none, 4 or 6.
    peer_family: u8,
    has_ipv4: u8,
    /// 0 for none.
    prefix_length: u8,
    /// Whether one of the two addresses above is set.
    has_addresses: u8,
    has_qfi: u8,
    qfi: u8,
    unused: [u8; 18],
}

/// An IPv6 prefix of a user.
#[derive(Clone, Copy, Debug)]
struct UserPrefix {
    address: Ipv6Addr,
    length: NonZero<u8>,
}

impl UserPrefix {
    /// None for a length that is not within 1..128.
    fn new(bits: u128, length: u8) -> Option<UserPrefix> {
        let length = NonZero::new(length).filter(|length| length.get() <= 128)?;
        Some(UserPrefix { address: bits.into(), length })
    }

    #[inline]
    fn contains(&self, address: Ipv6Addr) -> bool {
        let differs = self.address.to_bits() ^ address.to_bits();
        differs.leading_zeros() >= self.length.get().into()
    }
}

const _: () = assert!(size_of::<Context>() == 64);

/// Takes packets out of tunnels.
#[derive(Debug)]
pub struct GtpuDecapsulate;

impl UserPlaneFunction for GtpuDecapsulate {
    const NAME: &'static str = "gtpu-decapsulate";
    const SUMMARY: &'static str =
        "Takes packets out of their GTP-U tunnel and refuses spoofed addresses.";
    const READS: &'static [Tag] = &[DIRECTION];
    /// A context is its settings and nothing else.
    const CHECKPOINTED: bool = false;
    const DROPS: &'static [Reason] = &[
        NO_TUNNEL,
        END_MARKER,
        WRONG_PEER,
        WRONG_QFI,
        UNKNOWN_EXTENSION,
        LINK,
        SPOOFED,
        TO_US,
        MARTIAN,
    ];

    type Config = NoSettings;
    type Settings = Settings;
    type Context = Context;

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<GtpuDecapsulate, ConfigError> {
        Ok(GtpuDecapsulate)
    }

    fn scope(&self) -> Scope {
        Scope::Bearer
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        if packet.is_end_marker() {
            return Verdict::Drop(END_MARKER);
        }
        if context.has_qfi != 0 || packet.has_extensions() {
            let Some(message) = packet.message() else { return Verdict::Drop(NO_TUNNEL) };
            if let Some(reason) = context.refuses(&message) {
                return Verdict::Drop(reason);
            }
        }
        if !context.peer().is_none_or(|peer| packet.comes_from(peer)) {
            return Verdict::Drop(WRONG_PEER);
        }
        if packet.metadata().flags & INSIDE_ONLY != 0 {
            return Verdict::Drop(why_inside(packet));
        }
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        if context.has_addresses != 0 && !context.is_users(packet, uplink) {
            return Verdict::Drop(SPOOFED);
        }
        if packet.unwrap_tunnel() { Verdict::Forward } else { Verdict::Drop(NO_TUNNEL) }
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        let many = format!("{count} users are more than there are addresses from it");
        if settings.qfi.is_some_and(|qfi| Qfi::new(qfi).is_none()) {
            return Err(ConfigError::at("qfi", "a QFI is within 0..63"));
        }
        let last = count.max(1) - 1;
        if settings.ipv4.is_some_and(|first| first.to_bits().checked_add(last).is_none()) {
            return Err(ConfigError::at("ipv4", many));
        }
        let Some(prefix) = settings.ipv6 else { return Ok(()) };
        if prefix.is_ipv4() || prefix.length() == 0 {
            return Err(ConfigError::at("ipv6", "write an IPv6 prefix such as 2001:db8::/64"));
        }
        nth_prefix(prefix, last).map(|_| ()).ok_or_else(|| ConfigError::at("ipv6", many))
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        *context = Context::of(
            settings.peer,
            settings.qfi.and_then(Qfi::new),
            settings.ipv4.map(|first| first.to_bits().wrapping_add(nth)),
            settings.ipv6.and_then(|prefix| nth_prefix(prefix, nth)),
        );
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        write_option(context.peer(), out, write_address);
        write_option(context.qfi(), out, |qfi, out| out.push(qfi.value()));
        write_option(context.ipv4(), out, |bits, out| out.extend_from_slice(&bits.to_le_bytes()));
        write_option(context.prefix(), out, |prefix, out| {
            out.extend_from_slice(&prefix.address.to_bits().to_le_bytes());
            out.push(prefix.length.get());
        });
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let peer = read_option(&mut fields, read_address)?;
        let qfi =
            read_option(&mut fields, |fields| Qfi::new(fields.u8()?).ok_or(ContextError::Damaged))?;
        let ipv4 = read_option(&mut fields, |fields| fields.u32())?;
        let prefix = read_option(&mut fields, |fields| {
            let bits = u128::from_le_bytes(fields.array()?);
            UserPrefix::new(bits, fields.u8()?).ok_or(ContextError::Damaged)
        })?;
        fields.end()?;
        Ok(Context::of(peer, qfi, ipv4, prefix))
    }
}

impl Context {
    fn of(
        peer: Option<IpAddr>,
        qfi: Option<Qfi>,
        ipv4: Option<u32>,
        prefix: Option<UserPrefix>,
    ) -> Context {
        let mut context = Context {
            ipv4: ipv4.unwrap_or_default(),
            has_ipv4: ipv4.is_some().into(),
            has_addresses: (ipv4.is_some() || prefix.is_some()).into(),
            has_qfi: qfi.is_some().into(),
            qfi: qfi.map(|qfi| qfi.value()).unwrap_or_default(),
            ..Context::default()
        };
        match peer {
            Some(IpAddr::V4(peer)) => {
                (context.peer_family, context.peer_ipv4) = (4, peer.to_bits());
            }
            Some(IpAddr::V6(peer)) => (context.peer_family, context.peer) = (6, peer.octets()),
            None => {}
        }
        if let Some(UserPrefix { address, length }) = prefix {
            (context.prefix, context.prefix_length) = (address.octets(), length.get());
        }
        context
    }

    #[inline]
    fn peer(&self) -> Option<IpAddr> {
        match self.peer_family {
            4 => Some(Ipv4Addr::from_bits(self.peer_ipv4).into()),
            6 => Some(Ipv6Addr::from(self.peer).into()),
            _ => None,
        }
    }

    #[inline]
    fn qfi(&self) -> Option<Qfi> {
        if self.has_qfi != 0 { Qfi::new(self.qfi) } else { None }
    }

    #[inline]
    fn ipv4(&self) -> Option<u32> {
        (self.has_ipv4 != 0).then_some(self.ipv4)
    }

    #[inline]
    fn prefix(&self) -> Option<UserPrefix> {
        UserPrefix::new(u128::from_be_bytes(self.prefix), self.prefix_length)
    }

    /// What is wrong with the message around a packet: an extension header that
    /// an endpoint must know (TS 29.281 §5.2.1), or another QoS flow.
    #[inline]
    fn refuses(&self, message: &Message<&[u8]>) -> Option<Reason> {
        let must_know = |kind: weft_wire::gtpu::ExtensionType| {
            let class = kind.comprehension();
            !kind.is_known() && matches!(class, Comprehension::ByEndpoint | Comprehension::ByAll)
        };
        if message.extensions().any(|extension| must_know(extension.kind)) {
            return Some(UNKNOWN_EXTENSION);
        }
        let qfi = self.qfi()?;
        let carried = message.pdu_session().ok().flatten().map(|session| session.qfi());
        (carried != Some(qfi)).then_some(WRONG_QFI)
    }

    /// Whether the address that is the user's in this direction is this user's.
    #[inline]
    fn is_users(&self, packet: &Packet, uplink: bool) -> bool {
        let ipv4 = if uplink { packet.ipv4_source() } else { packet.ipv4_destination() };
        if ipv4.is_some() {
            return self.ipv4() == ipv4;
        }
        let address = packet.addresses().map(|(from, to)| if uplink { from } else { to });
        let (Some(IpAddr::V6(address)), Some(prefix)) = (address, self.prefix()) else {
            return false;
        };
        prefix.contains(address)
    }
}

/// Why a packet must not leave its tunnel.
#[cold]
fn why_inside(packet: &Packet) -> Reason {
    match packet.metadata().flags {
        flags if flags & PacketMetadata::LINK_SCOPE != 0 => LINK,
        flags if flags & PacketMetadata::OWN_INSIDE != 0 => TO_US,
        _ => MARTIAN,
    }
}

/// The `nth` prefix from `first`, of IPv6 and not of length 0.
fn nth_prefix(first: Prefix, nth: u32) -> Option<UserPrefix> {
    let lowest = first.v6()?.first();
    let step = 1_u128.checked_shl(128 - u32::from(first.length()))?;
    let bits = lowest.checked_add(u128::from(nth).checked_mul(step)?)?;
    UserPrefix::new(bits, first.length())
}
