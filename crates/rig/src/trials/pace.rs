//! What the paced sender reaches by itself: a load beyond that is no load that it sent.

use std::time::Duration;

use weft_traffic::{Load, Rate};

use crate::search::{BinarySearch, SystemUnderTest, Trial};
use crate::{Ends, Failure, Offer, Rig};

/// The share of the packets due that may be late.
const LATE: f64 = 0.005;
/// How finely it is looked for, and from which part of the unpaced rate on.
const WIDTH: f64 = 0.05;
const LEAST: f64 = 0.02;
/// How often a trial that the machine may have disturbed is made again.
const REPEATS: u32 = 2;

impl Rig {
    /// Packets per second that the paced sender reaches with a receiver beside it and no
    /// system between them.
    ///
    /// # Errors
    /// When the machine has one core only, no packets can be made, or hardly any is sent
    /// in time.
    pub fn paced_limit(
        &self,
        ends: &mut Ends,
        load: impl Fn(Rate) -> Load,
        trial: Duration,
    ) -> Result<f64, Failure> {
        let offer = Offer { load: load(Rate::Unlimited), duration: trial };
        let most = self.offer(ends, &offer)?.rate_sent();
        let (least, repeats) = (most * LEAST, REPEATS);
        let search = BinarySearch { least, most, loss_ratio: LATE, width: WIDTH, trial, repeats };
        let found = search.run(&mut Sender { rig: self, ends, load })?;
        found.count(self);
        found.lower.ok_or_else(|| {
            format!("the paced sender is late at {least:.0} packets per second already").into()
        })
    }
}

/// A sender and a receiver without a system between them.
struct Sender<'a, L> {
    rig: &'a Rig,
    ends: &'a mut Ends,
    load: L,
}

impl<L: Fn(Rate) -> Load> SystemUnderTest for Sender<'_, L> {
    type Error = Failure;

    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Failure> {
        let offer = Offer { load: (self.load)(Rate::Packets(rate)), duration };
        let arrivals = self.rig.steady_in_search(|| {
            let arrivals = self.rig.offer(self.ends, &offer)?;
            let disturbance = arrivals.disturbance;
            Ok::<_, Failure>((arrivals, disturbance))
        })?;
        // What is lost on the way says nothing of the sender.
        Ok(Trial { rate, duration, sent: arrivals.sent, unsent: arrivals.unsent, lost: 0 })
    }
}
