//! `ip-header-compressor`: compresses the headers of each user's flows for one
//! link (RFC 2507, Pinczel et al. §IV.A c).
//!
//! Where RFC 2507 trusts that the TCP checksum shows a lost segment, this end
//! looks whether it would: a segment whose change of the header leaves the sum
//! as it was (an acknowledgment and a window that cancel out, an identification
//! alone) is sent whole, and so is the one behind it. So is the segment behind a
//! change of a field that TCP does not sum, such as the TTL. The other end then
//! never takes a wrong header for a right one because one segment was lost. With
//! packet numbers (§11.2) any loss shows, and none of this is needed.

mod context;
mod non_tcp;
mod tcp;

use weft_function::{
    ConfigError, ContextError, Emit, Fields, Metadata, Packet, Reason, Setup, UserPlaneFunction,
    Verdict,
};
use weft_wire::iphc::{Chain, Compressed, full, state};
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::{EtherType, Protocol};

use crate::iphc::flows::{Flow, Flows, Index, Limits, Repair, Space};
use crate::iphc::link::{network, note_session, replace, write_front};
use crate::iphc::{LEAST_ARENA, limits, max_header};

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

/// A packet in hand.
struct Subject<'a> {
    /// From the first IP header on.
    bytes: &'a [u8],
    chain: Chain,
    /// The flow it is known to be of.
    flow: Option<Index>,
}

impl Subject<'_> {
    fn headers(&self) -> &[u8] {
        &self.bytes[..self.chain.length()]
    }

    /// Octets behind the headers.
    fn data(&self) -> usize {
        self.bytes.len() - self.chain.length()
    }
}

/// Compresses the headers of each user's flows.
#[derive(Debug)]
pub struct IpHeaderCompressor {
    flows: Flows,
    limits: Limits,
    arena: u32,
    max_period: u16,
    max_time: u64,
    max_header: usize,
    mtu: usize,
    session: u16,
    /// Segments of TCP have packet numbers.
    numbered: bool,
    /// The other end knows nothing from before.
    fresh: bool,
}

impl IpHeaderCompressor {
    /// Compresses an IP packet, if it can be.
    #[inline]
    fn compress(&mut self, packet: &mut Packet, context: &mut Context, now: u64) -> Option<()> {
        let (start, end) = network(packet)?;
        let bytes = packet.data().get(start..end)?;
        let protocol = Protocol(packet.metadata().protocol);
        let subject = self.subject(context, bytes, protocol)?;
        let longest = usize::from(u16::MAX) - pppoe::HEADER_LENGTH;
        if bytes.len() > longest
            || subject.chain.length() > self.max_header
            || !subject.chain.can_be_inferred(bytes, bytes.len())
            || !subject.chain.is_shortened(bytes, pppoe::HEADER_LENGTH)
        {
            return None;
        }
        let mut header = Compressed::new();
        let now = now.wrapping_add(context.offset);
        let outcome = match Space::of(&subject.chain) {
            Space::Tcp => self.tcp(&subject, context, &mut header),
            Space::NonTcp => self.non_tcp(&subject, context, now, &mut header),
        };
        let (chain, length, payload) = (subject.chain, subject.chain.length(), subject.data());
        let session = context.session.unwrap_or(self.session);
        let new = match outcome {
            Outcome::Regular => return None,
            Outcome::Compressed(protocol) => {
                packet.truncate(end);
                let new = pppoe::HEADER_LENGTH + header.len();
                let place = replace(packet, start, length, new)?;
                // At most as long as the packet was, so it fits a frame.
                let _ = write_front(place, session, protocol, &header, payload);
                new
            }
            Outcome::Full(full) => {
                let total = length + payload;
                packet.truncate(end);
                full::write(&chain, packet.data_mut().get_mut(start..end)?, full).ok()?;
                let Some(place) = replace(packet, start, 0, pppoe::HEADER_LENGTH) else {
                    let _ = chain.infer(packet.data_mut().get_mut(start..end)?, total);
                    return None;
                };
                let _ = write_front(place, session, PppProtocol::FULL_HEADER, &[], total);
                context.full += 1;
                pppoe::HEADER_LENGTH + length
            }
        };
        note_session(packet, start, new + payload);
        context.compressed += u64::from(new < length);
        context.before += length as u64;
        context.after += new as u64;
        Some(())
    }

    /// The chain of a packet. Most packets are of the flow that their user's last
    /// one was of: if no octet differs that tells flow and form, nothing else
    /// needs to be looked at.
    #[inline]
    fn subject<'a>(
        &self,
        context: &Context,
        bytes: &'a [u8],
        protocol: Protocol,
    ) -> Option<Subject<'a>> {
        let space = if protocol == Protocol::TCP { Space::Tcp } else { Space::NonTcp };
        if let Some((index, flow)) = self.flows.newest(&context.flows, space)
            && flow.chain().is_of(flow.headers(), bytes)
        {
            return Some(Subject { bytes, chain: *flow.chain(), flow: Some(index) });
        }
        Some(Subject { bytes, chain: Chain::walk(bytes)?, flow: None })
    }

    /// The flow of a packet.
    #[inline]
    fn flow(
        &mut self,
        subject: &Subject<'_>,
        context: &mut Context,
        space: Space,
    ) -> Option<Index> {
        if subject.flow.is_some() {
            return subject.flow;
        }
        let key = subject.chain.flow(subject.bytes) as u32;
        self.flows.find(&mut context.flows, space, key)
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
    const CONTEXT_VERSION: u16 = 2;
    const HOT_CONTEXT: usize = 64;
    const PREFETCHES: bool = true;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<IpHeaderCompressor, ConfigError> {
        if config.max_period == Some(0) {
            return Err(ConfigError::at("maxPeriod", "at least 1 packet is compressed"));
        }
        if config.max_time.is_some_and(|seconds| !(1..=255).contains(&seconds)) {
            return Err(ConfigError::at("maxTime", "F_MAX_TIME is 1 to 255 seconds"));
        }
        let arena = config.flows.unwrap_or((setup.contexts as u32).max(LEAST_ARENA));
        Ok(IpHeaderCompressor {
            flows: Flows::new(if setup.trial { 0 } else { arena }),
            limits: limits(config.tcp_flows, config.non_tcp_flows)?,
            arena,
            max_header: max_header(config.max_header)?,
            numbered: config.packet_numbers,
            fresh: config.fresh_link,
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
        match EtherType(packet.metadata().ether_type) {
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

    #[inline]
    fn prefetch(&self, context: &Context) {
        self.flows.prefetch(&context.flows);
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

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        context.offset = then.wrapping_sub(now);
    }

    fn adopt(&mut self, previous: &mut IpHeaderCompressor) {
        std::mem::swap(&mut self.flows, &mut previous.flows);
        self.flows.grow(self.arena);
    }

    fn release(&mut self, context: Context) {
        self.flows.release(&context.flows);
    }

    fn abandon(&mut self, context: Context) {
        self.flows.release(&context.flows);
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        context.show()
    }
}
