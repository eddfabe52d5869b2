//! Flows other than TCP: generations, slow start and refresh (RFC 2507 §3.3).

use weft_wire::iphc::{Compressed, full, non_tcp};
use weft_wire::pppoe::PppProtocol;

use super::context::MIN_WRAP;
use super::{Context, IpHeaderCompressor, Outcome, Subject};
use crate::iphc::flows::{Flow, Space};

/// Nanoseconds between two generations of a context at least, so that the 64 of
/// them last for MIN_WRAP (RFC 2507 §3.3 and §8). A context keeps its generation
/// when its identifier goes to another flow.
const GENERATION_TIME: u64 = MIN_WRAP / 64;

impl IpHeaderCompressor {
    /// Decides over a packet, and puts its compressed header together.
    #[inline]
    pub(super) fn non_tcp(
        &mut self,
        subject: &Subject<'_>,
        context: &mut Context,
        now: u64,
        out: &mut Compressed,
    ) -> Outcome {
        let Some(index) = self.flow(subject, context, Space::NonTcp) else {
            return self.new_flow(subject, context, now);
        };
        let Subject { bytes, chain, .. } = subject;
        let fits = self.fits(bytes.len()) && full::has_room(chain, self.limits.non_tcp);
        let (max_period, max_time) = (self.max_period, self.max_time);
        let flow = self.flows.get_mut(index);
        let known = subject.flow.is_some()
            || flow.chain() == chain && chain.unchanged(flow.headers(), bytes);
        if !known {
            if !fits || now.wrapping_sub(flow.changed) < GENERATION_TIME {
                return Outcome::Regular;
            }
            return begin(flow, subject, now);
        }
        let is_due = flow.sent >= flow.period;
        if is_due || now.wrapping_sub(flow.refreshed) > max_time {
            if !fits {
                // The refresh waits for a shorter packet, and compression for it.
                return Outcome::Regular;
            }
            if is_due {
                flow.period = flow.period.saturating_mul(2).min(max_period);
            }
            (flow.sent, flow.refreshed) = (0, now);
            return full_header(flow);
        }
        flow.sent += 1;
        let repr = non_tcp::Repr { id: flow.id, generation: flow.generation };
        non_tcp::write(chain, bytes, repr, out);
        Outcome::Compressed(PppProtocol::COMPRESSED_NON_TCP)
    }

    #[cold]
    fn new_flow(&mut self, subject: &Subject<'_>, context: &mut Context, now: u64) -> Outcome {
        let Subject { bytes, chain, .. } = subject;
        let fits = self.fits(bytes.len()) && full::has_room(chain, self.limits.non_tcp);
        if !(self.fresh || context.has_waited(now)) || !fits {
            return Outcome::Regular;
        }
        let key = chain.flow(bytes) as u32;
        let rested = |flow: &Flow| now.wrapping_sub(flow.changed) >= GENERATION_TIME;
        let user = &mut context.flows;
        match self.flows.claim(user, Space::NonTcp, key, self.limits, rested) {
            Some(index) => begin(self.flows.get_mut(index), subject, now),
            None => Outcome::Regular,
        }
    }
}

/// Begins another generation with other headers.
fn begin(flow: &mut Flow, subject: &Subject<'_>, now: u64) -> Outcome {
    flow.set_headers(&subject.chain, subject.headers());
    flow.generation = flow.generation.next();
    (flow.sent, flow.period) = (0, 1);
    (flow.refreshed, flow.changed) = (now, now);
    full_header(flow)
}

fn full_header(flow: &Flow) -> Outcome {
    Outcome::Full(full::Context { id: flow.id, generation: flow.generation, number: 0 })
}
