//! `gtpu-relay`: moves a packet from one GTP-U tunnel to the next, as a serving
//! gateway does (Pinczel et al. §III.B): a new TEID and new addresses, in place.

mod lowered;

use std::collections::HashMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Metadata, Packet, PacketMetadata, Reason,
    Scope, Setup, Tag, TagSlot, Tunnel as _, TunnelEnds, UserPlaneFunction, Verdict,
};
use weft_wire::Dscp;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::tunnel::{Locals, Outer, Tunnel, TunnelSettings, Unfit};
use crate::common::export::{read_address, read_option, write_address, write_option};
use crate::common::text;

const NO_TUNNEL: Reason =
    Reason::new("no_tunnel", "the bearer has no next tunnel in this direction");
const NOT_TUNNELLED: Reason = Reason::new("not_tunnelled", "the packet is in no tunnel");
const NO_HEADROOM: Reason = Reason::new("no_headroom", "no room for the tunnel's headers");
const WRONG_PEER: Reason = Reason::new("wrong_peer", "the tunnel's packet is not from the peer");

/// How tunnels are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// DSCP of the tunnel's packets: a name or a number. Without it, that of the
    /// tunnel that they came in.
    #[serde(default, deserialize_with = "text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["ef", "af41"]))]
    pub dscp: Option<Dscp>,
    /// Over IPv6, no UDP checksum (RFC 6935). Over IPv4 there never is one.
    #[serde(default)]
    pub zero_checksum: bool,
    /// UDP port that all tunnels send from: 2152, or one from 49152 to 65535.
    /// Without it, each tunnel has one of the latter, by which a network spreads
    /// tunnels over its paths.
    #[serde(default)]
    pub source_port: Option<u16>,
}

/// The next tunnels of a bearer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Where uplink packets go on. Without it they are dropped.
    #[serde(default)]
    pub uplink: Option<TunnelSettings>,
    /// Where downlink packets go on. Without it they are dropped.
    #[serde(default)]
    pub downlink: Option<TunnelSettings>,
    /// Addresses that the tunnels' packets come from.
    #[serde(default)]
    pub peer: PeerSettings,
}

/// Where packets come from.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PeerSettings {
    /// Address that uplink packets come from. Without it, any.
    pub uplink: Option<IpAddr>,
    /// Address that downlink packets come from. Without it, any.
    pub downlink: Option<IpAddr>,
}

/// What is set for a bearer: one cache line, of plain numbers.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
pub struct Context {
    uplink: Tunnel,
    downlink: Tunnel,
    /// Where uplink packets come from, and downlink packets: by [`Peers`].
    uplink_peer: u32,
    downlink_peer: u32,
}

const _: () = assert!(size_of::<Context>() == 64);

/// The addresses that packets come from. A context names its own by a number from 1; 0 is
/// any.
#[derive(Debug, Default)]
struct Peers {
    addresses: Vec<IpAddr>,
    numbers: HashMap<IpAddr, u32>,
}

impl Peers {
    fn number(&mut self, peer: Option<IpAddr>) -> u32 {
        let Some(peer) = peer else { return 0 };
        *self.numbers.entry(peer).or_insert_with(|| {
            self.addresses.push(peer);
            self.addresses.len() as u32
        })
    }

    fn get(&self, number: u32) -> Option<IpAddr> {
        self.addresses.get((number as usize).checked_sub(1)?).copied()
    }
}

/// Moves packets from tunnel to tunnel.
#[derive(Debug)]
pub struct GtpuRelay {
    config: Config,
    locals: Locals,
    peers: Peers,
}

impl UserPlaneFunction for GtpuRelay {
    const NAME: &'static str = "gtpu-relay";
    const SUMMARY: &'static str = "Moves packets and End Markers to the next GTP-U tunnel.";
    const READS: &'static [Tag] = &[DIRECTION];
    /// A context is its settings and nothing else.
    const CHECKPOINTED: bool = false;
    const DROPS: &'static [Reason] = &[NO_TUNNEL, NOT_TUNNELLED, NO_HEADROOM, WRONG_PEER];

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<GtpuRelay, ConfigError> {
        let locals = Locals::new(config.source_port)?;
        Ok(GtpuRelay { config, locals, peers: Peers::default() })
    }

    fn scope(&self) -> Scope {
        Scope::Bearer
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        let (tunnel, peer) = match uplink {
            true => (&mut context.uplink, context.uplink_peer),
            false => (&mut context.downlink, context.downlink_peer),
        };
        let Some(tunnel) = tunnel.get_mut() else { return Verdict::Drop(NO_TUNNEL) };
        if !packet.is_tunnelled() {
            return Verdict::Drop(NOT_TUNNELLED);
        }
        if self.peers.get(peer).is_some_and(|peer| !packet.comes_from(peer)) {
            return Verdict::Drop(WRONG_PEER);
        }
        let Config { dscp, zero_checksum, .. } = self.config;
        match self.locals.move_into(packet, tunnel, Outer { dscp, zero_checksum }) {
            Ok(()) => Verdict::Forward,
            Err(Unfit::NoHeadroom) => Verdict::Drop(NO_HEADROOM),
            Err(_) => Verdict::Drop(NOT_TUNNELLED),
        }
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        for (path, tunnel) in [("uplink", settings.uplink), ("downlink", settings.downlink)] {
            tunnel.map_or(Ok(()), |tunnel| tunnel.check(path, count))?;
        }
        Ok(())
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        let mut of = |tunnel: Option<TunnelSettings>| {
            let end = tunnel.map(|tunnel| self.locals.nth(&tunnel, nth));
            end.and_then(|end| self.locals.tunnel(end)).unwrap_or_default()
        };
        let (uplink, downlink) = (of(settings.uplink), of(settings.downlink));
        let [uplink_peer, downlink_peer] =
            [settings.peer.uplink, settings.peer.downlink].map(|peer| self.peers.number(peer));
        *context = Context { uplink, downlink, uplink_peer, downlink_peer };
    }

    fn tunnels(&self, settings: &Settings, nth: u32) -> TunnelEnds {
        let both = [settings.uplink, settings.downlink];
        both.iter().flatten().map(|tunnel| self.locals.nth(tunnel, nth)).collect()
    }

    fn end_tunnels(
        &mut self,
        context: &mut Context,
        settings: &Settings,
        nth: u32,
        [uplink, downlink]: &[PacketMetadata; 2],
        emit: &mut Emit<'_>,
    ) {
        let ways = [
            (&mut context.uplink, settings.uplink, uplink),
            (&mut context.downlink, settings.downlink, downlink),
        ];
        for (tunnel, next, like) in ways {
            let Some(tunnel) = tunnel.get_mut() else { continue };
            let (end, config) = (self.locals.end(tunnel), &self.config);
            if next.map(|next| self.locals.nth(&next, nth)) != Some(end) {
                tunnel.send_end_marker(&end, like, config.dscp, config.zero_checksum, emit);
            }
        }
    }

    fn adopt(&mut self, previous: &mut GtpuRelay) {
        std::mem::swap(&mut self.locals, &mut previous.locals);
        std::mem::swap(&mut self.peers, &mut previous.peers);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        for tunnel in [context.uplink, context.downlink] {
            write_option(tunnel.get(), out, |tunnel, out| self.locals.export(&tunnel, out));
        }
        let peers = [context.uplink_peer, context.downlink_peer];
        // Nodes of before know nothing of peers.
        if peers != [0, 0] {
            peers.into_iter().for_each(|peer| {
                write_option(self.peers.get(peer), out, write_address);
            });
        }
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let uplink = read_option(&mut fields, |fields| self.locals.import(fields))?;
        let downlink = read_option(&mut fields, |fields| self.locals.import(fields))?;
        let mut peers = [None, None];
        if fields.clone().end().is_err() {
            peers =
                [read_option(&mut fields, read_address)?, read_option(&mut fields, read_address)?];
            if peers == [None, None] {
                return Err(ContextError::Damaged);
            }
        }
        fields.end()?;
        let [uplink, downlink] = [uplink, downlink].map(Option::unwrap_or_default);
        let [uplink_peer, downlink_peer] = peers.map(|peer| self.peers.number(peer));
        Ok(Context { uplink, downlink, uplink_peer, downlink_peer })
    }
}
