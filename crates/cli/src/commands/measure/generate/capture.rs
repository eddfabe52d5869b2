//! What arrives, as a pcap file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use weft_dpdk::tsc;

use crate::failure::Failure;

/// A capture that is being written.
pub struct Capture {
    writer: PcapWriter<BufWriter<File>>,
    file: String,
    /// Packets that may still be written.
    room: u64,
    /// Time since 1970 and cycle of one moment.
    moment: (Duration, u64),
    /// The first failure.
    failure: Option<String>,
}

impl Capture {
    /// Begins a capture of at most `most` packets.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, most: u64) -> Result<Capture, Failure> {
        let file = path.display().to_string();
        let wrong = |reason: String| Failure::input(format!("{file}: {reason}"));
        let output = File::create(path).map_err(|error| wrong(error.to_string()))?;
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..Default::default()
        };
        let writer = PcapWriter::with_header(BufWriter::new(output), header)
            .map_err(|error| wrong(error.to_string()))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Capture { writer, file, room: most, moment: (since, tsc::now()), failure: None })
    }

    /// Adds a frame that arrived in cycle `now`.
    pub fn add(&mut self, now: u64, frame: &[u8]) {
        if self.room == 0 || self.failure.is_some() {
            return;
        }
        self.room -= 1;
        let (since, cycle) = self.moment;
        let seconds = now.saturating_sub(cycle) as f64 / tsc::hz() as f64;
        let time = since + Duration::from_secs_f64(seconds);
        let packet = PcapPacket::new(time, frame.len() as u32, frame);
        self.failure = self.writer.write_packet(&packet).err().map(|error| error.to_string());
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// What failed while it was written.
    pub fn finish(self) -> Result<(), Failure> {
        let flushed = self.writer.into_writer().flush().err().map(|error| error.to_string());
        match self.failure.or(flushed) {
            Some(reason) => Err(Failure::broken(format!("{}: {reason}", self.file))),
            None => Ok(()),
        }
    }
}
