//! `gtpu-encapsulate`: puts a user's packet into the tunnel of its bearer
//! (TS 29.281), downlink at a UPF or PDN gateway, uplink at a base station.

mod lowered;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Metadata, Packet, PacketMetadata, Reason,
    Scope, Setup, Tag, TagSlot, TunnelEnds, UserPlaneFunction, Verdict,
};
use weft_wire::Dscp;
use weft_wire::gtpu::{PduSession, Qfi};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::tunnel::{Locals, Outer, Tunnel, TunnelSettings, Unfit};
use crate::common::export::{read_option, write_option};
use crate::common::text;

const NO_TUNNEL: Reason = Reason::new("no_tunnel", "the bearer has no tunnel");
const TUNNELLED_ALREADY: Reason = Reason::new("tunnelled_already", "the packet is in a tunnel");
const NOT_IP: Reason = Reason::new("not_ip", "neither IPv4 nor IPv6");
const NO_HEADROOM: Reason = Reason::new("no_headroom", "no room for the tunnel's headers");

/// How tunnels are written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// DSCP of the tunnel's packets: a name or a number. Without it, that of the
    /// packet inside.
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

/// The tunnel of a bearer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Where packets are sent.
    pub tunnel: TunnelSettings,
    /// QoS flow identifier: packets get a PDU session container (TS 38.415) with
    /// it. Without it they get none, as in EPS.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub qfi: Option<u8>,
}

/// What is set for a bearer: half a cache line, of plain numbers.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(32))]
pub struct Context {
    tunnel: Tunnel,
    has_qfi: u8,
    qfi: u8,
    unused: u16,
}

impl Context {
    fn new(tunnel: Option<Tunnel>, qfi: Option<Qfi>) -> Context {
        Context {
            tunnel: tunnel.unwrap_or_default(),
            has_qfi: qfi.is_some().into(),
            qfi: qfi.unwrap_or_default().value(),
            unused: 0,
        }
    }

    #[inline]
    fn qfi(&self) -> Option<Qfi> {
        if self.has_qfi != 0 { Qfi::new(self.qfi) } else { None }
    }
}

const _: () = assert!(size_of::<Context>() == 32);

/// Puts packets into tunnels.
#[derive(Debug)]
pub struct GtpuEncapsulate {
    config: Config,
    locals: Locals,
}

impl UserPlaneFunction for GtpuEncapsulate {
    const NAME: &'static str = "gtpu-encapsulate";
    const SUMMARY: &'static str = "Puts packets into the GTP-U tunnel of their bearer.";
    const READS: &'static [Tag] = &[DIRECTION];
    /// A context is its settings and nothing else.
    const CHECKPOINTED: bool = false;
    const DROPS: &'static [Reason] = &[NO_TUNNEL, TUNNELLED_ALREADY, NOT_IP, NO_HEADROOM];

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<GtpuEncapsulate, ConfigError> {
        let locals = Locals::new(config.source_port)?;
        Ok(GtpuEncapsulate { config, locals })
    }

    fn scope(&self) -> Scope {
        Scope::Bearer
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        let qfi = context.qfi();
        let Some(tunnel) = context.tunnel.get_mut() else { return Verdict::Drop(NO_TUNNEL) };
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        let flow = qfi.map(|qfi| container(qfi, uplink));
        let Config { dscp, zero_checksum, .. } = self.config;
        match self.locals.put_into_flow(packet, tunnel, flow, Outer { dscp, zero_checksum }) {
            Ok(()) => Verdict::Forward,
            Err(Unfit::TunnelledAlready) => Verdict::Drop(TUNNELLED_ALREADY),
            Err(Unfit::NotIp | Unfit::NotTunnelled) => Verdict::Drop(NOT_IP),
            Err(Unfit::NoHeadroom) => Verdict::Drop(NO_HEADROOM),
        }
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        settings.tunnel.check("tunnel", count)?;
        match settings.qfi {
            Some(qfi) if Qfi::new(qfi).is_none() => {
                Err(ConfigError::at("qfi", format!("{qfi} is not within 0..63")))
            }
            _ => Ok(()),
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        let end = self.locals.nth(&settings.tunnel, nth);
        let tunnel = self.locals.tunnel(end);
        *context = Context::new(tunnel, settings.qfi.and_then(Qfi::new));
    }

    fn tunnels(&self, settings: &Settings, nth: u32) -> TunnelEnds {
        std::iter::once(self.locals.nth(&settings.tunnel, nth)).collect()
    }

    /// End Markers are of the downlink (TS 23.501 §5.8.2.9).
    fn end_tunnels(
        &mut self,
        context: &mut Context,
        settings: &Settings,
        nth: u32,
        [_, downlink]: &[PacketMetadata; 2],
        emit: &mut Emit<'_>,
    ) {
        let Some(tunnel) = context.tunnel.get_mut() else { return };
        let (end, config) = (self.locals.end(tunnel), &self.config);
        if end != self.locals.nth(&settings.tunnel, nth) {
            tunnel.send_end_marker(&end, downlink, config.dscp, config.zero_checksum, emit);
        }
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        write_option(context.tunnel.get(), out, |tunnel, out| self.locals.export(&tunnel, out));
        write_option(context.qfi(), out, |qfi, out| out.push(qfi.value()));
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let tunnel = read_option(&mut fields, |fields| self.locals.import(fields))?;
        let qfi =
            read_option(&mut fields, |fields| Qfi::new(fields.u8()?).ok_or(ContextError::Damaged))?;
        fields.end()?;
        Ok(Context::new(tunnel, qfi))
    }
}

fn container(qfi: Qfi, uplink: bool) -> PduSession {
    match uplink {
        true => PduSession::Uplink { qfi },
        false => PduSession::Downlink { qfi, reflective: false, paging_policy: None },
    }
}
