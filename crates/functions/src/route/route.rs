//! `route`: chooses the next hop of a packet by the longest prefix of its
//! destination (RFC 1812 §5.2.4.3), among equal ones by its flow (RFC 2992).
//!
//! The function says which next hop it is, in a tag; rules lead to the port. Where
//! the port is a wire rather than a router's, the function does what a router does:
//! one hop less, and the MAC addresses of the link.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers, IpMut, Metadata, NoSettings, Packet,
    PacketMetadata, Reason, Setup, Tag, TagSlot, UserPlaneFunction, Values, Verdict,
};
use weft_wire::MacAddress;

use super::fib::{BLACKHOLE, FIRST_HOP, FIRST_SET, Fib, NO_ROUTE, PROHIBIT, follow};
use super::table::Beginning;
use super::text::{self, Named, Routes};
use crate::common::file_version::FileVersion;
use crate::common::icmp_error::{Errors, Problem};
use crate::common::text as config_text;

/// The next hop: its place in the configuration, from 1.
pub const NEXT_HOP: Tag = Tag { name: "next-hop", values: Values::Number };

const WITHOUT_ROUTE: Reason = Reason::new("route_none", "there is no route to the destination");
const BLACK_HOLE: Reason = Reason::new("route_blackhole", "the route ends packets silently");
const NOT_REACHABLE: Reason =
    Reason::new("route_unreachable", "the route says that the destination is unreachable");
const NOT_ALLOWED: Reason = Reason::new("route_prohibited", "the route forbids it");
const HOPS_USED_UP: Reason =
    Reason::new("route_ttl_exceeded", "time to live or hop limit is used up");
const NOT_IP: Reason = Reason::new("not_ip", "neither IPv4 nor IPv6");

/// In a note: the packet is one of IPv4.
const IS_IPV4: u64 = 1 << 32;
/// Next hops at most.
const MAX_HOPS: usize = 65_535;

/// Routes, and the next hops that they name.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Next hops; the tag `next-hop` has the place of a packet's, from 1.
    #[schemars(length(min = 1, max = 65_535))]
    pub next_hops: Vec<NextHop>,
    /// Routes, one a line, as `ip route` prints them.
    #[serde(default)]
    pub routes: Option<String>,
    /// A file of routes, as `ip route` prints them, in place of `routes`.
    #[serde(default)]
    pub file: Option<String>,
    /// Whether the routes follow changes of the file.
    #[serde(default = "yes")]
    pub follow: bool,
    /// Addresses, one of a family, that ICMP errors come from. A family without
    /// sends none.
    #[serde(default)]
    #[schemars(length(max = 2))]
    pub addresses: Vec<IpAddr>,
    /// Makes routers in a row share flows differently among equal routes.
    #[serde(default)]
    pub hash_seed: u32,
}

fn yes() -> bool {
    true
}

/// A next hop: which one of the routes' it is, and how packets get there.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NextHop {
    /// What it is called.
    pub name: String,
    /// The device that routes name; any without.
    #[serde(default)]
    pub device: Option<String>,
    /// The gateway that routes name; any without.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// MAC address of the next hop, for a port that does not route: packets get it,
    /// and have one hop less.
    #[serde(default, deserialize_with = "config_text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["02:00:00:00:00:02"]))]
    pub mac: Option<MacAddress>,
    /// MAC address that packets then come from.
    #[serde(default, deserialize_with = "config_text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["02:00:00:00:00:01"]))]
    pub source: Option<MacAddress>,
}

impl NextHop {
    fn is(&self, named: Named<'_>) -> bool {
        let device = self.device.as_deref().is_none_or(|device| named.device == Some(device));
        device && self.via.is_none_or(|via| named.via == Some(via))
    }
}

/// Chooses next hops.
#[derive(Debug)]
pub struct Route {
    fib: Arc<Fib>,
    /// Destination and source MAC address of each next hop that has them.
    links: Box<[Option<[u8; 12]>]>,
    tag: TagSlot,
    errors: Errors,
    seed: u64,
}

/// Tables that are in use: the workers of an instance share one.
static SHARED: Mutex<Vec<(Config, Weak<Fib>)>> = Mutex::new(Vec::new());

impl UserPlaneFunction for Route {
    const NAME: &'static str = "route";
    const SUMMARY: &'static str = "Chooses the next hop by the longest prefix of the destination.";
    const WRITES: &'static [Tag] = &[NEXT_HOP];
    const DROPS: &'static [Reason] =
        &[WITHOUT_ROUTE, BLACK_HOLE, NOT_REACHABLE, NOT_ALLOWED, HOPS_USED_UP, NOT_IP];
    const STAGES: usize = 2;

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(config: Config, setup: &Setup<'_>) -> Result<Route, ConfigError> {
        check(&config)?;
        let fib = if setup.trial {
            read(&config).map_err(|message| ConfigError::at(place(&config), message))?;
            Arc::new(Fib::new(Routes::new()).map_err(|error| full(&error))?)
        } else {
            shared(&config)?
        };
        let mac = |mac: Option<MacAddress>| mac.unwrap_or(MacAddress::UNSPECIFIED).octets();
        let link = |hop: &NextHop| {
            let mut link = [0; 12];
            link[..6].copy_from_slice(&mac(hop.mac));
            link[6..].copy_from_slice(&mac(hop.source));
            hop.mac.map(|_| link)
        };
        let find = |v4: bool| config.addresses.iter().copied().find(|one| one.is_ipv4() == v4);
        let ipv4 =
            find(true).and_then(|one| if let IpAddr::V4(one) = one { Some(one) } else { None });
        let ipv6 =
            find(false).and_then(|one| if let IpAddr::V6(one) = one { Some(one) } else { None });
        Ok(Route {
            fib,
            links: config.next_hops.iter().map(link).collect(),
            tag: setup.tag(&NEXT_HOP)?,
            errors: Errors::new(ipv4, ipv6),
            seed: config.hash_seed.into(),
        })
    }

    #[inline(always)]
    fn look_ahead(&self, stage: usize, packet: &Packet, note: u64) -> u64 {
        // Of a packet over IPv4 its destination is noted, then what the root says of it.
        if stage > 0 && note != 0 {
            return u64::from(self.fib.ipv4.begin(note as u32).0) | IS_IPV4;
        }
        if let Some(address) = packet.ipv4_destination() {
            self.fib.ipv4.ask(address);
            return u64::from(address) | IS_IPV4;
        }
        if let (Some(address), Some(table)) = (packet.ipv6_destination(), self.fib.ipv6.get()) {
            match stage {
                0 => table.ask(address),
                _ => drop(table.begin(address)),
            }
        }
        0
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, (): &mut (), emit: &mut Emit<'_>) -> Verdict {
        let noted = Some(emit.note()).filter(|note| *note != 0);
        let value = if let Some(value) = noted.and_then(|note| Beginning(note as u32).value()) {
            value
        } else if let Some(address) = packet.ipv4_destination() {
            self.fib.ipv4.lookup(address)
        } else if let Some(address) = packet.ipv6_destination() {
            self.fib.ipv6.get().map_or(NO_ROUTE, |table| table.lookup(address))
        } else {
            return Verdict::Drop(NOT_IP);
        };
        let hop = match value {
            FIRST_HOP..FIRST_SET => value - FIRST_HOP,
            FIRST_SET.. => match self.fib.member(value, flow_hash(packet, self.seed)) {
                Some(hop) => hop.into(),
                None => return Verdict::Drop(WITHOUT_ROUTE),
            },
            _ => return self.refuse(value, packet, emit),
        };
        self.tag.set(packet.metadata_mut(), hop + 1);
        match self.links.get(hop as usize) {
            Some(Some(link)) => {
                let link = *link;
                self.onto(link, packet, emit)
            }
            _ => Verdict::Forward,
        }
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        match version {
            Self::CONTEXT_VERSION => Fields::new(bytes).end(),
            _ => Err(ContextError::Version(version)),
        }
    }

    fn show(&self, (): &()) -> Vec<(&'static str, u64)> {
        let Fib { routes, reloads, refused, .. } = &*self.fib;
        vec![
            ("routes", routes.load(Relaxed)),
            ("reloads", reloads.load(Relaxed)),
            ("refused", refused.load(Relaxed)),
            ("memory", self.fib.memory_bytes()),
        ]
    }
}

impl Route {
    /// What a router does as a packet leaves: one hop less, and the link's addresses.
    #[inline]
    fn onto(&mut self, link: [u8; 12], packet: &mut Packet, emit: &mut Emit<'_>) -> Verdict {
        let is_left = match packet.ip_mut() {
            Some(IpMut::V4(mut ip)) => ip.decrement_time_to_live(),
            Some(IpMut::V6(mut ip)) => ip.decrement_hop_limit(),
            None => return Verdict::Drop(NOT_IP),
        };
        if !is_left {
            self.errors.tell(packet, Problem::TimeExceeded, emit);
            return Verdict::Drop(HOPS_USED_UP);
        }
        if let Some(addresses) = packet.data_mut().first_chunk_mut::<12>() {
            *addresses = link;
        }
        Verdict::Forward
    }

    #[cold]
    fn refuse(&mut self, value: u32, packet: &Packet, emit: &mut Emit<'_>) -> Verdict {
        let (reason, problem) = match value {
            BLACKHOLE => return Verdict::Drop(BLACK_HOLE),
            NO_ROUTE => (WITHOUT_ROUTE, Problem::NoRoute),
            PROHIBIT => (NOT_ALLOWED, Problem::Prohibited),
            _ => (NOT_REACHABLE, Problem::HostUnreachable),
        };
        self.errors.tell(packet, problem, emit);
        Verdict::Drop(reason)
    }
}

/// A number that is the same for all packets of a flow. Fragments have no ports, and
/// the first of them goes where the others go.
#[inline]
fn flow_hash(packet: &Packet, seed: u64) -> u64 {
    let mix = |hash: u64, word: u64| {
        // 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    };
    let metadata = packet.metadata();
    let fragment = metadata.flags & PacketMetadata::FRAGMENT != 0;
    let ports = packet.ports().filter(|_| !fragment).unwrap_or_default();
    let protocol = u64::from(metadata.protocol) << 32;
    let hash = mix(seed, protocol | u64::from(ports.0) << 16 | u64::from(ports.1));
    match packet.addresses() {
        Some((IpAddr::V4(source), IpAddr::V4(destination))) => {
            mix(hash, u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits()))
        }
        Some((IpAddr::V6(source), IpAddr::V6(destination))) => {
            let halves = [source.to_bits(), destination.to_bits()]
                .map(|bits| [(bits >> 64) as u64, bits as u64]);
            halves.into_iter().flatten().fold(hash, mix)
        }
        _ => hash,
    }
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let hops = &config.next_hops;
    if hops.is_empty() || hops.len() > MAX_HOPS {
        return Err(ConfigError::at("nextHops", format!("1 to {MAX_HOPS} next hops")));
    }
    for (number, hop) in hops.iter().enumerate() {
        if hops[..number].iter().any(|before| before.name == hop.name) {
            let message = format!("{} is the name of another next hop", hop.name);
            return Err(ConfigError::at(format!("nextHops.{number}.name"), message));
        }
        let missing = match (hop.mac, hop.source) {
            (Some(_), None) => "source",
            (None, Some(_)) => "mac",
            _ => continue,
        };
        let message = format!("mac and source go together: {missing} is missing");
        return Err(ConfigError::at(format!("nextHops.{number}"), message));
    }
    if config.routes.is_some() == config.file.is_some() {
        return Err(ConfigError::at("", "routes stand in routes or in file, in one of them"));
    }
    let ipv4 = config.addresses.iter().filter(|one| one.is_ipv4()).count();
    if ipv4 > 1 || config.addresses.len() - ipv4 > 1 {
        return Err(ConfigError::at("addresses", "one address of each family"));
    }
    Ok(())
}

/// The key that routes stand under.
fn place(config: &Config) -> &'static str {
    if config.file.is_some() { "file" } else { "routes" }
}

fn full(error: &impl std::fmt::Display) -> ConfigError {
    ConfigError::at("", error.to_string())
}

/// The routes of a configuration; what is wrong with them, with file, line and column.
fn read(config: &Config) -> Result<Routes, String> {
    match &config.file {
        Some(path) => read_file(Path::new(path), &config.next_hops),
        None => {
            let text = config.routes.as_deref().unwrap_or_default();
            parse(text, &config.next_hops).map_err(|mistake| format!("line {mistake}"))
        }
    }
}

fn read_file(path: &Path, hops: &[NextHop]) -> Result<Routes, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse(&text, hops).map_err(|mistake| format!("{name}:{mistake}"))
}

fn parse(text: &str, hops: &[NextHop]) -> Result<Routes, text::Mistake> {
    let find = |named: Named<'_>| hops.iter().position(|hop| hop.is(named));
    text::read(text, |named| find(named).map(|hop| hop as u16))
}

/// The tables of a configuration, made if no worker has them yet.
fn shared(config: &Config) -> Result<Arc<Fib>, ConfigError> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|(_, fib)| fib.strong_count() > 0);
    let known = shared.iter().find(|(known, _)| known == config);
    if let Some(fib) = known.and_then(|(_, fib)| fib.upgrade()) {
        return Ok(fib);
    }
    let path = config.file.as_deref().map(Path::new);
    // Asked for before the file is read: what comes between is read again.
    let version = path.and_then(FileVersion::of);
    let routes = read(config).map_err(|message| ConfigError::at(place(config), message))?;
    let fib = Arc::new(Fib::new(routes).map_err(|error| full(&error))?);
    if let Some(path) = path.filter(|_| config.follow) {
        let hops = config.next_hops.clone();
        follow(&fib, path.to_owned(), version, move |path| read_file(path, &hops))
            .map_err(|error| ConfigError::at("follow", format!("a thread for it: {error}")))?;
    }
    shared.push((config.clone(), Arc::downgrade(&fib)));
    Ok(fib)
}
