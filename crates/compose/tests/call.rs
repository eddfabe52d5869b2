//! What a called function can do to a burst, and what it cannot.

use std::sync::OnceLock;

use serde_json::json;
use weft_compose::{
    Burst, Instance, KEEP_REFUSED, Kind, Outcome, PANIC, Positions, SlotShift, UNDECLARED,
};
use weft_dpdk::{Batch, Eal, EalOptions, Pool, tsc};
use weft_function::{
    ConfigError, ContextError, Emission, EmissionKind, Emit, Fields, Metadata, Packet,
    PacketMetadata, Position, Reason, Scope, Setup, TagTable, UserPlaneFunction, Verdict,
};

const ASKED: Reason = Reason::new("asked_to_drop", "the packet asked for it");

/// Does what the first byte of a packet says.
struct Obedient {
    scope: Scope,
    released: u64,
    abandoned: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    scope: Scope,
    #[serde(default)]
    numbers: Vec<u8>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    start: u64,
}

#[derive(Default)]
struct Context {
    packets: u64,
    timers: u64,
}

impl UserPlaneFunction for Obedient {
    const NAME: &'static str = "obedient";
    const SUMMARY: &'static str = "Does what the first byte of a packet says.";
    const DROPS: &'static [Reason] = &[Reason::new("never", "happens to no packet"), ASKED];

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<Obedient, ConfigError> {
        match config.numbers.iter().position(|number| *number == 0) {
            Some(index) => Err(ConfigError::at(format!("numbers.{index}"), "must not be 0")),
            None => Ok(Obedient { scope: config.scope, released: 0, abandoned: 0 }),
        }
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn process(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        emit: &mut Emit<'_>,
    ) -> Verdict {
        context.packets += 1;
        match packet.data()[0] {
            b'!' => panic!("as asked"),
            b'x' => return Verdict::Drop(ASKED),
            b'?' => return Verdict::Drop(Reason::new("not_declared", "")),
            b'k' => return Verdict::Keep,
            b'r' => assert!(emit.release(2)),
            b'd' => {
                emit.duplicate(packet);
            }
            b's' => {
                for position in [Position::Before, Position::After] {
                    let sent = emit.allocate(packet.metadata());
                    emit.send(sent.expect("a packet"), position);
                }
            }
            b'w' => assert!(emit.wake_at(emit.now() + 10)),
            _ => packet.data_mut()[0] += 1,
        }
        Verdict::Forward
    }

    fn timer(&mut self, context: &mut Context, emit: &mut Emit<'_>) {
        context.timers += 1;
        assert!(context.timers < 3, "as asked");
        emit.release(1);
    }

    fn check(&self, settings: &Settings, _: u32) -> Result<(), ConfigError> {
        match settings.start {
            0 => Err(ConfigError::at("start", "must not be 0")),
            _ => Ok(()),
        }
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        context.packets = settings.start + u64::from(nth);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        out.extend_from_slice(&context.packets.to_le_bytes());
    }

    fn import(&mut self, _: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        let mut fields = Fields::new(bytes);
        let context = Context { packets: fields.u64()?, timers: 0 };
        fields.end().map(|()| context)
    }

    fn rebase(&mut self, context: &mut Context, then: u64, now: u64) {
        context.timers = now - then;
    }

    fn go_on(&mut self, contexts: &mut [Context], now: u64) {
        contexts.iter_mut().for_each(|context| context.timers += now);
    }

    fn release(&mut self, context: Context) {
        assert!(context.packets < 1000, "as asked");
        self.released += 1;
    }

    fn abandon(&mut self, context: Context) {
        self.abandoned += context.packets;
        assert!(context.packets < 1000, "as asked");
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        let Obedient { released, abandoned, .. } = *self;
        let Context { packets, timers } = *context;
        vec![
            ("packets", packets),
            ("timers", timers),
            ("released", released),
            ("abandoned", abandoned),
        ]
    }
}

/// The same under another name.
struct Other(Obedient);

impl UserPlaneFunction for Other {
    const NAME: &'static str = "other";
    const SUMMARY: &'static str = "Forwards.";
    const STAGES: usize = 2;

    type Config = Config;
    type Settings = Config;
    type Context = Context;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Other, ConfigError> {
        Obedient::new(config, setup).map(Other)
    }

    /// Notes the first byte, then the stage behind it.
    fn look_ahead(&self, stage: usize, packet: &Packet, note: u64) -> u64 {
        match stage {
            0 => packet.data()[0].into(),
            _ => note << 8 | stage as u64,
        }
    }

    fn process(&mut self, packet: &mut Packet, _: &mut Context, emit: &mut Emit<'_>) -> Verdict {
        packet.data_mut()[1..9].copy_from_slice(&emit.note().to_be_bytes());
        Verdict::Forward
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        self.0.export(context, out);
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        self.0.import(version, bytes)
    }
}

const OBEDIENT: Kind = Kind::of::<Obedient>();
const OTHER: Kind = Kind::of::<Other>();
const CONTEXTS: usize = 4;

fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 128, huge_pages: false, ..EalOptions::default() };
    Eal::start(&options).expect("the environment starts")
}

fn pool() -> Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::new(eal(), "call", 1023).expect("memory for a pool")).clone()
}

fn try_make(kind: &Kind, config: serde_json::Value) -> Result<Box<dyn Instance>, ConfigError> {
    let tags = TagTable::default();
    let (contexts, tsc_hz) = (CONTEXTS, tsc::hz());
    let setup = Setup {
        instance: "test",
        tags: &tags,
        contexts,
        worker: 0,
        tsc_hz,
        trial: false,
        events: None,
    };
    kind.make(&config, &setup, SlotShift(0))
}

fn make(kind: &Kind) -> Box<dyn Instance> {
    try_make(kind, json!({})).expect("an instance")
}

/// A burst of one packet for each letter, of the users of these slots in turn.
fn burst(letters: &str, users: &[u32]) -> Burst {
    let mut burst = Burst { packets: Batch::new(), now: 100, pool: pool() };
    for (letter, user) in letters.bytes().zip(users.iter().cycle()) {
        let mut packet = burst.pool.packet(&[letter; 60]).expect("a packet");
        *packet.metadata_mut() =
            PacketMetadata { user: *user, group: PacketMetadata::NONE, ..Default::default() };
        burst.packets.push(packet).expect("there is room");
    }
    burst
}

fn visit(instance: &mut dyn Instance, burst: &mut Burst) -> Outcome {
    let mut outcome = Outcome::default();
    instance.visit(burst, Positions::first(burst.packets.len()), &mut outcome);
    outcome
}

fn first_bytes(burst: &Burst) -> String {
    burst.packets.iter().map(|packet| char::from(packet.data()[0])).collect()
}

fn shown(instance: &dyn Instance, slot: u32, name: &str) -> u64 {
    let shown = instance.show(slot);
    shown.iter().find(|(known, _)| *known == name).expect("it is shown").1
}

#[test]
fn only_the_selected_packets_are_visited() {
    let mut instance = make(&OBEDIENT);
    let mut burst = burst("aaaa", &[0, 1]);
    let mut outcome = Outcome::default();
    instance.visit(&mut burst, Positions(0b0110), &mut outcome);
    assert_eq!(first_bytes(&burst), "abba");
    assert!(outcome.dropped.is_empty() && outcome.emissions.is_empty());
    assert_eq!([0, 1].map(|slot| shown(&*instance, slot, "packets")), [1, 1]);
}

#[test]
fn what_was_noted_of_a_packet_comes_with_it() {
    let mut instance = make(&OTHER);
    let mut burst = burst("abcd", &[0]);
    instance.visit(&mut burst, Positions(0b1011), &mut Outcome::default());
    let notes = burst.packets.iter().map(|packet| &packet.data()[7..9]);
    assert_eq!(notes.collect::<Vec<_>>(), [b"a\x01", b"b\x01", b"cc", b"d\x01"]);
}

/// Fault 55: a panic inside a function.
#[test]
fn fault_55_a_panic_drops_its_packet_and_resets_its_user() {
    let mut instance = make(&OBEDIENT);
    let mut burst = burst("aaa!aaa!", &[0, 1, 2, 1]);
    let outcome = visit(&mut *instance, &mut burst);
    assert_eq!(first_bytes(&burst), "bbb!bbb!");
    assert_eq!(outcome.dropped, Positions(0b1000_1000));
    assert_eq!([3, 7].map(|position| reason(&outcome, position)), [PANIC, PANIC]);
    assert_eq!(outcome.resets[..], [1, 1]);
    assert_eq!([0, 1, 2].map(|slot| shown(&*instance, slot, "packets")), [2, 0, 2]);
    // A context that is half changed is not given back like a whole one.
    assert_eq!(shown(&*instance, 0, "released"), 0);
    assert_eq!(shown(&*instance, 0, "abandoned"), 2 + 2, "what it holds is given back");
}

#[test]
fn fault_55_every_packet_of_a_full_burst_may_panic() {
    let mut instance = make(&OBEDIENT);
    let mut burst = burst(&"!".repeat(Batch::CAPACITY), &[0]);
    let outcome = visit(&mut *instance, &mut burst);
    assert_eq!(outcome.dropped, Positions::first(Batch::CAPACITY));
    assert_eq!(outcome.resets.len(), Batch::CAPACITY);
}

/// Why the packet at `position` was dropped.
fn reason(outcome: &Outcome, position: usize) -> Reason {
    *OBEDIENT.reasons().nth(usize::from(outcome.reasons[position])).unwrap()
}

#[test]
fn drops_have_their_reasons() {
    let mut instance = make(&OBEDIENT);
    let outcome = visit(&mut *instance, &mut burst("ax?", &[0]));
    assert_eq!(outcome.dropped, Positions(0b110));
    assert_eq!([1, 2].map(|position| reason(&outcome, position)), [ASKED, UNDECLARED]);
    assert!(outcome.resets.is_empty());
}

#[test]
fn a_packet_that_cannot_be_kept_is_dropped_for_that() {
    let mut instance = make(&OBEDIENT);
    let mut outcome = visit(&mut *instance, &mut burst(&"r".repeat(Batch::CAPACITY), &[0]));
    instance.visit(&mut burst("k", &[0]), Positions(1), &mut outcome);
    assert_eq!((outcome.kept, outcome.dropped), (Positions::NONE, Positions(1)));
    assert_eq!(reason(&outcome, 0), KEEP_REFUSED);
}

#[test]
fn what_is_emitted_names_its_parent() {
    let mut instance = make(&OBEDIENT);
    let mut burst = burst("asdkrw", &[3]);
    let outcome = visit(&mut *instance, &mut burst);
    assert_eq!(outcome.kept, Positions(0b001000));
    let emissions: Vec<_> = outcome.emissions.iter().collect();
    assert_eq!(emissions.iter().map(|one| one.parent).collect::<Vec<_>>(), [1, 1, 2, 3, 4, 5]);
    let [before, after, copy, keep, release, wake] = emissions[..] else { unreachable!() };
    assert!(matches!(&before.what, EmissionKind::Send(_, Position::Before)));
    assert!(matches!(&after.what, EmissionKind::Send(_, Position::After)));
    let EmissionKind::Send(packet, Position::After) = &copy.what else { panic!("{copy:?}") };
    assert_eq!(packet.data(), burst.packets[2].data());
    assert_eq!(packet.metadata(), burst.packets[2].metadata());
    assert_ne!(packet.data().as_ptr(), burst.packets[2].data().as_ptr(), "a deep copy");
    assert!(matches!(keep.what, EmissionKind::Keep));
    assert!(matches!(release.what, EmissionKind::Release(2)));
    assert!(matches!(wake.what, EmissionKind::WakeAt(110)));
    assert_eq!(outcome.refused, 0);
}

#[test]
fn what_there_is_no_room_for_is_refused_and_given_back() {
    let pool = Pool::new(eal(), "room", 255).expect("memory for a pool");
    let mut instance = make(&OBEDIENT);
    let mut burst = burst(&("s".repeat(40) + "k"), &[0]);
    burst.pool = pool.clone();
    let outcome = visit(&mut *instance, &mut burst);
    assert_eq!(outcome.emissions.len(), Batch::CAPACITY);
    assert_eq!(outcome.refused, 2 * 40 - Batch::CAPACITY as u64);
    // To keep a packet without saying so would lose it.
    assert_eq!((outcome.kept, outcome.dropped), (Positions::NONE, Positions(1 << 40)));
    drop(outcome);
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn without_packets_nothing_is_duplicated() {
    let pool = Pool::new(eal(), "empty", 255).expect("memory for a pool");
    let taken: Vec<Packet> = std::iter::from_fn(|| pool.allocate()).collect();
    let mut instance = make(&OBEDIENT);
    let mut burst = burst("da", &[0]);
    burst.pool = pool;
    let outcome = visit(&mut *instance, &mut burst);
    assert_eq!((outcome.refused, outcome.emissions.len()), (1, 0));
    assert_eq!(first_bytes(&burst), "db");
    assert_eq!(taken.len(), 255);
}

#[test]
fn a_timer_emits_without_a_packet_and_may_panic() {
    let mut instance = make(&OBEDIENT);
    let mut outcome = Outcome::default();
    for _ in 0..2 {
        instance.timer(1, 500, &pool(), &mut outcome);
    }
    assert_eq!(outcome.emissions.len(), 2);
    assert!(outcome.emissions.iter().all(|one| one.parent == Emission::NO_PACKET));
    assert!(outcome.resets.is_empty());
    instance.timer(1, 500, &pool(), &mut outcome);
    assert_eq!(outcome.resets[..], [1]);
    assert_eq!(shown(&*instance, 1, "timers"), 0);
    instance.timer(CONTEXTS as u32, 500, &pool(), &mut outcome);
    assert_eq!(outcome.resets.len(), 1, "there is no such context");
}

#[test]
fn a_packet_without_a_context_passes() {
    let mut of_groups = try_make(&OBEDIENT, json!({ "scope": "group" })).expect("an instance");
    for (instance, user) in [(&mut of_groups, 0), (&mut make(&OBEDIENT), CONTEXTS as u32)] {
        let mut burst = burst("!x", &[user]);
        let outcome = visit(&mut **instance, &mut burst);
        assert_eq!((first_bytes(&burst).as_str(), outcome.dropped), ("!x", Positions::NONE));
    }
}

#[test]
fn settings_are_checked_and_given_to_each_user() {
    let mut instance = make(&OBEDIENT);
    let settings = OBEDIENT.settings(&json!({ "start": 40 })).expect("settings");
    assert_eq!(instance.check(&settings, 3), Ok(()));
    instance.configure(2, &settings, 2);
    assert_eq!(shown(&*instance, 2, "packets"), 42);
    let wrong = OBEDIENT.settings(&json!({ "start": 0 })).expect("settings");
    assert_eq!(instance.check(&wrong, 1).unwrap_err().path, "start");
    assert_eq!(OBEDIENT.settings(&json!({ "start": -1 })).unwrap_err().path, "start");
    let foreign = OTHER.settings(&json!({})).expect("settings");
    assert!(instance.check(&foreign, 1).is_err());
    instance.configure(2, &foreign, 0);
    assert_eq!(shown(&*instance, 2, "packets"), 42);
}

#[test]
fn a_mistake_is_found_by_its_path() {
    let path = |config| try_make(&OBEDIENT, config).err().expect("a mistake").path;
    assert_eq!(path(json!({ "numbers": [1, 0] })), "numbers.1");
    assert_eq!(path(json!({ "numbers": [1, 2, 256] })), "numbers.2");
    assert_eq!(path(json!({ "scope": "world" })), "scope");
    assert_eq!(path(json!("text")), "");
    assert!(try_make(&OBEDIENT, serde_json::Value::Null).is_ok());
}

#[test]
fn a_context_moves_with_the_time_it_was_exported_at() {
    let (mut source, mut target) = (make(&OBEDIENT), make(&OBEDIENT));
    visit(&mut *source, &mut burst("aaa", &[1]));
    let mut bytes = Vec::new();
    source.export(1, 1000, &mut bytes);
    assert_eq!(target.import(2, 1007, &bytes), Ok(()));
    assert_eq!(["packets", "timers"].map(|name| shown(&*target, 2, name)), [3, 7]);
    assert_eq!(shown(&*target, 2, "released"), 1, "what was there before");
    for end in 0..bytes.len() {
        assert_eq!(target.import(2, 0, &bytes[..end]), Err(ContextError::Damaged));
    }
    assert_eq!(shown(&*target, 2, "packets"), 3);
    bytes.clear();
    source.export(CONTEXTS as u32, 0, &mut bytes);
    assert!(bytes.is_empty(), "there is no such context");
}

#[test]
fn contexts_skip_ahead_all_at_once_or_one_by_one() {
    let mut instance = make(&OBEDIENT);
    let timers = |instance: &dyn Instance| [0, 1].map(|slot| shown(instance, slot, "timers"));
    instance.go_on(1000);
    assert_eq!(timers(&*instance), [1000, 1000]);
    instance.go_on_at(1, 1);
    instance.go_on_at(CONTEXTS as u32, 1);
    assert_eq!(timers(&*instance), [1000, 1001]);
}

#[test]
fn a_released_context_is_fresh_even_after_a_panic() {
    let mut instance = make(&OBEDIENT);
    let settings = OBEDIENT.settings(&json!({ "start": 1000 })).expect("settings");
    instance.configure(0, &settings, 0);
    visit(&mut *instance, &mut burst("a", &[1]));
    instance.release(0);
    instance.release(1);
    assert_eq!([0, 1].map(|slot| shown(&*instance, slot, "packets")), [0, 0]);
    assert_eq!(shown(&*instance, 0, "released"), 1);
}

#[test]
fn contexts_are_adopted_from_the_same_function_only() {
    let mut previous = make(&OBEDIENT);
    visit(&mut *previous, &mut burst("aa", &[1]));
    assert!(!make(&OTHER).adopt(&mut *previous));
    let mut of_groups = try_make(&OBEDIENT, json!({ "scope": "group" })).expect("an instance");
    assert!(!of_groups.adopt(&mut *previous));
    let mut next = make(&OBEDIENT);
    assert!(next.adopt(&mut *previous));
    assert_eq!(shown(&*next, 1, "packets"), 2);
}
