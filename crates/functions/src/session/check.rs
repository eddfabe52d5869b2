//! What rules of a session must be like to be carried out.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use weft_function::ConfigError;

use super::rules::{Far, Forwarding, OuterHeader, Pdr, Session, Urr};

/// Rules of each kind that a session may have.
const MOST_RULES: usize = 256;
/// So few rules of a kind are usual.
const FEW: usize = 8;
/// Filters, and ranges of ports of a filter, that a rule may have.
const MOST_FILTERS: usize = 64;

/// Domains that the filters of a session may name.
pub const MOST_DOMAINS: usize = 64;
/// Characters of a URL that HTTP requests are sent to; a response with it fits into one segment.
const LONGEST_URL: usize = 1024;

/// Checks the rules of a session.
///
/// # Errors
/// [`ConfigError`] with the path of the value that is wrong.
pub fn check(rules: &Session) -> Result<(), ConfigError> {
    let Session { pdrs, fars, qers, urrs, bars, .. } = rules;
    unique("pdrs", pdrs.iter().map(|rule| rule.id))?;
    unique("fars", fars.iter().map(|rule| rule.id))?;
    unique("qers", qers.iter().map(|rule| rule.id))?;
    unique("urrs", urrs.iter().map(|rule| rule.id))?;
    unique("bars", bars.iter().map(|rule| rule.id))?;
    pdrs.iter().enumerate().try_for_each(|(at, rule)| pdr(rules, at, rule))?;
    if domains(rules) > MOST_DOMAINS {
        return wrong("pdrs".to_owned(), format!("a session has at most {MOST_DOMAINS} domains"));
    }
    fars.iter().enumerate().try_for_each(|(at, rule)| far(rules, at, rule))?;
    for (at, rule) in qers.iter().enumerate() {
        if rule.marking.is_some_and(|dscp| dscp > 63) {
            return wrong(format!("qers.{at}.marking"), "a DSCP is within 0..63");
        }
        if rule.qfi.is_some_and(|qfi| qfi > 63) {
            return wrong(format!("qers.{at}.qfi"), "a QFI is within 0..63");
        }
        if rule.paging_policy.is_some_and(|policy| policy > 7) {
            return wrong(format!("qers.{at}.pagingPolicy"), "it is within 0..7");
        }
    }
    urrs.iter().enumerate().try_for_each(|(at, rule)| urr(rules, at, rule))
}

fn wrong<T>(path: String, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::at(path, message))
}

fn unique<I: Copy + Eq + Hash>(
    path: &str,
    ids: impl ExactSizeIterator<Item = I> + Clone,
) -> Result<(), ConfigError> {
    if ids.len() > MOST_RULES {
        return wrong(
            path.to_owned(),
            format!("a session has at most {MOST_RULES} rules of a kind"),
        );
    }
    // Few are compared sooner than they are hashed.
    let second = if ids.len() <= FEW {
        ids.clone().enumerate().find(|(at, id)| ids.clone().take(*at).any(|one| one == *id))
    } else {
        let mut known = HashSet::new();
        ids.enumerate().find(|(_, id)| !known.insert(*id))
    };
    match second {
        Some((at, _)) => wrong(format!("{path}.{at}.id"), "another rule has this number"),
        None => Ok(()),
    }
}

fn pdr(rules: &Session, at: usize, rule: &Pdr) -> Result<(), ConfigError> {
    let path = |key: &str| format!("pdrs.{at}.{key}");
    if rule.local.is_some_and(|local| local.teid == 0) {
        return wrong(path("local.teid"), "0 is not the TEID of a tunnel");
    }
    if rule.removal.is_some() && rule.local.is_none() {
        return wrong(path("removal"), "packets of a rule without a local tunnel are in none");
    }
    if rule.ue.is_some_and(|ue| ue.ipv6.is_some_and(|prefix| prefix.is_ipv4())) {
        return wrong(path("ue.ipv6"), "write an IPv6 prefix such as 2001:db8::/64");
    }
    if rule.routes.len() > MOST_FILTERS {
        return wrong(path("routes"), format!("a rule has at most {MOST_FILTERS} routes"));
    }
    if rule.qfis.iter().any(|qfi| *qfi > 63) {
        return wrong(path("qfis"), "a QFI is within 0..63");
    }
    if rule.filters.len() > MOST_FILTERS {
        return wrong(path("filters"), format!("a rule has at most {MOST_FILTERS} filters"));
    }
    let ports = |filter: &super::rules::SdfFilter| {
        let flow = filter.flow.as_ref();
        flow.map_or(0, |flow| flow.user.ports.len().max(flow.remote.ports.len()))
    };
    let mut domains = rule.filters.iter().filter_map(|filter| filter.domain.as_deref());
    if let Some(domain) = domains.find(|domain| !is_domain(domain) && !is_http_url(domain)) {
        let message = format!(
            "`{domain}` is neither a domain such as example.com or *.example.com nor a URL such as \
             http://example.com/path"
        );
        return wrong(path("filters"), message);
    }
    if rule.filters.iter().any(|filter| ports(filter) > MOST_FILTERS) {
        return wrong(path("filters"), format!("a filter has at most {MOST_FILTERS} port ranges"));
    }
    if rule.far.is_some_and(|id| rules.fars.iter().all(|far| far.id != id)) {
        return wrong(path("far"), "there is no such forwarding action rule");
    }
    let is_known = |id: &_| rules.urrs.iter().any(|urr| urr.id == *id);
    if rule.urrs.len() > MOST_RULES || !rule.urrs.iter().all(is_known) {
        return wrong(path("urrs"), "there is no such usage reporting rule");
    }
    let is_known = |id: &_| rules.qers.iter().any(|qer| qer.id == *id);
    if rule.qers.len() > MOST_RULES || !rule.qers.iter().all(is_known) {
        return wrong(path("qers"), "there is no such QoS enforcement rule");
    }
    Ok(())
}

fn far(rules: &Session, at: usize, rule: &Far) -> Result<(), ConfigError> {
    if rule.bar.is_some_and(|id| rules.bars.iter().all(|bar| bar.id != id)) {
        return wrong(format!("fars.{at}.bar"), "there is no such buffering action rule");
    }
    if let Some(to) = &rule.forward {
        forwarding(&|| format!("fars.{at}.forward"), to)?;
    }
    if rule.duplicate.len() > MOST_FILTERS {
        return wrong(format!("fars.{at}.duplicate"), "so many copies are too many");
    }
    for (nth, to) in rule.duplicate.iter().enumerate() {
        forwarding(&|| format!("fars.{at}.duplicate.{nth}"), to)?;
    }
    Ok(())
}

fn forwarding(path: &dyn Fn() -> String, to: &Forwarding) -> Result<(), ConfigError> {
    if to.dscp.is_some_and(|dscp| dscp > 63) {
        return wrong(format!("{}.dscp", path()), "a DSCP is within 0..63");
    }
    if to.redirect.as_deref().is_some_and(|url| !is_url(url)) {
        let message =
            format!("a URL has 1 to {LONGEST_URL} characters of ASCII, none of them a space");
        return wrong(format!("{}.redirect", path()), message);
    }
    let (peer, local, kind) = match to.outer {
        Some(OuterHeader::Gtpu { teid, peer, local }) => {
            if teid == 0 {
                return wrong(
                    format!("{}.outer.gtpu.teid", path()),
                    "0 is not the TEID of a tunnel",
                );
            }
            (peer, local, "gtpu")
        }
        Some(OuterHeader::Udp { peer, local, .. }) => (peer, local, "udp"),
        None => return Ok(()),
    };
    let is_host = |address: IpAddr| !address.is_unspecified() && !address.is_multicast();
    for (key, address) in [("peer", peer), ("local", local)] {
        if !is_host(address) {
            let message = format!("{address} is not the address of one host");
            return wrong(format!("{}.outer.{kind}.{key}", path()), message);
        }
    }
    if peer.is_ipv4() != local.is_ipv4() {
        return wrong(format!("{}.outer.{kind}.local", path()), "peer and local are of one family");
    }
    Ok(())
}

/// Whether a text is a domain as filters have it: labels of small letters, digits, `-` and `_`, with
/// points between them, perhaps behind `*.`.
pub fn is_domain(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let in_label = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    name.len() <= 253
        && name
            .split('.')
            .all(|label| (1..=63).contains(&label.len()) && label.bytes().all(in_label))
}

/// Whether a text is a URL of plain HTTP as filters have it: `http://`, a host in small letters or an
/// address, perhaps a port, and a path. Of another scheme nothing but the host is seen in packets.
pub fn is_http_url(text: &str) -> bool {
    let Some((authority, path)) =
        text.strip_prefix("http://").and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    let bracket = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (is_host, port) = match bracket {
        Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port.strip_prefix(':')),
        None => match authority.split_once(':') {
            Some((host, port)) => (is_domain(host), Some(port)),
            None => (is_domain(authority), None),
        },
    };
    let is_whole = bracket.is_none_or(|(_, port)| port.is_empty() || port.starts_with(':'));
    let is_port = port.is_none_or(|port| port.parse().is_ok_and(|port: u16| port > 0));
    let has_case = authority.bytes().any(|octet| octet.is_ascii_uppercase());
    is_host
        && is_whole
        && is_port
        && !has_case
        && !authority.starts_with('*')
        && !path.contains('#')
        && is_url(text)
}

/// How many domains the rules of a session name.
fn domains(rules: &Session) -> usize {
    let filters = rules.pdrs.iter().flat_map(|rule| rule.filters.iter());
    let mut names = filters.filter_map(|filter| filter.domain.as_deref()).peekable();
    match names.peek() {
        Some(_) => names.collect::<HashSet<_>>().len(),
        None => 0,
    }
}

/// Whether a text may stand in the header of an HTTP response.
pub fn is_url(text: &str) -> bool {
    (1..=LONGEST_URL).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_graphic())
}

fn urr(rules: &Session, at: usize, rule: &Urr) -> Result<(), ConfigError> {
    if rule.quota_action.is_some_and(|id| rules.fars.iter().all(|far| far.id != id)) {
        return wrong(format!("urrs.{at}.quotaAction"), "there is no such forwarding action rule");
    }
    if rule.period == Some(0) {
        return wrong(format!("urrs.{at}.period"), "a period is longer than 0 s");
    }
    if rule.linked.len() > MOST_RULES {
        return wrong(format!("urrs.{at}.linked"), "so many rules are too many");
    }
    Ok(())
}
