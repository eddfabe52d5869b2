//! `nat`: many users behind few public IPv4 addresses (NAPT44), as carriers want it:
//! mapping and filtering that do not depend on the other end (RFC 4787, RFC 5382,
//! RFC 5508), and a block of ports for each user (RFC 6888, RFC 7422).
//!
//! What comes uplink is from the inside; what comes downlink for a public address is
//! from the outside, and is the inside user's from here on: functions behind this
//! one work on that user's contexts.

mod log;
mod state;
mod translate;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::{
    Annotations, ConfigError, ContextError, Direction, Emit, Fields, Headers as _, NoSettings,
    Packet, Reason, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};
use weft_wire::{EtherType, Protocol, tcp};

use self::log::{Event, Log};
use self::state::{FIRST_PORT, Holding, Inside, Lack, Moved, NONE, Pool, State};
use self::translate::{End, Header, Kind, quoted, rewrite, rewrite_quoted};
use crate::prefix::Prefix;

const NO_MAPPING: Reason =
    Reason::new("nat_no_mapping", "nobody inside has this public address and port");
const NO_BLOCK: Reason = Reason::new("nat_no_block", "no block of public ports is free");
const NO_PORT: Reason = Reason::new("nat_no_port", "all public ports of the user are in use");
const NO_ROOM: Reason = Reason::new("nat_full", "there are as many mappings as there may be");
const FOREIGN: Reason =
    Reason::new("nat_foreign_address", "another user's mapping has this inside address and port");
const PROTOCOL: Reason =
    Reason::new("nat_protocol", "neither TCP nor UDP nor a message of ICMP that is translated");
const FRAGMENT: Reason =
    Reason::new("nat_fragment", "a fragment whose first one was not seen before it");
const NOT_INSIDE: Reason =
    Reason::new("nat_not_inside", "an address without a block in deterministic mode");

const SECOND: u64 = 1_000_000_000;
/// Blocks of all addresses at most.
const MAX_BLOCKS: u32 = 1 << 24;
/// Datagrams in fragments that are known at once.
const DATAGRAMS: usize = 4096;
/// How long the fragments of a datagram may take (RFC 1122 §3.3.2 lets hosts wait 60 s).
const REASSEMBLY: u64 = 30 * SECOND;

/// Public addresses, and how users share them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Public IPv4 addresses, which lead here.
    #[schemars(length(min = 1))]
    pub addresses: Vec<Prefix>,
    /// Ports of a user's block, for each protocol.
    #[serde(default = "block_size")]
    #[schemars(range(min = 16, max = 64_512))]
    pub block_size: u16,
    /// Inside addresses that have a block each by their place, without a log (RFC
    /// 7422). Without it, users get a block with their first packet.
    #[serde(default)]
    pub deterministic: Option<Prefix>,
    /// Mappings of all users at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub mappings: Option<u32>,
    /// How long mappings last without a packet.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Seconds for which a block that came back is not given out again (RFC 6888 §3,
    /// REQ-8).
    #[serde(default = "hold_down")]
    pub hold_down: u32,
    /// A secret that makes the order in which ports are given out unknown outside.
    #[serde(default)]
    pub port_seed: u64,
    /// A file that blocks are noted in as they are given out and come back.
    #[serde(default)]
    pub log: Option<String>,
}

fn block_size() -> u16 {
    512
}

fn hold_down() -> u32 {
    120
}

/// Seconds that mappings last without a packet that refreshes them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timeouts {
    /// UDP (RFC 4787 REQ-5).
    #[schemars(range(min = 1))]
    pub udp: u32,
    /// TCP, once the other end has answered (RFC 5382 REQ-5).
    #[schemars(range(min = 1))]
    pub tcp_established: u32,
    /// TCP before that, and behind FIN or RST.
    #[schemars(range(min = 1))]
    pub tcp_transitory: u32,
    /// Queries of ICMP (RFC 5508 REQ-2).
    #[schemars(range(min = 1))]
    pub icmp: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { udp: 300, tcp_established: 7440, tcp_transitory: 240, icmp: 60 }
    }
}

/// What is kept for a user: 48 bytes, and the mappings in an arena.
#[derive(Debug, Default)]
pub struct Context {
    holding: Holding,
    /// The user's latest inside address.
    inside: u32,
    /// A timer is set.
    waits: bool,
    /// Mappings made, and packets that found none to be made.
    made: u64,
    refused: u64,
}

/// A datagram that came in fragments from outside: where its fragments go.
#[derive(Clone, Copy, Debug, Default)]
struct Datagram {
    source: u32,
    destination: u32,
    identification: u16,
    protocol: u8,
    inside: u32,
    user: u32,
    /// Nanoseconds.
    until: u64,
}

/// Translates.
#[derive(Debug)]
pub struct Nat {
    state: State,
    capacity: u32,
    hold_down: u64,
    deterministic: Option<(u32, u32)>,
    timeouts: Timeouts,
    seed: u64,
    datagrams: Box<[Datagram]>,
    log: Log,
    /// The time of the latest burst, for what is given back without one.
    now: u64,
}

impl UserPlaneFunction for Nat {
    const NAME: &'static str = "nat";
    const SUMMARY: &'static str = "Lets many users share few public IPv4 addresses (NAPT44).";
    const READS: &'static [Tag] = &[DIRECTION];
    const DROPS: &'static [Reason] =
        &[NO_MAPPING, NO_BLOCK, NO_PORT, NO_ROOM, FOREIGN, PROTOCOL, FRAGMENT, NOT_INSIDE];
    /// A port that was given to another since must not be used again.
    const ROLLBACK: bool = false;
    const STAGES: usize = 2;

    type Config = Config;
    type Settings = NoSettings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Nat, ConfigError> {
        let pool = pool(&config)?;
        let deterministic = deterministic(&config, &pool)?;
        let timeouts = config.timeouts;
        let all = [timeouts.udp, timeouts.tcp_established, timeouts.tcp_transitory, timeouts.icmp];
        if all.contains(&0) {
            return Err(ConfigError::at("timeouts", "at least 1 second"));
        }
        if config.mappings.is_some_and(|mappings| !(1..=100_000_000).contains(&mappings)) {
            return Err(ConfigError::at("mappings", "1 to 100000000"));
        }
        if setup.worker > 0 {
            let message = "both sides of a translation are one worker's: set workers.count to 1";
            return Err(ConfigError::at("", message));
        }
        let capacity = config.mappings.unwrap_or((setup.contexts as u32).saturating_mul(16));
        let capacity = if setup.trial { 0 } else { capacity };
        let log = match &config.log {
            Some(path) if !setup.trial => Log::open(path)
                .map_err(|error| ConfigError::at("log", format!("{path}: {error}")))?,
            _ => Log::default(),
        };
        let hold_down = u64::from(config.hold_down) * SECOND;
        Ok(Nat {
            state: State::new(pool, capacity, hold_down),
            capacity,
            hold_down,
            deterministic,
            timeouts,
            seed: config.port_seed,
            datagrams: vec![Datagram::default(); DATAGRAMS].into_boxed_slice(),
            log,
            now: 0,
        })
    }

    #[inline(always)]
    fn look_ahead(&self, stage: usize, packet: &Packet) {
        let Some((source_port, destination_port)) = packet.ports() else { return };
        let protocol = packet.annotations().protocol;
        if is_uplink(packet) {
            if let Some(address) = packet.ipv4_source() {
                self.state.ask_inside(Inside { address, port: source_port, protocol }, stage);
            }
        } else if let Some(address) = packet.ipv4_destination() {
            self.state.ask_outside(address, destination_port, protocol, stage);
        }
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        self.now = emit.now();
        if EtherType(packet.annotations().ether_type) != EtherType::IPV4 {
            return Verdict::Forward;
        }
        let Some(header) = Header::of(packet) else { return Verdict::Drop(PROTOCOL) };
        let kind = Kind::of(packet, &header);
        let done = match is_uplink(packet) {
            true => self.outbound(packet, context, &header, kind, emit),
            false => self.inbound(packet, &header, kind),
        };
        done.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    /// Ends what has run out of time, and gives the block back behind the last one.
    fn timer(&mut self, context: &mut Context, emit: &mut Emit<'_>) {
        self.now = emit.now();
        context.waits = false;
        match self.state.expire(&mut context.holding, emit.now()) {
            Some(next) => context.waits = emit.wake_at(next.max(emit.now() + SECOND)),
            None => self.give_back(context),
        }
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        out.extend_from_slice(&context.inside.to_le_bytes());
        out.extend_from_slice(&context.made.to_le_bytes());
        out.extend_from_slice(&context.refused.to_le_bytes());
        self.state.export(&context.holding, out);
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let (inside, made, refused) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let moved = Moved::read(&mut fields)?;
        fields.end()?;
        let holding = moved.settle(&mut self.state);
        let context = Context { holding, inside, waits: false, made, refused };
        self.note(&context, true);
        Ok(context)
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        self.state.rebase(&context.holding, then, now);
    }

    /// Mappings go on where the addresses and blocks are the same.
    fn adopt(&mut self, previous: &mut Nat) {
        self.now = previous.now;
        if self.state.pool == previous.state.pool
            && self.capacity == previous.capacity
            && self.hold_down == previous.hold_down
        {
            std::mem::swap(&mut self.state, &mut previous.state);
            std::mem::swap(&mut self.datagrams, &mut previous.datagrams);
        } else {
            self.state.succeed(&previous.state);
        }
    }

    fn release(&mut self, mut context: Context) {
        self.give_back(&mut context);
    }

    fn abandon(&mut self, mut context: Context) {
        self.give_back(&mut context);
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let known = self.state.knows(&context.holding) && context.holding.block != NONE;
        let port = if known { self.state.pool.place(context.holding.block).1 } else { 0 };
        vec![
            ("mappings", if known { context.holding.count.into() } else { 0 }),
            ("first-port", port.into()),
            ("made", context.made),
            ("refused", context.refused),
            ("unlogged", self.log.lost),
        ]
    }
}

#[inline(always)]
fn is_uplink(packet: &Packet) -> bool {
    TagSlot::DIRECTION.get(packet.annotations()) == Direction::Uplink as u32
}

fn pool(config: &Config) -> Result<Pool, ConfigError> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (number, prefix) in config.addresses.iter().enumerate() {
        let place = format!("addresses.{number}");
        let Some(v4) = prefix.v4().filter(|_| prefix.length() >= 8) else {
            return Err(ConfigError::at(place, "a prefix of IPv4 addresses, of 8 bits or more"));
        };
        if config.addresses[..number].iter().any(|before| before.overlaps(*prefix)) {
            return Err(ConfigError::at(place, format!("{prefix} overlaps another one")));
        }
        ranges.push((v4.first(), v4.first() | !v4.mask));
    }
    if ranges.is_empty() {
        return Err(ConfigError::at("addresses", "at least one public address"));
    }
    if !(16..=u16::MAX - FIRST_PORT + 1).contains(&config.block_size) {
        return Err(ConfigError::at("blockSize", "16 to 64512 ports"));
    }
    let pool = Pool::new(ranges, config.block_size);
    if pool.blocks() > MAX_BLOCKS {
        let message = format!("more than {MAX_BLOCKS} blocks: fewer addresses, or larger blocks");
        return Err(ConfigError::at("addresses", message));
    }
    Ok(pool)
}

/// First and last inside address that have a block by their place.
fn deterministic(config: &Config, pool: &Pool) -> Result<Option<(u32, u32)>, ConfigError> {
    let Some(prefix) = config.deterministic else { return Ok(None) };
    let Some(v4) = prefix.v4() else {
        return Err(ConfigError::at("deterministic", "a prefix of IPv4 addresses"));
    };
    let (first, last) = (v4.first(), v4.first() | !v4.mask);
    let (inside, blocks) = (u64::from(last - first) + 1, pool.blocks());
    if inside > blocks.into() {
        let message = format!("{inside} addresses inside, and blocks for {blocks}");
        return Err(ConfigError::at("deterministic", message));
    }
    Ok(Some((first, last)))
}

impl Nat {
    /// From the inside. What is for a public address turns round here.
    #[inline]
    fn outbound(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        header: &Header,
        kind: Kind,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let (address, port) = match kind {
            Kind::Ports(port, _) | Kind::Query(port) => {
                let inside = Inside { address: header.source, port, protocol: header.protocol };
                let index = match self.known(context, inside, emit.now())? {
                    Some(index) => index,
                    None => self.make(context, inside, emit)?,
                };
                self.refresh(index, packet, Direction::Uplink, emit.now());
                let mapping = self.state.get(index).ok_or(NO_ROOM)?;
                mapping.user = packet.annotations().user;
                (mapping.address, Some(mapping.port))
            }
            Kind::Error => return self.outbound_error(packet, header),
            Kind::Later => (self.state.address(&context.holding).ok_or(FRAGMENT)?, None),
            Kind::Other => return Err(PROTOCOL),
        };
        if !rewrite(packet, End::Source, address, port) {
            return Err(PROTOCOL);
        }
        self.turn(packet, header.destination)
    }

    /// What comes from inside and is for a public address goes to who has it (RFC 4787
    /// §6), from the public address that it has now.
    #[inline]
    fn turn(&mut self, packet: &mut Packet, destination: u32) -> Result<(), Reason> {
        if !self.state.pool.contains(destination) {
            return Ok(());
        }
        let header = Header::of(packet).ok_or(PROTOCOL)?;
        let kind = Kind::of(packet, &header);
        self.inbound(packet, &header, kind)
    }

    /// From the outside.
    #[inline]
    fn inbound(&mut self, packet: &mut Packet, header: &Header, kind: Kind) -> Result<(), Reason> {
        if !self.state.pool.contains(header.destination) {
            return Ok(());
        }
        let now = self.now;
        let (inside, port, user) = match kind {
            Kind::Ports(_, port) | Kind::Query(port) => {
                let (address, protocol) = (header.destination, header.protocol);
                let index = self.state.find_outside(address, port, protocol, now);
                let index = index.ok_or(NO_MAPPING)?;
                self.refresh(index, packet, Direction::Downlink, now);
                let mapping = self.state.get(index).ok_or(NO_MAPPING)?;
                (mapping.inside.address, Some(mapping.inside.port), mapping.user)
            }
            Kind::Error => return self.inbound_error(packet),
            Kind::Later => {
                let datagram = &self.datagrams[place(header)];
                if !datagram.is_of(header) || datagram.until < now {
                    return Err(FRAGMENT);
                }
                (datagram.inside, None, datagram.user)
            }
            Kind::Other => return Err(PROTOCOL),
        };
        if packet.annotations().flags & Annotations::FRAGMENT != 0 && port.is_some() {
            self.datagrams[place(header)] = Datagram {
                source: header.source,
                destination: header.destination,
                identification: header.identification,
                protocol: header.protocol,
                inside,
                user,
                until: now + REASSEMBLY,
            };
        }
        if !rewrite(packet, End::Destination, inside, port) {
            return Err(PROTOCOL);
        }
        belongs_to(packet, user);
        Ok(())
    }

    /// An error from inside about a packet that had come in (RFC 5508 §4.2): it names
    /// the public address, and comes from there.
    #[cold]
    fn outbound_error(&mut self, packet: &mut Packet, header: &Header) -> Result<(), Reason> {
        let (address, port, protocol) = quoted(packet, End::Destination).ok_or(PROTOCOL)?;
        let index = self.state.find_inside(Inside { address, port, protocol });
        let mapping = index.and_then(|index| self.state.get(index)).ok_or(NO_MAPPING)?;
        let (address, port) = (mapping.address, mapping.port);
        if mapping.expires <= self.now {
            return Err(NO_MAPPING);
        }
        let done = rewrite_quoted(packet, End::Destination, address, port)
            && rewrite(packet, End::Source, address, None);
        if !done {
            return Err(PROTOCOL);
        }
        self.turn(packet, header.destination)
    }

    /// An error from outside about a packet that had gone out.
    #[cold]
    fn inbound_error(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let (address, port, protocol) = quoted(packet, End::Source).ok_or(PROTOCOL)?;
        let index = self.state.find_outside(address, port, protocol, self.now);
        let mapping = index.and_then(|index| self.state.get(index)).ok_or(NO_MAPPING)?;
        let (inside, user) = (mapping.inside, mapping.user);
        let done = rewrite_quoted(packet, End::Source, inside.address, inside.port)
            && rewrite(packet, End::Destination, inside.address, None);
        belongs_to(packet, user);
        if done { Ok(()) } else { Err(PROTOCOL) }
    }

    /// The user's mapping that is there, if there is one.
    #[inline]
    fn known(
        &mut self,
        context: &mut Context,
        inside: Inside,
        now: u64,
    ) -> Result<Option<u32>, Reason> {
        let Some(index) = self.state.find_inside(inside) else { return Ok(None) };
        let own = self.state.knows(&context.holding).then_some(context.holding.block);
        let Some(mapping) = self.state.get(index) else { return Ok(None) };
        let is_own = own == Some(mapping.block);
        match (mapping.expires > now, is_own) {
            (true, true) => Ok(Some(index)),
            (true, false) => Err(FOREIGN),
            (false, true) => {
                self.state.unlink(&mut context.holding, index);
                Ok(None)
            }
            (false, false) => Ok(None),
        }
    }

    /// A new mapping, in a new block if the user has none.
    #[cold]
    fn make(
        &mut self,
        context: &mut Context,
        inside: Inside,
        emit: &mut Emit<'_>,
    ) -> Result<u32, Reason> {
        let wanted = match self.deterministic {
            Some((first, last)) if (first..=last).contains(&inside.address) => {
                Some(inside.address - first)
            }
            Some(_) => return Err(NOT_INSIDE),
            None => None,
        };
        context.inside = inside.address;
        let now = emit.now();
        let made = self.state.claim(&mut context.holding, wanted, now).and_then(|new| {
            if new {
                self.note(context, true);
            }
            let expires = now + SECOND;
            self.state.map(&mut context.holding, inside, expires, hash(self.seed, inside), now)
        });
        let index = made.map_err(|lack| {
            context.refused += 1;
            match lack {
                Lack::Block => NO_BLOCK,
                Lack::Port => NO_PORT,
                Lack::Room => NO_ROOM,
            }
        })?;
        context.made += 1;
        if !context.waits {
            let shortest = self.timeouts.udp.min(self.timeouts.tcp_transitory);
            let first = u64::from(shortest.min(self.timeouts.icmp)) * SECOND;
            context.waits = emit.wake_at(now + first);
        }
        Ok(index)
    }

    /// A packet keeps its mapping: one from inside always, one from outside for TCP.
    #[inline]
    fn refresh(&mut self, index: u32, packet: &Packet, direction: Direction, now: u64) {
        let timeouts = self.timeouts;
        let flags = match Protocol(packet.annotations().protocol) {
            Protocol::TCP => {
                let flags = packet.transport().and_then(|segment| segment.get(13)).copied();
                Some(tcp::Flags(flags.unwrap_or_default()))
            }
            _ => None,
        };
        let Some(mapping) = self.state.get(index) else { return };
        let outbound = direction == Direction::Uplink;
        let seconds = match flags {
            Some(flags) => {
                if flags.contains(tcp::Flags::SYN) && outbound {
                    mapping.closing = false;
                }
                mapping.closing |=
                    flags.contains(tcp::Flags::FIN) || flags.contains(tcp::Flags::RST);
                mapping.established |= !outbound && flags.contains(tcp::Flags::ACK);
                match mapping.established && !mapping.closing {
                    true => timeouts.tcp_established,
                    false => timeouts.tcp_transitory,
                }
            }
            None if !outbound => return,
            None if mapping.inside.protocol == Protocol::UDP.0 => timeouts.udp,
            None => timeouts.icmp,
        };
        mapping.expires = now + u64::from(seconds) * SECOND;
    }

    fn give_back(&mut self, context: &mut Context) {
        let before = context.holding;
        if self.state.release(&mut context.holding, self.now).is_some() {
            let gone = Context { holding: before, inside: context.inside, ..Context::default() };
            self.note(&gone, false);
        }
    }

    /// Notes in the log that the context's block was given out, or came back.
    fn note(&mut self, context: &Context, given: bool) {
        if context.holding.block != NONE {
            let (address, first) = self.state.pool.place(context.holding.block);
            let size = self.state.pool.size;
            self.log.note(Event { given, inside: context.inside, address, first, size });
        }
    }
}

impl Datagram {
    fn is_of(&self, header: &Header) -> bool {
        self.source == header.source
            && self.destination == header.destination
            && self.identification == header.identification
            && self.protocol == header.protocol
            && self.until != 0
    }
}

/// Where the datagram of a fragment is kept.
fn place(header: &Header) -> usize {
    let ends = u64::from(header.source) << 32 | u64::from(header.destination);
    let rest = u64::from(header.identification) << 8 | u64::from(header.protocol);
    (mix(mix(0, ends), rest) >> 32) as usize % DATAGRAMS
}

/// The two halves of a product, folded into one: every bit counts.
fn mix(hash: u64, word: u64) -> u64 {
    // 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
    let product = u128::from(hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> 64) as u64 ^ product as u64
}

fn hash(seed: u64, inside: Inside) -> u64 {
    let Inside { address, port, protocol } = inside;
    let word = u64::from(address) << 32 | u64::from(port) << 16 | u64::from(protocol);
    mix(mix(seed, word), seed)
}

/// From here on it is this user's packet.
#[inline]
fn belongs_to(packet: &mut Packet, user: u32) {
    if user != NONE {
        let annotations = packet.annotations_mut();
        (annotations.user, annotations.bearer) = (user, user);
    }
}

#[cfg(test)]
mod tests;
