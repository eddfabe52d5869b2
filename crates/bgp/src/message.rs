//! Messages as octets (RFC 4271 section 4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Octets of a header: the marker, the length and the type.
pub const HEADER: usize = 19;
/// Longest message (RFC 4271 section 4.1).
pub const LONGEST: usize = 4096;
/// AS number that stands for one of four octets (RFC 6793).
pub const AS_TRANS: u16 = 23_456;

const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
const ROUTE_REFRESH: u8 = 5;

const MULTIPROTOCOL: u8 = 1;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTETS: u8 = 65;
const UNICAST: u8 = 1;
/// Forwarding state was preserved (RFC 4724 section 3).
const PRESERVED: u8 = 0x80;
/// The speaker has restarted (RFC 4724 section 3).
const RESTARTED: u16 = 0x8000;
/// Longest restart time, in seconds.
pub const LONGEST_RESTART: u16 = 0x0fff;

/// Networks that one message announces: far fewer octets than [`LONGEST`].
pub const TOGETHER: usize = 128;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
}

impl Family {
    /// All there are.
    pub const ALL: [Family; 2] = [Family::Ip4, Family::Ip6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::Ip4 } else { Family::Ip6 }
    }

    fn number(self) -> u16 {
        match self {
            Family::Ip4 => 1,
            Family::Ip6 => 2,
        }
    }
}

/// What is wrong with a message: error code and subcode (RFC 4271 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong(pub u8, pub u8);

impl Wrong {
    /// Connection not synchronized.
    pub const MARKER: Wrong = Wrong(1, 1);
    /// Bad message length.
    pub const LENGTH: Wrong = Wrong(1, 2);
    /// Bad message type.
    pub const TYPE: Wrong = Wrong(1, 3);
    /// OPEN message error, unspecific.
    pub const OPEN: Wrong = Wrong(2, 0);
    /// Unsupported version number.
    pub const VERSION: Wrong = Wrong(2, 1);
    /// Bad peer AS.
    pub const PEER_AS: Wrong = Wrong(2, 2);
    /// Bad BGP identifier.
    pub const IDENTIFIER: Wrong = Wrong(2, 3);
    /// Unsupported optional parameter.
    pub const PARAMETER: Wrong = Wrong(2, 4);
    /// Unacceptable hold time.
    pub const HOLD_TIME: Wrong = Wrong(2, 6);
    /// Unsupported capability (RFC 5492).
    pub const CAPABILITY: Wrong = Wrong(2, 7);
    /// Hold timer expired.
    pub const HOLD_TIMER: Wrong = Wrong(4, 0);
    /// Finite state machine error.
    pub const STATE: Wrong = Wrong(5, 0);
    /// Cease: administrative shutdown (RFC 4486).
    pub const SHUTDOWN: Wrong = Wrong(6, 2);

    /// In words.
    pub fn said(self) -> &'static str {
        match self {
            Wrong(1, _) => "message header error",
            Wrong(2, 2) => "bad peer AS",
            Wrong(2, 3) => "bad BGP identifier",
            Wrong(2, 6) => "unacceptable hold time",
            Wrong(2, 7) => "unsupported capability",
            Wrong(2, _) => "OPEN message error",
            Wrong(3, _) => "UPDATE message error",
            Wrong(4, _) => "hold timer expired",
            Wrong(5, _) => "finite state machine error",
            Wrong(6, 2) => "cease: administrative shutdown",
            Wrong(6, 3) => "cease: peer de-configured",
            Wrong(6, 4) => "cease: administrative reset",
            Wrong(6, 5) => "cease: connection rejected",
            Wrong(6, 7) => "cease: connection collision resolution",
            Wrong(6, _) => "cease",
            _ => "an unknown error",
        }
    }
}

/// What an OPEN says (RFC 4271 section 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// AS number, of four octets if the sender knows these.
    pub autonomous_system: u32,
    /// Seconds of silence after which the sender ends the session; 0 for ever.
    pub hold_time: u16,
    /// BGP identifier.
    pub identifier: Ipv4Addr,
    /// Families that the sender speaks; without this capability IPv4 alone.
    pub families: Vec<Family>,
    /// Whether AS numbers have four octets in what follows.
    pub has_four_octets: bool,
    /// For how long routes stay when the connection of the sender is lost (RFC 4724); none if it
    /// does not know that.
    pub restart_time: Option<Duration>,
}

/// A message that was received, as far as it is of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// OPEN.
    Open(Open),
    /// UPDATE, or ROUTE-REFRESH: not read.
    Other,
    /// NOTIFICATION.
    Notification(Wrong),
    /// KEEPALIVE.
    Keepalive,
}

/// Takes the message that octets begin with, and says how long it is; `None` if it is not whole.
///
/// # Errors
/// What is wrong with it.
pub fn parse(octets: &[u8]) -> Result<Option<(Message, usize)>, Wrong> {
    let marked = octets.iter().take(16).all(|octet| *octet == 0xff);
    if !marked {
        return Err(Wrong::MARKER);
    }
    let Some(header) = octets.first_chunk::<HEADER>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    if !(HEADER..=LONGEST).contains(&length) {
        return Err(Wrong::LENGTH);
    }
    let Some(body) = octets.get(HEADER..length) else { return Ok(None) };
    let message = match header[18] {
        OPEN => Message::Open(parse_open(body)?),
        UPDATE if body.len() >= 4 => Message::Other,
        ROUTE_REFRESH => Message::Other,
        NOTIFICATION if body.len() >= 2 => Message::Notification(Wrong(body[0], body[1])),
        KEEPALIVE if body.is_empty() => Message::Keepalive,
        UPDATE | NOTIFICATION | KEEPALIVE => return Err(Wrong::LENGTH),
        _ => return Err(Wrong::TYPE),
    };
    Ok(Some((message, length)))
}

fn parse_open(body: &[u8]) -> Result<Open, Wrong> {
    let fixed = body.first_chunk::<10>().ok_or(Wrong::LENGTH)?;
    if fixed[0] != 4 {
        return Err(Wrong::VERSION);
    }
    let identifier = Ipv4Addr::new(fixed[5], fixed[6], fixed[7], fixed[8]);
    let mut open = Open {
        autonomous_system: u16::from_be_bytes([fixed[1], fixed[2]]).into(),
        hold_time: u16::from_be_bytes([fixed[3], fixed[4]]),
        identifier,
        families: Vec::new(),
        has_four_octets: false,
        restart_time: None,
    };
    if matches!(open.hold_time, 1 | 2) {
        return Err(Wrong::HOLD_TIME);
    }
    if identifier.is_unspecified() {
        return Err(Wrong::IDENTIFIER);
    }
    // Lengths of two octets follow where the first type is 255 (RFC 9072).
    let (mut rest, is_long) = match body.get(9..13) {
        Some([255, 255, high, low]) => {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            (exactly(&body[13..], length)?, true)
        }
        _ => (exactly(&body[10..], fixed[9].into())?, false),
    };
    let mut has_families = false;
    while let Some((kind, after)) = rest.split_first() {
        let (value, after) = value(after, is_long).ok_or(Wrong::OPEN)?;
        if *kind != 2 {
            return Err(Wrong::PARAMETER);
        }
        has_families |= take_capabilities(value, &mut open)?;
        rest = after;
    }
    if !has_families {
        open.families.push(Family::Ip4);
    }
    Ok(open)
}

fn exactly(octets: &[u8], length: usize) -> Result<&[u8], Wrong> {
    Some(octets).filter(|octets| octets.len() == length).ok_or(Wrong::OPEN)
}

/// The value behind its length, and what follows.
fn value(octets: &[u8], is_long: bool) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match is_long {
        true => {
            let (length, rest) = octets.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        false => {
            let (length, rest) = octets.split_first()?;
            (usize::from(*length), rest)
        }
    };
    rest.split_at_checked(length)
}

/// Notes capabilities (RFC 5492); whether families are among them. Unknown ones mean nothing.
fn take_capabilities(mut octets: &[u8], open: &mut Open) -> Result<bool, Wrong> {
    let mut has_families = false;
    while let Some((code, after)) = octets.split_first() {
        let (value, after) = value(after, false).ok_or(Wrong::OPEN)?;
        match (*code, value) {
            (MULTIPROTOCOL, [high, low, _, kind]) => {
                has_families = true;
                let number = u16::from_be_bytes([*high, *low]);
                let known = Family::ALL.into_iter().find(|family| family.number() == number);
                let known = known.filter(|family| !open.families.contains(family));
                open.families.extend(known.filter(|_| *kind == UNICAST));
            }
            (FOUR_OCTETS, [a, b, c, d]) => {
                open.autonomous_system = u32::from_be_bytes([*a, *b, *c, *d]);
                open.has_four_octets = true;
            }
            (GRACEFUL_RESTART, [high, low, ..]) => {
                let seconds = u16::from_be_bytes([*high, *low]) & LONGEST_RESTART;
                open.restart_time = Some(Duration::from_secs(seconds.into()));
            }
            (MULTIPROTOCOL | FOUR_OCTETS, _) => return Err(Wrong::OPEN),
            _ => {}
        }
        octets = after;
    }
    Ok(has_families)
}

/// A message with this body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xff; 16];
    // Bodies are far below the longest message: see TOGETHER.
    out.extend(((HEADER + body.len()) as u16).to_be_bytes());
    out.push(kind);
    out.extend(body);
    out
}

/// OPEN. A node keeps what it forwards by when its connections are lost, and says so with a
/// restart time; `has_restarted` says that this process has not spoken before.
pub fn open(open: &Open, has_restarted: bool) -> Vec<u8> {
    let mut capabilities = Vec::new();
    for family in &open.families {
        let [high, low] = family.number().to_be_bytes();
        capabilities.extend([MULTIPROTOCOL, 4, high, low, 0, UNICAST]);
    }
    capabilities.extend([FOUR_OCTETS, 4]);
    capabilities.extend(open.autonomous_system.to_be_bytes());
    if let Some(time) = open.restart_time {
        let seconds = u16::try_from(time.as_secs()).unwrap_or(u16::MAX).min(LONGEST_RESTART);
        let flags = if has_restarted { RESTARTED } else { 0 };
        capabilities.extend([GRACEFUL_RESTART, 2 + 4 * open.families.len() as u8]);
        capabilities.extend((flags | seconds).to_be_bytes());
        for family in &open.families {
            let [high, low] = family.number().to_be_bytes();
            capabilities.extend([high, low, UNICAST, PRESERVED]);
        }
    }
    let short = u16::try_from(open.autonomous_system).unwrap_or(AS_TRANS);
    let mut body = vec![4];
    body.extend(short.to_be_bytes());
    body.extend(open.hold_time.to_be_bytes());
    body.extend(open.identifier.octets());
    body.extend([2 + capabilities.len() as u8, 2, capabilities.len() as u8]);
    body.extend(capabilities);
    message(OPEN, &body)
}

/// KEEPALIVE.
pub fn keepalive() -> Vec<u8> {
    message(KEEPALIVE, &[])
}

/// NOTIFICATION.
pub fn notification(wrong: Wrong) -> Vec<u8> {
    message(NOTIFICATION, &[wrong.0, wrong.1])
}

/// How networks are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The AS number that stands alone in the AS_PATH; none within one AS.
    pub through: Option<u32>,
    /// Whether AS numbers have four octets.
    pub has_four_octets: bool,
    /// Where packets are to be sent.
    pub next_hop: IpAddr,
}

/// UPDATE that announces networks of the next hop's family, at most [`TOGETHER`] of them.
pub fn announce(path: &Path, networks: &[(IpAddr, u8)]) -> Vec<u8> {
    // ORIGIN is IGP.
    let mut attributes = vec![0x40, 1, 1, 0];
    match (path.through, path.has_four_octets) {
        (None, _) => attributes.extend([0x40, 2, 0]),
        (Some(through), true) => {
            attributes.extend([0x40, 2, 6, 2, 1]);
            attributes.extend(through.to_be_bytes());
        }
        (Some(through), false) => {
            attributes.extend([0x40, 2, 4, 2, 1]);
            attributes.extend(u16::try_from(through).unwrap_or(AS_TRANS).to_be_bytes());
        }
    }
    if let IpAddr::V4(next_hop) = path.next_hop {
        attributes.extend([0x40, 3, 4]);
        attributes.extend(next_hop.octets());
    }
    if path.through.is_none() {
        // LOCAL_PREF, within one AS.
        attributes.extend([0x40, 5, 4, 0, 0, 0, 100]);
    }
    let reachable: Vec<u8> = networks.iter().flat_map(prefix).collect();
    let behind = match path.next_hop {
        IpAddr::V4(_) => reachable,
        IpAddr::V6(next_hop) => {
            attributes.extend(multiprotocol(14, &reach(next_hop, &reachable)));
            Vec::new()
        }
    };
    update(&attributes, &behind)
}

/// UPDATE that says that all networks of a family have been announced (RFC 4724 section 2).
pub fn end_of_announcements(family: Family) -> Vec<u8> {
    match family {
        Family::Ip4 => update(&[], &[]),
        Family::Ip6 => update(&multiprotocol(15, &[0, 2, UNICAST]), &[]),
    }
}

fn update(attributes: &[u8], reachable: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend(reachable);
    message(UPDATE, &body)
}

/// MP_REACH_NLRI (RFC 4760 section 3), without its header.
fn reach(next_hop: Ipv6Addr, reachable: &[u8]) -> Vec<u8> {
    let mut value = vec![0, 2, UNICAST, 16];
    value.extend(next_hop.octets());
    value.push(0);
    value.extend(reachable);
    value
}

/// An optional attribute of two octets of length.
fn multiprotocol(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut attribute = vec![0x90, kind];
    attribute.extend((value.len() as u16).to_be_bytes());
    attribute.extend(value);
    attribute
}

/// The length of a network in bits, and as many of its octets as that takes.
fn prefix((address, bits): &(IpAddr, u8)) -> Vec<u8> {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut out = vec![*bits];
    out.extend(octets.iter().take(usize::from(*bits).div_ceil(8)));
    out
}

#[cfg(test)]
mod tests;
