//! `ip-header-decompressor`: rebuilds the headers that an `ip-header-compressor`
//! at the other end of a link took off (RFC 2507, Pinczel et al. §IV.A c).
//!
//! A packet is delivered if its headers are known to be right: those of a
//! generation that was seen in full, or ones that the TCP checksum covers. All
//! others are dropped, and a TCP context that is lost is asked for.

mod context;
mod rebuild;

use weft_function::{
    ConfigError, ContextError, Emit, Fields, Metadata, Packet, Position, Reason, Setup, TagSlot,
    UserPlaneFunction, Verdict,
};
use weft_wire::iphc::state;
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::{EtherType, ethernet};

use crate::iphc::flows::{Flows, Limits, Repair, Space};
use crate::iphc::link::{network, note_ip, note_session, replace, write_front};
use crate::iphc::{LEAST_ARENA, Role, TAG, limits, max_header};

use context::Lost;
use rebuild::{Failure, Rebuilt};

pub use context::{Config, Context};

/// Not of a form that RFC 2507 or RFC 2516 has.
const MALFORMED: Reason =
    Reason::new("iphc_malformed", "a PPPoE frame of no form that compression has");
/// No full header of that context has come.
const UNKNOWN_CONTEXT: Reason =
    Reason::new("iphc_unknown_context", "no full header of that context has come");
/// The full header of that generation has not come.
const STALE_GENERATION: Reason =
    Reason::new("iphc_stale_generation", "the full header of that generation has not come");
/// The headers would not be those that were compressed.
const DAMAGED: Reason =
    Reason::new("iphc_damaged", "the headers would not be those that were compressed");
/// Overtaken, or there twice.
const OUT_OF_ORDER: Reason =
    Reason::new("iphc_out_of_order", "a TCP segment that was overtaken, or comes twice");
/// The buffer has no room for the headers.
const NO_ROOM: Reason = Reason::new("iphc_no_room", "the buffer has no room for the headers");

/// Nanoseconds between two requests of a user at least (RFC 2507 §10.2).
const REQUEST_TIME: u64 = 10_000_000;

/// Rebuilds the headers of each user's flows.
#[derive(Debug)]
pub struct IpHeaderDecompressor {
    flows: Flows,
    limits: Limits,
    arena: u32,
    max_header: usize,
    twice: bool,
    /// Segments of TCP have packet numbers.
    numbered: bool,
    tag: TagSlot,
}

impl IpHeaderDecompressor {
    fn decompress(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let Some((start, end)) = network(packet) else { return Verdict::Drop(MALFORMED) };
        let frame = packet.data().get(start..end).unwrap_or_default();
        let Ok(frame) = pppoe::Frame::new_checked(frame) else {
            return Verdict::Drop(MALFORMED);
        };
        let (session, end) = (frame.session(), start + frame.total_length());
        let user = &mut context.flows;
        let rebuilt = match frame.protocol() {
            PppProtocol::IPV4 | PppProtocol::IPV6 => Ok(Rebuilt::default()),
            PppProtocol::FULL_HEADER => self.full(user, frame.payload()),
            PppProtocol::COMPRESSED_NON_TCP => self.non_tcp(user, frame.payload()),
            PppProtocol::COMPRESSED_TCP => self.tcp(user, frame.payload()),
            PppProtocol::COMPRESSED_TCP_NODELTA => self.nodelta(user, frame.payload()),
            PppProtocol::CONTEXT_STATE => {
                self.tag.set(packet.metadata_mut(), Role::Report as u32);
                return Verdict::Forward;
            }
            _ => Err(Failure::from(MALFORMED)),
        };
        match rebuilt {
            Ok(rebuilt) => {
                packet.truncate(end);
                let verdict = put(packet, start, &rebuilt);
                context.rebuilt += u64::from(verdict == Verdict::Forward);
                verdict
            }
            Err(Failure { reason, ask }) => {
                if let Some(id) = ask {
                    self.ask(packet, start, session, id, context, emit);
                }
                Verdict::Drop(reason)
            }
        }
    }

    /// Asks the other end for the header of a TCP context and of all others that
    /// were lost meanwhile, but not too often.
    #[cold]
    fn ask(
        &mut self,
        packet: &Packet,
        start: usize,
        session: u16,
        id: u8,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) {
        let now = emit.now().wrapping_add(context.offset);
        context.lost.add(id);
        self.flows.each(&context.flows, Space::Tcp, |flow| match u8::try_from(flow.id.0) {
            Ok(known) if known == id => flow.repair = Repair::Full,
            Ok(known) if flow.repair != Repair::Full => context.lost.remove(known),
            _ => {}
        });
        if context.asked.is_some_and(|then| now.wrapping_sub(then) < REQUEST_TIME) {
            return;
        }
        if request(packet, start, session, &context.lost.ids(), self.tag, emit).is_some() {
            (context.asked, context.lost) = (Some(now), Lost::default());
            context.requests += 1;
        }
    }
}

/// Sends a request back to where `packet` came from.
fn request(
    packet: &Packet,
    start: usize,
    session: u16,
    ids: &[u8],
    tag: TagSlot,
    emit: &mut Emit<'_>,
) -> Option<()> {
    let length = state::FRONT_LENGTH + ids.len();
    let mut request = emit.allocate(packet.metadata())?;
    let link = packet.data().get(..start)?;
    let bytes = request.append(start + pppoe::HEADER_LENGTH + length)?;
    bytes.get_mut(..start)?.copy_from_slice(link);
    let (place, protocol) = (bytes.get_mut(start..)?, PppProtocol::CONTEXT_STATE);
    if !write_front(place, session, protocol, &[], length) {
        return None;
    }
    state::write_request(ids, place.get_mut(pppoe::HEADER_LENGTH..)?).ok()?;
    let mut frame = ethernet::Frame::new_checked(bytes).ok()?;
    let (source, destination) = (frame.source(), frame.destination());
    frame.set_source(destination);
    frame.set_destination(source);
    note_session(&mut request, start, pppoe::HEADER_LENGTH + length);
    tag.set(request.metadata_mut(), Role::Request as u32);
    emit.send(request, Position::After).then_some(())
}

/// Puts rebuilt headers in the place of the compressed ones, and notes them.
fn put(packet: &mut Packet, start: usize, rebuilt: &Rebuilt) -> Verdict {
    let old = pppoe::HEADER_LENGTH + rebuilt.consumed;
    let headers = rebuilt.headers();
    let Some(place) = replace(packet, start, old, headers.len()) else {
        return Verdict::Drop(NO_ROOM);
    };
    place.copy_from_slice(headers);
    let length = packet.len().saturating_sub(start);
    match note_ip(packet, start, length) {
        true => Verdict::Forward,
        false => Verdict::Drop(MALFORMED),
    }
}

impl UserPlaneFunction for IpHeaderDecompressor {
    const NAME: &'static str = "ip-header-decompressor";
    const SUMMARY: &'static str = "Rebuilds compressed IP, UDP and TCP headers (RFC 2507).";
    const WRITES: &'static [weft_function::Tag] = &[TAG];
    const DROPS: &'static [Reason] =
        &[MALFORMED, UNKNOWN_CONTEXT, STALE_GENERATION, DAMAGED, OUT_OF_ORDER, NO_ROOM];
    /// A checkpoint's contexts are not those of the other end any more.
    const ROLLBACK: bool = false;
    const CONTEXT_VERSION: u16 = 2;
    const PREFETCHES: bool = true;

    type Config = Config;
    type Settings = weft_function::NoSettings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<IpHeaderDecompressor, ConfigError> {
        let arena = config.flows.unwrap_or((setup.contexts as u32).max(LEAST_ARENA));
        Ok(IpHeaderDecompressor {
            flows: Flows::new(if setup.trial { 0 } else { arena }),
            limits: limits(config.tcp_flows, config.non_tcp_flows)?,
            arena,
            max_header: max_header(config.max_header)?,
            numbered: config.packet_numbers,
            twice: config.twice,
            tag: setup.tag(&TAG)?,
        })
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        self.tag.set(packet.metadata_mut(), Role::Packet as u32);
        match EtherType(packet.metadata().ether_type) {
            EtherType::PPPOE_SESSION => self.decompress(packet, context, emit),
            _ => {
                context.regular += 1;
                Verdict::Forward
            }
        }
    }

    #[inline]
    fn prefetch(&self, context: &Context) {
        self.flows.prefetch(&context.flows);
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
        let flows = Flows::read(&mut fields, |space, _| self.limits.of(space))?;
        fields.end()?;
        context.flows = self.flows.keep(flows);
        Ok(context)
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        context.offset = then.wrapping_sub(now);
    }

    fn adopt(&mut self, previous: &mut IpHeaderDecompressor) {
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
