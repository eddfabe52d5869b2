//! `session-forwarding`: carries out the forwarding actions of PFCP sessions (3GPP TS 29.244
//! §5.2.1): it creates outer headers, marks and copies packets that `session-detection` let
//! through, and ends tunnels.

mod entry;
mod redirect;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::{DIRECTION, NETWORK};
use weft_function::tunnel::inside_tunnel;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Headers, IpMut, Metadata, Packet,
    PacketMetadata, Position, Reason, Scope, Setup, Tag, TagSlot, Tunnel as _, TunnelEnd,
    TunnelEnds, UserPlaneFunction, Verdict,
};
use weft_wire::Dscp;
use weft_wire::gtpu::{ExtensionRepr, Extensions, PduSession, Qfi, Teid};

pub use self::entry::Context;
use self::entry::{Entry, Kind, read_entry, write_entry};
use super::rules::{Forwarding, OuterHeader};
use super::session_detection::Names;
use super::tags::{DESTINATION, PDR};
use super::{Rules, check};
use crate::common::export::{read_list, write_list};
use crate::common::text;
use crate::gtpu::tunnel::{Locals, Outer, Unfit};

const NO_SESSION_RULE: Reason =
    Reason::new("no_session_rule", "the packet has met no rule of the session that is still there");
const TUNNELLED_ALREADY: Reason = Reason::new("tunnelled_already", "the packet is in a tunnel");
const NOT_IP: Reason = Reason::new("not_ip", "neither IPv4 nor IPv6");
const REDIRECTED: Reason =
    Reason::new("redirected", "HTTP of a user that is sent elsewhere; the node has answered it");
const NOT_HTTP: Reason =
    Reason::new("not_http", "the rule sends HTTP elsewhere, and this is something else");
const NO_HEADROOM: Reason = Reason::new("no_headroom", "no room for the tunnel's headers");

/// How tunnels are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// DSCP of the packets of tunnels whose rules set none: a name or a number. Without it,
    /// that of the packet inside.
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

/// Forwards packets.
#[derive(Debug)]
pub struct SessionForwarding {
    config: Config,
    locals: Locals,
    names: Names,
    pdr: TagSlot,
    destination: TagSlot,
}

impl UserPlaneFunction for SessionForwarding {
    const NAME: &'static str = "session-forwarding";
    const SUMMARY: &'static str = "Carries out the forwarding action rules of PFCP sessions.";
    const READS: &'static [Tag] = &[DIRECTION, PDR];
    const WRITES: &'static [Tag] = &[NETWORK, DESTINATION];
    const DROPS: &'static [Reason] =
        &[NO_SESSION_RULE, TUNNELLED_ALREADY, NOT_IP, NO_HEADROOM, REDIRECTED, NOT_HTTP];
    /// A context is its settings, but for sequence numbers of GTP-U, which begin anew.
    const CHECKPOINTED: bool = false;
    const HOT_CONTEXT: usize = 64;

    type Config = Config;
    type Settings = Rules;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<SessionForwarding, ConfigError> {
        let locals = Locals::new(config.source_port)?;
        let (pdr, destination) = (setup.tag(&PDR)?, setup.tag(&DESTINATION)?);
        Ok(SessionForwarding { config, locals, names: Names::of(setup.tags), pdr, destination })
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
        let pdr = self.pdr.get(packet.metadata());
        if context.is_plain(pdr) {
            return Verdict::Forward;
        }
        if !context.is_tunnel(pdr) {
            return self.look_up(packet, pdr, context, emit);
        }
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        let flow = context.flow(uplink);
        let outer = Outer { dscp: self.config.dscp, zero_checksum: self.config.zero_checksum };
        match packet.is_tunnelled() {
            false => verdict(self.locals.put_into_flow(packet, &mut context.tunnel, flow, outer)),
            true => self.relay(packet, context, flow, outer),
        }
    }

    fn check(&self, settings: &Rules, _: u32) -> Result<(), ConfigError> {
        check::check(&settings.0)
    }

    fn configure(&mut self, context: &mut Context, settings: &Rules, _: u32) {
        let old = context.entries();
        let entries = self.entries(settings, &old);
        *context = Context::of(entries);
    }

    fn tunnels(&self, settings: &Rules, _: u32) -> TunnelEnds {
        let fars = settings.0.fars.iter().filter_map(|far| far.forward.as_ref());
        fars.filter_map(|to| self.end(to)).take(TunnelEnds::new().capacity()).collect()
    }

    /// End Markers are sent as the rule says that takes the place of another (SNDEM).
    fn end_tunnels(
        &mut self,
        context: &mut Context,
        settings: &Rules,
        _: u32,
        [uplink, downlink]: &[PacketMetadata; 2],
        emit: &mut Emit<'_>,
    ) {
        let mut ended: Vec<TunnelEnd> = Vec::new();
        for mut entry in context.entries() {
            let Some(far) = settings.0.fars.iter().find(|far| far.id == entry.far) else {
                continue;
            };
            if !far.end_marker || entry.kind != Kind::Gtpu {
                continue;
            }
            let (end, next) = (self.locals.end(&entry.tunnel), far.forward.as_ref());
            let same = next.and_then(|to| self.end(to)) == Some(end);
            if same || ended.contains(&end) {
                continue;
            }
            ended.push(end);
            let mut like = if entry.uplink { *uplink } else { *downlink };
            self.pdr.set(&mut like, entry.tag);
            self.destination.set(&mut like, u32::from(entry.destination));
            if let Some(network) = entry.network {
                TagSlot::NETWORK.set(&mut like, network.into());
            }
            let Config { dscp, zero_checksum, .. } = self.config;
            let dscp = entry.dscp.or(dscp);
            entry.tunnel.send_end_marker(&end, &like, dscp, zero_checksum, emit);
        }
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        write_list(&context.entries(), out, |entry, out| {
            write_entry(entry, &self.locals, &self.names, out);
        });
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let entries =
            read_list(&mut fields, |fields| read_entry(fields, &mut self.locals, &self.names))?;
        fields.end()?;
        Ok(Context::of(entries))
    }
}

impl SessionForwarding {
    /// The far end of a GTP-U tunnel.
    fn end(&self, to: &Forwarding) -> Option<TunnelEnd> {
        match to.outer? {
            OuterHeader::Gtpu { teid, peer, local } => {
                Some(self.locals.with_port(TunnelEnd::new(Teid(teid), local, peer)))
            }
            OuterHeader::Udp { .. } => None,
        }
    }

    /// What becomes of packets of each rule. Tunnels that stay number their packets on.
    fn entries(&mut self, rules: &Rules, old: &[Entry]) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(rules.0.pdrs.len());
        for rule in &rules.0.pdrs {
            for (far, tag) in entry::actions(&rules.0, rule) {
                let mut entry = Entry::new(&rules.0, rule, far, tag, &self.names);
                entry.kind = self.target(far.forward.as_ref(), &mut entry);
                let known = old.iter().find(|one| one.tunnel.leads_like(&entry.tunnel));
                if let Some(known) = known {
                    entry.tunnel.sent = known.tunnel.sent;
                }
                for to in &far.duplicate {
                    let mut copy = Entry { dscp: entry::dscp(to), ..Entry::default() };
                    copy.kind = self.target(Some(to), &mut copy);
                    copy.destination = to.interface.map_or(0, |interface| interface as u8 + 1);
                    copy.network = to.network.as_deref().and_then(|name| self.names.network(name));
                    entry.copies.push(copy);
                }
                entries.push(entry);
            }
        }
        entries
    }

    /// Gives an entry the tunnel that packets are put into.
    fn target(&mut self, to: Option<&Forwarding>, entry: &mut Entry) -> Kind {
        if to.is_some_and(|to| to.redirect.is_some()) {
            return Kind::Redirect;
        }
        let (end, kind) = match to.and_then(|to| to.outer) {
            Some(OuterHeader::Gtpu { teid, peer, local }) => {
                (TunnelEnd::new(Teid(teid), local, peer), Kind::Gtpu)
            }
            Some(OuterHeader::Udp { port, peer, local }) => {
                (TunnelEnd::new(Teid(0), local, peer), Kind::Udp(port))
            }
            None => return Kind::Plain,
        };
        entry.tunnel = self.locals.tunnel(end).unwrap_or_default();
        kind
    }

    /// A packet of a rule that the context itself does not say all of.
    #[cold]
    #[inline(never)]
    fn look_up(
        &mut self,
        packet: &mut Packet,
        pdr: u32,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let Some(entry) = context.entry(pdr) else { return Verdict::Drop(NO_SESSION_RULE) };
        for copy in &mut entry.copies {
            self.copy(packet, copy, emit);
        }
        if entry.kind == Kind::Redirect {
            let url = entry.redirect.as_deref().unwrap_or_default();
            return match redirect::answer(packet, url, emit) {
                true => Verdict::Drop(REDIRECTED),
                false => Verdict::Drop(NOT_HTTP),
            };
        }
        self.send(packet, entry)
    }

    /// Sends a copy of a packet.
    fn copy(&self, packet: &Packet, to: &mut Entry, emit: &mut Emit<'_>) {
        let Some(mut copy) = emit.allocate(packet.metadata()) else { return };
        let Some(bytes) = copy.append(packet.len()) else { return };
        bytes.copy_from_slice(packet.data());
        if copy.is_tunnelled() && !copy.is_end_marker() {
            copy.unwrap_tunnel();
        }
        self.destination.set(copy.metadata_mut(), to.destination.into());
        if let Some(network) = to.network {
            TagSlot::NETWORK.set(copy.metadata_mut(), network.into());
        }
        if self.send(&mut copy, to) == Verdict::Forward {
            emit.send(copy, Position::After);
        }
    }

    /// Puts a packet into the tunnel of an entry, or marks it.
    fn send(&self, packet: &mut Packet, entry: &mut Entry) -> Verdict {
        let dscp = entry.dscp;
        if let Some(marking) = entry.marking {
            match packet.is_tunnelled() {
                true => inside_tunnel(packet, |packet| mark(packet, marking)),
                false => mark(packet, marking),
            }
        }
        let outer =
            Outer { dscp: dscp.or(self.config.dscp), zero_checksum: self.config.zero_checksum };
        let extensions = entry.extensions();
        match entry.kind {
            // It has been answered, and copies of it go on as they are.
            Kind::Redirect => Verdict::Forward,
            Kind::Plain => {
                if let Some(dscp) = dscp {
                    mark(packet, dscp);
                }
                Verdict::Forward
            }
            Kind::Gtpu if packet.is_tunnelled() => {
                relay(&self.locals, packet, &mut entry.tunnel, extensions, outer)
            }
            Kind::Gtpu => {
                verdict(self.locals.put_into(packet, &mut entry.tunnel, extensions, outer))
            }
            Kind::Udp(port) => {
                if packet.is_tunnelled() {
                    packet.unwrap_tunnel();
                }
                verdict(self.locals.put_into_udp(packet, (&mut entry.tunnel, port), outer))
            }
        }
    }

    /// A packet that came in a tunnel, and goes on in another.
    #[cold]
    fn relay(
        &self,
        packet: &mut Packet,
        context: &mut Context,
        flow: Option<PduSession>,
        outer: Outer,
    ) -> Verdict {
        relay(&self.locals, packet, &mut context.tunnel, container(flow, None), outer)
    }
}

/// Moves a packet to the next tunnel: with its extension headers, unless the rule says which
/// it gets.
fn relay(
    locals: &Locals,
    packet: &mut Packet,
    tunnel: &mut crate::gtpu::tunnel::Tunnel,
    extensions: Extensions,
    outer: Outer,
) -> Verdict {
    if extensions.is_empty() || packet.is_end_marker() {
        return verdict(locals.move_into(packet, tunnel, outer));
    }
    packet.unwrap_tunnel();
    verdict(locals.put_into(packet, tunnel, extensions, outer))
}

/// The extension headers of a QoS flow and a service class.
#[inline(always)]
fn container(flow: Option<PduSession>, service_class: Option<u8>) -> Extensions {
    let mut all =
        flow.map_or(Extensions::NONE, |flow| Extensions::one(ExtensionRepr::PduSession(flow)));
    if let Some(class) = service_class {
        // There is room: it is the second.
        let _ = all.push(ExtensionRepr::ServiceClass(class));
    }
    all
}

fn verdict(done: Result<(), Unfit>) -> Verdict {
    match done {
        Ok(()) => Verdict::Forward,
        Err(Unfit::TunnelledAlready) => Verdict::Drop(TUNNELLED_ALREADY),
        Err(Unfit::NotIp | Unfit::NotTunnelled) => Verdict::Drop(NOT_IP),
        Err(Unfit::NoHeadroom) => Verdict::Drop(NO_HEADROOM),
    }
}

/// Marks the packet itself.
fn mark(packet: &mut Packet, dscp: Dscp) {
    match packet.ip_mut() {
        Some(IpMut::V4(mut ip)) => {
            ip.set_dscp(dscp);
            ip.fill_checksum();
        }
        Some(IpMut::V6(mut ip)) => ip.set_dscp(dscp),
        None => {}
    }
}

/// A QoS flow in packets of a direction.
fn session(uplink: bool, qfi: Qfi, reflective: bool, paging_policy: Option<u8>) -> PduSession {
    match uplink {
        true => PduSession::Uplink { qfi },
        false => PduSession::Downlink { qfi, reflective, paging_policy },
    }
}
