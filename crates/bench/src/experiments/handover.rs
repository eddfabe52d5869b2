//! `handover`: what packets of users that move see of it.

pub mod arrivals;
mod drawn;
pub mod processes;

use std::cell::{Cell as Shared, RefCell};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::Study;
use crate::experiments::figure::paper;
use crate::results::{Better, Results, Series};
use crate::run::{Cell, Run, Value, Values};
use processes::Processes;
use weft_rig::Failure;
use weft_rig::Rig;
use weft_rig::handover::{Chain, Course, Faults, Handover, Outcome, Phase, Scene, World};
use weft_rig::statistics;

const ADDED: &str = "added delay";
const TO_USER: &str = "added delay to the user";
const TO_HOST: &str = "added delay from the user";
const EACH: &str = "added delay, each move";
const NORMAL: &str = "normal again";
const NORMAL_EACH: &str = "normal again, each move";
const GAP_USER: &str = "gap at the user";
const GAP_HOST: &str = "gap at the gateway";
const WAITED: &str = "packets that waited";
const FORWARDED: &str = "packets that were forwarded";
const PREPARE_EACH: &str = "prepare, each move";
const KEPT: &str = "prepare, routes on the gateway's disk";
const PREPARE_KEPT: &str = "prepare, each move, routes on the gateway's disk";
const EACH_KEPT: &str = "added delay, each move, routes on the gateway's disk";
const MASS: &str = "all users";
const MASS_DELAY: &str = "added delay of a user";
const MASS_OWNERLESS: &str = "time of a user without owner";
const PAPER_GAP: &str = "gap";
const PAPER_NORMAL: &str = "normal";
const X: &str = "packets per second, to and fro";
const X_MASS: &str = "users";
/// Packet buffers of each node: more than a thread that is put aside for some
/// milliseconds falls behind by.
const BUFFERS: u32 = 16_383;
/// Moves before those that count.
const WARM_UP: u32 = 5;
/// The percentiles that are kept beside a median.
const PERCENTILES: [(&str, f64); 3] = [("p90", 90.0), ("p99", 99.0), ("max", 100.0)];

/// See [`Study::VARIES`].
pub struct Mobility;

/// Parameters of `handover`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Moves of the user in each.
    #[schemars(range(min = 1))]
    moves: u32,
    /// Milliseconds before each move.
    #[schemars(range(min = 16))]
    pause: u32,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 68, max = 1400))]
    frame_bytes: usize,
    /// Packets per second to the user, in thousands; it returns as many.
    #[schemars(inner(range(min = 0.2, max = 1000.0)))]
    thousands_per_second: Vec<f64>,
    /// Many users at once.
    mass: Option<Mass>,
    /// The same with processes as nodes.
    processes: Processes,
}

/// Users who all move at once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mass {
    /// How many.
    #[schemars(range(min = 1, max = 16_384))]
    users: u32,
    /// Moves of all of them in each repetition.
    #[schemars(range(min = 1))]
    moves: u32,
    /// Packets per second to all of them in turn, in thousands; as many return.
    thousands_per_second: f64,
}

impl Study for Mobility {
    const NAME: &'static str = "handover";
    const TITLE: &'static str = "Users move between base stations";
    const VARIES: &'static str =
        "packets per second of a user that moves to and fro; 10,000 users at once";
    const PAPER: &'static str = "Pinczel et al., fig. 8";
    const FILE: &'static str = include_str!("../../../../experiments/handover.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let faults = Shared::new(Faults::default());
        let ended = parameters.measure_processes(run, &faults);
        let ended = ended.and_then(|()| parameters.measure_one(run, &faults));
        let ended = ended.and_then(|()| parameters.measure_kept(run, &faults));
        let ended = ended.and_then(|()| parameters.measure_all(run, &faults));
        let Faults { lost, duplicated, reordered, .. } = faults.get();
        run.derive("lost", lost as f64);
        run.derive("duplicated", duplicated as f64);
        run.derive("reordered", reordered as f64);
        ended
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        parameters.processes.derive(results);
        for thousands in &parameters.thousands_per_second {
            parameters.derive(results, *thousands);
        }
        parameters.derive_mass(results);
        parameters.say(results);
        let source = "Pinczel et al., §V, one user at 10,000 packets a second";
        results.paper = vec![paper(PAPER_GAP, 2000.0, source), paper(PAPER_NORMAL, 6000.0, source)];
        for thousands in &parameters.thousands_per_second {
            drawn::distribute(results, &rate(*thousands));
        }
        let rates: Vec<_> = parameters.thousands_per_second.iter().map(|one| rate(*one)).collect();
        results.figures = parameters.processes.figures(results);
        results.figures.extend(drawn::figures(results, &rates));
    }
}

/// A rate, in words.
fn rate(thousands: f64) -> String {
    format!("{thousands} kpps")
}

impl Parameters {
    /// One user between processes.
    fn measure_processes(&self, run: &mut Run<'_>, all: &Shared<Faults>) -> Result<(), Failure> {
        let mut faults = all.get();
        let of_trial = (self.repetitions, self.frame_bytes);
        let ended = self.processes.measure(run, of_trial, &mut faults);
        all.set(faults);
        ended
    }

    /// One user, again and again.
    fn measure_one(&self, run: &mut Run<'_>, faults: &Shared<Faults>) -> Result<(), Failure> {
        let micros =
            [ADDED, TO_USER, TO_HOST, EACH, PREPARE_EACH, NORMAL, NORMAL_EACH, GAP_USER, GAP_HOST];
        micros.into_iter().for_each(|name| run.series(name, X, "µs", Some(Better::Lower)));
        Phase::ALL.iter().for_each(|one| run.series(one.name(), X, "µs", Some(Better::Lower)));
        run.series(WAITED, X, "packets", None);
        run.series(FORWARDED, X, "packets", None);
        let cells = self.thousands_per_second.iter();
        let cells: Vec<_> = cells.map(|&one| Cell::new(ADDED, rate(one), one)).collect();
        let scene = self.scene(1, Chain::Metered);
        let drawn = RefCell::new(Vec::<(f64, f64, Vec<Series>)>::new());
        let mut world = None;
        run.rounds(self.repetitions, &cells, |rig, &thousands| {
            let world = ready(&mut world, rig, scene, thousands)?;
            let course = self.course(thousands, self.moves);
            let outcome = perform(world, &course, faults)?;
            let values = values_of(&outcome);
            let mut drawn = drawn.borrow_mut();
            // That of the attempt that the machine disturbed least.
            let known = drawn.iter().position(|(known, ..)| *known == thousands);
            if known.is_none_or(|known| drawn[known].1 > outcome.disturbance) {
                let rate = rate(thousands);
                let series = outcome.typical().map(|one| arrivals::series(one, &rate));
                known.into_iter().for_each(|known| drop(drawn.remove(known)));
                drawn.extend(series.map(|series| (thousands, outcome.disturbance, series)));
            }
            Ok((values, outcome.disturbance))
        })?;
        let drawn = drawn.into_inner().into_iter().flat_map(|(.., series)| series);
        drawn.for_each(|series| run.keep_series(series));
        Ok(())
    }

    /// One user at the first rate, before a gateway that keeps its routes: an answer of it waits
    /// for the disk.
    fn measure_kept(&self, run: &mut Run<'_>, faults: &Shared<Faults>) -> Result<(), Failure> {
        let Some(&thousands) = self.thousands_per_second.first() else { return Ok(()) };
        run.series(KEPT, X, "µs", Some(Better::Lower));
        run.series(PREPARE_KEPT, X, "µs", Some(Better::Lower));
        run.series(EACH_KEPT, X, "µs", Some(Better::Lower));
        run.note(format!(
            "Where the gateway keeps its routes they lie in {}; what a sync of the disk costs \
             there decides about that.",
            std::env::temp_dir().display()
        ));
        let scene = Scene { is_kept: true, ..self.scene(1, Chain::Metered) };
        let mut world = None;
        let cells = [Cell::new(KEPT, rate(thousands), thousands)];
        run.rounds(self.repetitions, &cells, |rig, &thousands| {
            let world = ready(&mut world, rig, scene, thousands)?;
            let outcome = perform(world, &self.course(thousands, self.moves), faults)?;
            let prepares: Vec<_> = prepares(&outcome).collect();
            let of_all = spread(prepares.clone()).map_or_else(Values::none, Values::of);
            let values = prepares.into_iter();
            let values = values.fold(of_all, |all, one| all.and(PREPARE_KEPT, Some(one)));
            let users = outcome.handovers.iter().filter_map(|handover| handover.disturbed.first());
            let values = users.fold(values, |all, one| all.and(EACH_KEPT, Some(one.added)));
            Ok((values, outcome.disturbance))
        })
    }

    /// Many users at once.
    fn measure_all(&self, run: &mut Run<'_>, faults: &Shared<Faults>) -> Result<(), Failure> {
        let Some(mass) = self.mass else { return Ok(()) };
        run.series(MASS, X_MASS, "s", Some(Better::Lower));
        run.series(MASS_DELAY, X_MASS, "ms", Some(Better::Lower));
        run.series(MASS_OWNERLESS, X_MASS, "ms", Some(Better::Lower));
        let cells = [Cell::new(MASS, mass.users, mass)];
        let scene = self.scene(mass.users, Chain::Compressed);
        let mut world = None;
        run.rounds(self.repetitions, &cells, |rig, mass| {
            let world = ready(&mut world, rig, scene, mass.thousands_per_second)?;
            let course = self.course(mass.thousands_per_second, mass.moves);
            let outcome = perform(world, &course, faults)?;
            let mut values = Values::none();
            for handover in &outcome.handovers {
                let delays = handover.disturbed.iter().map(|one| one.added / 1e3).collect();
                let without = (0..mass.users).filter_map(|user| ownerless(handover, user));
                values = values
                    .and(MASS, Some(handover.seconds()))
                    .and(MASS_DELAY, spread(delays))
                    .and(MASS_OWNERLESS, spread(without.map(|micros| micros / 1e3).collect()));
            }
            Ok((values, outcome.disturbance))
        })
    }

    fn scene(&self, users: u32, chain: Chain) -> Scene {
        // The checksum is not in memory.
        Scene { users, chain, frame_bytes: self.frame_bytes - 4, buffers: BUFFERS, is_kept: false }
    }

    fn course(&self, thousands: f64, moves: u32) -> Course {
        let pause = Duration::from_millis(self.pause.into());
        Course { rate: thousands * 1e3, moves, pause }
    }

    /// The numbers of one rate in one process. Those of the first stand without it in their names.
    fn derive(&self, results: &mut Results, thousands: f64) {
        let first = self.thousands_per_second.first() == Some(&thousands);
        let name =
            |stem: &str| if first { stem.to_owned() } else { format!("{stem}_{thousands}k") };
        let at = |series: &str, percent: f64| {
            let x = rate(thousands).into();
            let point = results.series(series)?.points.iter().find(|point| point.x == x)?;
            statistics::percentile(&point.raw, percent)
        };
        let numbers = [
            ("added_delay_us_p50_in_process", at(EACH, 50.0)),
            ("added_delay_us_p99_in_process", at(EACH, 99.0)),
            ("back_to_normal_us_in_process", at(NORMAL_EACH, 50.0)),
            ("back_to_normal_us_p99_in_process", at(NORMAL_EACH, 99.0)),
            ("gap_us_in_process", at(GAP_USER, 50.0)),
            ("waited_in_process", at(WAITED, 50.0)),
            ("prepare_us_p50_in_process", at(PREPARE_EACH, 50.0)),
            ("prepare_us_p99_in_process", at(PREPARE_EACH, 99.0)),
            ("prepare_kept_us_p50_in_process", at(PREPARE_KEPT, 50.0)),
            ("prepare_kept_us_p99_in_process", at(PREPARE_KEPT, 99.0)),
            ("added_delay_kept_us_p50_in_process", at(EACH_KEPT, 50.0)),
            ("added_delay_kept_us_p99_in_process", at(EACH_KEPT, 99.0)),
        ];
        for (stem, number) in numbers {
            number.into_iter().for_each(|number| results.derive(name(stem), number));
        }
    }

    fn derive_mass(&self, results: &mut Results) {
        let Some(mass) = self.mass else { return };
        let point = |series: &str| {
            let points = &results.series(series)?.points;
            points.iter().find(|point| point.x == mass.users.into())
        };
        let seconds = point(MASS).map(|point| point.mean);
        let p99 = |series| point(series).and_then(|point| point.percentiles.get("p99").copied());
        let numbers = [
            ("mass_seconds", seconds),
            ("mass_delay_ms_p99", p99(MASS_DELAY)),
            ("mass_ownerless_ms_p99", p99(MASS_OWNERLESS)),
        ];
        for (name, number) in numbers {
            number.into_iter().for_each(|number| results.derive(name, number));
        }
    }

    fn say(&self, results: &mut Results) {
        let of = |name: &str| results.derived.get(name).copied();
        let of_each = |suffix: &str| {
            let names = ["added_delay_us_p50", "added_delay_us_p99", "back_to_normal_us"];
            let [p50, p99, normal] = names.map(|name| of(&format!("{name}{suffix}")));
            Some((p50?, p99?, normal?))
        };
        let mut says = String::new();
        if let Some((p50, p99, normal)) = of_each("") {
            says = format!(
                "Between processes a move of one user delays a packet by {p50:.0} µs at most in half \
                 of the moves and by {p99:.0} µs in 99 of 100, and delays are as before {normal:.0} µs \
                 after the order, where the paper states a gap of 2 ms and 6 ms"
            );
        }
        if let Some((p50, p99, normal)) = of_each("_in_process") {
            let begin = if says.is_empty() { "With" } else { "; with" };
            says += &format!(
                "{begin} all nodes in one process it is {p50:.0} µs, {p99:.0} µs, and {normal:.0} µs"
            );
        }
        if says.is_empty() {
            return;
        }
        if let (Some(mass), Some(seconds), Some(delay)) =
            (self.mass, of("mass_seconds"), of("mass_delay_ms_p99"))
        {
            says += &format!(
                "; {} users move in {seconds:.2} s, and {delay:.1} ms is the most that a packet of \
                 99 in 100 of them is later",
                mass.users
            );
        }
        if of("lost") == Some(0.0) {
            says += "; nothing is lost, doubled or out of order";
        }
        results.says = says + ".";
    }
}

/// The world of a scene, made when it is first asked for, and warm.
fn ready<'w>(
    world: &'w mut Option<World>,
    rig: &Rig,
    scene: Scene,
    thousands: f64,
) -> Result<&'w mut World, Failure> {
    match world {
        Some(world) => Ok(world),
        None => {
            let name = format!("bench{}", rig.serial());
            let world = world.insert(World::build(rig.eal, rig.cores, &name, scene)?);
            let pause = Duration::from_millis(2);
            world.perform(&Course { rate: thousands * 1e3, moves: WARM_UP, pause })?;
            Ok(world)
        }
    }
}

/// Performs a course in which nothing may go wrong.
fn perform(
    world: &mut World,
    course: &Course,
    faults: &Shared<Faults>,
) -> Result<Outcome, Failure> {
    let outcome = world.perform(course)?;
    if outcome.faults.is_none() {
        return Ok(outcome);
    }
    faults.set(faults.get().and(outcome.faults));
    Err(told(&outcome.faults, &format!("{} moves", course.moves), &outcome.drops).into())
}

/// What should not have happened, and what has been dropped since the moves started.
fn told(faults: &Faults, moves: &str, drops: &[String]) -> String {
    let told = format!("{faults} in {moves}");
    if drops.is_empty() {
        return told;
    }
    format!("{told} (dropped since they started: {})", drops.join(", "))
}

/// What is recorded of the moves of one user.
fn values_of(outcome: &Outcome) -> Values {
    let users = || outcome.handovers.iter().filter_map(|handover| handover.disturbed.first());
    let added: Vec<_> = users().map(|one| one.added).collect();
    let normal: Vec<_> = users().map(|one| one.normal).collect();
    let each = |number: &dyn Fn(&Handover) -> f64| outcome.handovers.iter().map(number).collect();
    let mut values = spread(added.clone()).map_or_else(Values::none, Values::of);
    values = values
        .and(TO_USER, spread(users().map(|one| one.added_each_way[0]).collect()))
        .and(TO_HOST, spread(users().map(|one| one.added_each_way[1]).collect()))
        .and(NORMAL, spread(normal.clone()))
        .and(GAP_USER, spread(users().map(|one| one.gaps[0]).collect()))
        .and(GAP_HOST, spread(users().map(|one| one.gaps[1]).collect()))
        .and(WAITED, spread(each(&|handover| handover.waited as f64)))
        .and(FORWARDED, spread(each(&|handover| handover.forwarded as f64)));
    values = added.into_iter().fold(values, |values, one| values.and(EACH, Some(one)));
    values = normal.into_iter().fold(values, |values, one| values.and(NORMAL_EACH, Some(one)));
    values = prepares(outcome).fold(values, |values, one| values.and(PREPARE_EACH, Some(one)));
    for (number, phase) in Phase::ALL.into_iter().enumerate() {
        let lengths = outcome.handovers.iter().filter_map(|handover| length(handover, number));
        values = values.and(phase.name(), spread(lengths.collect()));
    }
    values
}

/// How long a phase of the move of user 0 took, in microseconds.
fn length(handover: &Handover, number: usize) -> Option<f64> {
    let ends = handover.ends(0);
    let begin = number.checked_sub(1).map_or(Some(0.0), |before| ends[before]);
    Some((ends[number]? - begin?).max(0.0))
}

/// How long each move took until target and anchor were prepared.
fn prepares(outcome: &Outcome) -> impl Iterator<Item = f64> {
    outcome.handovers.iter().filter_map(|handover| length(handover, 0))
}

/// How long a user was without owner, at most, in microseconds.
fn ownerless(handover: &Handover, user: u32) -> Option<f64> {
    let [prepared, _, owned, ..] = handover.ends(user);
    Some(owned? - prepared?)
}

/// The median, with higher percentiles; none of nothing.
fn spread(values: Vec<f64>) -> Option<Value> {
    let at = |percent| statistics::percentile(&values, percent);
    let percentiles = PERCENTILES.iter().filter_map(|(name, percent)| Some((*name, at(*percent)?)));
    Some(Value::with(at(50.0)?, percentiles.collect()))
}
