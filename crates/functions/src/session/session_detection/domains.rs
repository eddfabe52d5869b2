//! Applications that are known by domain names and URLs (PFDs, 3GPP TS 29.244 §8.2.39): which addresses and
//! connections of a session's user a name leads to, as the user's own packets have said.
//!
//! An answer of a name server (UDP port 53) tells the addresses of a name, for as long as it holds. The
//! first segment of a TLS client tells the name of one connection's server, and each request in plain
//! HTTP tells host and path of what follows in its connection. Packets of these kinds are read in
//! sessions that have such filters, and in no others. Who controls a server that the user
//! reaches can say what it likes: names tell applications apart, they do not prove them.

mod dns;
mod http;
mod tls;

use std::collections::HashMap;
use std::net::IpAddr;

use weft_function::{Headers, Packet};
use weft_wire::{Protocol, udp};

use crate::session::check::MOST_DOMAINS;
use crate::session::rules::{Name, SdfFilter, Session};

/// Addresses and connections that one session remembers. The one that ends first makes room.
const MOST: usize = 256;
/// Port of name servers.
const DNS: u16 = 53;
/// An address holds at least and at most so long, as users keep connections beyond what the answer
/// says.
const SHORTEST: u64 = 300 * SECOND;
const LONGEST: u64 = 86_400 * SECOND;
/// A connection is remembered for so long behind its last packet.
const IDLE: u64 = 600 * SECOND;
const SECOND: u64 = 1_000_000_000;

/// A server: its address, and of one connection the two ports, the server's first.
type Server = (IpAddr, Option<(u16, u16)>);

/// What leads to names of a session.
#[derive(Debug, Default)]
pub struct Domains {
    names: Box<[Name]>,
    servers: HashMap<Server, Known>,
}

/// Names that lead to a server, a bit for each, and until when they do.
#[derive(Clone, Copy, Debug)]
struct Known {
    names: u64,
    until: u64,
}

impl Domains {
    /// Those of a session's rules; none if no rule has any. What is known of the same names stays.
    pub fn of(rules: &Session, old: Option<Box<Domains>>) -> Option<Box<Domains>> {
        let names = names(rules);
        if names.is_empty() {
            return None;
        }
        let names = names.into_boxed_slice();
        match old {
            Some(old) if old.names == names => Some(old),
            _ => Some(Box::new(Domains { names, ..Domains::default() })),
        }
    }

    /// The names that lead to the server of a packet. What the packet says of names is learned.
    pub fn look(&mut self, packet: &Packet, now: u64) -> u64 {
        let (Some((from, to)), Some((source, destination))) = (packet.addresses(), packet.ports())
        else {
            return packet
                .addresses()
                .map_or(0, |(from, to)| self.find((from, None), now) | self.find((to, None), now));
        };
        match packet.protocol() {
            Some(Protocol::UDP) if source == DNS => self.hear_answer(packet, now),
            Some(Protocol::TCP) => self.hear_client(packet, (to, destination, source), now),
            _ => {}
        }
        let connection = match packet.protocol() {
            Some(Protocol::TCP) => {
                self.find((to, Some((destination, source))), now)
                    | self.find((from, Some((source, destination))), now)
            }
            _ => 0,
        };
        connection | self.find((from, None), now) | self.find((to, None), now)
    }

    fn find(&mut self, server: Server, now: u64) -> u64 {
        if self.servers.is_empty() {
            return 0;
        }
        let Some(known) = self.servers.get_mut(&server).filter(|known| known.until > now) else {
            return 0;
        };
        if server.1.is_some() {
            known.until = known.until.max(now + IDLE);
        }
        known.names
    }

    /// The names of the session that a host's name is one of.
    fn matching(&self, host: &str) -> u64 {
        self.all(|name| is_within(host, name))
    }

    /// Those for which that is so.
    fn all(&self, is_so: impl Fn(&str) -> bool) -> u64 {
        let bits = self.names.iter().enumerate();
        bits.filter(|(_, name)| is_so(name)).fold(0, |all, (at, _)| all | 1 << at)
    }

    fn learn(&mut self, server: Server, names: u64, until: u64, now: u64) {
        if let Some(known) = self.servers.get_mut(&server) {
            let before = if known.until > now { known.names } else { 0 };
            *known = Known { names: before | names, until: known.until.max(until) };
            return;
        }
        if self.servers.len() >= MOST {
            self.servers.retain(|_, known| known.until > now);
        }
        if self.servers.len() >= MOST
            && let Some(first) = self.servers.iter().min_by_key(|(_, known)| known.until)
        {
            let first = *first.0;
            self.servers.remove(&first);
        }
        self.servers.insert(server, Known { names, until });
    }

    #[cold]
    fn hear_answer(&mut self, packet: &Packet, now: u64) {
        let Some(message) = packet.transport().and_then(|octets| octets.get(udp::HEADER_LENGTH..))
        else {
            return;
        };
        let mut found = Vec::new();
        dns::read(message, |name, address, seconds| {
            let names = self.matching(name);
            if names != 0 {
                let lasts = (u64::from(seconds) * SECOND).clamp(SHORTEST, LONGEST);
                found.push((address, names, now.saturating_add(lasts)));
            }
        });
        for (address, names, until) in found {
            self.learn((address, None), names, until, now);
        }
    }

    fn hear_client(&mut self, packet: &Packet, (to, port, own): (IpAddr, u16, u16), now: u64) {
        let Some(octets) = packet.transport() else { return };
        let header = octets.get(12).map_or(usize::MAX, |octet| usize::from(octet >> 4) * 4);
        let Some(content) = octets.get(header..) else { return };
        let (server, until) = ((to, Some((port, own))), now.saturating_add(IDLE));
        if let Some(name) = tls::server_name(content) {
            let names = self.matching(&name.to_ascii_lowercase());
            if names != 0 {
                self.learn(server, names, until, now);
            }
        } else if let Some((authority, path)) = http::request(content) {
            let names = self.matching(&http::host(authority));
            let names = names | self.all(|url| http::is_of(url, authority, path));
            match self.servers.get_mut(&server) {
                // What the request before it was for is over.
                Some(known) => *known = Known { names, until },
                None if names != 0 => self.learn(server, names, until, now),
                None => {}
            }
        }
    }
}

/// The domains and URLs of a session's filters, each once. There are no more than bits.
pub fn names(rules: &Session) -> Vec<Name> {
    let filters = rules.pdrs.iter().flat_map(|rule| rule.filters.iter());
    let mut names: Vec<Name> = Vec::new();
    for name in filters.filter_map(|filter| filter.domain.as_ref()) {
        if names.len() < MOST_DOMAINS && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The bit of a filter's domain; 0 of a filter without one.
pub fn bit(names: &[Name], filter: &SdfFilter) -> u64 {
    let place = filter.domain.as_ref().and_then(|name| names.iter().position(|one| one == name));
    place.map_or(0, |at| 1 << at)
}

/// Whether a host's name, in small letters, is a domain or lies in it. `*.example.com` leaves out
/// `example.com` itself.
fn is_within(host: &str, domain: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let (below, domain) = match domain.strip_prefix("*.") {
        Some(domain) => (true, domain),
        None => (false, domain),
    };
    match host.strip_suffix(domain) {
        Some("") => !below,
        Some(front) => front.ends_with('.'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_the_names_below_it() {
        for (host, domain, is_in) in [
            ("example.com", "example.com", true),
            ("www.example.com", "example.com", true),
            ("www.example.com.", "example.com", true),
            ("notexample.com", "example.com", false),
            ("example.com.evil.net", "example.com", false),
            ("example.com", "*.example.com", false),
            ("a.b.example.com", "*.example.com", true),
            ("", "example.com", false),
        ] {
            assert_eq!(is_within(host, domain), is_in, "{host} {domain}");
        }
    }

    fn with(names: &[&str]) -> Domains {
        Domains {
            names: names.iter().map(|name| Name::from(*name)).collect(),
            ..Domains::default()
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_ends() {
        let mut domains = with(&["a.example"]);
        let server = |n: u32| (IpAddr::from(n.to_be_bytes()), None);
        for n in 0..1_000 {
            domains.learn(server(n), 1, u64::from(n) + 10, 0);
        }
        assert_eq!(domains.servers.len(), MOST);
        assert_eq!((domains.find(server(0), 0), domains.find(server(999), 0)), (0, 1));
        // Those whose time is over make room first.
        domains.learn(server(5_000), 1, u64::MAX, 2_000);
        assert_eq!(domains.servers.len(), 1);
        assert_eq!(domains.find(server(999), 2_000), 0);
    }
}
