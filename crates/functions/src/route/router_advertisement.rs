//! `router-advertisement`: tells users of an IPv6 prefix what it is (RFC 4861 §6.2,
//! TS 23.401 §5.3.1.2.2, TS 29.061 §11.2.1.3.4).

use std::net::Ipv6Addr;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Headers, Metadata, Packet, PacketMetadata,
    Position, Reason, Scope, Setup, Tag, TagSlot, Tunnel as _, UserPlaneFunction, Verdict,
};
use weft_wire::checksum::PseudoHeader;
use weft_wire::{EtherType, Protocol, ethernet, icmpv6, ipv6};

use crate::common::export::{read_option, write_option};
use crate::common::prefix::Prefix;

const ANSWERED: Reason = Reason::new("solicitation", "a Router Solicitation, which ends here");
const LINK: Reason =
    Reason::new("link_scope", "neighbour discovery of the link between user and node");

/// Types of ICMPv6 (RFC 4861 §4).
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
/// All hosts of the link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Hops of neighbour discovery: no router has forwarded it (RFC 4861 §6.1).
const HOPS: u8 = 255;
/// A lifetime without end.
const FOREVER: u32 = u32::MAX;
/// Nanoseconds between two advertisements to one user at least (RFC 4861 §10).
const PAUSE: u64 = 3_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// What advertisements say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Link-local address of the node towards its users.
    pub link_local: Ipv6Addr,
    /// Seconds that the node is a router for its users without another
    /// advertisement (RFC 8319).
    #[schemars(range(min = 1, max = 65_535))]
    pub router_lifetime: u16,
    /// Seconds behind which a user is told again, before its next packet.
    #[schemars(range(min = 4, max = 65_535))]
    pub interval: u16,
    /// MTU of the link, if users are to be told.
    #[schemars(range(min = 1280, max = 65_535))]
    pub mtu: Option<u16>,
    /// Name servers (RFC 8106), three at most.
    #[schemars(length(max = 3))]
    pub name_servers: Vec<Ipv6Addr>,
    /// Whether more configuration is to be had by DHCPv6.
    pub other_configuration: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
            // Six hours, and three times as long (TS 29.061 §11.2.1.3.4).
            router_lifetime: 64_800,
            interval: 21_600,
            mtu: None,
            name_servers: Vec::new(),
            other_configuration: false,
        }
    }
}

/// The prefix of a user.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// The /64 prefix; of several users, the nth from 0 has the nth from it.
    pub prefix: Prefix,
}

/// What is kept for a user: 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The upper half of the user's addresses.
    prefix: Option<u64>,
    /// When the user was last told, in nanoseconds; none before.
    told: Option<u64>,
}

/// Advertises.
#[derive(Debug)]
pub struct RouterAdvertisement {
    config: Config,
    /// The message, but for prefix and checksum.
    message: Box<[u8]>,
}

/// Where the prefix stands in the message.
const PREFIX: std::ops::Range<usize> = 32..40;

impl UserPlaneFunction for RouterAdvertisement {
    const NAME: &'static str = "router-advertisement";
    const SUMMARY: &'static str = "Tells users of an IPv6 prefix what it is.";
    const READS: &'static [Tag] = &[DIRECTION];
    const DROPS: &'static [Reason] = &[ANSWERED, LINK];

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<RouterAdvertisement, ConfigError> {
        let Config { link_local, router_lifetime, interval, mtu, name_servers, .. } = &config;
        if !link_local.is_unicast_link_local() {
            let message = format!("{link_local} is not a link-local address, such as fe80::1");
            return Err(ConfigError::at("linkLocal", message));
        }
        if *interval < 4 {
            return Err(ConfigError::at("interval", "at least 4 seconds"));
        }
        if router_lifetime <= interval {
            let message = format!("{router_lifetime} s are over before the interval, {interval} s");
            return Err(ConfigError::at("routerLifetime", message));
        }
        if mtu.is_some_and(|mtu| mtu < 1280) {
            return Err(ConfigError::at("mtu", "a link of IPv6 carries 1280 bytes"));
        }
        if name_servers.len() > 3 {
            return Err(ConfigError::at("nameServers", "three name servers at most"));
        }
        let message = message(&config).into_boxed_slice();
        Ok(RouterAdvertisement { config, message })
    }

    fn scope(&self) -> Scope {
        Scope::User
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let Some(prefix) = context.prefix else { return Verdict::Forward };
        let flags = packet.metadata().flags;
        if flags & PacketMetadata::LINK_SCOPE != 0 {
            return self.discovery(packet, context, prefix, emit);
        }
        let downlink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Downlink as u32;
        let interval = u64::from(self.config.interval) * SECOND;
        let is_due = context.told.is_none_or(|told| emit.now().saturating_sub(told) >= interval);
        if is_due && downlink && !packet.is_tunnelled() {
            self.advertise_before(packet, context, prefix, emit);
        }
        Verdict::Forward
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        let prefix = settings.prefix;
        let Some(first) = prefix.v6().filter(|_| prefix.length() == 64) else {
            return Err(ConfigError::at("prefix", "write a /64 prefix such as 2001:db8::/64"));
        };
        let first = (first.first() >> 64) as u64;
        match first.checked_add(u64::from(count.max(1) - 1)) {
            Some(_) => Ok(()),
            None => Err(ConfigError::at("prefix", "more users than there are prefixes from it")),
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        let first = settings.prefix.v6().map(|prefix| (prefix.first() >> 64) as u64);
        let prefix = first.map(|first| first.wrapping_add(u64::from(nth)));
        // A user with another prefix is told at once.
        let told = context.told.filter(|_| context.prefix == prefix);
        *context = Context { prefix, told };
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        for value in [context.prefix, context.told] {
            write_option(value, out, |value, out| out.extend_from_slice(&value.to_le_bytes()));
        }
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let mut number = || read_option(&mut fields, |fields| fields.u64());
        let (prefix, told) = (number()?, number()?);
        fields.end()?;
        Ok(Context { prefix, told })
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        context.told = context.told.map(|told| now.saturating_sub(then.saturating_sub(told)));
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        vec![("advertised", u64::from(context.told.is_some()))]
    }
}

impl RouterAdvertisement {
    /// Neighbour discovery of a user: only a solicitation of a router is answered,
    /// and what is for the link between user and node goes no further.
    #[cold]
    fn discovery(
        &self,
        packet: &Packet,
        context: &mut Context,
        prefix: u64,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        let Some(asker) = solicitation(packet).filter(|_| uplink) else {
            return Verdict::Drop(LINK);
        };
        let may = context.told.is_none_or(|told| emit.now().saturating_sub(told) >= PAUSE);
        let to = if asker.is_unspecified() { ALL_NODES } else { asker };
        if may
            && let Some(advertisement) = self.advertisement(to, prefix, packet, emit)
            && emit.answer(advertisement)
        {
            context.told = Some(emit.now());
        }
        Verdict::Drop(ANSWERED)
    }

    /// Tells the user before it gets its next packet: an idle user is not woken.
    #[cold]
    fn advertise_before(
        &self,
        packet: &Packet,
        context: &mut Context,
        prefix: u64,
        emit: &mut Emit<'_>,
    ) {
        if let Some(advertisement) = self.advertisement(ALL_NODES, prefix, packet, emit)
            && emit.send(advertisement, Position::Before)
        {
            context.told = Some(emit.now());
        }
    }

    /// A Router Advertisement (RFC 4861 §4.2) with the metadata of `like`, but for
    /// what is its own.
    fn advertisement(
        &self,
        to: Ipv6Addr,
        prefix: u64,
        like: &Packet,
        emit: &mut Emit<'_>,
    ) -> Option<Packet> {
        let length = self.message.len();
        let repr = ipv6::Repr {
            source: self.config.link_local,
            destination: to,
            next_header: Protocol::ICMPV6,
            payload_length: length as u16,
            hop_limit: HOPS,
            ..Default::default()
        };
        let (front, header) = (ethernet::HEADER_LENGTH, repr.buffer_len());
        let mut packet = emit.allocate(like.metadata())?;
        let frame = packet.append(front + header + length)?;
        frame[..front].fill(0);
        frame[12..front].copy_from_slice(&EtherType::IPV6.0.to_be_bytes());
        repr.emit(&mut frame[front..]).ok()?;
        let message = &mut frame[front + header..];
        message.copy_from_slice(&self.message);
        message[PREFIX].copy_from_slice(&prefix.to_be_bytes());
        let pseudo_header = PseudoHeader::V6 { source: repr.source, destination: to };
        icmpv6::Message::new_checked(message).ok()?.fill_checksum(&pseudo_header);
        let metadata = packet.metadata_mut();
        metadata.ether_type = EtherType::IPV6.0;
        metadata.protocol = Protocol::ICMPV6.0;
        metadata.network_offset = front as u16;
        metadata.network_length = (header + length) as u16;
        metadata.transport_offset = (front + header) as u16;
        metadata.outer_offset = 0;
        // No router has forwarded it, and no sender is told what becomes of it.
        metadata.flags = PacketMetadata::TUNNELLED;
        Some(packet)
    }
}

/// A Router Advertisement (RFC 4861 §4.2) of prefix 0, without a checksum.
fn message(config: &Config) -> Vec<u8> {
    let Config { router_lifetime, mtu, name_servers, other_configuration, .. } = config;
    let mut message = vec![ROUTER_ADVERTISEMENT, 0, 0, 0];
    // Hop limit for the user, flag O, and no times of neighbour discovery: there are
    // no other neighbours (TS 29.061 §11.2.1.3.2).
    message.extend([64, u8::from(*other_configuration) << 6]);
    message.extend(router_lifetime.to_be_bytes());
    message.extend([0; 8]);
    // Prefix information (§4.6.2): 64 bits, not on-link, autonomous, for ever.
    message.extend([3, 4, 64, 0x40]);
    message.extend([FOREVER.to_be_bytes(), FOREVER.to_be_bytes()].concat());
    message.extend([0; 4 + 16]);
    if let Some(mtu) = mtu {
        message.extend([5, 1, 0, 0]);
        message.extend(u32::from(*mtu).to_be_bytes());
    }
    if !name_servers.is_empty() {
        message.extend([25, 1 + 2 * name_servers.len() as u8, 0, 0]);
        message.extend(u32::from(*router_lifetime).to_be_bytes());
        name_servers.iter().for_each(|server| message.extend(server.octets()));
    }
    message
}

/// Who solicits a router with this packet, if it does as RFC 4861 §6.1.1 says.
fn solicitation(packet: &Packet) -> Option<Ipv6Addr> {
    let (source, destination) = match packet.addresses()? {
        (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) => (source, destination),
        _ => return None,
    };
    let metadata = packet.metadata();
    let start = usize::from(metadata.transport_offset);
    let end = usize::from(metadata.network_offset + metadata.network_length);
    let bytes = packet.data().get(start..end).filter(|_| start != 0)?;
    let message = icmpv6::Message::new_checked(bytes).ok()?;
    message.verify_checksum(&PseudoHeader::V6 { source, destination }).ok()?;
    let is_one = bytes[..2] == [ROUTER_SOLICITATION, 0] && bytes.len() >= 8;
    let may_ask = source.is_unspecified() || source.is_unicast_link_local();
    (is_one && may_ask && packet.hop_limit() == Some(HOPS)).then_some(source)
}
