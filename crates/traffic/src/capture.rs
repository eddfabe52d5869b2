//! Captures, read packet by packet: pcap and pcapng, of either byte order and any
//! resolution of time.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

/// The first bytes of a pcapng file: the type of its section header.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECOND: u64 = 1_000_000_000;

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since the beginning of 1970.
    pub time: u64,
    /// What was captured of it, from the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Bytes that it had on the wire.
    pub length: usize,
}

type Bytes = Chain<Cursor<[u8; 4]>, File>;

/// A capture file of Ethernet frames that is being read.
pub struct Capture {
    format: Format,
    packets: u64,
}

enum Format {
    Pcap(PcapReader<Bytes>),
    Pcapng(PcapNgReader<Bytes>),
}

impl Capture {
    /// Opens a capture file.
    ///
    /// # Errors
    /// Why it cannot be read, in a few words without its name.
    pub fn open(file: &Path) -> Result<Capture, String> {
        const OTHER: &str = "not a pcap or pcapng file";
        let mut opened = File::open(file).map_err(|error| error.to_string())?;
        let mut magic = [0; 4];
        opened.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => OTHER.to_owned(),
            _ => error.to_string(),
        })?;
        let bytes = Cursor::new(magic).chain(opened);
        let format = match magic {
            PCAPNG => PcapNgReader::new(bytes).map(Format::Pcapng),
            _ => PcapReader::new(bytes).map(Format::Pcap),
        };
        let format = format.map_err(|_| OTHER.to_owned())?;
        if let Format::Pcap(reader) = &format
            && reader.header().datalink != DataLink::ETHERNET
        {
            return Err("its packets are not Ethernet frames".to_owned());
        }
        Ok(Capture { format, packets: 0 })
    }

    /// The next packet; none behind the last.
    ///
    /// # Errors
    /// Which packet cannot be read, and why.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, String> {
        let read = match &mut self.format {
            Format::Pcap(reader) => pcap_frame(reader),
            Format::Pcapng(reader) => pcapng_frame(reader),
        };
        self.packets += 1;
        read.map_err(|reason| format!("packet {}: {reason}", self.packets))
    }

    /// Packets read so far: the number of the last, counted from 1.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

fn pcap_frame(reader: &mut PcapReader<Bytes>) -> Result<Option<Frame>, String> {
    let unit = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
    let packet = packet.map_err(worded)?;
    let time = u64::from(packet.ts_sec) * SECOND + u64::from(packet.ts_frac) * unit;
    let length = packet.orig_len as usize;
    Ok(Some(Frame { time, bytes: packet.data.into_owned(), length }))
}

fn pcapng_frame(reader: &mut PcapNgReader<Bytes>) -> Result<Option<Frame>, String> {
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
        let (time, length) = (time(ticks, interface), packet.original_len as usize);
        return Ok(Some(Frame { time, bytes: packet.data.into_owned(), length }));
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
