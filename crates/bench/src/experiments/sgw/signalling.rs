//! `sgw-signalling`: whether a serving gateway loses packets while sessions are
//! established, modified and deleted.

mod trial;

use std::cell::RefCell;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::trial::{Offered, Outcome, Signalled};
use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Sent, Values};
use weft_rig::Failure;
use weft_rig::Rig;
use weft_rig::search::{BinarySearch, SystemUnderTest, Trial};

const X: &str = "commands, thousands per second";
const LOST: &str = "packets lost";
const UNSENT: &str = "packets due and not sent";
const LATE: &str = "commands late";
const TIME: &str = "time of a command";
const CITED: &str = "signalling of a million users";
/// Messages per second that the paper cites for a million users.
const MESSAGES: f64 = 94_000.0;
/// The share of them that has to be made for what is lost to be told as lost at that load.
const MADE: f64 = 0.98;

/// See [`Study::VARIES`].
pub struct SgwSignalling;

/// Parameters of `sgw-signalling`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each rate.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum, tunnel and all.
    #[schemars(range(min = 96, max = 1518))]
    frame_bytes: usize,
    /// Bearers that have traffic.
    #[schemars(range(min = 1))]
    bearers: u32,
    /// Sessions that are there at any time beside them, and come and go.
    #[schemars(range(min = 2))]
    sessions: u32,
    /// Commands that are applied at once.
    #[schemars(range(min = 1))]
    batch: usize,
    /// Whether what commands set is kept on the disk, and each is answered once it is durable.
    #[serde(default)]
    durable: bool,
    /// Commands per second, in thousands.
    thousands: Vec<f64>,
    /// The share of the highest rate without loss that is offered.
    share: f64,
    /// How the highest rate without loss is searched for, without commands.
    search: Limit,
}

/// A search for the highest rate without loss.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limit {
    /// Seconds of a trial.
    seconds: f64,
    /// The width, relative to the rate, at which it ends.
    width: f64,
    /// How often a trial with loss is repeated before it is believed.
    repeats: u32,
    /// The least rate, packets per second.
    least: f64,
    /// The highest.
    most: f64,
}

impl Study for SgwSignalling {
    const NAME: &'static str = "sgw-signalling";
    const TITLE: &'static str = "Sessions come and go under traffic";
    const VARIES: &'static str =
        "commands per second: sessions established, modified, deleted; traffic at half its limit";
    const PAPER: &'static str = "Lange et al., future work";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-signalling.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let Parameters { bearers, sessions, batch, durable, .. } = *parameters;
        let system = RefCell::new(Signalled::new(run.rig, (bearers, sessions), batch, durable)?);
        if durable {
            run.note(format!(
                "Commands were durable: the store lay in {}.",
                std::env::temp_dir().display()
            ));
        }
        let limit = parameters.limit(run.rig, &mut system.borrow_mut())?;
        run.derive("lossless_pps", limit);
        run.derive("offered_pps", limit * parameters.share);
        run.series(LOST, X, "packets", Some(Better::Lower));
        run.series(UNSENT, X, "packets", Some(Better::Lower));
        run.series(LATE, X, "commands", Some(Better::Lower));
        run.series(TIME, X, "µs", Some(Better::Lower));
        let cells: Vec<_> = parameters
            .thousands
            .iter()
            .map(|thousands| Cell::new(LOST, *thousands, thousands * 1e3))
            .collect();
        run.rounds(parameters.repetitions, &cells, |_, &commands| {
            let offered = parameters.offered(limit * parameters.share, commands);
            let outcome = system.borrow_mut().offer(&offered)?;
            let Outcome { sent, unsent, lost, commands_late, commanding, disturbance, .. } =
                outcome;
            let made = outcome.commands;
            let time = (made > 0).then(|| commanding.as_secs_f64() * 1e6 / made as f64);
            let values = Values::of(lost as f64)
                .and(LATE, (commands > 0.0).then_some(commands_late as f64))
                .and(UNSENT, Some(unsent as f64))
                .and(TIME, time);
            // The commands are late where the agent is; the traffic, where the generator is.
            let share = sent as f64 / (sent + unsent).max(1) as f64;
            let values = values.sent(Sent { at: made as f64 / parameters.seconds / 1e3, share });
            Ok((values, disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let worst = |series: &str, thousands: f64| {
            let point = results.series(series)?.at(thousands)?;
            Some(point.raw.iter().copied().fold(0.0, f64::max))
        };
        let clean = |thousands: &&f64| {
            let late = worst(LATE, **thousands).unwrap_or(0.0);
            worst(LOST, **thousands) == Some(0.0) && late == 0.0
        };
        // What the generator did not reach says nothing, for or against.
        let counts = |thousands: &&f64| worst(LOST, **thousands).is_some();
        let clean = parameters.thousands.iter().filter(counts).take_while(clean);
        let made = clean.filter_map(|thousands| results.series(LOST)?.at(*thousands)?.position());
        let most = made.fold(0.0, f64::max);
        // Fewer commands than that, since the agent took longer for them, are not that load.
        let made_94k = results.series(LOST).and_then(|one| one.at(MESSAGES / 1e3)?.position());
        let is_reached = made_94k.is_some_and(|made| made * 1e3 >= MADE * MESSAGES);
        let at_94k = worst(LOST, MESSAGES / 1e3).filter(|_| is_reached);
        let unsent = worst(UNSENT, MESSAGES / 1e3).unwrap_or(f64::NAN);
        results.derive("max_messages_per_s_without_loss", most * 1e3);
        if let Some(lost) = at_94k {
            results.derive("lost_at_94k_per_s", lost);
            results.derive("unsent_at_94k_per_s", unsent);
            results.says = format!(
                "While {:.0} commands a second establish, modify and delete sessions, traffic at \
                 {:.0} % of the highest rate without loss loses {lost:.0} packets at most; nothing \
                 is lost, and no command late, up to {:.0} commands a second.",
                MESSAGES,
                parameters.share * 100.0,
                most * 1e3,
            );
        }
        if let (None, Some(made)) = (at_94k, made_94k) {
            results.says = format!(
                "Of {MESSAGES:.0} commands a second the node made {:.0}, so that nothing is said \
                 of that load; nothing is lost, and no command late, up to {:.0} commands a second.",
                made * 1e3,
                most * 1e3,
            );
        }
        results.paper = vec![paper(
            CITED,
            MESSAGES / 1e3,
            "Lange et al., §III-A, after its [17]: messages per second per million users",
        )];
        let drawings = [
            figure("lost", "Packets lost while sessions come and go", FigureKind::Lines, [LOST])
                .caption(
                    "The mean of all repetitions, at the commands that were really made; not \
                     measured by the paper.",
                )
                .axes(Axis::linear("Commands", "thousands per second"), Axis::linear("Lost", "")),
            figure("time", "What a command takes", FigureKind::Lines, [TIME])
                .caption("Time of the agent for each command, applied in batches.")
                .axes(Axis::linear("Commands", "thousands per second"), Axis::linear("Time", "µs")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    fn offered(&self, packets: f64, commands: f64) -> Offered {
        let duration = Duration::from_secs_f64(self.seconds);
        Offered { packets, commands, duration, frame_bytes: self.frame_bytes }
    }

    /// The highest rate that the gateway loses nothing at, without commands.
    fn limit(&self, rig: &Rig, system: &mut Signalled<'_>) -> Result<f64, Failure> {
        let Limit { seconds, width, repeats, least, most } = self.search;
        let trial = Duration::from_secs_f64(seconds);
        let search = BinarySearch { least, most, loss_ratio: 0.0, width, trial, repeats };
        let frame_bytes = self.frame_bytes;
        let bracket = search.run(&mut Quiet { rig, system, frame_bytes })?;
        bracket.count(rig);
        bracket.lower.ok_or_else(|| format!("the gateway loses packets at {least} pps").into())
    }
}

/// The gateway without commands.
struct Quiet<'s, 'r> {
    rig: &'s Rig,
    system: &'s mut Signalled<'r>,
    frame_bytes: usize,
}

impl SystemUnderTest for Quiet<'_, '_> {
    type Error = Failure;

    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Failure> {
        let frame_bytes = self.frame_bytes;
        let offered = Offered { packets: rate, commands: 0.0, duration, frame_bytes };
        // What the machine took is not the gateway's loss.
        let Outcome { sent, unsent, lost, .. } = self.rig.steady_in_search(|| {
            let outcome = self.system.offer(&offered)?;
            Ok::<_, Failure>((outcome, outcome.disturbance))
        })?;
        Ok(Trial { rate, duration, sent, unsent, lost })
    }
}
