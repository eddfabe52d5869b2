//! TCP flows: differences, whole segments, full headers (RFC 2507 §3.2 and §6).

use weft_wire::iphc::tcp::{Delta, loss_is_hidden, write_nodelta};
use weft_wire::iphc::{Chain, Compressed, Generation, full};
use weft_wire::pppoe::PppProtocol;
use weft_wire::tcp::Flags;

use super::{Context, IpHeaderCompressor, Outcome};
use crate::iphc::flows::{Flow, Repair, Space};

/// Segments behind a change of the IP headers before TCP's header alone is
/// sent: the other end would take it for a repair, and not miss full headers of
/// which all were lost.
const SETTLED: u16 = 16;

impl IpHeaderCompressor {
    /// Decides over a segment, and puts its compressed header together.
    #[inline]
    pub(super) fn tcp(
        &mut self,
        chain: &Chain,
        bytes: &[u8],
        context: &mut Context,
        out: &mut Compressed,
    ) -> Outcome {
        let flags = Flags(bytes[chain.transport_offset() + 13]);
        // The packets around a connection are few, and a scan makes many.
        if flags.contains(Flags::SYN) || flags.contains(Flags::RST) {
            return Outcome::Regular;
        }
        let key = chain.flow(bytes) as u32;
        let fits = self.fits(bytes.len());
        let Some(index) = self.flows.find(&mut context.flows, Space::Tcp, key) else {
            return self.new_connection(chain, bytes, key, context);
        };
        let flow = self.flows.get_mut(index);
        let headers = &bytes[..chain.length()];
        let same = chain.unchanged(flow.headers(), headers);
        let hidden = loss_is_hidden(chain, flow.headers(), headers);
        let data = (bytes.len() - chain.length()) as u16;
        let advance = sequence(chain, headers).wrapping_sub(sequence(chain, flow.headers()));
        let contiguous = advance == u32::from(flow.data);
        let settled = if same { flow.sent.saturating_add(1) } else { 0 };
        let outcome = if same
            && !hidden
            && flow.repair == Repair::None
            && write(chain, flow, headers, data, out)
        {
            Outcome::Compressed(PppProtocol::COMPRESSED_TCP)
        } else if settled >= SETTLED && flow.repair != Repair::Full {
            out.clear();
            write_nodelta(chain, headers, flow.id, out);
            Outcome::Compressed(PppProtocol::COMPRESSED_TCP_NODELTA)
        } else if fits {
            full_header(flow)
        } else {
            return Outcome::Regular;
        };
        // What no checksum would miss is sent twice, in case one is lost.
        let next = match (same, hidden) {
            (false, _) => Repair::Full,
            (true, true) => Repair::Segment,
            (true, false) => Repair::None,
        };
        (flow.sent, flow.period) = (settled, contiguous.into());
        flow.set_headers(headers);
        (flow.data, flow.repair) = (data, next);
        outcome
    }

    /// A connection whose checksum the other end would not find right is left
    /// alone: headers that are read otherwise there, or a sender whose checksums
    /// are for its hardware to fill in.
    #[cold]
    fn new_connection(
        &mut self,
        chain: &Chain,
        bytes: &[u8],
        key: u32,
        context: &mut Context,
    ) -> Outcome {
        if !self.fits(bytes.len()) || !is_right(chain, bytes) {
            return Outcome::Regular;
        }
        let user = &mut context.flows;
        let Some(index) = self.flows.claim(user, Space::Tcp, key, self.limits, |_| true) else {
            return Outcome::Regular;
        };
        let flow = self.flows.get_mut(index);
        flow.set_headers(&bytes[..chain.length()]);
        flow.data = (bytes.len() - chain.length()) as u16;
        (flow.repair, flow.sent, flow.period) = (Repair::None, 0, 0);
        full_header(flow)
    }
}

fn is_right(chain: &Chain, bytes: &[u8]) -> bool {
    let (headers, payload) = bytes.split_at(chain.length());
    chain.tcp_checksum_is_right(headers, payload)
}

/// Writes differences. That a number advances by the data of the segment before
/// is said only between segments that follow each other and have data: a
/// segment that is lost or comes twice would otherwise lead to a header of the
/// same sum.
fn write(chain: &Chain, flow: &Flow, headers: &[u8], data: u16, out: &mut Compressed) -> bool {
    let follows = flow.period != 0 && data != 0;
    let before = if follows { flow.data } else { 0 };
    let delta = Delta::between(chain, flow.headers(), headers);
    delta.is_some_and(|delta| delta.write(chain, headers, flow.id, before, out))
}

fn sequence(chain: &Chain, headers: &[u8]) -> u32 {
    let at = chain.transport_offset() + 4;
    let number = headers.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u32::from_be_bytes(*number))
}

fn full_header(flow: &Flow) -> Outcome {
    Outcome::Full(full::Context { id: flow.id, generation: Generation::default() })
}
