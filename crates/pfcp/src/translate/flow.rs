//! Flow descriptions: `IPFilterRule` (RFC 6733 §4.3.1) as TS 29.212 §5.4.2 restricts it.

use std::net::IpAddr;

use weft_functions::common::prefix::Prefix;
use weft_functions::session::rules::filter::{End, Flow, PortRange};

/// Most port ranges of one end.
const PORTS: usize = 32;

/// `permit out PROTOCOL from REMOTE [PORTS] to USER [PORTS]`; `permit in` has the ends the
/// other way round. None for anything else: an action other than `permit`, an address that is
/// excluded by `!`, options behind the ends.
pub(crate) fn parse(text: &str) -> Option<Flow> {
    let mut words = text.split_ascii_whitespace().peekable();
    let next_is = |word: &str, words: &mut std::iter::Peekable<_>| {
        let next: Option<&str> = words.next();
        next.is_some_and(|next| next.eq_ignore_ascii_case(word)).then_some(())
    };
    next_is("permit", &mut words)?;
    let direction = words.next()?;
    let is_out = direction.eq_ignore_ascii_case("out");
    if !is_out && !direction.eq_ignore_ascii_case("in") {
        return None;
    }
    let protocol = match words.next()? {
        word if word.eq_ignore_ascii_case("ip") || word.eq_ignore_ascii_case("any") => None,
        number => Some(number.parse().ok()?),
    };
    next_is("from", &mut words)?;
    let from = end(&mut words)?;
    next_is("to", &mut words)?;
    let to = end(&mut words)?;
    if words.next().is_some() {
        return None;
    }
    let (remote, user) = if is_out { (from, to) } else { (to, from) };
    Some(Flow { protocol, remote, user })
}

/// An address and the ports behind it.
fn end<'t>(words: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Option<End> {
    let prefix = match words.next()? {
        "any" | "assigned" => None,
        address => Some(prefix(address)?),
    };
    let ports = words.next_if(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let ports = ports.map_or(Some(Vec::new()), |list| {
        let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
        ranges.filter(|ranges| ranges.len() <= PORTS)
    })?;
    Some(End { prefix, ports })
}

fn range(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(PortRange { first, last })
}

/// `ADDRESS` or `ADDRESS/LENGTH`, where bits behind the length count for nothing.
fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    prefix_of(address.parse().ok()?, length)
}

/// The prefix of an address; all its bits where no length is given.
pub(crate) fn prefix_of(address: IpAddr, length: Option<u8>) -> Option<Prefix> {
    let whole: Prefix = address.to_string().parse().ok()?;
    match length {
        None => Some(whole),
        Some(length) if length <= whole.length() => Some(whole.shortened(length)),
        Some(_) => None,
    }
}

/// The network of a framed route (RFC 2865 §5.22, RFC 3162 §2.5): `ADDRESS/LENGTH`, perhaps with a
/// gateway and metrics behind, which say nothing to a node whose way to the user is the session.
/// Without a length it is the one of the address's class.
pub(crate) fn route(text: &str) -> Option<Prefix> {
    let network = text.split_ascii_whitespace().next()?;
    let class = match network.parse() {
        Ok(IpAddr::V4(address)) => Some(match address.octets()[0] {
            0..128 => 8,
            128..192 => 16,
            _ => 24,
        }),
        _ => None,
    };
    match class {
        Some(length) => prefix_of(network.parse().ok()?, Some(length)),
        None => prefix(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framed_routes_are_networks() {
        for (text, network) in [
            ("192.168.1.0/24 192.168.1.1 1 2 -1", "192.168.1.0/24"),
            ("192.168.1.9", "192.168.1.0/24"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("172.16.9.9", "172.16.0.0/16"),
            ("2001:db8:7::/48 2001:db8::1 1", "2001:db8:7::/48"),
        ] {
            assert_eq!(route(text), Some(network.parse().unwrap()), "{text}");
        }
        for text in ["", " ", "10.0.0.0/33", "net", "10.0.0/8", "10.0.0.0/", "::/129"] {
            assert_eq!(route(text), None, "{text}");
        }
    }

    #[test]
    fn flows_are_read() {
        let flow = parse("permit out 17 from 10.0.0.9/24 53,1000-2000 to assigned 4000").unwrap();
        assert_eq!(flow.protocol, Some(17));
        assert_eq!(flow.remote.prefix, Some("10.0.0.0/24".parse().unwrap()));
        assert_eq!(flow.remote.ports.len(), 2);
        assert_eq!(flow.remote.ports[1], PortRange { first: 1000, last: 2000 });
        assert_eq!(flow.user.prefix, None);
        assert_eq!(flow.user.ports, [PortRange { first: 4000, last: 4000 }]);
        let flow = parse("permit out ip from any to 2001:db8::1").unwrap();
        assert_eq!(flow.protocol, None);
        assert_eq!(flow.user.prefix, Some("2001:db8::1".parse().unwrap()));
        let inward = parse("permit in 6 from assigned to 198.51.100.1 80").unwrap();
        assert_eq!(inward.remote.ports, [PortRange { first: 80, last: 80 }]);
    }

    #[test]
    fn fault_32_bad_flow_descriptions() {
        for text in [
            "",
            "permit",
            "permit out",
            "deny out ip from any to assigned",
            "permit out ip from any",
            "permit out ip from any to",
            "permit out ip from any to assigned frag",
            "permit out ip from !10.0.0.1 to assigned",
            "permit out 256 from any to assigned",
            "permit out -1 from any to assigned",
            "permit out ip from 10.0.0.0/33 to assigned",
            "permit out ip from 10.0.0 to assigned",
            "permit out 6 from any 70000 to assigned",
            "permit out 6 from any 20-10 to assigned",
            "permit out 6 from any 1, to assigned",
            "permit sideways ip from any to assigned",
            "\u{0}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let ports: Vec<_> = (1..=33).map(|port| port.to_string()).collect();
        let text = format!("permit out 6 from any {} to assigned", ports.join(","));
        assert_eq!(parse(&text), None);
    }
}
