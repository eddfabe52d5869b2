//! The course of the traffic: threads, progress, and the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weft_dpdk::{Eal, pin_to_core};
use weft_traffic::Profile;

use super::rig::{Receiving, Rig, Sending};
use crate::failure::Failure;

/// How often the progress line changes.
const TICK: Duration = Duration::from_millis(200);
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// So long after the last packet nothing more is waited for.
const QUIET: Duration = Duration::from_millis(200);

/// How long, in how many threads, and whether to stop.
pub struct Course {
    pub duration: Duration,
    pub threads: u32,
    pub stop: Arc<AtomicBool>,
}

/// What came of it.
pub struct Outcome {
    pub rig: Rig,
    /// How long packets were sent.
    pub sending: Duration,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

/// What the threads tell now and then.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    received: AtomicU64,
    /// Nothing more is sent.
    ended: AtomicBool,
}

impl Course {
    /// Sends for the time that was set or until it is stopped, and receives what
    /// arrives.
    ///
    /// # Errors
    /// When a core cannot be had, or a capture cannot be written.
    pub fn run(&self, eal: &Eal, profile: &Profile, rig: Rig) -> Result<Outcome, Failure> {
        let Rig { mut sending, mut receiving, ports } = rig;
        let progress = Progress::default();
        let (generator, receiver) = (profile.generator_core, profile.receiver_core);
        let took = if self.threads == 1 {
            thread::scope(|scope| {
                let both = scope.spawn(|| {
                    let _thread = enter(eal, generator)?;
                    let took = self.send(&mut sending, &progress, || {
                        receiving.turn();
                        progress.received.store(receiving.received(), Ordering::Relaxed);
                    });
                    receive(&mut receiving, &progress);
                    Ok(took)
                });
                self.show(&progress, || both.is_finished());
                joined(both.join())
            })
        } else {
            thread::scope(|scope| {
                let inlet = scope.spawn(|| {
                    let _thread = enter(eal, receiver)
                        .inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
                    receive(&mut receiving, &progress);
                    Ok(())
                });
                let outlet = scope.spawn(|| {
                    let entered = enter(eal, generator);
                    let took = entered.map(|_thread| self.send(&mut sending, &progress, || {}));
                    progress.ended.store(true, Ordering::Release);
                    took
                });
                self.show(&progress, || outlet.is_finished() && inlet.is_finished());
                let took = joined(outlet.join());
                joined(inlet.join()).and(took)
            })
        }?;
        receiving.finish()?;
        let interrupted = self.stop.load(Ordering::Relaxed);
        Ok(Outcome { rig: Rig { sending, receiving, ports }, sending: took, interrupted })
    }

    /// Sends until the end; `between` runs between bursts.
    fn send(
        &self,
        sending: &mut Sending,
        progress: &Progress,
        mut between: impl FnMut(),
    ) -> Duration {
        let start = Instant::now();
        while start.elapsed() < self.duration && !self.stop.load(Ordering::Relaxed) {
            for _ in 0..TURNS {
                sending.turn();
                between();
            }
            progress.sent.store(sending.sent(), Ordering::Relaxed);
        }
        sending.finish();
        let took = start.elapsed();
        progress.ended.store(true, Ordering::Release);
        took
    }

    /// Shows how far it is until it `has_finished`; only where standard error is
    /// a terminal.
    fn show(&self, progress: &Progress, has_finished: impl Fn() -> bool) {
        let start = Instant::now();
        let bar = ProgressBar::new(self.duration.as_millis() as u64);
        if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        while !has_finished() {
            let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let (sent, received) = (read(&progress.sent), read(&progress.received));
            bar.set_position(start.elapsed().as_millis() as u64);
            bar.set_message(format!("{sent} sent, {received} received"));
            thread::sleep(TICK.min(self.duration / 4));
        }
        bar.finish_and_clear();
    }
}

/// Receives until nothing more is sent and nothing more arrives.
fn receive(receiving: &mut Receiving, progress: &Progress) {
    let mut last = Instant::now();
    loop {
        let count: usize = (0..TURNS).map(|_| receiving.turn()).sum();
        progress.received.store(receiving.received(), Ordering::Relaxed);
        let on_wires = match progress.ended.load(Ordering::Acquire) && count == 0 {
            true => receiving.empty_wires(),
            false => 1,
        };
        if count > 0 || on_wires > 0 {
            last = Instant::now();
        } else if last.elapsed() > QUIET {
            return;
        }
    }
}

/// Makes this thread one of DPDK's, on its core.
fn enter(eal: &Eal, core: Option<usize>) -> Result<weft_dpdk::Registration, Failure> {
    if let Some(core) = core {
        pin_to_core(core).map_err(|error| Failure::input(format!("core {core}: {error}")))?;
    }
    Ok(eal.register_thread())
}

fn joined<T>(result: thread::Result<Result<T, Failure>>) -> Result<T, Failure> {
    result.unwrap_or_else(|_| Err(Failure::broken("a thread of the traffic panicked")))
}
