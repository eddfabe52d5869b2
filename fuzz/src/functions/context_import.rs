//! Contexts that another node sends, for every function: an input says which, how its own
//! export is changed, and the change.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use serde_json::Value;
use weft_compose::{Burst, Instance, Kind, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{Metadata, Setup, TagTable};
use weft_functions::KINDS;
use weft_wire::Protocol;

use crate::support::{eal, frame, metadata};

/// Contexts of an instance.
const CONTEXTS: usize = 4;
/// The one that is imported.
const SLOT: u32 = 1;
/// Version and time in front of what a function exports.
const HEAD: usize = 10;

/// A function, configured as its page shows it.
struct Subject {
    kind: &'static Kind,
    instance: Box<dyn Instance>,
    settings: Option<Value>,
    pool: Pool,
    now: u64,
}

thread_local! {
    static SUBJECTS: &'static RefCell<Vec<Subject>> = {
        let pool = Pool::new(eal(), "imports", 255).expect("a pool");
        let subjects = KINDS.iter().map(|kind| Subject::new(kind, pool.clone())).collect();
        Box::leak(Box::new(RefCell::new(subjects)))
    };
}

/// Configuration and settings of a function in the example on its page.
fn example(kind: &Kind) -> (Value, Option<Value>) {
    let page = format!("../docs/functions/{}.md", kind.name);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&page).expect("every function has a page");
    let (_, block) = text.split_once("```yaml\n").expect("with an example");
    let (block, _) = block.split_once("```").expect("that ends");
    let node: Value = serde_yaml_ng::from_str(block).expect("in YAML");
    let functions = node["functions"].as_object().expect("with functions");
    let (name, function) = functions
        .iter()
        .find(|(_, function)| function["function"] == kind.name)
        .expect("and this one among them");
    let users = node["users"].as_array().into_iter().flatten();
    let groups = node["groups"].as_object().into_iter().flat_map(|groups| groups.values());
    let settings = users.chain(groups).find_map(|one| one["functions"].get(name)).cloned();
    let mut config = function["config"].clone();
    if kind.name == "nat" {
        // The same input does the same.
        config["portSeed"] = 7.into();
    }
    (config, settings)
}

impl Subject {
    fn new(kind: &'static Kind, pool: Pool) -> Subject {
        let (config, settings) = example(kind);
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
        }
        let (contexts, tsc_hz) = (CONTEXTS, tsc::hz());
        let setup = Setup {
            instance: "fuzzed",
            tags: &tags,
            contexts,
            worker: 0,
            tsc_hz,
            trial: false,
            events: None,
        };
        let instance = kind.make(&config, &setup, SlotShift(0)).expect("the example works");
        Subject { kind, instance, settings, pool, now: 1 << 40 }
    }

    /// A context as a user has it at first.
    fn begin(&mut self) {
        // What was held back of earlier inputs is free again.
        self.now += 1 << 40;
        self.instance.release(SLOT);
        let Some(settings) = &self.settings else { return };
        let settings = self.kind.settings(settings).expect("the example works");
        let nth = if self.instance.check(&settings, 8).is_ok() { 3 } else { 0 };
        self.instance.configure(SLOT, &settings, nth);
    }

    /// Packets of the user, in both directions.
    fn carry(&mut self, seed: u8) {
        for number in 0..4 {
            let what = seed.wrapping_add(number);
            let protocol = if what & 2 == 0 { Protocol::UDP } else { Protocol::TCP };
            let ends = if what & 4 == 0 { [1, 2] } else { [2, 1] };
            let mut transport = vec![0; 48];
            (transport[1], transport[3], transport[12]) = (what, 80, 0x50);
            self.visit(&frame(what & 1 != 0, protocol, ends, &transport), what);
            self.now += 1_000_000;
        }
    }

    fn visit(&mut self, frame: &[u8], what: u8) {
        let Some(mut found) = metadata(frame) else { return };
        (found.user, found.bearer, found.group) = (SLOT, SLOT, SLOT);
        found.tags = [u32::from(what >> 2 & 1); 8];
        let mut packet = self.pool.packet(frame).expect("a buffer");
        *packet.metadata_mut() = found;
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        self.instance.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "{} panicked", self.kind.name);
    }

    fn export(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        self.instance.export(SLOT, self.now, &mut octets);
        // Contexts of sessions say which time of day it was, which is the machine's, behind version,
        // time and rules: one that never comes.
        if self.kind.name == "session-detection" && octets.len() > 10 {
            let at = octets.len() - 16;
            octets[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
        }
        octets
    }

    /// What is exported after the move of a context that was exported.
    fn moved(&mut self, octets: &[u8]) -> Vec<u8> {
        self.instance.release(SLOT);
        let again = self.instance.import(SLOT, self.now, octets);
        again.unwrap_or_else(|error| panic!("{} refuses its own export: {error}", self.kind.name));
        self.export()
    }

    fn import(&mut self, octets: &[u8], seed: u8) {
        let before = self.export();
        if self.instance.import(SLOT, self.now, octets).is_err() {
            assert_eq!(self.export(), before, "{}: refused, but changed", self.kind.name);
        }
        self.carry(seed);
        let after = self.export();
        // A move brings a context up to the time of the move; the next one changes nothing.
        let moved = self.moved(&after);
        assert_eq!(self.moved(&moved), moved, "{}: a move changes it", self.kind.name);
        self.carry(seed);
    }
}

/// What is imported: `whole` was exported.
fn changed(how: u8, whole: &[u8], change: &[u8]) -> Vec<u8> {
    let head = &whole[..HEAD.min(whole.len())];
    match how & 3 {
        0 => [head, change].concat(),
        1 => {
            let mut octets = whole.to_vec();
            for one in change.chunks_exact(3) {
                let at = usize::from(u16::from_be_bytes([one[0], one[1]])) % octets.len().max(1);
                if let Some(octet) = octets.get_mut(at) {
                    *octet = one[2];
                }
            }
            octets
        }
        2 => {
            let at = usize::from(change.first().copied().unwrap_or_default());
            [&whole[..at.min(whole.len())], change.get(1..).unwrap_or_default()].concat()
        }
        _ => change.to_vec(),
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let [which, how, change @ ..] = bytes else { return };
    SUBJECTS.with(|subjects| {
        let mut subjects = subjects.borrow_mut();
        let count = subjects.len();
        let subject = &mut subjects[usize::from(*which) % count];
        subject.begin();
        if how & 4 != 0 {
            subject.carry(how >> 3);
        }
        let octets = changed(*how, &subject.export(), change);
        subject.import(&octets, how >> 3);
    });
}
