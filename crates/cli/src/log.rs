//! The log, and what becomes of panics.

use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weft_dpdk::watchdog;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines for people, on standard error
    Text,
    /// One JSON object on each line of standard error
    Json,
    /// Entries of the systemd journal, with a field for each value (`WEFT_…`)
    Journald,
}

/// The format in use, once the log has started.
static FORMAT: OnceLock<Format> = OnceLock::new();

/// Starts logging at the level that `WEFT_LOG` names, or else at `usual`.
pub fn start(usual: Level, format: Format) {
    let level = std::env::var("WEFT_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(usual);
    let (format, missing) = match format {
        Format::Journald => match journal(level) {
            Ok(()) => (Format::Journald, None),
            Err(error) => (Format::Text, Some(error)),
        },
        format => (format, None),
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    let lines = lines.with_target(false);
    match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).init(),
        Format::Json => lines.json().flatten_event(true).init(),
        Format::Journald => {}
    }
    // The log starts once.
    let _ = FORMAT.set(format);
    if let Some(error) = missing {
        tracing::warn!("the log goes to standard error: there is no journal here ({error})");
    }
    panic::set_hook(Box::new(log_panic));
}

/// Starts logging to the journal.
///
/// # Errors
/// When there is none.
fn journal(level: Level) -> io::Result<()> {
    let journal = tracing_journald::layer()?
        .with_field_prefix(Some("WEFT".to_owned()))
        .with_syslog_identifier("weft".to_owned());
    tracing_subscriber::registry().with(LevelFilter::from_level(level)).with(journal).init();
    Ok(())
}

/// Writes lines to standard error. One who has closed it is told nothing.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Tells why the program ends, where it logs. `text` is a line, or several.
pub fn failure(text: &str) {
    match FORMAT.get() {
        None | Some(Format::Text) => say(text),
        Some(Format::Json | Format::Journald) => {
            text.lines().for_each(|line| tracing::error!("{line}"));
        }
    }
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
