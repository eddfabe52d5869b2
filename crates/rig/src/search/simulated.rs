//! Systems under test that are only computed, with known limits and noise. The
//! searches are tested on them.

use std::convert::Infallible;
use std::time::Duration;

use fastrand::Rng;

use super::{SystemUnderTest, Trial};

/// A system that loses what exceeds its limit, and now and then a few packets
/// more, as machines do.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Packets per second that it carries, in the median of its trials.
    pub limit: f64,
    /// How likely a second holds an interruption that loses packets, 0 to 1.
    pub transient: f64,
    /// The standard deviation of its limit from trial to trial, as a share.
    pub jitter: f64,
    /// Packets per second that can be sent at all.
    pub generator: f64,
    /// The sum of all trials' durations till now.
    pub spent: Duration,
    random: Rng,
}

/// Packets that an interruption loses: what comes while it lasts.
const INTERRUPTION: f64 = 0.0005;

impl Simulated {
    /// A system with a limit between 20,000 and 10 million packets per second,
    /// by seed.
    pub fn random(seed: u64, transient: f64, jitter: f64) -> Simulated {
        let mut random = Rng::with_seed(seed);
        let limit = (2e4_f64.ln() + random.f64() * (1e7_f64 / 2e4).ln()).exp();
        Simulated { limit, transient, jitter, random, ..Simulated::quiet(limit) }
    }

    /// A system without any noise.
    pub fn quiet(limit: f64) -> Simulated {
        Simulated {
            limit,
            transient: 0.0,
            jitter: 0.0,
            generator: f64::INFINITY,
            spent: Duration::ZERO,
            random: Rng::with_seed(0),
        }
    }

    /// A normal variate, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.random.f64(), self.random.f64());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

impl SystemUnderTest for Simulated {
    type Error = Infallible;

    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Infallible> {
        let seconds = duration.as_secs_f64();
        self.spent += duration;
        let due = (rate * seconds).round();
        let sent = due.min(self.generator * seconds);
        let limit = self.limit * (1.0 + self.jitter * self.normal());
        // Of a share of a packet nothing is lost.
        let mut lost = (sent - limit * seconds).max(0.0).floor();
        if self.random.f64() >= (1.0 - self.transient).powf(seconds) {
            lost += (rate * INTERRUPTION).ceil();
        }
        Ok(Trial {
            rate,
            duration,
            sent: sent as u64,
            unsent: (due - sent) as u64,
            lost: lost.min(sent) as u64,
        })
    }
}
