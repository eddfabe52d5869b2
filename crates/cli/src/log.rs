//! The log on standard error, and what becomes of panics.

use std::io::IsTerminal;
use std::panic::{self, PanicHookInfo};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::Level;
use weft_dpdk::watchdog;

/// Starts logging at the level that `WEFT_LOG` names, or else at `usual`.
pub fn start(usual: Level) {
    let level = std::env::var("WEFT_LOG").ok().and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(usual))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    panic::set_hook(Box::new(log_panic));
}

/// Least time between two panics that are logged. A function that panics may do
/// so for every packet.
const PANICS_APART: Duration = Duration::from_secs(1);

/// When a panic was logged last, and how many were not logged since.
static PANICS: Mutex<(Option<Instant>, u64)> = Mutex::new((None, 0));

fn log_panic(panic: &PanicHookInfo<'_>) {
    let Ok(mut panics) = PANICS.lock() else { return };
    let (last, unlogged) = &mut *panics;
    // One that no function is the cause of ends its thread, and is logged in any case.
    let function = watchdog::running();
    if function.is_some() && last.is_some_and(|last| last.elapsed() < PANICS_APART) {
        *unlogged += 1;
        return;
    }
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("without a message").replace('\n', " ");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, function, unlogged = *unlogged, "panic: {message}");
    (*last, *unlogged) = (Some(Instant::now()), 0);
}
