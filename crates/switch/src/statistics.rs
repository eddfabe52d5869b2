//! What a switch says of itself: one JSON document for each connection to its socket.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_vf::{SOFTWARE, Switch};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of a document at most.
const LONGEST: u64 = 1 << 20;
/// Pause between two looks for a client.
const PAUSE: Duration = Duration::from_millis(20);

/// Why the switch drops a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It is shorter than an Ethernet header. Counted where it came from, as the next two.
    FrameTooShort,
    /// It comes from another MAC address than that of its virtual function.
    SourceSpoofed,
    /// No other port has the MAC address that it goes to.
    DestinationUnknown,
    /// The virtual function that it goes to has no front end. Counted there, as the
    /// next two.
    DestinationAbsent,
    /// More frames go to the virtual function than its share, or than it takes, and as many
    /// as its queue holds wait already.
    QueueFull,
    /// There was no buffer for the copy of a frame that goes to several.
    NoBuffer,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 6] = [
        DropReason::FrameTooShort,
        DropReason::SourceSpoofed,
        DropReason::DestinationUnknown,
        DropReason::DestinationAbsent,
        DropReason::QueueFull,
        DropReason::NoBuffer,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::FrameTooShort => "frame_too_short",
            DropReason::SourceSpoofed => "source_spoofed",
            DropReason::DestinationUnknown => "destination_unknown",
            DropReason::DestinationAbsent => "destination_absent",
            DropReason::QueueFull => "queue_full",
            DropReason::NoBuffer => "no_buffer",
        }
    }
}

/// A number that one thread writes and all read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    #[inline]
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted of one port.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// To the virtual function.
    pub rx: [Counter; 2],
    /// From it.
    pub tx: [Counter; 2],
    /// Frames that wait for it.
    pub waiting: Counter,
    /// Whether a front end is attached.
    pub attached: AtomicBool,
    pub drops: [Counter; DropReason::ALL.len()],
}

impl Counters {
    #[inline]
    pub fn lose(&self, reason: DropReason, frames: u64) {
        self.drops[reason as usize].add(frames);
    }
}

/// What a switch says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statistics {
    /// `software VF`.
    pub kind: String,
    /// Name of the switch in the configuration.
    pub nic: String,
    /// The process that it is.
    pub process: u32,
    /// The core that it has.
    pub core: Option<usize>,
    /// Its virtual functions.
    pub functions: Vec<Function>,
}

/// What a switch says of a virtual function. Received is what went to it, sent what came
/// from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its share: frames per second in each direction.
    pub rate: u64,
    /// Whether it may send from its own MAC address only.
    pub spoof_check: bool,
    /// Whether a process has it.
    pub attached: bool,
    /// Frames and bytes to it.
    pub rx_packets: u64,
    /// See `rx_packets`.
    pub rx_bytes: u64,
    /// Frames and bytes from it.
    pub tx_packets: u64,
    /// See `tx_packets`.
    pub tx_bytes: u64,
    /// Frames that wait for it in the switch.
    pub waiting: u64,
    /// Frames that were dropped, by reason; those of its own that go nowhere, and those to
    /// it that it had no room for.
    pub drops: Vec<(DropReason, u64)>,
}

impl Statistics {
    pub(crate) fn of(switch: &Switch, counters: &[Arc<Counters>]) -> Statistics {
        let function = |(share, counters): (&weft_vf::Share, &Arc<Counters>)| {
            let reasons = DropReason::ALL.into_iter().zip(&counters.drops);
            Function {
                name: share.function.name.clone(),
                mac: weft_vf::written(share.function.mac),
                rate: share.rate,
                spoof_check: share.function.spoof_check,
                attached: counters.attached.load(Ordering::Relaxed),
                rx_packets: counters.rx[0].get(),
                rx_bytes: counters.rx[1].get(),
                tx_packets: counters.tx[0].get(),
                tx_bytes: counters.tx[1].get(),
                waiting: counters.waiting.get(),
                drops: reasons.map(|(reason, count)| (reason, count.get())).collect(),
            }
        };
        Statistics {
            kind: SOFTWARE.to_owned(),
            nic: switch.name.clone(),
            process: std::process::id(),
            core: switch.core,
            functions: switch.functions.iter().zip(counters).map(function).collect(),
        }
    }

    /// What the switch of a configuration says now.
    ///
    /// # Errors
    /// When it does not run, or what answers is no switch.
    pub fn ask(switch: &Switch) -> io::Result<Statistics> {
        let stream = UnixStream::connect(switch.statistics())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.take(LONGEST).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(io::Error::from)
    }
}

/// Answers clients, until told to end.
pub(crate) fn serve(
    listener: &UnixListener,
    switch: &Switch,
    counters: &[Arc<Counters>],
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Acquire) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let text = serde_json::to_string(&Statistics::of(switch, counters)).unwrap_or_default();
        // Who asks may be gone already.
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_where_they_are_counted() {
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}
