//! `session-detection`: finds the rule of a PFCP session that a packet belongs to, and does
//! what the rule says up to the forwarding action (3GPP TS 29.244 §5.2.1): it measures and
//! limits, takes off the tunnel, lets packets wait, and notes where they go.

mod bucket;
mod context;
mod detector;
mod domains;
mod enforce;
mod exchange;
mod meter;
mod record;
mod shared;
mod time_of_day;
mod way;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::{CHAIN, DIRECTION, NETWORK};
use weft_function::{
    ConfigError, ContextError, Emit, Headers, Metadata, Packet, PacketMetadata, Reason, Scope,
    Setup, Tag, Tunnel, UserPlaneFunction, Verdict,
};
use weft_wire::gtpu::{Comprehension, ExtensionType};

pub use self::context::Context;
use self::context::{gate_is_closed, look, note_told};
use self::detector::Facts;
use self::enforce::{Passed, enforce};
pub(super) use self::record::Names;
use self::time_of_day::Noted;
use self::way::{Slots, Way};
use super::tags::{DESTINATION, PDR};
use super::usage::USAGE;
use super::{Rules, check};

const NO_SESSION: Reason = Reason::new("no_session", "the user has no PFCP session");
const NO_PDR: Reason = Reason::new("no_pdr", "no packet detection rule of the session matches");
const NO_FAR: Reason = Reason::new("no_far", "the rule has no forwarding action");
const NO_DESTINATION: Reason =
    Reason::new("no_destination", "the forwarding action has no destination interface");
const FAR_DROP: Reason = Reason::new("far_drop", "the forwarding action is to drop");
const GATE: Reason = Reason::new("gate_closed", "a gate of the rule is closed");
const QUOTA: Reason = Reason::new("quota_used", "a quota of the rule is used up");
const BIT_RATE: Reason = Reason::new("bit_rate", "beyond the maximum bit rate");
const PACKET_RATE: Reason = Reason::new("packet_rate", "beyond the packet rate");
const BUFFER_FULL: Reason =
    Reason::new("session_buffer_full", "more packets wait than the buffering rule allows");
const END_MARKER: Reason = Reason::new("end_marker", "an End Marker, which ends with its tunnel");
const NOT_REMOVED: Reason =
    Reason::new("not_removed", "the packet is in a tunnel that the rule does not take off");
const UNKNOWN_EXTENSION: Reason =
    Reason::new("unknown_extension", "an extension header that an endpoint must know is not known");
const LINK: Reason =
    Reason::new("link_scope", "neighbour discovery of the link between user and node");
const TO_US: Reason = Reason::new("tunnelled_to_us", "a packet in a tunnel is for the node itself");
const MARTIAN: Reason = Reason::new("martian", "an address that no router forwards");

/// Metadata of packets that must not leave their tunnel here.
const INSIDE_ONLY: u8 =
    PacketMetadata::LINK_SCOPE | PacketMetadata::OWN_INSIDE | PacketMetadata::MARTIAN_INSIDE;

/// How rules are carried out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Milliseconds of its maximum bit rate that may pass at once, 1 to 10,000; one packet
    /// always may.
    #[schemars(range(min = 1, max = 10_000))]
    pub burst_milliseconds: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { burst_milliseconds: 100 }
    }
}

/// Detects, measures and limits packets.
#[derive(Debug)]
pub struct SessionDetection {
    names: Names,
    slots: Slots,
    /// Depth of buckets, in nanoseconds.
    burst: u64,
    /// The time when rules change.
    now: u64,
    /// How that clock and the time of day are apart.
    noted: Noted,
}

impl UserPlaneFunction for SessionDetection {
    const NAME: &'static str = "session-detection";
    const SUMMARY: &'static str =
        "Carries out the packet detection, QoS and usage rules of PFCP sessions.";
    const WRITES: &'static [Tag] = &[DIRECTION, CHAIN, NETWORK, PDR, DESTINATION];
    const DROPS: &'static [Reason] = &[
        NO_SESSION,
        NO_PDR,
        NO_FAR,
        NO_DESTINATION,
        FAR_DROP,
        GATE,
        QUOTA,
        BIT_RATE,
        PACKET_RATE,
        BUFFER_FULL,
        END_MARKER,
        NOT_REMOVED,
        UNKNOWN_EXTENSION,
        LINK,
        TO_US,
        MARTIAN,
    ];
    const RETRIES_KEPT: bool = true;
    const CONTEXT_VERSION: u16 = 2;
    const OLDEST_VERSION: u16 = 1;

    type Config = Config;
    type Settings = Rules;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<SessionDetection, ConfigError> {
        let milliseconds = config.burst_milliseconds;
        if !(1..=10_000).contains(&milliseconds) {
            return Err(ConfigError::at("burstMilliseconds", "a burst lasts 1 to 10,000 ms"));
        }
        let slots = Slots { pdr: setup.tag(&PDR)?, destination: setup.tag(&DESTINATION)? };
        let burst = u64::from(milliseconds) * 1_000_000;
        Ok(SessionDetection {
            names: Names::of(setup.tags),
            slots,
            burst,
            now: 0,
            noted: Noted::default(),
        })
    }

    fn scope(&self) -> Scope {
        Scope::User
    }

    #[inline]
    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        // The usual packet of the usual session; see `context`.
        let at = usize::from(!packet.is_tunnelled());
        let flags = context.ways[at].flags;
        let has = |flag: u8| flags & flag != 0;
        if flags & (Way::USUAL | Way::CLOSED) != Way::USUAL || packet.is_end_marker() {
            return self.look_closer(packet, context, emit);
        }
        let uplink = has(Way::UPLINK);
        if has(Way::CHECKED) && !context.is_users(packet, uplink) {
            return Verdict::Drop(NO_PDR);
        }
        if has(Way::UNWRAP)
            && let Some(reason) = must_stay(packet)
        {
            return Verdict::Drop(reason);
        }
        let (octets, direction) = (packet.ip_length() as u64, usize::from(!uplink));
        if has(Way::METERED) {
            let mut bucket = context.bucket(direction);
            if !bucket.has_room(emit.now(), octets, self.burst) {
                return Verdict::Drop(BIT_RATE);
            }
            bucket.take(emit.now(), octets);
            context.full_at[direction] = bucket.full_at;
        }
        context.octets[direction] += octets;
        context.packets[direction] += 1;
        context.last = emit.now().cast_signed();
        if context.first == 0 {
            context.first = emit.now().cast_signed();
        }
        if context.octets[0] + context.octets[1] >= context.attention {
            attend(context, emit);
        }
        self.leave(packet, &context.ways[at])
    }

    fn check(&self, settings: &Rules, _: u32) -> Result<(), ConfigError> {
        check::check(&settings.0)?;
        for (at, rule) in settings.0.pdrs.iter().enumerate() {
            let network = rule.network.as_deref().map(|name| (name, self.names.network(name)));
            let chain = rule.chain.as_deref().map(|name| (name, self.names.chain(name)));
            for (key, what, name) in
                [("network", "network instance", network), ("chain", "chain", chain)]
            {
                if let Some((name, None)) = name {
                    let message = format!("there is no {what} `{name}`");
                    return Err(ConfigError::at(format!("pdrs.{at}.{key}"), message));
                }
            }
        }
        for (at, rule) in settings.0.fars.iter().enumerate() {
            let network = rule.forward.as_ref().and_then(|to| to.network.as_deref());
            if let Some(name) = network.filter(|name| self.names.network(name).is_none()) {
                let message = format!("there is no network instance `{name}`");
                return Err(ConfigError::at(format!("fars.{at}.forward.network"), message));
            }
        }
        Ok(())
    }

    fn tell_time(&mut self, now: u64) {
        self.now = now;
    }

    fn configure(&mut self, context: &mut Context, settings: &Rules, _: u32) {
        context.load(settings.0.clone(), &self.names, self.now);
    }

    fn ask(&mut self, context: &mut Context, now: u64, question: &[u8], answer: &mut Vec<u8>) {
        exchange::answer(context, now, question, answer);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        exchange::export(context, None, out);
    }

    fn export_as(&self, _: u16, context: &Context, out: &mut Vec<u8>) {
        // Version 1 has no time of day.
        exchange::export(context, None, out);
    }

    fn export_at(&self, context: &Context, now: u64, out: &mut Vec<u8>) {
        exchange::export(context, Some(self.noted.look(now, time_of_day::unix())), out);
    }

    fn export_state(&self, context: &Context, now: u64, out: &mut Vec<u8>) -> bool {
        exchange::export_state(context, self.noted.look(now, time_of_day::unix()), out);
        true
    }

    fn import_state(&mut self, context: &mut Context, bytes: &[u8]) -> Result<(), ContextError> {
        exchange::import_state(context, bytes)
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if !(Self::OLDEST_VERSION..=Self::CONTEXT_VERSION).contains(&version) {
            return Err(ContextError::Version(version));
        }
        exchange::import(bytes, version > 1, &self.names)
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        exchange::rebase(context, then, now, time_of_day::unix());
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        exchange::show(context)
    }
}

impl SessionDetection {
    /// Takes the packet out of its tunnel, as its rule says, and notes where it goes.
    #[inline(always)]
    fn leave(&self, packet: &mut Packet, way: &Way) -> Verdict {
        if way.has(Way::UNWRAP) {
            // It is in a tunnel, or the rule would not match.
            packet.unwrap_tunnel();
        }
        way.note(packet.metadata_mut(), &self.slots);
        Verdict::Forward
    }

    /// A packet that is not usual, or of a session that is not.
    #[cold]
    #[inline(never)]
    fn look_closer(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        let Some(record) = &mut context.record else { return Verdict::Drop(NO_SESSION) };
        if record.detectors.is_empty() {
            let way = context.ways[usize::from(!packet.is_tunnelled())];
            return self.unusual(packet, way, context);
        }
        let mut facts = Facts::of(packet);
        if let Some(domains) = &mut record.domains {
            facts.domains = domains.look(packet, emit.now());
        }
        let place = record.detectors.iter().position(|one| one.matches(packet, &facts));
        let Some(place) = place else { return Verdict::Drop(NO_PDR) };
        let (octets, means) = (&mut context.octets[0], (&self.names, self.burst));
        let passed = enforce(packet, (record, place), octets, means, emit);
        if passed.as_ref().is_ok_and(|passed| passed.is_measured) {
            context.last = emit.now().cast_signed();
        }
        if context.octets[0] >= context.attention {
            attend(context, emit);
        }
        let Passed { way, action, .. } = match passed {
            Ok(passed) => passed,
            Err(verdict) => return verdict,
        };
        let verdict = self.leave(packet, &way);
        if action != 0 {
            let tag = u32::from(way.pdr) | u32::from(action) << 16;
            self.slots.pdr.set(packet.metadata_mut(), tag);
        }
        verdict
    }

    /// A packet of the usual session that is not usual itself.
    fn unusual(&self, packet: &mut Packet, way: Way, context: &Context) -> Verdict {
        let Some(record) = &context.record else { return Verdict::Drop(NO_SESSION) };
        if !way.has(Way::USUAL) {
            return Verdict::Drop(NO_PDR);
        }
        if packet.is_end_marker() {
            return match way.has(Way::RELAYED) && !way.has(Way::UNWRAP) {
                true => self.leave(packet, &way),
                false => Verdict::Drop(END_MARKER),
            };
        }
        let uplink = way.has(Way::UPLINK);
        if way.has(Way::CHECKED) && !context.is_users(packet, uplink) {
            return Verdict::Drop(NO_PDR);
        }
        match gate_is_closed(&record.rules, way.pdr, uplink) {
            true => Verdict::Drop(GATE),
            false => Verdict::Drop(QUOTA),
        }
    }
}

/// Why a packet must not leave its tunnel here, if that is so.
#[inline(always)]
fn must_stay(packet: &Packet) -> Option<Reason> {
    if packet.metadata().flags & INSIDE_ONLY != 0 {
        return Some(why_inside(packet));
    }
    if packet.has_session_only() || !packet.has_extensions() { None } else { refuses(packet) }
}

/// Why a packet must not leave its tunnel.
#[cold]
fn why_inside(packet: &Packet) -> Reason {
    match packet.metadata().flags {
        flags if flags & PacketMetadata::LINK_SCOPE != 0 => LINK,
        flags if flags & PacketMetadata::OWN_INSIDE != 0 => TO_US,
        _ => MARTIAN,
    }
}

/// What is wrong with the extension headers around a packet (TS 29.281 §5.2.1).
#[inline(never)]
fn refuses(packet: &Packet) -> Option<Reason> {
    let must_know = |kind: ExtensionType| {
        let class = kind.comprehension();
        !kind.is_known() && matches!(class, Comprehension::ByEndpoint | Comprehension::ByAll)
    };
    let message = packet.message()?;
    let unknown = message.extensions().any(|extension| must_know(extension.kind));
    unknown.then_some(UNKNOWN_EXTENSION)
}

/// Something may be due.
#[cold]
#[inline(never)]
fn attend(context: &mut Context, emit: &mut Emit<'_>) {
    context.settle();
    let Some(record) = &mut context.record else { return };
    if look(record, emit.now()) && emit.report(USAGE) {
        note_told(&mut record.meters);
    }
    context.refresh();
}
