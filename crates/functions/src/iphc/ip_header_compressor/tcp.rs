//! TCP flows: differences, whole segments, full headers (RFC 2507 §3.2 and §6).

use weft_wire::iphc::tcp::{Delta, loss_is_hidden, put_reserved, reserved, write_nodelta};
use weft_wire::iphc::{Chain, Compressed, Generation, full};
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::tcp::Flags;

use super::{Context, IpHeaderCompressor, Outcome, Subject};
use crate::iphc::flows::{Flow, Repair, Space};
use crate::iphc::next_number;

/// Segments behind a change of the IP headers before TCP's header alone is
/// sent: the other end would take it for a repair, and not miss full headers of
/// which all were lost.
const SETTLED: u16 = 16;

/// What is known of a segment beside the one before.
struct Segment {
    /// Headers change only as differences can say.
    same: bool,
    /// TCP sends it again.
    again: bool,
    /// It follows the one before.
    contiguous: bool,
    /// Whether it fits the link without compression.
    fits: bool,
    /// Whether packets have numbers.
    numbered: bool,
}

impl Segment {
    /// Whether the other end would not notice that the packet before is lost.
    #[inline]
    fn hides_loss(&self, subject: &Subject<'_>, flow: &Flow, whole: bool) -> bool {
        let headers = subject.headers();
        !self.numbered && loss_is_hidden(&subject.chain, flow.headers(), headers, whole)
    }

    /// Puts a header together that has TCP's whole header in it, or all headers.
    fn whole(self, subject: &Subject<'_>, flow: &mut Flow, out: &mut Compressed) -> Outcome {
        let Segment { again, contiguous, fits, numbered, .. } = self;
        let (chain, headers) = (&subject.chain, subject.headers());
        let same = self.same && chain.same_ecn(flow.headers(), headers);
        let hidden = self.hides_loss(subject, flow, true);
        let settled = if same { flow.sent.saturating_add(1) } else { 0 };
        let alone = settled >= SETTLED && flow.repair != Repair::Full && !again && !numbered;
        out.clear();
        if alone {
            write_nodelta(chain, headers, flow.id, out);
        }
        if !(fits || alone && is_shorter(chain, out)) {
            return Outcome::Regular;
        }
        // What no checksum would miss is sent twice, in case one is lost.
        flow.repair = match (same || numbered, hidden) {
            (false, _) => Repair::Full,
            (true, true) => Repair::Segment,
            (true, false) => Repair::None,
        };
        flow.set_headers(chain, headers);
        (flow.sent, flow.data, flow.period) = (settled, subject.data() as u16, contiguous.into());
        flow.number = next_number(flow.number);
        match alone {
            true => Outcome::Compressed(PppProtocol::COMPRESSED_TCP_NODELTA),
            false => full_header(flow, numbered),
        }
    }
}

impl IpHeaderCompressor {
    /// Decides over a segment, and puts its compressed header together.
    #[inline]
    pub(super) fn tcp(
        &mut self,
        subject: &Subject<'_>,
        context: &mut Context,
        out: &mut Compressed,
    ) -> Outcome {
        let Subject { bytes, chain, .. } = subject;
        let flags = Flags(bytes[chain.transport_offset() + 13]);
        // The packets around a connection are few, and a scan makes many.
        if flags.contains(Flags::SYN) || flags.contains(Flags::RST) {
            return Outcome::Regular;
        }
        let (fits, numbered) = (self.fits(bytes.len()), self.numbered);
        let Some(index) = self.flow(subject, context, Space::Tcp) else {
            return self.new_connection(subject, context);
        };
        let flow = self.flows.get_mut(index);
        let headers = subject.headers();
        let same = subject.flow.is_some() || chain.unchanged(flow.headers(), headers);
        let advance = sequence(chain, headers).wrapping_sub(sequence(chain, flow.headers()));
        let contiguous = advance == u32::from(flow.data);
        // What TCP sends again may be so for a context that is lost (RFC 2507 §3.1,
        // §3.2): all headers go with it.
        let again = (advance as i32) < if subject.data() > 0 { flow.data.into() } else { 0 };
        let segment = Segment { same, again, contiguous, fits, numbered };
        if same
            && flow.repair == Repair::None
            && !again
            && !segment.hides_loss(subject, flow, false)
            && write(subject, flow, numbered, out)
            && (fits || is_shorter(chain, out))
        {
            let reserved = reserved(chain, flow.headers());
            flow.set_headers(chain, headers);
            put_reserved(chain, flow.headers_mut(), reserved);
            flow.sent = flow.sent.saturating_add(1);
            (flow.data, flow.period) = (subject.data() as u16, contiguous.into());
            flow.number = next_number(flow.number);
            return Outcome::Compressed(PppProtocol::COMPRESSED_TCP);
        }
        segment.whole(subject, flow, out)
    }

    /// A connection whose checksum the other end would not find right is left
    /// alone: headers that are read otherwise there, or a sender whose checksums
    /// are for its hardware to fill in.
    #[cold]
    fn new_connection(&mut self, subject: &Subject<'_>, context: &mut Context) -> Outcome {
        let Subject { bytes, chain, .. } = subject;
        if !self.fits(bytes.len()) || !is_right(chain, bytes) {
            return Outcome::Regular;
        }
        let key = chain.flow(bytes) as u32;
        let user = &mut context.flows;
        let Some(index) = self.flows.claim(user, Space::Tcp, key, self.limits, |_| true) else {
            return Outcome::Regular;
        };
        let flow = self.flows.get_mut(index);
        flow.set_headers(chain, subject.headers());
        flow.data = subject.data() as u16;
        (flow.repair, flow.sent, flow.period) = (Repair::None, 0, 0);
        flow.number = next_number(flow.number);
        full_header(flow, self.numbered)
    }
}

/// Whether a compressed header and what the link adds are no longer than the headers
/// were: where much is sent as it is, they may be.
fn is_shorter(chain: &Chain, compressed: &Compressed) -> bool {
    compressed.len() + pppoe::HEADER_LENGTH <= chain.length()
}

fn is_right(chain: &Chain, bytes: &[u8]) -> bool {
    let (headers, payload) = bytes.split_at(chain.length());
    chain.tcp_checksum_is_right(headers, payload)
}

/// Writes differences. That a number advances by the data of the segment before
/// is said only between segments that follow each other and have data: a
/// segment that is lost or comes twice would otherwise lead to a header of the
/// same sum.
fn write(subject: &Subject<'_>, flow: &Flow, numbered: bool, out: &mut Compressed) -> bool {
    let (chain, headers) = (&subject.chain, subject.headers());
    let follows = flow.period != 0 && subject.data() != 0;
    let before = if follows { flow.data } else { 0 };
    let number = numbered.then(|| next_number(flow.number));
    let delta = Delta::between(chain, flow.headers(), headers).map(|delta| delta.numbered(number));
    delta.is_some_and(|delta| delta.write(chain, headers, flow.id, before, out))
}

fn sequence(chain: &Chain, headers: &[u8]) -> u32 {
    let at = chain.transport_offset() + 4;
    let number = headers.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u32::from_be_bytes(*number))
}

fn full_header(flow: &Flow, numbered: bool) -> Outcome {
    let number = if numbered { flow.number } else { 0 };
    Outcome::Full(full::Context { id: flow.id, generation: Generation::default(), number })
}
