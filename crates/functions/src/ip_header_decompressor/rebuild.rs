//! From a compressed header to the headers it stands for (RFC 2507 §10).

use weft_function::Reason;
use weft_wire::iphc::tcp::{Delta, put_reserved, read_nodelta, reserved};
use weft_wire::iphc::{Chain, MAX_HEADER, full, non_tcp};

use super::{DAMAGED, IpHeaderDecompressor, MALFORMED, STALE_GENERATION, UNKNOWN_CONTEXT};
use crate::iphc::flows::{Flow, Holding, Repair, Space};

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
        let chain = Chain::walk(bytes).ok_or(MALFORMED)?;
        let full = full::read(&chain, bytes)?;
        let (headers, payload) = bytes.split_at_checked(chain.length()).ok_or(MALFORMED)?;
        let mut rebuilt = Rebuilt::of(headers);
        rebuilt.consumed = headers.len();
        chain.infer(rebuilt.headers_mut(), bytes.len())?;
        if !chain.same_checksums(headers, rebuilt.headers()) {
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
        let chain = *flow.chain();
        let mut rebuilt = Rebuilt::of(flow.headers());
        let payload = non_tcp::read_random(&chain, rebuilt.headers_mut(), rest)?;
        rebuilt.consumed = bytes.len() - payload.len();
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
        let chain = *flow.chain();
        if flow.repair != Repair::None {
            return Err(lost(DAMAGED));
        }
        let mut rebuilt = Rebuilt::of(flow.headers());
        let (delta, payload) = Delta::read(&chain, rebuilt.headers_mut(), flow.data, rest)?;
        rebuilt.consumed = bytes.len() - payload.len();
        for _ in 0..=u8::from(self.twice) {
            delta.apply(&chain, rebuilt.headers_mut());
            chain.infer(rebuilt.headers_mut(), chain.length() + payload.len())?;
            if chain.tcp_checksum_is_right(rebuilt.headers(), payload) {
                let reserved = reserved(&chain, flow.headers());
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
        let chain = *flow.chain();
        let mut rebuilt = Rebuilt::of(flow.headers());
        let (length, payload) = read_nodelta(&chain, &mut rebuilt.header, rest)?;
        (rebuilt.length, rebuilt.consumed) = (length, bytes.len() - payload.len());
        // The options may be longer or shorter than before.
        let chain = Chain::walk(rebuilt.headers()).ok_or(MALFORMED)?;
        chain.infer(rebuilt.headers_mut(), length + payload.len())?;
        if !chain.tcp_checksum_is_right(rebuilt.headers(), payload) {
            return Err(lost(DAMAGED));
        }
        take_over(flow, &chain, &rebuilt, payload);
        Ok(rebuilt)
    }
}

fn take_over(flow: &mut Flow, chain: &Chain, rebuilt: &Rebuilt, payload: &[u8]) {
    flow.set_headers(chain, rebuilt.headers());
    (flow.data, flow.repair) = (payload.len() as u16, Repair::None);
}
