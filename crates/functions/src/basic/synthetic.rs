//! `synthetic`: a function whose cost is configured: cycles, and random
//! accesses to a working set (Hahn et al., Compound Chained Network Functions,
//! §V, table 3).

use std::hint::black_box;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_dpdk::tsc;
use weft_function::lower::{Builder, ContextField, Operator, Program};
use weft_function::{
    ByteSize, ConfigError, ContextError, Emit, Lower, NoSettings, Packet, Setup, UserPlaneFunction,
    Verdict,
};

use crate::common::export::nothing;

/// What is accessed at once.
const LINE_BYTES: u64 = 64;
const MAX_WORKING_SET: ByteSize = ByteSize(8 << 30);
/// Steps that one measurement of the calibration takes: some 20 microseconds,
/// short enough to be left alone by the scheduler most of the time.
const CALIBRATION_STEPS: u64 = 10_000;
const CALIBRATION_RUNS: u32 = 32;

/// Multiplier and increment of Knuth's MMIX generator.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
/// More steps are not written out as a program of micro-operations.
const MOST_FUSED_STEPS: u64 = 2048;

/// What is spent on every packet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Cycles of the time-stamp counter that are spent on a computation.
    #[serde(default)]
    pub cycles: u32,
    /// Random accesses to the working set, one cache line each.
    #[serde(default)]
    pub accesses: u32,
    /// Whether each access waits for the one before, as in a walk over a tree
    /// or a list. Otherwise they overlap.
    #[serde(default)]
    pub dependent: bool,
    /// Size of the working set of each instance, at most 8 GiB. There is an
    /// instance on every worker.
    #[serde(default)]
    pub working_set: ByteSize,
}

/// Spends a configured amount of cycles and accesses on every packet.
#[derive(Debug)]
pub struct Synthetic {
    cycles: u32,
    /// By its name: so that two instances do not compute the same, which need be done once.
    seed: u64,
    steps: u64,
    accesses: u32,
    dependent: bool,
    /// Random numbers.
    working_set: Vec<[u64; LINE_BYTES as usize / 8]>,
    /// What was computed so far, so that nothing can be left out.
    state: u64,
}

impl UserPlaneFunction for Synthetic {
    const NAME: &'static str = "synthetic";
    const SUMMARY: &'static str =
        "Spends a given number of cycles and random memory accesses on every packet.";

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(config: Config, setup: &Setup<'_>) -> Result<Synthetic, ConfigError> {
        let Config { cycles, accesses, dependent, working_set } = config;
        if accesses > 0 && working_set.0 < LINE_BYTES {
            let message = format!("accesses need at least one cache line, {LINE_BYTES} B");
            return Err(ConfigError::at("workingSet", message));
        }
        if working_set > MAX_WORKING_SET {
            let message = format!("{working_set} is more than {MAX_WORKING_SET}");
            return Err(ConfigError::at("workingSet", message));
        }
        let (steps, working_set) = match setup.trial {
            true => (0, Vec::new()),
            false => (if cycles == 0 { 0 } else { steps(cycles) }, fill(working_set)?),
        };
        let seed = setup.instance.bytes().fold(1, |seed, byte| step(seed ^ u64::from(byte)));
        Ok(Synthetic { cycles, seed, steps, accesses, dependent, working_set, state: 1 })
    }

    #[inline]
    fn process(&mut self, _: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        self.state = compute(self.state, self.steps);
        self.state = match self.dependent {
            true => self.access_in_turn(),
            false => self.access(),
        };
        Verdict::Forward
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        nothing(version, bytes)
    }
}

impl Lower for Synthetic {
    const FIELDS: &'static [ContextField] = &[];

    /// The same steps one behind the other, as programs have no loops.
    fn lower(&self, mut program: Builder) -> Option<Program> {
        let steps = if self.cycles == 0 { 0 } else { steps(self.cycles) };
        if self.accesses > 0 || steps > MOST_FUSED_STEPS {
            return None;
        }
        let punt = program.label();
        let (multiplier, increment) = (program.constant(MULTIPLIER), program.constant(INCREMENT));
        let (length, seed) = (program.length(), program.constant(self.seed));
        let mut state = program.arithmetic(Operator::ExclusiveOr, length, seed);
        for _ in 0..steps {
            state = program.arithmetic(Operator::Multiply, state, multiplier);
            state = program.add(state, increment);
        }
        // Something has to depend on the result, or the optimiser leaves the steps out; what
        // is punted is processed as any other packet.
        let is_found = program.is(state, u64::MAX);
        program.branch(is_found, punt);
        program.forward();
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

impl Synthetic {
    /// The addresses depend on no access, so the processor overlaps them.
    fn access(&self) -> u64 {
        let (mut address, mut sum) = (self.state, 0_u64);
        for _ in 0..self.accesses {
            address = step(address);
            sum = sum.wrapping_add(self.load(address));
        }
        address ^ black_box(sum) & 1
    }

    /// Each address depends on what the access before it found.
    fn access_in_turn(&self) -> u64 {
        let mut address = self.state;
        for _ in 0..self.accesses {
            address = step(address ^ self.load(address));
        }
        address
    }

    /// A word of the line that a random number stands for.
    #[inline(always)]
    fn load(&self, random: u64) -> u64 {
        let line = (u128::from(random) * self.working_set.len() as u128) >> 64;
        self.working_set.get(line as usize).map_or(0, |line| line[0])
    }
}

/// Random lines, so that every page is really there.
fn fill(size: ByteSize) -> Result<Vec<[u64; LINE_BYTES as usize / 8]>, ConfigError> {
    let lines = (size.0 / LINE_BYTES) as usize;
    let mut working_set = Vec::new();
    working_set.try_reserve_exact(lines).map_err(|_| {
        ConfigError::at("workingSet", format!("the machine does not give {size} of memory"))
    })?;
    let mut state = 1;
    working_set.resize_with(lines, || {
        std::array::from_fn(|_| {
            state = step(state);
            state
        })
    });
    Ok(working_set)
}

/// One step of the computation, and of the random numbers: each needs the one
/// before, so the processor cannot overlap them.
#[inline(always)]
fn step(state: u64) -> u64 {
    state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
}

#[inline(never)]
fn compute(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        // The compiler would combine several steps into one.
        state = black_box(step(state));
    }
    state
}

/// Steps that take `cycles`. They are measured here, once, as the fastest of
/// several runs: interruptions only ever make a run slower.
fn steps(cycles: u32) -> u64 {
    let fastest = (0..CALIBRATION_RUNS)
        .map(|run| {
            let start = tsc::now();
            black_box(compute(u64::from(run), CALIBRATION_STEPS));
            tsc::now().wrapping_sub(start)
        })
        .min()
        .unwrap_or(CALIBRATION_STEPS);
    (u64::from(cycles) * CALIBRATION_STEPS / fastest.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kind;
    use crate::testing::{Rig, Spec};

    #[test]
    fn packets_pass_as_they_are() {
        for dependent in [false, true] {
            let config = json!({
                "cycles": 250, "accesses": 100, "workingSet": "64 KiB", "dependent": dependent
            });
            let mut rig = Rig::new(kind("synthetic").unwrap(), config).unwrap();
            let spec = Spec::udp(b"payload");
            let seen = rig.send(&spec);
            assert_eq!((seen.bytes, seen.dropped), (spec.frame(), None));
        }
        assert!(Rig::new(kind("synthetic").unwrap(), Value::Null).is_ok());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config| Rig::new(kind("synthetic").unwrap(), config).err().unwrap();
        assert_eq!(error(json!({ "accesses": 1 })).path, "workingSet");
        assert_eq!(error(json!({ "workingSet": "9 GiB" })).path, "workingSet");
        assert_eq!(error(json!({ "cycles": -1 })).path, "cycles");
    }

    #[test]
    fn a_trial_takes_no_memory() {
        let tags = weft_function::TagTable::default();
        let setup = Setup {
            instance: "test",
            tags: &tags,
            contexts: 1,
            worker: 0,
            tsc_hz: 1,
            trial: true,
            events: None,
        };
        let config = Config { cycles: 250, working_set: MAX_WORKING_SET, ..Config::default() };
        let synthetic = Synthetic::new(config, &setup).unwrap();
        assert_eq!(synthetic.working_set.capacity(), 0);
        let config = Config { accesses: 1, ..Config::default() };
        assert_eq!(Synthetic::new(config, &setup).unwrap_err().path, "workingSet");
    }

    impl Synthetic {
        fn idle() -> Synthetic {
            Synthetic {
                cycles: 0,
                seed: 1,
                steps: 0,
                accesses: 0,
                dependent: false,
                working_set: Vec::new(),
                state: 1,
            }
        }
    }

    #[test]
    fn what_programs_cannot_say_is_called() {
        let lowered = |synthetic: Synthetic| synthetic.lower(Builder::of::<Synthetic>());
        assert!(lowered(Synthetic::idle()).is_some());
        assert!(lowered(Synthetic { accesses: 1, ..Synthetic::idle() }).is_none());
        assert!(lowered(Synthetic { cycles: u32::MAX, ..Synthetic::idle() }).is_none());
    }

    /// As many accesses as lines find nearly two thirds of them.
    #[test]
    fn accesses_go_everywhere() {
        const LINES: usize = 1024;
        for dependent in [false, true] {
            let working_set: Vec<_> = (0..LINES as u64).map(|line| [line; 8]).collect();
            let mut seen = [false; LINES];
            let mut synthetic =
                Synthetic { accesses: 1, dependent, working_set, ..Synthetic::idle() };
            for _ in 0..LINES {
                let before = synthetic.state;
                synthetic.state =
                    if dependent { synthetic.access_in_turn() } else { synthetic.access() };
                assert_ne!(synthetic.state, before);
                seen[synthetic.load(step(before)) as usize] = true;
            }
            let lines = seen.iter().filter(|seen| **seen).count();
            assert!((LINES / 2..LINES).contains(&lines), "{lines}");
        }
    }

    #[test]
    fn a_working_set_is_of_whole_lines_without_repetition() {
        let lines = fill(ByteSize(1000)).unwrap();
        assert_eq!(lines.len(), 15);
        let mut words: Vec<_> = lines.concat();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 15 * 8);
    }

    #[test]
    fn more_cycles_are_more_steps() {
        assert!(steps(1) >= 1);
        assert!(steps(1_000_000) > steps(10_000));
    }
}
