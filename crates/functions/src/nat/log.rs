//! The log of blocks (RFC 6888 §4): who had which public ports, and when. A worker
//! leaves events in a ring; a thread writes them.

use std::fmt::{self, Display, Formatter};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rtrb::{Consumer, Producer, RingBuffer};

/// Events that wait to be written.
const WAITING: usize = 4096;
/// How often they are.
const PAUSE: Duration = Duration::from_millis(100);

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockChange {
    /// Of all blocks: none is given out yet.
    Began,
    Allocated,
    Released,
}

/// A block was given out, or came back.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub what: BlockChange,
    /// The inside address that it was given to, or the latest of its user's.
    pub inside: u32,
    pub address: u32,
    /// First and last port.
    pub first: u16,
    pub last: u16,
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            BlockChange::Began => return f.write_str("began"),
            BlockChange::Allocated => "allocated",
            BlockChange::Released => "released",
        };
        let [inside, address] = [self.inside, self.address].map(Ipv4Addr::from_bits);
        let Event { first, last, .. } = self;
        write!(f, "{what} inside={inside} outside={address} ports={first}-{last}")
    }
}

/// Where events go.
#[derive(Debug, Default)]
pub struct Log {
    ring: Option<Producer<Event>>,
    /// Events that found no room.
    pub lost: u64,
}

impl Log {
    /// A log that is appended to the file.
    ///
    /// # Errors
    /// When it cannot be opened, or there is no thread to write it.
    pub fn open(path: &str) -> std::io::Result<Log> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (producer, consumer) = RingBuffer::new(WAITING);
        let write = move || write(file, consumer);
        std::thread::Builder::new().name("nat-log".into()).spawn(write)?;
        Ok(Log { ring: Some(producer), lost: 0 })
    }

    /// Leaves an event to be written.
    pub fn note(&mut self, event: Event) {
        if let Some(ring) = &mut self.ring {
            self.lost += u64::from(ring.push(event).is_err());
        }
    }
}

/// Writes until the worker's end is gone and nothing is left.
fn write(file: File, mut events: Consumer<Event>) {
    let mut file = BufWriter::new(file);
    loop {
        let last = events.is_abandoned();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
        while let Ok(event) = events.pop() {
            if let Err(error) = writeln!(file, "{seconds}.{milliseconds:03} {event}") {
                tracing::warn!("the log of blocks: {error}");
            }
        }
        if let Err(error) = file.flush() {
            tracing::warn!("the log of blocks: {error}");
        }
        if last {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
