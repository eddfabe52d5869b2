//! Captures as pcapng files (draft-ietf-opsawg-pcapng), with an interface for
//! each place at which packets are seen.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

/// Times count nanoseconds: 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Writes a capture to `W`.
pub struct Pcapng<W: Write> {
    writer: PcapNgWriter<W>,
    interfaces: Vec<String>,
}

impl<W: Write> Pcapng<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(output: W) -> io::Result<Pcapng<W>> {
        let writer = PcapNgWriter::new(output).map_err(failed)?;
        Ok(Pcapng { writer, interfaces: Vec::new() })
    }

    /// Adds a packet that was seen at `place`, `time` nanoseconds after the
    /// beginning of 1970. It had `length` bytes, of which `bytes` are the first.
    ///
    /// # Errors
    /// Those of the output.
    pub fn packet(
        &mut self,
        place: &str,
        time: u64,
        length: usize,
        bytes: &[u8],
    ) -> io::Result<()> {
        let packet = EnhancedPacketBlock {
            interface_id: self.interface(place)?,
            timestamp: Duration::from_nanos(time),
            original_len: length as u32,
            data: Cow::Borrowed(bytes),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(packet).map(drop).map_err(failed)
    }

    /// The number of the interface that stands for `place`, which is described
    /// before its first packet.
    ///
    /// # Errors
    /// Those of the output.
    pub fn interface(&mut self, place: &str) -> io::Result<u32> {
        if let Some(known) = self.interfaces.iter().position(|known| known == place) {
            return Ok(known as u32);
        }
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(place)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.writer.write_pcapng_block(interface).map_err(failed)?;
        self.interfaces.push(place.to_owned());
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Where the capture is written to.
    pub fn output(&mut self) -> &mut W {
        self.writer.get_mut()
    }
}

fn failed(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
