//! `pfcp`: what a user plane takes that control planes drive, and what a packet of a session
//! costs.

mod control_plane;
mod user_plane;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::control_plane::ControlPlane;
use self::user_plane::UserPlane;
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::{Measured, Rig};

const X: &str = "sessions";
const RATE: &str = "establishments";
const BYTES: &str = "memory of a session";
const LOST: &str = "packets lost under messages";
const UNSENT: &str = "messages due and not sent or not answered";
const P99: &str = "answers, p99";
const MESSAGE: &str = "processor time of a message";
const UPLINK: &str = "uplink";
const DOWNLINK: &str = "downlink";
const URR: &str = "a usage reporting rule";
const MILLION: u32 = 1_000_000;

/// See [`Study::VARIES`].
pub struct Pfcp;

/// Parameters of `pfcp`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions with each number of sessions.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each mixed load.
    seconds: f64,
    /// Seconds for which the cost of packets is measured.
    cycle_seconds: f64,
    /// Bytes of a frame with its checksum, tunnel and all.
    #[schemars(range(min = 96, max = 1518))]
    frame_bytes: usize,
    /// Numbers of sessions that stay.
    #[schemars(inner(range(min = 1000, max = 8_000_000)))]
    sessions: Vec<u32>,
    /// Requests that wait for their answers, at most, while these are established.
    #[schemars(range(min = 1))]
    outstanding: u32,
    /// Sessions beside them that come, change and go in mixed loads.
    #[schemars(range(min = 2, max = 1_000_000))]
    mixed: u32,
    /// Messages per second of the first mixed load; the second has half of what can be
    /// established.
    messages: f64,
    /// Packets per second that sessions carry meanwhile.
    packets: f64,
}

impl Study for Pfcp {
    const NAME: &'static str = "pfcp";
    const TITLE: &'static str = "A user plane driven by PFCP";
    const VARIES: &'static str = "PFCP sessions, 10,000 to 1,000,000, set up by messages on UDP";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../experiments/pfcp.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.series(RATE, X, "1/s", Some(Better::Higher));
        run.series(BYTES, X, "bytes", Some(Better::Lower));
        run.series(LOST, X, "packets/s", Some(Better::Lower));
        run.series(UNSENT, X, "messages/s", Some(Better::Lower));
        run.series(P99, X, "ms", Some(Better::Lower));
        run.series(MESSAGE, X, "µs", Some(Better::Lower));
        run.series(UPLINK, X, "cycles/packet", Some(Better::Lower));
        run.series(DOWNLINK, X, "cycles/packet", Some(Better::Lower));
        run.series(URR, X, "cycles/packet", Some(Better::Lower));
        run.note(
            "Control plane, sockets of this machine, agent, PFCP threads and generator share all \
             cores but the worker's.",
        );
        let cells: Vec<_> =
            parameters.sessions.iter().map(|count| Cell::new(RATE, *count, *count)).collect();
        // Only the parts that a busy machine spoils are made again.
        run.rounds(parameters.repetitions, &cells, |rig, &count| {
            Ok((parameters.trial(rig, count)?, 0.0))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let most = parameters.sessions.iter().copied().max().unwrap_or(MILLION);
        let at = |name: &str, x: u32| results.series(name).and_then(|series| series.mean_at(x));
        let (rate, bytes) = (at(RATE, most), at(BYTES, most));
        let figures = [
            ("establishments_per_s", rate),
            ("lost_at_94k_per_s", at(LOST, most)),
            ("unanswered_at_94k_per_s", at(UNSENT, most)),
            ("answer_ms_p99", at(P99, most)),
            ("message_processor_us", at(MESSAGE, most)),
            ("bytes_per_session", bytes),
            ("cycles_uplink_1m", at(UPLINK, MILLION)),
            ("cycles_downlink_1m", at(DOWNLINK, MILLION)),
            ("urr_cycles", at(URR, most)),
        ];
        for (name, value) in figures {
            value.into_iter().for_each(|value| results.derive(name, value));
        }
        if let (Some(rate), Some(bytes)) = (rate, bytes) {
            results.says = format!(
                "A control plane establishes {:.1} thousand sessions a second by messages on UDP; a \
                 session takes {:.1} KiB.",
                rate / 1e3,
                bytes / 1024.0
            );
        }
        let drawings = [
            figure("rate", "Sessions established a second", FigureKind::Lines, [RATE])
                .caption("As fast as answers come.")
                .axes(Axis::log("Sessions", ""), Axis::linear("Establishments", "1/s")),
            figure("cycles", "Cycles per packet", FigureKind::Lines, [UPLINK, DOWNLINK])
                .caption(
                    "Sessions in random order, with F-TEID, QER, URR and outer header, besides \
                     the devices.",
                )
                .axes(Axis::log("Sessions", ""), Axis::linear("Cost", "cycles/packet")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    fn trial(&self, rig: &Rig, count: u32) -> Result<Values, Failure> {
        let length = Duration::from_secs_f64(self.cycle_seconds);
        let mut user_plane = UserPlane::new(rig, count + self.mixed, self.frame_bytes)?;
        let driven = user_plane.drive(|driven| {
            let stays = ControlPlane::first(count, self.outstanding);
            let before = driven.resident()?;
            let rate = stays.establish()?;
            let memory = driven.resident()?.saturating_sub(before) as f64 / f64::from(count);
            let load = |nth: u8, messages: f64| {
                let beside = ControlPlane::beside(nth, self.mixed);
                let before = driven.processor_time()?;
                let load = || beside.mix(rate / 2.0, messages, self.seconds);
                let (answered, lost) = driven.under_traffic((count, self.packets), load)?;
                Ok::<_, Failure>((answered, lost, driven.processor_time()? - before))
            };
            Ok((rate, memory, load(1, self.messages)?, load(2, rate / 2.0)?))
        })?;
        let (rate, memory, (mixed, lost, took), (half, ..)) = driven;
        let message = took.as_secs_f64() * 1e6 / mixed.answered.max(1) as f64;
        let (uplink, downlink) = cycles(rig, &mut user_plane, count, length)?;
        drop(user_plane);
        let values = Values::of(rate)
            .and(BYTES, Some(memory))
            .and(LOST, Some(lost))
            .and(UNSENT, Some(mixed.missing as f64 / self.seconds))
            .and(P99, Some(half.p99.as_secs_f64() * 1e3))
            .and(MESSAGE, Some(message))
            .and(UPLINK, Some(uplink))
            .and(DOWNLINK, Some(downlink))
            .and(URR, Some(uplink - self.without_urr(rig, count, length)?));
        Ok(values)
    }

    /// What a packet costs uplink where no usage reporting rule measures it.
    fn without_urr(&self, rig: &Rig, count: u32, length: Duration) -> Result<Measured, Failure> {
        let mut user_plane = UserPlane::new(rig, count, self.frame_bytes)?;
        let control_plane = ControlPlane::first(count, self.outstanding).without_urr();
        user_plane.drive(|_| control_plane.establish())?;
        let (uplink, _) = cycles(rig, &mut user_plane, count, length)?;
        Ok(uplink)
    }
}

/// Cycles of a packet, uplink and downlink, besides the devices; of the quietest attempt.
fn cycles(
    rig: &Rig,
    user_plane: &mut UserPlane<'_>,
    count: u32,
    length: Duration,
) -> Result<(Measured, Measured), Failure> {
    rig.steady(|| {
        let (uplink, downlink, disturbance) = user_plane.cycles(count, length)?;
        Ok::<_, Failure>(((uplink, downlink), disturbance))
    })
}
