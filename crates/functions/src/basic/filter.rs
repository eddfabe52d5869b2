//! `filter`: ordered rules that allow or deny packets by addresses, protocol
//! and ports.

mod lowered;

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Headers, IpView, Metadata, NoSettings, Packet, PacketMetadata,
    Reason, Setup, UserPlaneFunction, Verdict,
};
use weft_wire::Protocol;

use crate::common::export::nothing;
use crate::common::prefix::{Address, Masked, Prefix};
use crate::common::text::{PortRange, ProtocolName};

const DENIED: Reason =
    Reason::new("filter_denied", "denied by a rule of the filter, or by its default");
const SHORT_FRAGMENT: Reason = Reason::new(
    "filter_short_fragment",
    "a fragment that could carry ports or TCP flags past the rules",
);
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
        let fragment = packet.metadata().flags & PacketMetadata::FRAGMENT != 0;
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
        let (protocol, ports) = (packet.metadata().protocol, packet.ports());
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::kind;
    use crate::testing::{Rig, Spec, specs};
    use weft_wire::Protocol;

    fn filter(config: Value) -> Rig {
        Rig::new(kind("filter").unwrap(), config).unwrap()
    }

    fn dropped(rig: &mut Rig, spec: &Spec) -> Option<&'static str> {
        let seen = rig.send(spec);
        assert_eq!(seen.bytes, spec.frame(), "a filter changes nothing");
        seen.dropped
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let mut rig = filter(json!({
            "default": "deny",
            "rules": [
                { "action": "deny", "destination": "192.0.2.128/25" },
                { "action": "allow", "source": "10.0.0.0/8", "destination": "192.0.2.0/24",
                  "protocol": "udp", "sourcePorts": "1000-1999", "destinationPorts": 2000 },
                { "action": "allow", "source": "2001:db8::/32" },
                { "action": "allow", "protocol": 6 }
            ]
        }));
        let udp = Spec::udp(b"x");
        let mut verdict = |spec: Spec| dropped(&mut rig, &spec);
        assert_eq!(verdict(udp.clone()), None);
        assert_eq!(verdict(Spec { source_port: 999, ..udp.clone() }), Some("filter_denied"));
        assert_eq!(verdict(Spec { source_port: 2000, ..udp.clone() }), Some("filter_denied"));
        assert_eq!(verdict(Spec { destination_port: 2001, ..udp.clone() }), Some("filter_denied"));
        assert_eq!(verdict(udp.clone().between("11.0.0.1", "192.0.2.1")), Some("filter_denied"));
        assert_eq!(verdict(udp.between("10.0.0.1", "192.0.2.128")), Some("filter_denied"));
        assert_eq!(verdict(Spec::tcp(b"x").between("1.1.1.1", "2.2.2.2")), None);
        let tcp = Spec::tcp(b"x");
        assert_eq!(verdict(tcp.between("1.1.1.1", "192.0.2.255")), Some("filter_denied"));
        let v6 = Spec::udp(b"x").between("2001:db8::1", "2001:db9::1");
        assert_eq!(verdict(v6), None);
        let v6 = Spec::udp(b"x").between("2001:db9::1", "2001:db8::1");
        assert_eq!(verdict(v6), Some("filter_denied"));
    }

    #[test]
    fn without_rules_the_default_holds() {
        assert_eq!(dropped(&mut filter(json!({ "default": "allow" })), &Spec::udp(b"x")), None);
        let mut deny = filter(json!({ "default": "deny" }));
        assert_eq!(dropped(&mut deny, &Spec::udp(b"x")), Some("filter_denied"));
    }

    #[test]
    fn a_fragment_without_ports_matches_rules_without_ports_only() {
        let mut rig = filter(json!({ "default": "deny", "rules": [
            { "action": "allow", "protocol": "udp", "destinationPorts": "0-65535" },
            { "action": "allow", "source": "10.9.0.0/16" }
        ] }));
        let payload = [0; 64];
        for (source, family) in [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")] {
            let whole = Spec::udp(&payload).between(source, family);
            let first = Spec { fragment: Some((0..16, true)), ..whole.clone() };
            let last = Spec { fragment: Some((16..72, false)), ..whole.clone() };
            assert_eq!(dropped(&mut rig, &first), None);
            assert_eq!(dropped(&mut rig, &last), Some("filter_denied"));
        }
        let other = Spec::udp(&payload).between("10.9.0.1", "192.0.2.1");
        let last = Spec { fragment: Some((16..72, false)), ..other };
        assert_eq!(dropped(&mut rig, &last), None);
    }

    /// RFC 1858 §3: tiny and overlapping fragments.
    #[test]
    fn fragments_that_hide_a_header_are_dropped() {
        let short = Some("filter_short_fragment");
        let cases = [(0..16, short), (8..24, short), (0..24, None), (16..32, None), (24..32, None)];
        let hosts = [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")];
        for ((part, expected), (source, destination)) in
            cases.iter().flat_map(|case| hosts.map(|hosts| (case, hosts)))
        {
            let spec = Spec {
                fragment: Some((part.clone(), true)),
                ..Spec::tcp(&[0; 64]).between(source, destination)
            };
            let mut rig = filter(json!({ "default": "allow" }));
            assert_eq!(dropped(&mut rig, &spec), *expected, "{spec:?}");
            let mut rig = filter(json!({ "default": "allow", "denyShortFragments": false }));
            assert_eq!(dropped(&mut rig, &spec), None);
            // What begins 8 octets into a UDP datagram overwrites no header.
            let udp = Spec { protocol: Protocol::UDP, ..spec };
            assert_eq!(dropped(&mut filter(json!({ "default": "allow" })), &udp), None);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config| Rig::new(kind("filter").unwrap(), config).err().unwrap();
        let rule = |rule: Value| error(json!({ "default": "allow", "rules": [rule] }));
        let families = json!({ "action": "deny", "source": "::/0", "destination": "0.0.0.0/0" });
        assert_eq!(rule(families).path, "rules.0.destination");
        let ports = json!({ "action": "deny", "protocol": "icmp", "sourcePorts": 1 });
        assert_eq!(rule(ports).path, "rules.0.protocol");
        let order = json!({ "action": "deny", "sourcePorts": "2-1" });
        assert_eq!(rule(order).path, "rules.0.sourcePorts");
        let many = vec![json!({ "action": "allow" }); 1001];
        assert_eq!(error(json!({ "default": "allow", "rules": many })).path, "rules");
        assert!(error(json!({})).message.contains("default"));
    }

    /// One condition of a rule: a key, its value, and whether a packet is so.
    type Condition = (&'static str, Value, bool);

    /// Conditions on a packet that are about as often right as wrong.
    fn conditions(spec: Spec) -> impl Strategy<Value = (bool, Vec<Condition>)> {
        let has_ports = [Protocol::UDP, Protocol::TCP].contains(&spec.protocol)
            && spec.fragment.as_ref().is_none_or(|(part, _)| {
                part.start == 0 && (spec.protocol == Protocol::UDP || part.end >= 20)
            });
        let bits: usize = if spec.source.is_ipv4() { 32 } else { 128 };
        let prefix = |key: &'static str, is: std::net::IpAddr, other: std::net::IpAddr| {
            (any::<bool>(), 0..=bits).prop_map(move |(same, length)| {
                let of = if same { is } else { other };
                (key, masked(of, length).into(), common_bits(is, of) >= length)
            })
        };
        let ports = |key: &'static str, port: u16| {
            any::<(u16, u16)>().prop_map(move |(a, b)| {
                let (first, last) = (a.min(b), a.max(b));
                let is = has_ports && first <= port && port <= last;
                (key, format!("{first}-{last}").into(), is)
            })
        };
        let protocol = any::<bool>().prop_map(move |same| {
            let number = if same { spec.protocol.0 } else { Protocol::SCTP.0 };
            ("protocol", number.into(), same)
        });
        let (source, destination) = (spec.source, spec.destination);
        let conditions = (
            option::of(prefix("source", source, destination)),
            option::of(prefix("destination", destination, source)),
            option::of(protocol),
            option::of(ports("sourcePorts", spec.source_port)),
            option::of(ports("destinationPorts", spec.destination_port)),
        );
        (any::<bool>(), conditions).prop_map(|(allow, (a, b, c, d, e))| {
            (allow, [a, b, c, d, e].into_iter().flatten().collect())
        })
    }

    fn octets(address: std::net::IpAddr) -> Vec<u8> {
        match address {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    fn common_bits(one: std::net::IpAddr, other: std::net::IpAddr) -> usize {
        let bit = |octets: &[u8], bit: usize| octets[bit / 8] >> (7 - bit % 8) & 1;
        let (one, other) = (octets(one), octets(other));
        (0..one.len() * 8).take_while(|&at| bit(&one, at) == bit(&other, at)).count()
    }

    fn masked(address: std::net::IpAddr, length: usize) -> String {
        let mut octets = octets(address);
        for bit in length..octets.len() * 8 {
            octets[bit / 8] &= !(1 << (7 - bit % 8));
        }
        let address: std::net::IpAddr = match <[u8; 4]>::try_from(&octets[..]) {
            Ok(octets) => octets.into(),
            Err(_) => <[u8; 16]>::try_from(&octets[..]).unwrap().into(),
        };
        format!("{address}/{length}")
    }

    fn packets_and_rules() -> impl Strategy<Value = (Spec, Vec<(bool, Vec<Condition>)>)> {
        specs().prop_flat_map(|spec| (Just(spec.clone()), vec(conditions(spec), 0..6)))
    }

    proptest! {
        #[test]
        fn rules_mean_what_they_say((spec, rules) in packets_and_rules(), default in any::<bool>()) {
            let action = |allow: bool| if allow { "allow" } else { "deny" };
            let has_ports = |name: &str| name.ends_with("Ports");
            let mut written = Vec::new();
            let mut expected = None;
            for (allow, conditions) in rules {
                let names: Vec<_> = conditions.iter().map(|(name, ..)| *name).collect();
                let portless = ![Protocol::UDP, Protocol::TCP].contains(&spec.protocol);
                if portless && names.contains(&"protocol") && names.iter().any(|name| has_ports(name)) {
                    continue;
                }
                let mut rule = json!({ "action": action(allow) });
                for (name, value, _) in &conditions {
                    rule[*name] = value.clone();
                }
                if expected.is_none() && conditions.iter().all(|(.., is)| *is) {
                    expected = Some(allow);
                }
                written.push(rule);
            }
            let mut rig = filter(json!({
                "default": action(default), "rules": written, "denyShortFragments": false
            }));
            let denied = !expected.unwrap_or(default);
            prop_assert_eq!(dropped(&mut rig, &spec), denied.then_some("filter_denied"));
        }
    }
}
