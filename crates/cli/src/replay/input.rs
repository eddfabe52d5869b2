//! Captures that are read: pcap and pcapng, of either byte order and any
//! resolution of time, merged by time.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};
use weft_dpdk::Pool;

use crate::failure::Failure;

/// The first bytes of a pcapng file: the type of its section header.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECOND: u64 = 1_000_000_000;

/// A packet of a capture.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since the beginning of 1970.
    pub time: u64,
    pub bytes: Vec<u8>,
}

/// All captures, each with the port its packets come in at.
pub struct Inputs {
    inputs: Vec<Input>,
}

struct Input {
    port: usize,
    capture: Capture,
    next: Option<Frame>,
}

impl Inputs {
    /// Opens the captures.
    pub fn open(files: Vec<(usize, &PathBuf)>) -> Result<Inputs, Failure> {
        let open = |(port, file): (usize, &PathBuf)| {
            let mut capture = Capture::open(file)?;
            let next = capture.next()?;
            Ok(Input { port, capture, next })
        };
        Ok(Inputs { inputs: files.into_iter().map(open).collect::<Result<_, Failure>>()? })
    }

    /// Time of the first packet of all; 0 where there is none.
    pub fn first_time(&self) -> u64 {
        self.times().min().map_or(0, |(time, _)| time)
    }

    /// The next packet, with its port. Of packets of one time, that of the
    /// capture that was named first comes first.
    pub fn next(&mut self) -> Result<Option<(usize, Frame)>, Failure> {
        let Some((_, first)) = self.times().min() else { return Ok(None) };
        let input = &mut self.inputs[first];
        let next = input.capture.next()?;
        Ok(std::mem::replace(&mut input.next, next).map(|frame| (input.port, frame)))
    }

    fn times(&self) -> impl Iterator<Item = (u64, usize)> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter_map(|(number, input)| Some((input.next.as_ref()?.time, number)))
    }
}

type Bytes = Chain<Cursor<[u8; 4]>, File>;

/// One capture file.
struct Capture {
    name: String,
    format: Format,
    packets: u64,
    warned: bool,
}

enum Format {
    Pcap(PcapReader<Bytes>),
    Pcapng(PcapNgReader<Bytes>),
}

impl Capture {
    fn open(file: &Path) -> Result<Capture, Failure> {
        let name = file.display().to_string();
        let wrong = |reason: String| Failure::input(format!("{name}: {reason}"));
        let mut opened = File::open(file).map_err(|error| wrong(error.to_string()))?;
        let mut magic = [0; 4];
        opened.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("not a pcap or pcapng file".to_owned()),
            _ => wrong(error.to_string()),
        })?;
        let bytes = Cursor::new(magic).chain(opened);
        let format = match magic {
            PCAPNG => PcapNgReader::new(bytes).map(Format::Pcapng),
            _ => PcapReader::new(bytes).map(Format::Pcap),
        };
        let format = format.map_err(|_| wrong("not a pcap or pcapng file".to_owned()))?;
        if let Format::Pcap(reader) = &format
            && reader.header().datalink != DataLink::ETHERNET
        {
            return Err(wrong("its packets are not Ethernet frames".to_owned()));
        }
        Ok(Capture { name, format, packets: 0, warned: false })
    }

    fn next(&mut self) -> Result<Option<Frame>, Failure> {
        let read = match &mut self.format {
            Format::Pcap(reader) => pcap_frame(reader),
            Format::Pcapng(reader) => pcapng_frame(reader),
        };
        self.packets += 1;
        let place = format!("{}: packet {}", self.name, self.packets);
        let read = read.map_err(|reason| Failure::input(format!("{place}: {reason}")))?;
        let Some((frame, length)) = read else { return Ok(None) };
        let room = Pool::PACKET_BYTES;
        if frame.bytes.len() > room {
            let bytes = frame.bytes.len();
            let reason = format!("{bytes} bytes are more than a buffer holds ({room})");
            return Err(Failure::input(format!("{place}: {reason}")));
        }
        if frame.bytes.len() < length && !self.warned {
            self.warned = true;
            tracing::warn!("{place}: cut as it was captured; the node gets it as it is");
        }
        Ok(Some(frame))
    }
}

/// The next frame and the length it had on the wire.
type Read1 = Result<Option<(Frame, usize)>, String>;

fn pcap_frame(reader: &mut PcapReader<Bytes>) -> Read1 {
    let unit = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
    let packet = packet.map_err(worded)?;
    let time = u64::from(packet.ts_sec) * SECOND + u64::from(packet.ts_frac) * unit;
    Ok(Some((Frame { time, bytes: packet.data.into_owned() }, packet.orig_len as usize)))
}

fn pcapng_frame(reader: &mut PcapNgReader<Bytes>) -> Read1 {
    loop {
        let Some(block) = reader.next_block() else { return Ok(None) };
        let packet = match block.map_err(worded)? {
            Block::EnhancedPacket(packet) => packet.into_owned(),
            Block::SimplePacket(_) => return Err("a packet without a time".to_owned()),
            Block::Packet(_) => return Err("an obsolete packet block".to_owned()),
            _ => continue,
        };
        let interface = reader.packet_interface(&packet).ok_or("a packet of no interface")?;
        if interface.linktype != DataLink::ETHERNET {
            return Err("not an Ethernet frame".to_owned());
        }
        // The reader takes the ticks of any clock for nanoseconds.
        let ticks = packet.timestamp.as_nanos();
        let frame = Frame { time: time(ticks, interface), bytes: packet.data.into_owned() };
        return Ok(Some((frame, packet.original_len as usize)));
    }
}

/// Nanoseconds since 1970 of a time stamp at an interface.
fn time(ticks: u128, interface: &InterfaceDescriptionBlock<'_>) -> u64 {
    let (mut resolution, mut offset) = (6, 0);
    for option in &interface.options {
        match option {
            InterfaceDescriptionOption::IfTsResol(value) => resolution = *value,
            InterfaceDescriptionOption::IfTsOffset(seconds) => offset = *seconds,
            _ => {}
        }
    }
    // The highest bit tells powers of 2 from powers of 10.
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    let per_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
    let nanoseconds = ticks.saturating_mul(u128::from(SECOND)) / per_second;
    u64::try_from(nanoseconds).unwrap_or(u64::MAX).saturating_add(offset.saturating_mul(SECOND))
}

fn worded(error: PcapError) -> String {
    match error {
        PcapError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the file ends within it".to_owned()
        }
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    }
}
