//! Captures that are written, with times in nanoseconds.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{Endianness, PcapError, TsResolution};
use weft_management_api::pcapng::Pcapng;

use crate::failure::Failure;

/// What leaves at one port.
pub struct Output {
    file: PathBuf,
    /// Name of the port.
    port: String,
    format: Format,
}

enum Format {
    Pcap(PcapWriter<BufWriter<File>>),
    Pcapng(Pcapng<BufWriter<File>>),
}

impl Output {
    /// Creates `file` for what leaves at `port`; the ending of its name says in
    /// which format.
    pub fn create(file: &Path, port: &str) -> Result<Output, Failure> {
        let failed = |error: io::Error| Failure::input(format!("{}: {error}", file.display()));
        let create = || File::create(file).map(BufWriter::new).map_err(failed);
        let format = match file.extension().and_then(|ending| ending.to_str()) {
            Some("pcap") => {
                let header = PcapHeader {
                    ts_resolution: TsResolution::NanoSecond,
                    endianness: Endianness::Little,
                    ..PcapHeader::default()
                };
                let writer = PcapWriter::with_header(create()?, header);
                Format::Pcap(writer.map_err(|error| failed(io_error(error)))?)
            }
            Some("pcapng") => {
                let mut writer = Pcapng::new(create()?).map_err(failed)?;
                writer.interface(port).map_err(failed)?;
                Format::Pcapng(writer)
            }
            _ => {
                let reason = "the name of a capture ends in .pcap or .pcapng";
                return Err(failed(io::Error::other(reason)));
            }
        };
        Ok(Output { file: file.to_owned(), port: port.to_owned(), format })
    }

    /// Adds a packet that left `time` nanoseconds after the beginning of 1970.
    pub fn write(&mut self, time: u64, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.format {
            Format::Pcap(writer) => {
                let length = bytes.len() as u32;
                let packet = PcapPacket::new(Duration::from_nanos(time), length, bytes);
                writer.write_packet(&packet).map(drop).map_err(io_error)
            }
            Format::Pcapng(writer) => writer.packet(&self.port, time, bytes.len(), bytes),
        };
        written.map_err(|error| broken(&self.file, &error))
    }

    /// Writes what is left in memory.
    pub fn end(self) -> Result<(), Failure> {
        let written = match self.format {
            Format::Pcap(writer) => writer.into_writer().flush(),
            Format::Pcapng(mut writer) => writer.output().flush(),
        };
        written.map_err(|error| broken(&self.file, &error))
    }
}

fn broken(file: &Path, error: &io::Error) -> Failure {
    Failure::broken(format!("{}: {error}", file.display()))
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
