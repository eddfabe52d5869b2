//! `ip-header-compressor`: compresses the headers of each user's flows for one
//! link (RFC 2507, Pinczel et al. §IV.A c).
//!
//! Where RFC 2507 trusts that the TCP checksum shows a lost segment, this end
//! looks whether it would: a segment whose change of the header leaves the sum
//! as it was (an acknowledgment and a window that cancel out, an identification
//! alone) is sent whole, and so is the one behind it. So is the segment behind a
//! change of a field that TCP does not sum, such as the TTL. The other end then
//! never takes a wrong header for a right one because of losses.

mod context;
mod non_tcp;
mod tcp;

use weft_function::{
    ConfigError, ContextError, Emit, Fields, Packet, Reason, Setup, UserPlaneFunction, Verdict,
};
use weft_wire::EtherType;
use weft_wire::iphc::{Chain, Compressed, full, state};
use weft_wire::pppoe::{self, PppProtocol};

use crate::iphc::flows::{Flow, Flows, Limits, Repair, Space};
use crate::iphc::link::{Front, network, note_session, replace};
use crate::iphc::{FLOWS, LEAST_ARENA, MAX_NON_TCP_FLOWS, MAX_TCP_FLOWS};

pub use context::{Config, Context, Settings};

/// A request of the other end, which was heeded: it ends here.
const REQUEST: Reason =
    Reason::new("iphc_request", "a request of the other end: it was heeded, and ends here");
/// A PPPoE frame that is no request.
const MALFORMED: Reason =
    Reason::new("iphc_malformed", "a PPPoE frame of no form that compression has");

/// What becomes of a packet.
enum Outcome {
    /// It goes as it is.
    Regular,
    /// Its headers go with the context in their length fields.
    Full(full::Context),
    /// A compressed header goes in their place.
    Compressed(PppProtocol),
}

/// Compresses the headers of each user's flows.
#[derive(Debug)]
pub struct IpHeaderCompressor {
    flows: Flows,
    limits: Limits,
    arena: u32,
    max_period: u16,
    max_time: u64,
    mtu: usize,
    session: u16,
}

impl IpHeaderCompressor {
    /// Compresses an IP packet, if it can be.
    #[inline]
    fn compress(&mut self, packet: &mut Packet, context: &mut Context, now: u64) -> Option<()> {
        let (start, end) = network(packet)?;
        let bytes = packet.data().get(start..end)?;
        let chain = Chain::walk(bytes)?;
        let longest = usize::from(u16::MAX) - pppoe::HEADER_LENGTH;
        if bytes.len() > longest || !chain.can_be_inferred(bytes, bytes.len()) {
            return None;
        }
        let mut header = Compressed::new();
        let now = now.wrapping_add(context.offset);
        let outcome = match Space::of(&chain) {
            Space::Tcp => self.tcp(&chain, bytes, context, &mut header),
            Space::NonTcp => self.non_tcp(&chain, bytes, context, now, &mut header),
        };
        let (length, payload) = (chain.length(), bytes.len() - chain.length());
        let session = context.session.unwrap_or(self.session);
        let front = match outcome {
            Outcome::Regular => return None,
            Outcome::Compressed(protocol) => Front::new(session, protocol, &header, payload)?,
            Outcome::Full(full) => {
                let mut whole = [0; weft_wire::iphc::MAX_HEADER];
                let headers = whole.get_mut(..length)?;
                headers.copy_from_slice(bytes.get(..length)?);
                full::write(&chain, headers, full).ok()?;
                context.full += 1;
                Front::new(session, PppProtocol::FULL_HEADER, headers, payload)?
            }
        };
        let front = front.as_bytes();
        packet.truncate(end);
        if replace(packet, start, length, front) {
            note_session(packet, start, front.len() + payload);
            context.compressed += u64::from(front.len() < length);
            context.before += length as u64;
            context.after += front.len() as u64;
        }
        Some(())
    }

    /// Whether a packet of so many octets has room for PPPoE as well.
    fn fits(&self, octets: usize) -> bool {
        octets + pppoe::HEADER_LENGTH <= self.mtu
    }

    /// What the other end asked for is sent whole next time.
    #[cold]
    fn heed(&mut self, packet: &Packet, context: &mut Context) -> Verdict {
        let frame = network(packet).and_then(|(start, end)| packet.data().get(start..end));
        let frame = frame.and_then(|frame| pppoe::Frame::new_checked(frame).ok());
        let ids = frame.as_ref().filter(|frame| frame.protocol() == PppProtocol::CONTEXT_STATE);
        let Some(ids) = ids.and_then(|frame| state::requested(frame.payload()).ok()) else {
            return Verdict::Drop(MALFORMED);
        };
        let asked = |flow: &Flow| u8::try_from(flow.id.0).is_ok_and(|id| ids.contains(&id));
        self.flows.each(&context.flows, Space::Tcp, |flow| {
            if asked(flow) {
                flow.repair = Repair::Full;
            }
        });
        context.requests += 1;
        Verdict::Drop(REQUEST)
    }
}

impl UserPlaneFunction for IpHeaderCompressor {
    const NAME: &'static str = "ip-header-compressor";
    const SUMMARY: &'static str = "Compresses IP, UDP and TCP headers for a link (RFC 2507).";
    const DROPS: &'static [Reason] = &[REQUEST, MALFORMED];
    /// A checkpoint's contexts are not those of the other end any more.
    const ROLLBACK: bool = false;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<IpHeaderCompressor, ConfigError> {
        let most = [
            ("tcpFlows", config.tcp_flows, MAX_TCP_FLOWS),
            ("nonTcpFlows", config.non_tcp_flows, MAX_NON_TCP_FLOWS),
        ];
        for (key, value, most) in most {
            if value.is_some_and(|value| value > most) {
                return Err(ConfigError::at(key, format!("a link has {most} at most")));
            }
        }
        if config.max_period == Some(0) {
            return Err(ConfigError::at("maxPeriod", "at least 1 packet is compressed"));
        }
        let arena = config.flows.unwrap_or((setup.contexts as u32).max(LEAST_ARENA));
        let limit = |flows: Option<u32>| flows.unwrap_or(FLOWS);
        Ok(IpHeaderCompressor {
            flows: Flows::new(if setup.trial { 0 } else { arena }),
            limits: Limits { tcp: limit(config.tcp_flows), non_tcp: limit(config.non_tcp_flows) },
            arena,
            max_period: config.max_period.unwrap_or(256),
            max_time: u64::from(config.max_time.unwrap_or(5)) * 1_000_000_000,
            mtu: config.mtu.unwrap_or(1500).into(),
            session: config.session.unwrap_or(1),
        })
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        match EtherType(packet.annotations().ether_type) {
            EtherType::IPV4 | EtherType::IPV6 => {
                if self.compress(packet, context, emit.now()).is_none() {
                    context.regular += 1;
                }
                Verdict::Forward
            }
            EtherType::PPPOE_SESSION => self.heed(packet, context),
            _ => Verdict::Forward,
        }
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        match u32::from(settings.session).saturating_add(count.saturating_sub(1)) {
            0..=0xffff => Ok(()),
            last => {
                let message = format!("the last of {count} users would have session {last}");
                Err(ConfigError::at("session", format!("{message}, and there are 65535")))
            }
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        context.session = u16::try_from(u32::from(settings.session).saturating_add(nth)).ok();
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        context.export(out);
        self.flows.export(&context.flows, context.offset, out);
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let mut context = Context::import(&mut fields)?;
        // A new flow gets the next identifier, so those before are all there.
        let flows = Flows::read(&mut fields, |_, count| count)?;
        fields.end()?;
        context.flows = self.flows.keep(flows);
        Ok(context)
    }

    fn rebase(&self, context: &mut Context, then: u64, now: u64) {
        context.offset = then.wrapping_sub(now);
    }

    fn adopt(&mut self, previous: &mut IpHeaderCompressor) {
        std::mem::swap(&mut self.flows, &mut previous.flows);
        self.flows.grow(self.arena);
    }

    fn release(&mut self, context: Context) {
        self.flows.release(context.flows);
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        context.show()
    }
}
