//! A function process that speaks to the node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_dataplane::offload::Shared;

use crate::process::protocol::Connection;
use crate::process::supervisor::process;

/// A function that speaks to us.
pub(in crate::process::supervisor) struct Session {
    pub(super) connection: Connection,
    pub(super) stage: Stage,
    pub(super) begun: Instant,
    pub(super) process: u32,
    pub(super) last_ping: Instant,
    pub(super) last_pong: Instant,
    /// Processor time of the process at the last answer, where it is known.
    pub(super) ticks: Option<u64>,
    pub(super) last_checkpoint: Instant,
    pub(super) asked: Asked,
    /// When its devices were last counted.
    pub(super) last_counted: Option<Instant>,
    /// By worker: packets that have come back, and since when none more has while some are
    /// away.
    progress: Vec<(u32, Instant)>,
    /// Since when its process ends.
    ending: Option<Instant>,
}

/// What the process was asked and told, and may answer: who sends more than that is no
/// function, but means to keep the node busy.
#[derive(Default)]
pub(super) struct Asked {
    /// Pings without a pong.
    pub(super) pings: u32,
    /// Contexts that it was told to import and has not refused.
    pub(super) imports: u64,
    /// Contexts that the checkpoint on its way may still have.
    pub(super) contexts: usize,
    /// Contexts that it could not import.
    pub(super) refused: u64,
}

impl Asked {
    /// Takes one of what is `left`.
    ///
    /// # Errors
    /// What it sent without being asked, where none is left.
    pub(super) fn take<T>(left: &mut T, what: &str) -> Result<(), String>
    where
        T: Copy + PartialOrd + From<bool> + std::ops::SubAssign,
    {
        if *left < T::from(true) {
            return Err(format!("it sent {what} that was not asked for"));
        }
        *left -= T::from(true);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::process::supervisor) enum Stage {
    Greeting,
    Attaching,
    Ready,
    Running,
}

impl Session {
    pub(super) fn new(connection: Connection, workers: usize) -> Session {
        let now = Instant::now();
        Session {
            connection,
            stage: Stage::Greeting,
            begun: now,
            process: 0,
            last_ping: now,
            last_pong: now,
            ticks: None,
            last_checkpoint: now,
            asked: Asked::default(),
            last_counted: None,
            progress: vec![(0, now); workers],
            ending: None,
        }
    }

    /// Packets go to it from now on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.stage = Stage::Running;
        self.last_pong = now;
        self.progress.iter_mut().for_each(|one| one.1 = now);
    }

    /// Whether its process has begun to end. The kernel takes its memory back first, which
    /// takes milliseconds, and only then do its socket and its descriptor tell. Asked where
    /// packets lie at it.
    pub(super) fn begins_to_end(&mut self, now: Instant) -> bool {
        let lies = self.progress.iter().any(|&(_, since)| since != now);
        if !lies || self.ending.is_some() || !process::is_ending(self.process) {
            return false;
        }
        self.ending = Some(now);
        true
    }

    /// Notes what has come back.
    ///
    /// # Errors
    /// Why it is as good as gone, after so long a heartbeat.
    pub(super) fn check(
        &mut self,
        shared: &[Arc<Shared>],
        heartbeat: Duration,
        now: Instant,
    ) -> Result<(), String> {
        if self.ending.is_some_and(|since| now - since > heartbeat) {
            return Err("its process ends, but holds its socket".to_owned());
        }
        let silent = now - self.last_pong;
        if silent > heartbeat && self.is_stuck(silent, heartbeat) {
            return Err(format!("it has not answered for {} ms", silent.as_millis()));
        }
        // One that answers but leaves its packets lying stands still as well.
        for (shared, (seen, since)) in shared.iter().zip(&mut self.progress) {
            let returned = shared.returned();
            if returned != *seen || shared.away() == 0 {
                (*seen, *since) = (returned, now);
            } else if now - *since > heartbeat * 10 {
                return Err("it answers, but leaves its packets in the ring".to_owned());
            }
        }
        Ok(())
    }

    /// Whether a process that is silent stands still: it was stopped, or it had
    /// the processor and did not answer. One that merely was not scheduled gets
    /// ten times the time.
    fn is_stuck(&self, silent: Duration, heartbeat: Duration) -> bool {
        if silent > heartbeat * 10 || process::is_stopped(self.process) {
            return true;
        }
        match (self.ticks, process::ticks(self.process)) {
            (Some(then), Some(now)) => {
                // Hundredths of a second, as the kernel counts them.
                Duration::from_millis(10) * now.saturating_sub(then) as u32 > heartbeat
            }
            _ => true,
        }
    }
}
