//! From a compressed header to the headers it stands for (RFC 2507 §10).

use weft_function::Reason;
use weft_wire::iphc::tcp::{Delta, put_reserved, read_nodelta, reserved};
use weft_wire::iphc::{Chain, MAX_HEADER, full, non_tcp};

use super::{
    DAMAGED, IpHeaderDecompressor, MALFORMED, OUT_OF_ORDER, STALE_GENERATION, UNKNOWN_CONTEXT,
};
use crate::iphc::flows::{Flow, Holding, Repair, Space};
use crate::iphc::next_number;

/// Headers that were rebuilt.
#[derive(Clone, Debug)]
pub(super) struct Rebuilt {
    header: [u8; MAX_HEADER],
    length: usize,
    /// Octets of the compressed header that they take the place of.
    pub consumed: usize,
}

impl Default for Rebuilt {
    fn default() -> Rebuilt {
        Rebuilt { header: [0; MAX_HEADER], length: 0, consumed: 0 }
    }
}

impl Rebuilt {
    /// Those of a flow, to be completed.
    fn of(headers: &[u8]) -> Rebuilt {
        let mut rebuilt = Rebuilt { length: headers.len().min(MAX_HEADER), ..Rebuilt::default() };
        rebuilt.header[..rebuilt.length].copy_from_slice(&headers[..rebuilt.length]);
        rebuilt
    }

    /// The headers.
    pub fn headers(&self) -> &[u8] {
        &self.header[..self.length]
    }

    fn headers_mut(&mut self) -> &mut [u8] {
        &mut self.header[..self.length]
    }
}

/// Why headers cannot be rebuilt, and the TCP context to ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub reason: Reason,
    pub ask: Option<u8>,
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Failure {
        Failure { reason, ask: None }
    }
}

/// A header that is cut off or of no known form.
impl From<weft_wire::Error> for Failure {
    fn from(_: weft_wire::Error) -> Failure {
        Failure::from(MALFORMED)
    }
}

type Attempt = Result<Rebuilt, Failure>;

impl IpHeaderDecompressor {
    /// FULL_HEADER: takes over the context. An identifier beyond the limits is
    /// not kept, and what is compressed against it will be dropped.
    pub(super) fn full(&mut self, user: &mut Holding, bytes: &[u8]) -> Attempt {
        let chain = Chain::within(bytes, self.max_header).ok_or(MALFORMED)?;
        let full = full::read(&chain, bytes)?;
        let (headers, payload) = bytes.split_at_checked(chain.length()).ok_or(MALFORMED)?;
        let mut rebuilt = Rebuilt::of(headers);
        rebuilt.consumed = headers.len();
        chain.restore_lengths(rebuilt.headers_mut(), bytes.len())?;
        if !chain.can_be_inferred(rebuilt.headers(), bytes.len()) {
            return Err(DAMAGED.into());
        }
        let (space, key) = (Space::of(&chain), u32::from(full.id.0));
        if key < self.limits.of(space)
            && let Some(index) = self
                .flows
                .find(user, space, key)
                .or_else(|| self.flows.claim(user, space, key, self.limits, |_| true))
        {
            let flow = self.flows.get_mut(index);
            flow.set_headers(&chain, rebuilt.headers());
            (flow.id, flow.generation, flow.repair) = (full.id, full.generation, Repair::None);
            flow.data = payload.len() as u16;
            (flow.number, flow.is_partial) = (full.number, !full::has_whole_number(&chain));
        }
        Ok(rebuilt)
    }

    /// COMPRESSED_NON_TCP.
    pub(super) fn non_tcp(&mut self, user: &mut Holding, bytes: &[u8]) -> Attempt {
        let (repr, rest) = non_tcp::read(bytes)?;
        let index = self.flows.find(user, Space::NonTcp, repr.id.0.into());
        let flow = self.flows.get_mut(index.ok_or(UNKNOWN_CONTEXT)?);
        if flow.generation != repr.generation {
            return Err(STALE_GENERATION.into());
        }
        let mut rebuilt = Rebuilt::of(flow.headers());
        let (chain, payload) = non_tcp::read_random(flow.chain(), &mut rebuilt.header, rest)?;
        (rebuilt.length, rebuilt.consumed) = (chain.length(), bytes.len() - payload.len());
        chain.infer(rebuilt.headers_mut(), chain.length() + payload.len())?;
        Ok(rebuilt)
    }

    /// COMPRESSED_TCP. A context that does not fit is lost until a whole
    /// segment or a full header comes.
    pub(super) fn tcp(&mut self, user: &mut Holding, bytes: &[u8]) -> Attempt {
        let (&id, rest) = bytes.split_first().ok_or(MALFORMED)?;
        let lost = |reason| Failure { reason, ask: Some(id) };
        let index = self.flows.find(user, Space::Tcp, id.into());
        let flow = self.flows.get_mut(index.ok_or(lost(UNKNOWN_CONTEXT))?);
        if flow.repair != Repair::None {
            return Err(lost(DAMAGED));
        }
        let mut rebuilt = Rebuilt::of(flow.headers());
        let (data, header) = (flow.data, &mut rebuilt.header);
        let (delta, chain, payload) = Delta::read(flow.chain(), header, data, self.numbered, rest)?;
        (rebuilt.length, rebuilt.consumed) = (chain.length(), bytes.len() - payload.len());
        match delta.number().map_or(Order::Next, |number| Order::of(flow, number)) {
            Order::Next => {}
            Order::Behind => return Err(OUT_OF_ORDER.into()),
            Order::Ahead => return Err(lost(DAMAGED)),
        }
        for _ in 0..=u8::from(self.twice && !self.numbered) {
            delta.apply(&chain, rebuilt.headers_mut());
            chain.infer(rebuilt.headers_mut(), chain.length() + payload.len())?;
            if chain.tcp_checksum_is_right(rebuilt.headers(), payload) {
                let reserved = reserved(flow.chain(), flow.headers());
                if let Some(number) = delta.number() {
                    (flow.number, flow.is_partial) = (number, false);
                }
                take_over(flow, &chain, &rebuilt, payload);
                put_reserved(&chain, flow.headers_mut(), reserved);
                return Ok(rebuilt);
            }
        }
        Err(lost(DAMAGED))
    }

    /// COMPRESSED_TCP_NODELTA: repairs a context of which only TCP was lost.
    pub(super) fn nodelta(&mut self, user: &mut Holding, bytes: &[u8]) -> Attempt {
        let (&id, rest) = bytes.split_first().ok_or(MALFORMED)?;
        let lost = |reason| Failure { reason, ask: Some(id) };
        let index = self.flows.find(user, Space::Tcp, id.into());
        let flow = self.flows.get_mut(index.ok_or(lost(UNKNOWN_CONTEXT))?);
        if self.numbered {
            // It has no number, so nothing says where it belongs.
            return Err(MALFORMED.into());
        }
        let mut rebuilt = Rebuilt::of(flow.headers());
        let (chain, payload) = read_nodelta(flow.chain(), &mut rebuilt.header, rest)?;
        // The options may be longer or shorter than before.
        (rebuilt.length, rebuilt.consumed) = (chain.length(), bytes.len() - payload.len());
        chain.infer(rebuilt.headers_mut(), chain.length() + payload.len())?;
        if !chain.tcp_checksum_is_right(rebuilt.headers(), payload) {
            return Err(lost(DAMAGED));
        }
        take_over(flow, &chain, &rebuilt, payload);
        Ok(rebuilt)
    }
}

/// Where a segment stands beside the last one of its flow (RFC 2507 §11.2).
enum Order {
    Behind,
    Next,
    Ahead,
}

impl Order {
    fn of(flow: &Flow, number: u16) -> Order {
        let before = |number: u16| if number == 1 { u16::MAX } else { number.wrapping_sub(1) };
        let is_next = match flow.is_partial {
            true => before(number) & 0xff == flow.number & 0xff,
            false => number == next_number(flow.number),
        };
        match (is_next, flow.is_partial) {
            (true, _) => Order::Next,
            (false, false) if flow.number.wrapping_sub(number) < 1 << 15 => Order::Behind,
            (false, _) => Order::Ahead,
        }
    }
}

fn take_over(flow: &mut Flow, chain: &Chain, rebuilt: &Rebuilt, payload: &[u8]) {
    flow.set_headers(chain, rebuilt.headers());
    (flow.data, flow.repair) = (payload.len() as u16, Repair::None);
}
