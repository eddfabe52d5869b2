//! Moves between processes: the headline of `handover`.

mod site;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{arrivals, rate, spread, told};
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, Figure, FigureKind, Results, Series};
use crate::run::{Cell, Run, Values};
use site::{Move, Outcome, STEPS, Site};
use weft_rig::baseline::kernel;
use weft_rig::handover::{Chain, Course, Disturbed, Faults, Scene};
use weft_rig::{Failure, Rig, statistics};

const ADDED: &str = "added delay, between processes";
/// Of each move; the distribution is drawn of it.
pub const EACH: &str = "added delay, each move, between processes";
const TO_USER: &str = "added delay to the user, between processes";
const TO_HOST: &str = "added delay from the user, between processes";
const WITHOUT: &str = "added delay, no move, between processes";
const NORMAL: &str = "normal again, between processes";
const NORMAL_EACH: &str = "normal again, each move, between processes";
const GAP_USER: &str = "gap at the user, between processes";
const GAP_HOST: &str = "gap at the gateway, between processes";
const X: &str = super::X;
/// Derived numbers of the [`STEPS`].
const STEP_NAMES: [&str; STEPS.len()] =
    ["stored", "prepared", "owned", "switched", "released", "completed"];
/// Packet buffers of each node.
const BUFFERS: u32 = 8191;
/// Moves before those that count.
const WARM_UP: u32 = 3;

/// A user that moves between processes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Processes {
    /// Moves of the user in each repetition.
    #[schemars(range(min = 1))]
    moves: u32,
    /// Milliseconds before each move: more than a move takes, and the 15 that show what is usual.
    #[schemars(range(min = 20))]
    pause: u32,
    /// Packets per second to the user, in thousands; it returns as many.
    #[schemars(inner(range(min = 0.2, max = 1000.0)))]
    thousands_per_second: Vec<f64>,
}

impl Processes {
    /// One user, again and again; adds what should not have happened to `faults`.
    ///
    /// # Errors
    /// Those of trials, and when a packet was lost, doubled or out of order.
    pub fn measure(
        &self,
        run: &mut Run<'_>,
        (repetitions, frame_bytes): (u32, usize),
        faults: &mut Faults,
    ) -> Result<(), Failure> {
        if let Some(lacking) = kernel::lacking() {
            run.note(lacking);
            return Ok(());
        }
        if let Err(missing) = run.rig.cores.traffic() {
            run.note(format!("Moves between processes were not measured: {missing}."));
            return Ok(());
        }
        let micros =
            [ADDED, EACH, TO_USER, TO_HOST, WITHOUT, NORMAL, NORMAL_EACH, GAP_USER, GAP_HOST];
        let steps = STEPS.iter().map(|(_, name)| *name);
        let names = micros.into_iter().chain(steps);
        names.for_each(|name| run.series(name, X, "µs", Some(Better::Lower)));
        run.note(format!(
            "Between processes records lay in {}, and connections were not encrypted, as all ends \
             are at this machine.",
            std::env::temp_dir().display()
        ));
        let cells = self.thousands_per_second.iter();
        let cells: Vec<_> = cells.map(|&one| Cell::new(ADDED, rate(one), one)).collect();
        // The checksum is not in memory.
        let scene = Scene {
            users: 1,
            chain: Chain::Metered,
            frame_bytes: frame_bytes - 4,
            buffers: BUFFERS,
            is_kept: true,
        };
        let (mut site, mut drawn) = (None, Vec::<(f64, f64, Vec<Series>)>::new());
        run.rounds(repetitions, &cells, |rig, &thousands| {
            let site = ready(&mut site, rig, scene, thousands)?;
            let pause = Duration::from_millis(self.pause.into());
            let course = Course { rate: thousands * 1e3, moves: self.moves, pause };
            let outcome = perform(site, rig, &course, faults)?;
            // That of the attempt that the machine disturbed least.
            let known = drawn.iter().position(|(known, ..)| *known == thousands);
            if known.is_none_or(|known| drawn[known].1 > outcome.disturbance) {
                known.into_iter().for_each(|known| drop(drawn.remove(known)));
                drawn.extend(
                    drawing_of(&outcome, thousands)
                        .map(|series| (thousands, outcome.disturbance, series)),
                );
            }
            Ok((values_of(&outcome), outcome.disturbance))
        })?;
        drawn.into_iter().flat_map(|(.., series)| series).for_each(|one| run.keep_series(one));
        Ok(())
    }

    /// Computes the numbers of the first rate; those of others have it in their names.
    pub fn derive(&self, results: &mut Results) {
        for (number, thousands) in self.thousands_per_second.iter().enumerate() {
            let suffix = if number == 0 { String::new() } else { format!("_{thousands}k") };
            let x = rate(*thousands).into();
            let at = |series: &str, percent: f64| {
                let points = &results.series(series)?.points;
                let point = points.iter().find(|point| point.x == x)?;
                statistics::percentile(&point.raw, percent)
            };
            let steps = STEP_NAMES.iter().zip(STEPS);
            let steps = steps.map(|(name, (_, of))| (format!("{name}_us_p50"), at(of, 50.0)));
            let numbers = [
                ("added_delay_us_p50", at(EACH, 50.0)),
                ("added_delay_us_p99", at(EACH, 99.0)),
                ("added_without_move_us_p50", at(WITHOUT, 50.0)),
                ("added_without_move_us_p99", at(WITHOUT, 99.0)),
                ("back_to_normal_us", at(NORMAL_EACH, 50.0)),
                ("back_to_normal_us_p99", at(NORMAL_EACH, 99.0)),
                ("gap_us", at(GAP_USER, 50.0)),
            ];
            let numbers = numbers.map(|(stem, number)| (stem.to_owned(), number));
            let all: Vec<_> = numbers.into_iter().chain(steps).collect();
            for (stem, number) in all {
                number.into_iter().for_each(|one| results.derive(format!("{stem}{suffix}"), one));
            }
        }
    }

    /// The rates, as they are called in drawings.
    pub fn rates(&self) -> impl Iterator<Item = String> {
        self.thousands_per_second.iter().map(|one| drawn_as(*one))
    }

    /// The figures.
    pub fn figures(&self, results: &Results) -> Vec<Figure> {
        let arrivals = self.rates().filter_map(|rate| arrivals::drawing(results, &rate));
        let mut figures: Vec<_> = arrivals.collect();
        let shows = [GAP_USER, GAP_HOST, NORMAL, ADDED, WITHOUT];
        let steps = STEPS.iter().map(|(_, name)| *name);
        let drawings = [
            figure(
                "between-processes",
                "How long it shows, between processes",
                FigureKind::Bars,
                shows,
            )
            .caption(
                "The longest time without an arrival, the time from the order until all is as \
                     before, the most that a move adds to a packet's delay, and what a time of the \
                     same length without a move adds: medians over the moves. The paper states a \
                     gap of 2 ms and 6 ms until all is as before, at 10 kpps.",
            )
            .axes(Axis::default(), Axis::log("Time", "µs"))
            .paper([super::PAPER_GAP, super::PAPER_NORMAL]),
            figure("steps", "What a move between processes takes", FigureKind::Grouped, steps)
                .caption(
                    "Steps as the controller sees them, each from the end of the one before: its \
                     record is durable; target and anchor are prepared, the anchor behind its own \
                     record; the target owns the user; downlink goes there; the source has let go; \
                     the old path is gone. Packets flow during the first two.",
                )
                .axes(Axis::default(), Axis::linear("Time", "µs")),
        ];
        figures.extend(drawings.into_iter().filter_map(|one| one.of(results)));
        figures
    }
}

/// A rate between processes, as it is called in drawings.
fn drawn_as(thousands: f64) -> String {
    format!("{} between processes", rate(thousands))
}

/// The processes, started when they are first asked for, and warm.
fn ready<'s>(
    site: &'s mut Option<Site>,
    rig: &Rig,
    scene: Scene,
    thousands: f64,
) -> Result<&'s mut Site, Failure> {
    match site {
        Some(site) => Ok(site),
        None => {
            let site = site.insert(Site::start(rig, scene)?);
            let pause = Duration::from_millis(20);
            site.perform(rig, &Course { rate: thousands * 1e3, moves: WARM_UP, pause })?;
            Ok(site)
        }
    }
}

/// Performs a course in which nothing may go wrong.
fn perform(
    site: &mut Site,
    rig: &Rig,
    course: &Course,
    all: &mut Faults,
) -> Result<Outcome, Failure> {
    let outcome = site.perform(rig, course)?;
    if outcome.faults.is_none() {
        return Ok(outcome);
    }
    *all = all.and(outcome.faults);
    let moves = format!("{} moves between processes", course.moves);
    Err(told(&outcome.faults, &moves, &outcome.drops).into())
}

fn disturbed(outcome: &Outcome) -> impl Iterator<Item = &Disturbed> {
    outcome.moves.iter().filter_map(|one| one.handover.disturbed.first())
}

fn values_of(outcome: &Outcome) -> Values {
    let of =
        |number: &dyn Fn(&Disturbed) -> f64| disturbed(outcome).map(number).collect::<Vec<_>>();
    let (added, normal) = (of(&|one| one.added), of(&|one| one.normal));
    let without = outcome.moves.iter().filter_map(|one| Some(one.without.disturbed.first()?.added));
    let mut values = spread(added.clone()).map_or_else(Values::none, Values::of);
    values = values
        .and(TO_USER, spread(of(&|one| one.added_each_way[0])))
        .and(TO_HOST, spread(of(&|one| one.added_each_way[1])))
        .and(NORMAL, spread(normal.clone()))
        .and(GAP_USER, spread(of(&|one| one.gaps[0])))
        .and(GAP_HOST, spread(of(&|one| one.gaps[1])));
    values = without.fold(values, |values, one| values.and(WITHOUT, Some(one)));
    values = added.into_iter().fold(values, |values, one| values.and(EACH, Some(one)));
    values = normal.into_iter().fold(values, |values, one| values.and(NORMAL_EACH, Some(one)));
    for (number, (_, name)) in STEPS.into_iter().enumerate() {
        let lengths = outcome.moves.iter().filter_map(|one| one.steps[number]);
        values = values.and(name, spread(lengths.collect()));
    }
    values
}

/// What is drawn of the move that was as late as half of them.
fn drawing_of(outcome: &Outcome, thousands: f64) -> Option<Vec<Series>> {
    let added = |one: &&Move| one.handover.disturbed.first().map_or(0.0, |user| user.added);
    let mut moves: Vec<_> = outcome.moves.iter().collect();
    moves.sort_by(|a, b| added(a).total_cmp(&added(b)));
    let typical = moves.get(moves.len() / 2)?;
    let mut at = 0.0;
    let ends = STEPS.iter().zip(typical.steps).filter_map(|((_, name), step)| {
        at += step?;
        Some((*name, at))
    });
    Some(arrivals::series_of(&typical.handover.dots, ends.collect(), &drawn_as(thousands)))
}
