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
/// What commands set is forgotten with the node.
const FORGOTTEN: Regime = Regime {
    lost: "packets lost",
    unsent: "packets due and not sent",
    late: "commands late",
    time: "time of a command",
    is_durable: false,
    suffix: "",
};
/// It is on the disk before they are answered.
const DURABLE: Regime = Regime {
    lost: "packets lost, durable commands",
    unsent: "packets due and not sent, durable commands",
    late: "durable commands late",
    time: "time of a durable command",
    is_durable: true,
    suffix: "_durable",
};
const CITED: &str = "signalling of a million users";
/// Messages per second that the paper cites for a million users.
const MESSAGES: f64 = 94_000.0;
/// The share of them that has to be made for what is lost to be told as lost at that load.
const MADE: f64 = 0.98;

/// How commands are kept, and the series of that.
struct Regime {
    lost: &'static str,
    unsent: &'static str,
    late: &'static str,
    time: &'static str,
    is_durable: bool,
    /// Of derived numbers.
    suffix: &'static str,
}

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
    /// Commands per second, in thousands.
    thousands: Vec<f64>,
    /// The same of commands that are answered once what they set is on the disk.
    #[serde(default)]
    durable_thousands: Vec<f64>,
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
        let system = RefCell::new(parameters.system(run.rig, &FORGOTTEN)?);
        let limit = parameters.limit(run.rig, &mut system.borrow_mut())?;
        run.derive("lossless_pps", limit);
        run.derive("offered_pps", limit * parameters.share);
        parameters.rounds(run, &FORGOTTEN, (limit, &system))?;
        drop(system);
        if parameters.durable_thousands.is_empty() {
            return Ok(());
        }
        run.note(format!(
            "The store of durable commands lay in {}.",
            std::env::temp_dir().display()
        ));
        let system = RefCell::new(parameters.system(run.rig, &DURABLE)?);
        parameters.rounds(run, &DURABLE, (limit, &system))
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let forgotten = Outcomes::of(&FORGOTTEN, &parameters.thousands, results);
        let durable = Outcomes::of(&DURABLE, &parameters.durable_thousands, results);
        forgotten.derive(&FORGOTTEN, results);
        if !parameters.durable_thousands.is_empty() {
            durable.derive(&DURABLE, results);
        }
        results.says = forgotten.says(parameters.share);
        if let Some(lost) = durable.at_94k {
            results.says.push_str(&format!(
                " With commands that are durable before they are answered it loses {lost:.0}."
            ));
        }
        results.paper = vec![paper(
            CITED,
            MESSAGES / 1e3,
            "Lange et al., §III-A, after its [17]: messages per second per million users",
        )];
        let (lost, time) = ([FORGOTTEN.lost, DURABLE.lost], [FORGOTTEN.time, DURABLE.time]);
        let drawings = [
            figure("lost", "Packets lost while sessions come and go", FigureKind::Lines, lost)
                .caption(
                    "The mean of all repetitions, at the commands that were really made; not \
                     measured by the paper.",
                )
                .axes(Axis::linear("Commands", "thousands per second"), Axis::linear("Lost", "")),
            figure("time", "What a command takes", FigureKind::Lines, time)
                .caption("Time of the agent for each command, applied in batches.")
                .axes(Axis::linear("Commands", "thousands per second"), Axis::linear("Time", "µs")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

/// What came of the commands of a regime.
struct Outcomes {
    /// The most commands a second, in thousands, up to which nothing is lost and none is late.
    most: f64,
    /// Thousands a second that were made where [`MESSAGES`] were to be.
    made_94k: Option<f64>,
    /// The most packets that were lost and not sent in a trial then, if so many were made.
    at_94k: Option<f64>,
    unsent: f64,
}

impl Outcomes {
    fn of(regime: &Regime, thousands: &[f64], results: &Results) -> Outcomes {
        let worst = |series: &str, thousands: f64| {
            let point = results.series(series)?.at(thousands)?;
            Some(point.raw.iter().copied().fold(0.0, f64::max))
        };
        let clean = |thousands: &&f64| {
            let late = worst(regime.late, **thousands).unwrap_or(0.0);
            worst(regime.lost, **thousands) == Some(0.0) && late == 0.0
        };
        // What the generator did not reach says nothing, for or against.
        let counts = |thousands: &&f64| worst(regime.lost, **thousands).is_some();
        let made = |thousands: f64| results.series(regime.lost)?.at(thousands)?.position();
        let clean = thousands.iter().filter(counts).take_while(clean);
        let most = clean.filter_map(|thousands| made(*thousands)).fold(0.0, f64::max);
        // Fewer commands than that, since the agent took longer for them, are not that load.
        let made_94k = made(MESSAGES / 1e3);
        let is_reached = made_94k.is_some_and(|made| made * 1e3 >= MADE * MESSAGES);
        let at_94k = worst(regime.lost, MESSAGES / 1e3).filter(|_| is_reached);
        let unsent = worst(regime.unsent, MESSAGES / 1e3).unwrap_or(f64::NAN);
        Outcomes { most, made_94k, at_94k, unsent }
    }

    fn derive(&self, regime: &Regime, results: &mut Results) {
        let suffix = regime.suffix;
        let most = self.most * 1e3;
        results.derive(format!("max_messages_per_s_without_loss{suffix}"), most);
        if let Some(lost) = self.at_94k {
            results.derive(format!("lost_at_94k_per_s{suffix}"), lost);
            results.derive(format!("unsent_at_94k_per_s{suffix}"), self.unsent);
        }
    }

    fn says(&self, share: f64) -> String {
        let most = self.most * 1e3;
        match (self.at_94k, self.made_94k) {
            (Some(lost), _) => format!(
                "While {MESSAGES:.0} commands a second establish, modify and delete sessions, \
                 traffic at {:.0} % of the highest rate without loss loses {lost:.0} packets at \
                 most; nothing is lost, and no command late, up to {most:.0} commands a second.",
                share * 100.0,
            ),
            (None, Some(made)) => format!(
                "Of {MESSAGES:.0} commands a second the node made {:.0}, so that nothing is said \
                 of that load; nothing is lost, and no command late, up to {most:.0} commands a \
                 second.",
                made * 1e3,
            ),
            (None, None) => String::new(),
        }
    }
}

impl Parameters {
    fn system<'r>(&self, rig: &'r Rig, regime: &Regime) -> Result<Signalled<'r>, Failure> {
        Signalled::new(rig, (self.bearers, self.sessions), self.batch, regime.is_durable)
    }

    /// Offers packets and commands of a regime at each of its rates.
    fn rounds(
        &self,
        run: &mut Run<'_>,
        regime: &Regime,
        (limit, system): (f64, &RefCell<Signalled<'_>>),
    ) -> Result<(), Failure> {
        run.series(regime.lost, X, "packets", Some(Better::Lower));
        run.series(regime.unsent, X, "packets", Some(Better::Lower));
        run.series(regime.late, X, "commands", Some(Better::Lower));
        run.series(regime.time, X, "µs", Some(Better::Lower));
        let all = if regime.is_durable { &self.durable_thousands } else { &self.thousands };
        let cells: Vec<_> = all
            .iter()
            .map(|thousands| Cell::new(regime.lost, *thousands, thousands * 1e3))
            .collect();
        run.rounds(self.repetitions, &cells, |_, &commands| {
            let offered = self.offered(limit * self.share, commands);
            let outcome = system.borrow_mut().offer(&offered)?;
            let Outcome { sent, unsent, lost, commands_late, commanding, disturbance, .. } =
                outcome;
            let made = outcome.commands;
            let time = (made > 0).then(|| commanding.as_secs_f64() * 1e6 / made as f64);
            let values = Values::of(lost as f64)
                .and(regime.late, (commands > 0.0).then_some(commands_late as f64))
                .and(regime.unsent, Some(unsent as f64))
                .and(regime.time, time);
            // The commands are late where the agent is; the traffic, where the generator is.
            let share = sent as f64 / (sent + unsent).max(1) as f64;
            let values = values.sent(Sent { at: made as f64 / self.seconds / 1e3, share });
            Ok((values, disturbance))
        })
    }

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
