//! Panics in every part of a function that a worker calls: none of them leaves the call.

use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Kind, Outcome, PANIC, Positions, SlotShift};
use weft_dpdk::{Batch, Eal, EalOptions, Pool, tsc, watchdog};
use weft_function::{
    ConfigError, ContextError, Emit, Metadata, Packet, PacketMetadata, Scope, Setup, TagTable,
    UserPlaneFunction, Verdict,
};

/// Enough of them that contexts are asked for ahead of use.
const CONTEXTS: usize = 4096;

/// Panics where its configuration says.
struct Fragile(String);

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    at: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {}

#[derive(Default)]
struct Context(u64);

impl Fragile {
    fn at(&self, place: &str) {
        assert_eq!(watchdog::running(), Some("glass"), "the watchdog knows who runs");
        assert_ne!(self.0, place, "as asked");
    }
}

impl UserPlaneFunction for Fragile {
    const NAME: &'static str = "fragile";
    const SUMMARY: &'static str = "Panics.";
    const STAGES: usize = 2;
    const PREFETCHES: bool = true;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<Fragile, ConfigError> {
        assert_ne!(config.at, "new", "as asked");
        Ok(Fragile(config.at))
    }

    fn scope(&self) -> Scope {
        Scope::User
    }

    fn prefetch(&self, _: &Context) {
        self.at("prefetch");
    }

    fn look_ahead(&self, stage: usize, packet: &Packet, note: u64) -> u64 {
        if packet.data()[0] == b'!' && stage == 1 {
            self.at("look_ahead");
        }
        note + 1
    }

    fn process(&mut self, _: &mut Packet, context: &mut Context, emit: &mut Emit<'_>) -> Verdict {
        assert_eq!(emit.note(), 2, "both stages have seen it");
        context.0 += 1;
        Verdict::Forward
    }

    fn check(&self, _: &Settings, _: u32) -> Result<(), ConfigError> {
        self.at("check");
        Ok(())
    }

    fn configure(&mut self, context: &mut Context, _: &Settings, _: u32) {
        context.0 = 100;
        self.at("configure");
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        out.push(context.0 as u8);
        self.at("export");
    }

    fn import(&mut self, _: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        self.at("import");
        Ok(Context(bytes.len() as u64))
    }

    fn rebase(&mut self, _: &mut Context, _: u64, _: u64) {
        self.at("rebase");
    }

    fn release(&mut self, _: Context) {
        self.at("release");
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        self.at("show");
        vec![("packets", context.0)]
    }
}

const FRAGILE: Kind = Kind::of::<Fragile>();

fn try_make(at: &str) -> Result<Box<dyn Instance>, ConfigError> {
    let tags = TagTable::default();
    let setup = Setup {
        instance: "glass",
        tags: &tags,
        contexts: CONTEXTS,
        worker: 0,
        tsc_hz: tsc::hz(),
        trial: false,
        events: None,
    };
    FRAGILE.make(&json!({ "at": at }), &setup, SlotShift(0))
}

fn make(at: &str) -> Box<dyn Instance> {
    try_make(at).expect("an instance")
}

fn pool() -> Pool {
    static POOL: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    let options = EalOptions { memory_megabytes: 128, huge_pages: false, ..EalOptions::default() };
    let eal = Eal::start(&options).expect("the environment starts");
    POOL.get_or_init(|| Pool::new(eal, "panics", 1023).expect("memory for a pool")).clone()
}

/// Lets a packet for each letter visit, each of a user of its own.
fn visit(instance: &mut dyn Instance, letters: &str) -> Outcome {
    let mut burst = Burst { packets: Batch::new(), now: 100, pool: pool() };
    for (user, letter) in (0..).zip(letters.bytes()) {
        let mut packet = burst.pool.packet(&[letter; 60]).expect("a packet");
        *packet.metadata_mut() = PacketMetadata { user, ..Default::default() };
        burst.packets.push(packet).expect("there is room");
    }
    let mut outcome = Outcome::default();
    instance.visit(&mut burst, Positions::first(letters.len()), &mut outcome);
    outcome
}

fn packets(instance: &dyn Instance, slot: u32) -> u64 {
    instance.show(slot)[0].1
}

#[test]
fn fault_55_a_panic_ahead_of_a_packet_drops_that_packet_alone() {
    let mut instance = make("look_ahead");
    let outcome = visit(&mut *instance, "a!b!");
    assert_eq!((outcome.dropped, &outcome.resets[..]), (Positions(0b1010), &[1, 3][..]));
    let reason = usize::from(outcome.reasons[1]);
    assert_eq!(FRAGILE.reasons().nth(reason), Some(&PANIC));
    assert_eq!([0, 1, 2, 3].map(|slot| packets(&*instance, slot)), [1, 0, 1, 0]);
    let all = visit(&mut *instance, &"!".repeat(Batch::CAPACITY));
    assert_eq!(all.dropped, Positions::first(Batch::CAPACITY));
    assert_eq!(all.resets.len(), Batch::CAPACITY);
    assert_eq!(watchdog::running(), None, "nothing runs behind a visit");
}

#[test]
fn fault_55_a_panic_ahead_of_a_context_harms_no_packet() {
    let mut instance = make("prefetch");
    let outcome = visit(&mut *instance, "abc");
    assert_eq!((outcome.dropped, outcome.resets.len()), (Positions::NONE, 0));
    assert_eq!([0, 1, 2].map(|slot| packets(&*instance, slot)), [1, 1, 1]);
}

#[test]
fn fault_55_a_context_that_cannot_be_read_leaves_the_one_that_is_there() {
    let mut bytes = Vec::new();
    make("nowhere").export(0, 7, &mut bytes);
    for at in ["import", "rebase"] {
        let mut instance = make(at);
        visit(&mut *instance, "aa");
        assert_eq!(instance.import(1, 9, &bytes), Err(ContextError::Panicked), "{at}");
        assert_eq!(packets(&*instance, 1), 1, "{at}");
    }
    let mut instance = make("release");
    assert_eq!(instance.import(1, 9, &bytes), Ok(()), "what was there before is lost");
    assert_eq!(packets(&*instance, 1), 1);
}

#[test]
fn fault_55_half_a_context_is_none() {
    let instance = make("export");
    let mut bytes = vec![1, 2, 3];
    instance.export(0, 7, &mut bytes);
    assert_eq!(bytes, [1, 2, 3]);
}

#[test]
fn fault_55_a_panic_over_settings_is_a_mistake_and_leaves_a_fresh_context() {
    assert!(try_make("new").is_err_and(|error| error.to_string().contains("panicked")));
    let settings = FRAGILE.settings(&Value::Null).expect("settings");
    let mistake = make("check").check(&settings, 1).expect_err("a mistake");
    assert!(mistake.to_string().contains("panicked"), "{mistake}");
    let mut instance = make("configure");
    visit(&mut *instance, "a");
    instance.configure(0, &settings, 0);
    assert_eq!(packets(&*instance, 0), 0);
    make("configure").release(0);
    assert!(make("show").show(0).is_empty());
}
