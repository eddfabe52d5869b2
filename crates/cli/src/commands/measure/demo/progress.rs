//! The line that shows how far the traffic is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::number::count;

/// How often the line changes.
const TICK: Duration = Duration::from_millis(200);

/// What the traffic's thread tells now and then.
#[derive(Debug, Default)]
pub struct Progress {
    /// Milliseconds of traffic so far.
    pub elapsed: AtomicU64,
    /// Packets so far.
    pub sent: AtomicU64,
    pub delivered: AtomicU64,
}

/// Shows `progress` towards `duration` until the traffic's thread `has_finished`;
/// only where standard error is a terminal.
pub fn show(progress: &Progress, duration: Duration, has_finished: impl Fn() -> bool) {
    let bar = ProgressBar::new(duration.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    while !has_finished() {
        let (sent, delivered) = (read(&progress.sent), read(&progress.delivered));
        bar.set_position(read(&progress.elapsed));
        bar.set_message(format!("{} sent, {} delivered", count(sent), count(delivered)));
        thread::sleep(TICK);
    }
    bar.finish_and_clear();
}
