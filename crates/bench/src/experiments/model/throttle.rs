//! Components that are throttled on purpose, and whether the model names them.
//!
//! The link of the generator can be kept to a bit rate or a packet rate, and functions
//! can be made to spend cycles. That a component limits is seen without the model:
//! given twice as much of it, the node delivers more. Only then the model is asked.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_model::answer::Answer;
use weft_model::cost::Cost;
use weft_model::graph::Part;
use weft_model::quantity::{BitRate, PacketRate};
use weft_model::{Calibration, Scenario, Traffic};
use weft_traffic::Rate;

use crate::calibration::QUARTILE;
use crate::results::{Abscissa, Better, Point, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::Offer;
use weft_rig::OpenLoop;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::statistics;
use weft_rig::uplink;

const X: &str = "throttled";
const AS_IT_IS: &str = "throttled, delivered";
const RELIEVED: &str = "with twice as much of it, delivered";
const PREDICTED: &str = "throttled, predicted";
/// Packets that the queue at the entry holds.
const DESCRIPTORS: u16 = 1024;
/// A component limits if twice as much of it gives so much more.
const GAIN: f64 = 1.3;
/// What the model calls the function that spends cycles.
const WORK: &str = "work";

/// A component that is throttled.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Throttled {
    /// Which component.
    pub component: Component,
    /// What it is throttled to: bits per second, packets per second, or cycles that a
    /// function spends on each packet.
    pub to: f64,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    pub size: u32,
    /// Cycles that a function spends on each packet where the processor is not what is
    /// throttled.
    #[serde(default)]
    pub cycles: u32,
    /// Seconds of each trial.
    pub seconds: f64,
}

/// Components that can be throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, rename = "ThrottledComponent")]
pub enum Component {
    /// The line rate of the link.
    LineRate,
    /// Packets per second that the NIC lets through.
    PacketRate,
    /// The core.
    Cpu,
}

/// The link's rate where it is not what is throttled: what a link of 1 Gbit/s is for
/// packets of this size.
const LINK: f64 = 1e9;

impl Throttled {
    /// What it is called.
    pub fn name(&self) -> String {
        let Throttled { component, to, size, .. } = self;
        match component {
            Component::LineRate => format!("line of {:.0} Mbit/s, {size} B", to / 1e6),
            Component::PacketRate => format!("NIC of {:.0} kpps, {size} B", to / 1e3),
            Component::Cpu => format!("core with {to:.0} cycles of work, {size} B"),
        }
    }

    /// With twice as much of the component.
    fn relieved(&self) -> Throttled {
        let to = match self.component {
            Component::Cpu => self.to / 2.0,
            _ => self.to * 2.0,
        };
        Throttled { to, ..self.clone() }
    }

    fn work(&self) -> u32 {
        match self.component {
            Component::Cpu => self.to as u32,
            _ => self.cycles,
        }
    }

    fn setup(&self) -> Setup {
        let work = json!({"function": "synthetic", "config": {"cycles": self.work()}});
        Setup::chain(USERS, vec![(WORK.to_owned(), work)])
    }

    fn offer(&self) -> Offer {
        let rate = match self.component {
            Component::LineRate => Rate::Link { bits: self.to as u64, share: 1.0 },
            Component::PacketRate => Rate::Packets(self.to),
            Component::Cpu => Rate::Link { bits: LINK as u64, share: 1.0 },
        };
        let load = uplink(USERS, self.size as usize, rate);
        Offer { load, duration: Duration::from_secs_f64(self.seconds) }
    }

    /// What the model says.
    fn answer(&self, found: &Calibration) -> Option<Answer> {
        let mut scenario = super::scenario(found);
        let nic = &mut scenario.hardware.nic;
        match self.component {
            Component::LineRate => nic.line_rate = Some(BitRate(self.to)),
            Component::PacketRate => nic.packet_rate = Some(PacketRate(self.to)),
            Component::Cpu => nic.line_rate = Some(BitRate(LINK)),
        }
        let work = Cost::Fixed(f64::from(self.work()));
        scenario.costs.functions.0.push((WORK.to_owned(), work));
        let traffic = vec![Traffic {
            name: self.name(),
            share: 1.0,
            size: f64::from(self.size),
            functions: vec![WORK.to_owned()],
        }];
        Scenario { traffic, ..scenario }.answer().ok()
    }

    fn part(&self) -> Part {
        match self.component {
            Component::LineRate => Part::NicLine,
            Component::PacketRate => Part::NicPackets,
            Component::Cpu => Part::WorkerCores,
        }
    }
}

/// Measures what is delivered as it is, and with twice as much of the component.
///
/// # Errors
/// Those of the rig; on a machine with one core nothing is measured.
pub fn measure(
    throttled: &[Throttled],
    repetitions: u32,
    run: &mut Run<'_>,
) -> Result<(), Failure> {
    if throttled.is_empty() {
        return Ok(());
    }
    if let Err(missing) = run.rig.cores.traffic() {
        run.note(format!("Nothing was throttled: {missing}."));
        return Ok(());
    }
    let mut cells = Vec::new();
    for case in throttled {
        for (series, trial) in [(AS_IT_IS, case.clone()), (RELIEVED, case.relieved())] {
            run.series(series, X, "Mpps", Some(Better::Higher));
            // Both stand at the name of the case as it is.
            cells.push(Cell::new(series, case.name(), trial));
        }
    }
    run.rounds(repetitions, &cells, |rig, case| {
        let mut chain = OpenLoop::rings(rig, &case.setup(), DESCRIPTORS)?;
        let ((arrivals, _), disturbance) = chain.offer(&case.offer())?;
        Ok((Values::of(arrivals.goodput() / 1e6), disturbance))
    })
}

/// Counts the cases in which a component limits, and those in which the model says so.
pub fn conclude(throttled: &[Throttled], found: &Calibration, results: &mut Results) {
    let at = |results: &Results, series: &str, name: &str| {
        let points = &results.series(series)?.points;
        let point = points.iter().find(|point| point.x == Abscissa::from(name))?;
        // What disturbs a trial makes it deliver less.
        statistics::percentile(&point.raw, 100.0 - QUARTILE)
    };
    let mut predicted = Series::new(PREDICTED, X, "Mpps");
    let (mut limiting, mut right) = (0, 0);
    let mut notes = Vec::new();
    for case in throttled {
        let name = case.name();
        let (Some(as_it_is), Some(relieved), Some(answer)) =
            (at(results, AS_IT_IS, &name), at(results, RELIEVED, &name), case.answer(found))
        else {
            continue;
        };
        predicted.points.extend(Point::of(name.as_str(), vec![answer.limit.rate / 1e6]));
        if relieved < as_it_is * GAIN {
            notes.push(format!(
                "{name}: did not limit here ({as_it_is:.3} Mpps, and {relieved:.3})."
            ));
            continue;
        }
        limiting += 1;
        if answer.bottleneck_part() == Some(case.part()) {
            right += 1;
        } else {
            notes.push(format!("{name}: the model names {}.", answer.bottleneck()));
        }
    }
    results.notes.extend(notes);
    if limiting > 0 {
        results.derive("bottlenecks", f64::from(limiting));
        results.derive("bottlenecks_named_right", f64::from(right));
        results.notes.push(format!(
            "Throttled on purpose: in {limiting} cases the component limited (twice as much of it \
             delivered at least {GAIN} times as much), and the model named it in {right}."
        ));
    }
    if !predicted.points.is_empty() {
        results.compute(predicted);
    }
}
