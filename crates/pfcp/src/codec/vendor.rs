//! Elements of our own, between a node and the [proxy](crate::proxy) in front of it.
//!
//! Types from 32768 on are a vendor's, and begin with an Enterprise ID (§8.1.1). Ours is 0, which
//! is no vendor's: these elements leave no site, and others pass them over (§7.6.7).

use std::net::{IpAddr, SocketAddr};

use super::cursor::Cursor;
use super::{Elements, Error, Frame};

/// For whom a message is, or from whom: the first element of a message.
const FORWARDED: u16 = 0x8001;
/// How full a node is, and what is its own.
const NODE_STATE: u16 = 0x8002;
/// Enterprise ID of both.
const ENTERPRISE: u16 = 0;
/// Bits of a SEID behind the number of the node, where a proxy is in front of it.
pub const BEHIND_NUMBER: u32 = 48;
/// Networks that a node tells of, at most.
pub const MOST_NETWORKS: usize = 64;

/// A message goes through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The control plane that the message is from, or for.
    pub peer: SocketAddr,
    /// The number of the node at the proxy: the first 16 bits of SEIDs that the node gives.
    pub node: u16,
}

impl Forwarded {
    fn element(self) -> Vec<u8> {
        let mut value = ENTERPRISE.to_be_bytes().to_vec();
        value.extend_from_slice(&self.node.to_be_bytes());
        value.extend_from_slice(&self.peer.port().to_be_bytes());
        put_address(self.peer.ip(), &mut value);
        element(FORWARDED, &value)
    }

    /// A message with this in front of its elements. It is none where the octets are no message.
    #[must_use]
    pub fn wrap(self, message: &[u8]) -> Option<Vec<u8>> {
        let (frame, _) = Frame::parse(message).ok()?;
        let head = message.len() - frame.body.len();
        with_elements(message, head, &self.element())
    }

    /// The message without it, and what it says; none for messages that do not begin with it, or
    /// that are not alone in their datagram.
    #[must_use]
    pub fn unwrap(datagram: &[u8]) -> Option<(Forwarded, Vec<u8>)> {
        let (frame, None) = Frame::parse(datagram).ok()? else { return None };
        let (FORWARDED, octets) = Elements::new(frame.body).next()?.ok()? else { return None };
        let forwarded = Forwarded::read(octets).ok()?;
        let skipped = 4 + octets.len();
        let head = datagram.len() - frame.body.len();
        let mut plain = datagram[..head].to_vec();
        plain.extend_from_slice(&frame.body[skipped..]);
        set_length(&mut plain)?;
        Some((forwarded, plain))
    }

    fn read(octets: &[u8]) -> Result<Forwarded, Error> {
        let mut cursor = Cursor::new(FORWARDED, octets);
        if cursor.u16()? != ENTERPRISE {
            return Err(cursor.wrong());
        }
        let (node, port) = (cursor.u16()?, cursor.u16()?);
        let address = address(&mut cursor)?;
        Ok(Forwarded { peer: SocketAddr::new(address, port), node })
    }
}

/// What a node tells a proxy of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Sessions that it has.
    pub sessions: u32,
    /// Sessions that it has room for.
    pub most: u32,
    /// Networks of its users' addresses.
    pub pools: Vec<(IpAddr, u8)>,
    /// Addresses of its tunnels.
    pub tunnels: Vec<IpAddr>,
}

impl NodeState {
    /// Appends it to a message; false where the octets are no message.
    pub fn append(&self, message: &mut Vec<u8>) -> bool {
        let mut value = ENTERPRISE.to_be_bytes().to_vec();
        value.extend_from_slice(&self.sessions.to_be_bytes());
        value.extend_from_slice(&self.most.to_be_bytes());
        let pools = self.pools.iter().map(|(address, length)| (*length, *address));
        // A length that no prefix has is that of a tunnel's address.
        let tunnels = self.tunnels.iter().map(|address| (u8::MAX, *address));
        for (length, address) in pools.chain(tunnels).take(MOST_NETWORKS) {
            value.push(length);
            put_address(address, &mut value);
        }
        let appended = with_elements(message, message.len(), &element(NODE_STATE, &value));
        appended.map(|appended| *message = appended).is_some()
    }

    /// The state in the elements of a message.
    #[must_use]
    pub fn find(body: &[u8]) -> Option<NodeState> {
        let found = Elements::new(body).flatten().find(|(number, _)| *number == NODE_STATE);
        NodeState::read(found?.1).ok()
    }

    fn read(octets: &[u8]) -> Result<NodeState, Error> {
        let mut cursor = Cursor::new(NODE_STATE, octets);
        if cursor.u16()? != ENTERPRISE {
            return Err(cursor.wrong());
        }
        let (sessions, most) = (cursor.u32()?, cursor.u32()?);
        let mut state = NodeState { sessions, most, ..NodeState::default() };
        while !cursor.is_empty() {
            let (length, address) = (cursor.u8()?, address(&mut cursor)?);
            match length {
                u8::MAX => state.tunnels.push(address),
                length => state.pools.push((address, length)),
            }
            if state.pools.len() + state.tunnels.len() > MOST_NETWORKS {
                return Err(cursor.wrong());
            }
        }
        Ok(state)
    }
}

/// A message with elements at an octet of it.
pub(crate) fn with_elements(message: &[u8], at: usize, elements: &[u8]) -> Option<Vec<u8>> {
    let (before, behind) = message.split_at_checked(at)?;
    let mut out = Vec::with_capacity(message.len() + elements.len());
    out.extend_from_slice(before);
    out.extend_from_slice(elements);
    out.extend_from_slice(behind);
    set_length(&mut out)?;
    Some(out)
}

/// Writes the length of a message that is alone; none if it is too long for one.
fn set_length(message: &mut [u8]) -> Option<()> {
    let length = u16::try_from(message.len().checked_sub(4)?).ok()?;
    message.get_mut(2..4)?.copy_from_slice(&length.to_be_bytes());
    Some(())
}

/// An element as octets.
fn element(number: u16, value: &[u8]) -> Vec<u8> {
    let mut out = number.to_be_bytes().to_vec();
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
    out
}

fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

fn address(cursor: &mut Cursor<'_>) -> Result<IpAddr, Error> {
    match cursor.u8()? {
        4 => Ok(cursor.ipv4()?.into()),
        6 => Ok(cursor.ipv6()?.into()),
        _ => Err(cursor.wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::message::{Heartbeat, SessionDeletionRequest};
    use crate::codec::{Header, Message};

    fn message(seid: Option<u64>) -> Vec<u8> {
        let header = Header { seid, sequence: 7, priority: None };
        let mut out = Vec::new();
        match seid {
            Some(_) => Message::SessionDeletionRequest(SessionDeletionRequest { refused: None })
                .emit(&header, &mut out),
            None => Message::HeartbeatRequest(Heartbeat::default()).emit(&header, &mut out),
        }
        out
    }

    proptest! {
        /// Any octets are read or not, and what is not a message is not wrapped.
        #[test]
        fn any_octets_are_borne(octets in proptest::collection::vec(any::<u8>(), 0..96)) {
            let _ = Forwarded::unwrap(&octets);
            let _ = NodeState::find(&octets);
            let _ = Forwarded::read(&octets);
            let _ = NodeState::read(&octets);
            let peer = "[2001:db8::1]:8805".parse().unwrap();
            let wrapped = Forwarded { peer, node: 1 }.wrap(&octets);
            prop_assert_eq!(wrapped.is_some(), Frame::parse(&octets).is_ok());
        }

        #[test]
        fn what_is_wrapped_is_unwrapped(v6: bool, bits: u128, port: u16, node: u16, seid: Option<u64>) {
            let ip: IpAddr = match v6 {
                true => std::net::Ipv6Addr::from_bits(bits).into(),
                false => std::net::Ipv4Addr::from_bits(bits as u32).into(),
            };
            let forwarded = Forwarded { peer: SocketAddr::new(ip, port), node };
            let plain = message(seid);
            let wrapped = forwarded.wrap(&plain).unwrap();
            prop_assert!(Frame::parse(&wrapped).unwrap().0.header == Frame::parse(&plain).unwrap().0.header);
            prop_assert_eq!(Forwarded::unwrap(&wrapped), Some((forwarded, plain.clone())));
            prop_assert_eq!(Forwarded::unwrap(&plain), None);
        }
    }

    #[test]
    fn a_state_is_found_behind_other_elements() {
        let pools = vec![("10.45.0.0".parse().unwrap(), 16), ("2001:db8::".parse().unwrap(), 48)];
        let tunnels = vec!["192.0.2.1".parse().unwrap()];
        let state = NodeState { sessions: 3, most: 9, pools, tunnels };
        let mut octets = message(None);
        assert!(state.append(&mut octets));
        let (frame, rest) = Frame::parse(&octets).unwrap();
        assert_eq!((NodeState::find(frame.body), rest), (Some(state), None));
    }
}
