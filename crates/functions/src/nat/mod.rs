//! `nat`: many users behind few public IPv4 addresses (NAPT44), as carriers want it:
//! mapping and filtering that do not depend on the other end (RFC 4787, RFC 5382,
//! RFC 5508), and a block of ports for each user (RFC 6888, RFC 7422).
//!
//! What comes uplink is from the inside; what comes downlink for a public address is
//! from the outside, and is the inside user's from here on: functions behind this
//! one work on that user's contexts.

mod blocks;
mod config;
mod directions;
mod log;
mod state;
mod translate;

use std::net::Ipv4Addr;

use weft_function::tag::DIRECTION;
use weft_function::tunnel::inside_tunnel;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, EventSender, Fields, FunctionEvent, Metadata,
    NoSettings, Packet, Reason, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};
use weft_wire::{EtherType, Protocol};

use self::blocks::NONE;
pub use self::config::{Config, Timeouts};
use self::log::{BlockChange, Event, Log};
use self::state::{Holding, Moved, State, key};
use self::translate::{header_of, kind_of, plain_of};
use crate::common::first_fragments::{FirstFragments, random_seed};
use crate::common::shared_ports::End;

/// The function of this domain.
pub(crate) const KINDS: &[weft_compose::Kind] = &[weft_compose::Kind::of::<Nat>()];

const NO_MAPPING: Reason =
    Reason::new("nat_no_mapping", "no user inside has this public address and port");
const NO_BLOCK: Reason = Reason::new("nat_no_block", "no block of public ports is free");
const NO_PORT: Reason = Reason::new("nat_no_port", "all public ports of the user are in use");
const NO_ROOM: Reason = Reason::new("nat_full", "there are as many mappings as there may be");
const FOREIGN: Reason =
    Reason::new("nat_foreign_address", "another user's mapping has this inside address and port");
const PROTOCOL: Reason =
    Reason::new("nat_protocol", "neither TCP nor UDP nor a message of ICMP that is translated");
const FRAGMENT: Reason =
    Reason::new("nat_fragment", "a fragment whose first one was not seen before it");
const CHECKSUM: Reason =
    Reason::new("nat_checksum", "an ICMP error, or the header in it, with a wrong checksum");
const NOT_INSIDE: Reason =
    Reason::new("nat_not_inside", "an address without a block in deterministic mode");

const SECOND: u64 = 1_000_000_000;
/// How long a block without a free port is not searched again: a power of two of
/// nanoseconds, 0.13 s.
const SEARCH_PAUSE_BITS: u32 = 27;

/// What is kept for a user, besides the mappings in an arena.
#[derive(Debug, Default)]
pub struct Context {
    holding: Holding,
    /// The user's latest inside address.
    inside: u32,
    /// A timer is set.
    waits: bool,
    /// When ports of TCP, UDP and ICMP were last searched for in vain, in search pauses.
    searched: [u32; 3],
    /// Mappings made, and packets that found none to be made.
    made: u64,
    refused: u64,
}

const _: () = assert!(size_of::<Context>() == 56);

/// Translates.
#[derive(Debug)]
pub struct Nat {
    state: State,
    capacity: u32,
    hold_down: u64,
    deterministic: Option<(u32, u32)>,
    timeouts: Timeouts,
    seed: u64,
    /// Inside address and user of datagrams in fragments.
    fragments: FirstFragments<(u32, u32)>,
    log: Log,
    /// Where blocks are told that are exported from the node.
    events: Option<EventSender>,
    /// The log says that the state is new.
    announced: bool,
    /// The time of the latest burst, for what is given back without one.
    now: u64,
}

impl UserPlaneFunction for Nat {
    const NAME: &'static str = "nat";
    const SUMMARY: &'static str = "Lets many users share few public IPv4 addresses (NAPT44).";
    const READS: &'static [Tag] = &[DIRECTION];
    const DROPS: &'static [Reason] = &[
        NO_MAPPING, NO_BLOCK, NO_PORT, NO_ROOM, FOREIGN, PROTOCOL, CHECKSUM, FRAGMENT, NOT_INSIDE,
    ];
    /// A port that was given to another since must not be used again.
    const ROLLBACK: bool = false;
    /// When the node starts, all users come with their blocks at once, and no port has been
    /// given to another since.
    const CHECKPOINTED: bool = true;
    const STAGES: usize = 2;
    /// Packets of known mappings do without.
    const HOT_CONTEXT: usize = 0;

    type Config = Config;
    type Settings = NoSettings;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Nat, ConfigError> {
        let pool = config::pool(&config)?;
        let deterministic = config::deterministic(&config, &pool)?;
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
            seed: config.port_seed.unwrap_or_else(random_seed),
            fragments: FirstFragments::new(),
            log,
            events: setup.events.cloned(),
            announced: false,
            now: 0,
        })
    }

    #[inline(always)]
    fn look_ahead(&self, stage: usize, packet: &Packet, note: u64) -> u64 {
        if stage > 0 {
            // What comes from outside changes a mapping of TCP only.
            if note as u8 == Protocol::TCP.0 && !is_uplink(packet) {
                self.state.ask_behind(note);
            }
            return note;
        }
        let Some(plain) = plain_of(packet) else { return 0 };
        let is_uplink = is_uplink(packet);
        let (address, port) = plain.end(if is_uplink { End::Source } else { End::Destination });
        let key = key(address, port, plain.protocol);
        match is_uplink {
            true => self.state.ask_inside(key),
            false => self.state.ask_outside(key),
        }
        key
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        self.now = emit.now();
        inside_tunnel(packet, |packet| self.handle(packet, context, emit))
    }

    /// Ends what has run out of time, and gives the block back behind the last one.
    fn timer(&mut self, context: &mut Context, emit: &mut Emit<'_>) {
        self.now = emit.now();
        context.waits = false;
        match self.state.expire(&mut context.holding, emit.now()) {
            Some(next) => {
                context.waits = emit.wake_at(next.max(emit.now() + SECOND));
                if !context.waits {
                    self.state.forget_user(&context.holding);
                }
            }
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
        let context = Context { holding, inside, made, refused, ..Context::default() };
        self.note(&context, BlockChange::Allocated);
        Ok(context)
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        self.state.rebase(&context.holding, then, now);
    }

    /// Blocks that may have been given out since the last checkpoints are held down.
    fn go_on(&mut self, _: &mut [Context], now: u64) {
        self.now = now;
        if self.deterministic.is_none() {
            self.state.hold_down_recent(now);
        }
    }

    /// Mappings go on where the addresses and blocks are the same.
    fn adopt(&mut self, previous: &mut Nat) {
        self.now = previous.now;
        if self.state.pool() == previous.state.pool()
            && self.capacity == previous.capacity
            && self.hold_down == previous.hold_down
        {
            std::mem::swap(&mut self.state, &mut previous.state);
            std::mem::swap(&mut self.fragments, &mut previous.fragments);
            self.announced = previous.announced;
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
        let port = if known { self.state.pool().place(context.holding.block).1 } else { 0 };
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
    TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32
}

impl Nat {
    /// Translates a packet, which may be in a tunnel.
    #[inline]
    fn handle(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let direction = if is_uplink(packet) { Direction::Uplink } else { Direction::Downlink };
        if emit.note() != 0
            && let Some(done) = self.translate_noted(packet, emit.note(), direction)
        {
            return done.map_or_else(Verdict::Drop, |()| Verdict::Forward);
        }
        if EtherType(packet.metadata().ether_type) != EtherType::IPV4 {
            return Verdict::Forward;
        }
        let Some(header) = header_of(packet) else { return Verdict::Drop(PROTOCOL) };
        let kind = kind_of(packet, &header);
        let done = match direction {
            Direction::Uplink => self.outbound(packet, context, &header, kind, emit),
            Direction::Downlink => self.inbound(packet, &header, kind),
        };
        done.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn give_back(&mut self, context: &mut Context) {
        let before = context.holding;
        if self.state.release(&mut context.holding, self.now).is_some() {
            let gone = Context { holding: before, inside: context.inside, ..Context::default() };
            self.note(&gone, BlockChange::Released);
        }
    }

    /// Notes in the log that the context's block was given out, or came back; before the
    /// first one, that whatever stands in the log from before has come back.
    fn note(&mut self, context: &Context, what: BlockChange) {
        if context.holding.block == NONE {
            return;
        }
        let (address, first) = self.state.pool().place(context.holding.block);
        let last = first + (self.state.pool().size - 1);
        let event = Event { what, inside: context.inside, address, first, last };
        if !self.announced {
            self.announced = true;
            self.log.note(Event { what: BlockChange::Began, ..event });
        }
        self.log.note(event);
        if let Some(events) = &self.events {
            events.tell(FunctionEvent::PortBlock {
                is_given: what == BlockChange::Allocated,
                inside: Ipv4Addr::from_bits(context.inside),
                outside: Ipv4Addr::from_bits(address),
                first,
                last,
            });
        }
    }
}

#[cfg(test)]
mod tests;
