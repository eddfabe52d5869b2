//! Chains over software links, offered more than they carry.

use std::cell::RefCell;
use std::time::Duration;

use weft_traffic::Rate;

use super::{DESCRIPTORS, Parameters, X, worst_share};
use crate::experiments::chain::software_links::{self, Hop, Row};
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, Figure, FigureKind, Results, Series};
use crate::run::{Interrupted, Run, Sent, Values};
use weft_rig::Arrivals;
use weft_rig::Failure;
use weft_rig::Offer;
use weft_rig::Rig;
use weft_rig::USERS;
use weft_rig::baseline::line::Line;
use weft_rig::uplink;

/// The shares of what one core sends at which the limit of a chain is looked for.
const SHARES: [f64; 8] = [1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08];

/// A chain over software links.
pub(super) struct Linked {
    line: RefCell<Line>,
    /// Its series.
    pub name: String,
    /// The most that it delivered, packets per second.
    limit: f64,
    /// What one core sends into it, packets per second.
    most: f64,
}

/// The series of a chain.
fn name(hop: Hop, length: usize) -> String {
    format!("{}, chain of {length}", hop.name())
}

/// Lays the chains and looks for the limit of each; what cannot be is noted.
///
/// # Errors
/// [`Interrupted`].
pub(super) fn lay(
    parameters: &Parameters,
    run: &mut Run<'_>,
    length: Duration,
) -> Result<Vec<Linked>, Interrupted> {
    let mut chains = Vec::new();
    for row in software_links::lay(run, &parameters.lengths, DESCRIPTORS)? {
        run.go_on()?;
        let name = name(row.hop, row.length);
        match Linked::new(run.rig, row, length) {
            Ok(chain) => {
                run.series(&name, X, "Mpps", Some(Better::Higher));
                chains.push(chain);
            }
            Err(error) => run.note(format!("{name}: not measured: {error}")),
        }
    }
    Ok(chains)
}

impl Linked {
    fn new(rig: &Rig, row: Row, length: Duration) -> Result<Linked, Failure> {
        let name = name(row.hop, row.length);
        let mut chain = Linked { line: RefCell::new(row.line), name, limit: 0.0, most: 0.0 };
        // Flows are learnt.
        chain.offer(rig, Rate::Unlimited, length)?;
        for share in SHARES {
            let rate = match share {
                1.0 => Rate::Unlimited,
                share => Rate::Packets(chain.most * share),
            };
            let arrivals = chain.offer(rig, rate, length)?;
            chain.limit = chain.limit.max(arrivals.goodput());
            if rate == Rate::Unlimited {
                chain.most = arrivals.sent as f64 / arrivals.sending.as_secs_f64().max(1e-9);
            }
        }
        match chain.limit > 0.0 {
            true => Ok(chain),
            false => Err("no packet came through".into()),
        }
    }

    fn offer(&self, rig: &Rig, rate: Rate, length: Duration) -> Result<Arrivals, Failure> {
        let offer = Offer { load: uplink(USERS, 64, rate), duration: length };
        self.line.borrow_mut().offer(rig, offer)
    }

    /// Whether one core sends so many times its limit.
    pub(super) fn can_be_given(&self, load: f64) -> bool {
        load * self.limit <= self.most
    }

    /// What it delivers when given so many times its limit.
    ///
    /// # Errors
    /// As [`Line::offer`].
    pub(super) fn trial(
        &self,
        rig: &Rig,
        load: f64,
        length: Duration,
    ) -> Result<(Values, f64), Failure> {
        let arrivals = self.offer(rig, Rate::Packets(load * self.limit), length)?;
        let sent = Sent { at: arrivals.rate_sent() / self.limit, share: arrivals.share_sent() };
        let values = Values::of(arrivals.goodput() / 1e6).sent(sent);
        Ok((values, arrivals.disturbance))
    }

    /// What a reader should know of the loads that it could not be given.
    pub(super) fn note(&self, loads: &[f64]) -> Option<String> {
        let all = loads.iter().all(|&load| self.can_be_given(load));
        (!all).then(|| {
            let times = self.most / self.limit;
            format!("{}: one core sends no more than {times:.1} times its limit.", self.name)
        })
    }
}

/// Derives what the chains deliver, and draws them.
pub(super) fn conclude(parameters: &Parameters, results: &mut Results) -> Option<Figure> {
    let of = |hop| parameters.lengths.iter().map(move |length| name(hop, *length));
    let names: Vec<String> = Hop::ALL.into_iter().flat_map(of).collect();
    let chains: Vec<&Series> = names.iter().filter_map(|name| results.series(name)).collect();
    let share = |load: f64| {
        // Some cannot be given so much.
        let given = chains.iter().filter(|series| series.mean_at(load).is_some());
        worst_share(&given.copied().collect::<Vec<_>>(), load).unwrap_or(f64::NAN)
    };
    let (twice, five_times) = (share(2.0), share(5.0));
    results.derive("goodput_2x_software_links", twice);
    results.derive("goodput_5x_software_links", five_times);
    if twice.is_finite() {
        results.says += &format!(
            " Over software links the worst chain delivers {:.0} % of its peak at twice its limit.",
            twice * 100.0
        );
    }
    let names = names.iter().map(String::as_str);
    figure("software-links", "Over software links", FigureKind::Lines, names.clone())
        .caption(
            "As fig. 3b of the paper, its chains over veth pairs: routers of the kernel, and \
             bridges of Open vSwitch's userspace datapath, without functions, all on one core. The \
             limit is the most that a chain delivered while it was looked for.",
        )
        .axes(
            Axis::linear("Load sent", "multiples of the limit"),
            Axis::linear("Delivered", "Mpps"),
        )
        .baselines(names)
        .of(results)
}
