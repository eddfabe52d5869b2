//! `filter`: ordered rules that allow or deny packets by addresses, protocol
//! and ports.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    Annotations, ConfigError, ContextError, Emit, Headers, IpView, NoSettings, Packet, Reason,
    Setup, UserPlaneFunction, Verdict,
};
use weft_wire::Protocol;

use crate::pass::nothing;
use crate::prefix::{Address, Masked, Prefix};
use crate::text::{PortRange, ProtocolName};

const DENIED: Reason = Reason("filter_denied");
const SHORT_FRAGMENT: Reason = Reason("filter_short_fragment");
const MAX_RULES: usize = 1_000;
/// Where the second fragment begins that could overwrite the flags of a TCP
/// header, in octets (RFC 1858 §3.2).
const TCP_FLAGS_OVERLAP: u16 = 8;

/// The rules.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Rules, at most 1000. The first that matches a packet decides.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What happens to a packet that no rule matches.
    pub default: Action,
    /// Whether fragments are dropped that could carry forbidden ports or TCP
    /// flags past the rules: first fragments too short for the whole transport
    /// header, and TCP fragments that begin 8 octets into the segment
    /// (RFC 1858 §3).
    #[serde(default = "yes")]
    pub deny_short_fragments: bool,
}

fn yes() -> bool {
    true
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The packet goes on.
    Allow,
    /// The packet is dropped.
    Deny,
}

/// One rule. It matches a packet that is all that the rule names; a rule that
/// names nothing matches every packet.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What happens to the packets that it matches.
    pub action: Action,
    /// Prefix of the source address.
    #[serde(default)]
    pub source: Option<Prefix>,
    /// Prefix of the destination address, of the same family.
    #[serde(default)]
    pub destination: Option<Prefix>,
    /// Protocol of the transport header.
    #[serde(default)]
    pub protocol: Option<ProtocolName>,
    /// Source ports of TCP, UDP or SCTP. A packet without ports, such as a
    /// fragment other than the first, does not match.
    #[serde(default)]
    pub source_ports: Option<PortRange>,
    /// Destination ports of TCP, UDP or SCTP, in the same way.
    #[serde(default)]
    pub destination_ports: Option<PortRange>,
}

/// Allows or denies packets.
#[derive(Debug)]
pub struct Filter {
    v4: Vec<Compact<u32>>,
    v6: Vec<Compact<u128>>,
    default: Action,
    deny_short_fragments: bool,
}

/// A rule for one family, in the form in which it is compared: whatever is not
/// named in it matches everything.
#[derive(Clone, Copy, Debug)]
struct Compact<B> {
    source: Masked<B>,
    destination: Masked<B>,
    source_ports: PortRange,
    destination_ports: PortRange,
    protocol: Option<u8>,
    needs_ports: bool,
    action: Action,
}

impl UserPlaneFunction for Filter {
    const NAME: &'static str = "filter";
    const SUMMARY: &'static str =
        "Allows or denies packets by ordered rules on addresses, protocol and ports.";
    const DROPS: &'static [Reason] = &[DENIED, SHORT_FRAGMENT];

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(config: Config, _: &Setup<'_>) -> Result<Filter, ConfigError> {
        let Config { rules, default, deny_short_fragments } = config;
        if rules.len() > MAX_RULES {
            let message = format!("{} rules are more than {MAX_RULES}", rules.len());
            return Err(ConfigError::at("rules", message));
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (index, rule) in rules.iter().enumerate() {
            rule.check(index)?;
            v4.extend(rule.compact(Prefix::v4));
            v6.extend(rule.compact(Prefix::v6));
        }
        Ok(Filter { v4, v6, default, deny_short_fragments })
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        let fragment = packet.annotations().flags & Annotations::FRAGMENT != 0;
        if fragment && self.deny_short_fragments && is_short(packet) {
            return Verdict::Drop(SHORT_FRAGMENT);
        }
        match self.action(packet) {
            Action::Allow => Verdict::Forward,
            Action::Deny => Verdict::Drop(DENIED),
        }
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        nothing(version, bytes)
    }
}

impl Filter {
    /// What the first rule that matches says.
    #[inline]
    fn action(&self, packet: &Packet) -> Action {
        let (protocol, ports) = (packet.annotations().protocol, packet.ports());
        let action = match packet.addresses() {
            Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
                let (source, destination) = (source.to_bits(), destination.to_bits());
                first(&self.v4, &Flow { source, destination, protocol, ports })
            }
            Some((IpAddr::V6(source), IpAddr::V6(destination))) => {
                let (source, destination) = (source.to_bits(), destination.to_bits());
                first(&self.v6, &Flow { source, destination, protocol, ports })
            }
            _ => None,
        };
        action.unwrap_or(self.default)
    }
}

#[inline]
fn first<B: Address>(rules: &[Compact<B>], flow: &Flow<B>) -> Option<Action> {
    rules.iter().find(|rule| rule.matches(flow)).map(|rule| rule.action)
}

/// What the rules look at.
struct Flow<B> {
    source: B,
    destination: B,
    protocol: u8,
    ports: Option<(u16, u16)>,
}

impl<B: Address> Compact<B> {
    #[inline(always)]
    fn matches(&self, flow: &Flow<B>) -> bool {
        self.source.contains(flow.source)
            && self.destination.contains(flow.destination)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && (!self.needs_ports || self.matches_ports(flow.ports))
    }

    #[inline(always)]
    fn matches_ports(&self, ports: Option<(u16, u16)>) -> bool {
        ports.is_some_and(|(source, destination)| {
            self.source_ports.contains(source) && self.destination_ports.contains(destination)
        })
    }
}

/// Whether a fragment hides, or could overwrite, what the rules look at.
#[cold]
fn is_short(packet: &Packet) -> bool {
    let fragment = match packet.ip() {
        Some(IpView::V4(ip)) => ip.fragment(),
        Some(IpView::V6(ip)) => ip.upper_layer().ok().and_then(|upper| upper.fragment),
        None => None,
    };
    let is_tcp = packet.protocol() == Some(Protocol::TCP);
    // A first fragment that has its whole header has a transport header.
    fragment.is_some_and(|fragment| match fragment.offset {
        0 => packet.transport().is_none(),
        offset => is_tcp && offset == TCP_FLAGS_OVERLAP,
    })
}

impl Rule {
    fn check(&self, index: usize) -> Result<(), ConfigError> {
        let at = |key: &str, message: &str| {
            Err(ConfigError::at(format!("rules.{index}.{key}"), message))
        };
        if let (Some(source), Some(destination)) = (self.source, self.destination)
            && source.is_ipv4() != destination.is_ipv4()
        {
            return at("destination", "source and destination must be of the same family");
        }
        let has_ports =
            |protocol| [Protocol::TCP, Protocol::UDP, Protocol::SCTP].contains(&protocol);
        if let Some(ProtocolName(protocol)) = self.protocol
            && (self.source_ports.is_some() || self.destination_ports.is_some())
            && !has_ports(protocol)
        {
            return at("protocol", &format!("{protocol} has no ports, so the rule never matches"));
        }
        Ok(())
    }

    /// The rule for one family, unless it is for the other only.
    fn compact<B: Default>(&self, family: fn(Prefix) -> Option<Masked<B>>) -> Option<Compact<B>> {
        let masked = |prefix: Option<Prefix>| match prefix {
            Some(prefix) => family(prefix),
            None => Some(Masked::default()),
        };
        Some(Compact {
            source: masked(self.source)?,
            destination: masked(self.destination)?,
            source_ports: self.source_ports.unwrap_or(PortRange::ALL),
            destination_ports: self.destination_ports.unwrap_or(PortRange::ALL),
            protocol: self.protocol.map(|ProtocolName(protocol)| protocol.0),
            needs_ports: self.source_ports.is_some() || self.destination_ports.is_some(),
            action: self.action,
        })
    }
}
