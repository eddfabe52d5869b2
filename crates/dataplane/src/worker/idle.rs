//! What a thread that polls does while there is nothing to do.

mod rest;

use std::thread;
use std::time::Duration;

/// Rounds without a packet before a worker that polls adaptively sleeps.
const SPIN_ROUNDS: u32 = 512;

/// What a worker does between packets: spins, then sleeps, longer and longer.
pub struct Idle {
    rounds: u32,
    sleep: Duration,
    longest: Option<Duration>,
}

impl Idle {
    const SHORTEST: Duration = Duration::from_micros(10);

    /// Sleeps so long at most; none never sleeps.
    pub fn new(longest: Option<Duration>) -> Idle {
        Idle { rounds: 0, sleep: Idle::SHORTEST, longest }
    }

    /// There was something to do.
    pub fn reset(&mut self) {
        self.rounds = 0;
        self.sleep = Idle::SHORTEST;
    }

    /// There was nothing to do.
    pub fn wait(&mut self) {
        if self.spins() {
            self.sleep();
        }
    }

    /// There was nothing to do: looks again at once, for some rounds. Returns whether there were
    /// so many, and it may sleep.
    pub fn spins(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if self.longest.is_none() || self.rounds < SPIN_ROUNDS {
            std::hint::spin_loop();
            return false;
        }
        true
    }

    /// Sleeps for longer than the last time.
    pub fn sleep(&mut self) {
        let Some(longest) = self.longest else { return };
        thread::sleep(self.sleep.min(longest));
        self.sleep = (self.sleep * 2).min(longest);
    }
}
