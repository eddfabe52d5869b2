//! Routes as `ip route` (iproute2) prints them.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::common::prefix::Prefix;

/// A next hop as a line names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named<'a> {
    /// Address of the gateway.
    pub via: Option<IpAddr>,
    /// Name of the device.
    pub device: Option<&'a str>,
}

/// What a route says of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Packets end silently.
    Blackhole,
    /// Packets end, and their senders are told that the host is unreachable.
    Unreachable,
    /// Packets end, and their senders are told that this is not allowed.
    Prohibit,
    /// As if there were no route.
    Throw,
    /// Next hops by number, each with its weight.
    Hops(Vec<(u16, u16)>),
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// Words of a route that are followed by a value of no meaning here.
const WITH_VALUE: &[&str] = &[
    "advmss",
    "congctl",
    "cwnd",
    "error",
    "expires",
    "features",
    "hoplimit",
    "initcwnd",
    "initrwnd",
    "mtu",
    "nhid",
    "preference",
    "proto",
    "protocol",
    "quickack",
    "realm",
    "realms",
    "reordering",
    "rto_min",
    "rtt",
    "rttvar",
    "scope",
    "src",
    "ssthresh",
    "window",
];
/// Words of a route that say nothing here.
const ALONE: &[&str] = &[
    "cache",
    "linkdown",
    "lock",
    "notify",
    "offload",
    "onlink",
    "pervasive",
    "rt_offload",
    "rt_offload_failed",
    "rt_trap",
    "trap",
    "\\",
];
/// Kinds of routes that stand in the kernel's table `local`: what is for the
/// machine itself is not routed.
const LOCAL: &[&str] = &["anycast", "broadcast", "local", "multicast"];

/// Routes by prefix: with several for one, those of the lowest metric.
pub type Routes = HashMap<Prefix, RouteKind>;

struct Entry {
    metric: u32,
    target: RouteKind,
}

/// A route that is being read.
struct Open<'a> {
    line: usize,
    prefix: Option<Prefix>,
    target: RouteKind,
    metric: u32,
    single: Option<Named<'a>>,
    /// Not of the main table, or for the machine itself.
    elsewhere: bool,
}

/// Words of a line, with the column of each.
struct Words<'a> {
    line: usize,
    rest: std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>,
    column: usize,
}

impl<'a> Words<'a> {
    fn of(line: usize, text: &'a str) -> Words<'a> {
        let text = text.split('#').next().unwrap_or_default();
        let start = text.as_ptr() as usize;
        let place = |word: &'a str| (word.as_ptr() as usize - start, word);
        let words: Vec<_> = text.split_whitespace().map(place).collect();
        let words = words.into_iter().map(|(at, word)| (text[..at].chars().count() + 1, word));
        Words { line, rest: words.collect::<Vec<_>>().into_iter().peekable(), column: 1 }
    }

    fn next(&mut self) -> Option<&'a str> {
        let (column, word) = self.rest.next()?;
        self.column = column;
        Some(word)
    }

    fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().map(|(_, word)| *word)
    }

    /// The word behind `name`.
    fn value(&mut self, name: &str) -> Result<&'a str, Mistake> {
        match self.next() {
            Some(word) => Ok(word),
            None => Err(self.mistake(format!("{name} is followed by a value"))),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, Mistake> {
        let word = self.value(name)?;
        word.parse().map_err(|_| self.mistake(format!("{name} {word}: not a number that it has")))
    }

    fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line, column: self.column, message: message.into() }
    }
}

/// Reads routes, one a line; next hops of several may stand in lines of their own
/// behind it, and `#` begins a comment. `find` says which of the node's next hops is
/// meant.
///
/// # Errors
/// The first [`Mistake`], with its line and column.
pub fn read(text: &str, find: impl Fn(Named<'_>) -> Option<u16>) -> Result<Routes, Mistake> {
    let mut routes = HashMap::<Prefix, Entry>::new();
    let mut open: Option<Open<'_>> = None;
    for (number, line) in text.lines().enumerate() {
        let mut words = Words::of(number + 1, line);
        let Some(word) = words.peek() else { continue };
        if word != "nexthop" {
            open.take().map_or(Ok(()), |open| close(open, &find, &mut routes))?;
            open = Some(begin(&mut words)?);
        }
        match &mut open {
            Some(open) => go_on(open, &mut words, &find)?,
            None => return Err(words.mistake("a next hop stands behind the route that it is of")),
        }
    }
    open.take().map_or(Ok(()), |open| close(open, &find, &mut routes))?;
    Ok(routes.into_iter().map(|(prefix, entry)| (prefix, entry.target)).collect())
}

/// Kind and prefix of a route.
fn begin<'a>(words: &mut Words<'a>) -> Result<Open<'a>, Mistake> {
    let mut open = Open {
        line: words.line,
        prefix: None,
        target: RouteKind::Hops(Vec::new()),
        metric: 0,
        single: None,
        elsewhere: false,
    };
    let mut word = words.next().unwrap_or_default();
    let target = match word {
        "blackhole" => Some(RouteKind::Blackhole),
        "unreachable" => Some(RouteKind::Unreachable),
        "prohibit" => Some(RouteKind::Prohibit),
        "throw" => Some(RouteKind::Throw),
        _ => None,
    };
    open.elsewhere = LOCAL.contains(&word);
    if target.is_some() || open.elsewhere || word == "unicast" {
        word = words.value(word)?;
    }
    open.target = target.unwrap_or(open.target);
    if word != "default" {
        let prefix = word.parse().map_err(|error| words.mistake(format!("{error}")))?;
        open.prefix = Some(prefix);
    }
    Ok(open)
}

/// What follows the prefix, and next hops.
fn go_on<'a>(
    open: &mut Open<'a>,
    words: &mut Words<'a>,
    find: &impl Fn(Named<'_>) -> Option<u16>,
) -> Result<(), Mistake> {
    while let Some(word) = words.next() {
        match word {
            "via" | "dev" => via_or_dev(open.single.get_or_insert_default(), word, words)?,
            "metric" | "priority" => open.metric = words.number(word)?,
            "table" => open.elsewhere |= !["main", "254"].contains(&words.value(word)?),
            // Only routes of IPv6 have a preference (RFC 4191).
            "pref" => {
                words.value(word)?;
                if open.prefix.is_none() {
                    open.prefix = "::/0".parse().ok();
                }
            }
            "tos" | "dsfield" => {
                return Err(words.mistake("routes by type of service are not known here"));
            }
            "nexthop" => next_hop(open, words, find)?,
            "dead" => open.elsewhere = true,
            _ if WITH_VALUE.contains(&word) => {
                if words.value(word)? == "lock" {
                    words.value(word)?;
                }
            }
            _ if ALONE.contains(&word) => {}
            _ => return Err(words.mistake(format!("{word}: not a word of a route"))),
        }
    }
    Ok(())
}

fn via_or_dev<'a>(named: &mut Named<'a>, word: &str, words: &mut Words<'a>) -> Result<(), Mistake> {
    if word == "dev" {
        named.device = Some(words.value(word)?);
        return Ok(());
    }
    let mut address = words.value(word)?;
    if ["inet", "inet6"].contains(&address) {
        address = words.value(word)?;
    }
    let address = address.parse();
    named.via = Some(address.map_err(|_| words.mistake("via is followed by an address"))?);
    Ok(())
}

/// One of several next hops.
fn next_hop<'a>(
    open: &mut Open<'a>,
    words: &mut Words<'a>,
    find: &impl Fn(Named<'_>) -> Option<u16>,
) -> Result<(), Mistake> {
    let (mut named, mut weight, mut dead) = (Named::default(), 1, false);
    let place = words.mistake("");
    while let Some(word) = words.peek().filter(|word| *word != "nexthop") {
        words.next();
        match word {
            "via" | "dev" => via_or_dev(&mut named, word, words)?,
            "weight" => {
                weight = words.number(word)?;
                if !(1..=256).contains(&weight) {
                    return Err(words.mistake("a weight is 1 to 256"));
                }
            }
            "dead" => dead = true,
            "realm" | "realms" => _ = words.value(word)?,
            _ if ALONE.contains(&word) => {}
            _ => return Err(words.mistake(format!("{word}: not a word of a next hop"))),
        }
    }
    if open.elsewhere || dead {
        return Ok(());
    }
    open.prefix = open.prefix.or_else(|| default_of(named.via));
    let hop = find(named).ok_or_else(|| Mistake { message: unknown(named), ..place.clone() })?;
    match &mut open.target {
        RouteKind::Hops(hops) if hops.len() < MAX_PATHS => hops.push((hop, weight)),
        RouteKind::Hops(_) => {
            let message = format!("a route has at most {MAX_PATHS} next hops");
            return Err(Mistake { message, ..place });
        }
        _ => return Err(Mistake { message: "this kind has no next hop".into(), ..place }),
    }
    Ok(())
}

/// Next hops of one route.
pub const MAX_PATHS: usize = 64;

fn default_of(via: Option<IpAddr>) -> Option<Prefix> {
    let all = if via.is_some_and(|via| via.is_ipv6()) { "::/0" } else { "0.0.0.0/0" };
    all.parse().ok()
}

fn unknown(named: Named<'_>) -> String {
    let via = named.via.map(|via| format!(" via {via}")).unwrap_or_default();
    let device = named.device.map(|device| format!(" dev {device}")).unwrap_or_default();
    format!("no next hop of the configuration is{via}{device}")
}

/// A route is read to its end.
fn close(
    open: Open<'_>,
    find: &impl Fn(Named<'_>) -> Option<u16>,
    routes: &mut HashMap<Prefix, Entry>,
) -> Result<(), Mistake> {
    let Open { line, prefix, mut target, metric, single, elsewhere } = open;
    if elsewhere {
        return Ok(());
    }
    let mistake = |message: String| Mistake { line, column: 1, message };
    if let (RouteKind::Hops(hops), Some(named)) = (&mut target, single) {
        hops.push((find(named).ok_or_else(|| mistake(unknown(named)))?, 1));
    }
    let via = single.and_then(|named| named.via);
    let Some(prefix) = prefix.or_else(|| default_of(via)) else { return Ok(()) };
    if target == RouteKind::Hops(Vec::new()) {
        return Err(mistake("a route has a next hop: via ADDRESS, dev NAME, or both".into()));
    }
    let Some(known) = routes.get_mut(&prefix) else {
        routes.insert(prefix, Entry { metric, target });
        return Ok(());
    };
    if metric < known.metric {
        *known = Entry { metric, target };
    } else if metric == known.metric
        && !prefix.is_ipv4()
        && let (RouteKind::Hops(hops), RouteKind::Hops(more)) = (&mut known.target, target)
        && hops.len() + more.len() <= MAX_PATHS
    {
        // The kernel prints equal-cost routes of IPv6 one by one.
        hops.extend(more);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Next hop 1 is at `a`, 2 behind 192.0.2.2, 3 behind fe80::3.
    fn find(named: Named<'_>) -> Option<u16> {
        match (named.device, named.via) {
            (Some("a"), None) => Some(1),
            (_, Some(via)) if via.to_string() == "192.0.2.2" => Some(2),
            (_, Some(via)) if via.to_string() == "fe80::3" => Some(3),
            _ => None,
        }
    }

    fn all(text: &str) -> Vec<(String, RouteKind)> {
        let routes = read(text, find).expect("routes");
        let mut all: Vec<_> = routes.into_iter().map(|(p, t)| (p.to_string(), t)).collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }

    fn hops(hops: &[(u16, u16)]) -> RouteKind {
        RouteKind::Hops(hops.to_vec())
    }

    #[test]
    fn what_the_kernel_prints_is_read() {
        let text = "\
default via 192.0.2.2 dev b proto dhcp src 192.0.2.9 metric 100 \n\
default via fe80::3 dev b proto ra metric 1024 expires 1700sec hoplimit 64 pref medium\n\
10.0.0.0/8 dev a proto kernel scope link src 10.0.0.1 linkdown\n\
10.1.0.0/16 proto static metric 20\n\
\tnexthop via 192.0.2.2 dev b weight 3 \n\
\tnexthop dev a weight 1 linkdown \n\
10.2.0.1 via 192.0.2.2 dev b # a host\n\
blackhole 10.3.0.0/16 \n\
unreachable 2001:db8:1::/48 dev lo metric 1024 error -113 pref medium\n\
prohibit 10.4.0.0/16\nthrow 10.5.0.0/16\n\n\
local 10.0.0.1 dev a table local proto kernel scope host src 10.0.0.1\n\
172.16.0.0/12 dev nowhere table 7\n";
        let expected = [
            ("0.0.0.0/0", hops(&[(2, 1)])),
            ("10.0.0.0/8", hops(&[(1, 1)])),
            ("10.1.0.0/16", hops(&[(2, 3), (1, 1)])),
            ("10.2.0.1/32", hops(&[(2, 1)])),
            ("10.3.0.0/16", RouteKind::Blackhole),
            ("10.4.0.0/16", RouteKind::Prohibit),
            ("10.5.0.0/16", RouteKind::Throw),
            ("2001:db8:1::/48", RouteKind::Unreachable),
            ("::/0", hops(&[(3, 1)])),
        ];
        assert_eq!(all(text), expected.map(|(prefix, target)| (prefix.to_owned(), target)));
    }

    #[test]
    fn one_line_can_hold_all_next_hops() {
        let text =
            "10.1.0.0/16 proto static \\\tnexthop via 192.0.2.2 dev b weight 1 \\\tnexthop dev a";
        assert_eq!(all(text), [("10.1.0.0/16".to_owned(), hops(&[(2, 1), (1, 1)]))]);
    }

    #[test]
    fn the_lowest_metric_counts_and_equal_ones_of_ipv6_share() {
        let text = "10.0.0.0/8 dev a metric 200\n10.0.0.0/8 via 192.0.2.2 metric 100\n\
            10.0.0.0/8 dev a metric 300\n\
            2001:db8::/32 dev a metric 5\n2001:db8::/32 via fe80::3 dev b metric 5\n";
        let expected =
            [("10.0.0.0/8", hops(&[(2, 1)])), ("2001:db8::/32", hops(&[(1, 1), (3, 1)]))];
        assert_eq!(all(text), expected.map(|(prefix, target)| (prefix.to_owned(), target)));
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let cases = [
            ("10.0.0.0/8 dev a\n10.0.0.1/8 dev a", (2, 1), "10.0.0.0/8"),
            ("10.0.0.0/8 dev", (1, 12), "followed by a value"),
            ("10.0.0.0/8 dev a metrik 5", (1, 18), "metrik"),
            ("10.0.0.0/8 dev a metric x", (1, 25), "not a number"),
            ("10.0.0.0/8 via 192.0.2.7 dev b", (1, 1), "is via 192.0.2.7 dev b"),
            ("10.0.0.0/8 proto static", (1, 1), "via ADDRESS"),
            ("  nexthop dev a", (1, 1), "behind the route"),
            ("10.0.0.0/8\n  nexthop dev a weight 0", (2, 24), "1 to 256"),
            ("blackhole 10.0.0.0/8 nexthop dev a", (1, 22), "has no next hop"),
            ("10.0.0.0/8 dev a tos 4", (1, 18), "type of service"),
        ];
        for (text, (line, column), words) in cases {
            let mistake = read(text, find).expect_err(text);
            assert_eq!((mistake.line, mistake.column), (line, column), "{text}: {mistake}");
            assert!(mistake.message.contains(words), "{text}: {mistake}");
        }
    }
}
