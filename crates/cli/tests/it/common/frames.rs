//! Frames and captures.

use std::borrow::Cow;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, udp};

/// Time of the first packet of a capture: nanoseconds since 1970.
pub const FIRST: u64 = 1_700_000_000_000_000_000;

/// A frame, and its time in nanoseconds since 1970.
pub type Frame = (u64, Vec<u8>);

/// A UDP packet of a user to the outside.
pub fn uplink(user: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let macs = (MacAddress([2, 0, 0, 0, 1, 1]), MacAddress([2, 0, 0, 0, 0, 1]));
    frame(macs, ([10, 0, 0, user], [198, 51, 100, 1]), port, payload)
}

/// A UDP packet from the outside to a user.
pub fn downlink(user: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let macs = (MacAddress([2, 0, 0, 0, 2, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    frame(macs, ([198, 51, 100, 1], [10, 0, 0, user]), port, payload)
}

fn frame(
    (source_mac, destination_mac): (MacAddress, MacAddress),
    (source, destination): ([u8; 4], [u8; 4]),
    port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; 42 + payload.len()];
    let link = ethernet::Repr {
        source: source_mac,
        destination: destination_mac,
        ether_type: EtherType::IPV4,
    };
    let ip = ipv4::Repr {
        source: Ipv4Addr::from(source),
        destination: Ipv4Addr::from(destination),
        protocol: Protocol::UDP,
        time_to_live: 64,
        payload_length: 8 + payload.len() as u16,
        ..Default::default()
    };
    let udp = udp::Repr {
        source_port: 1000,
        destination_port: port,
        payload_length: payload.len() as u16,
    };
    link.emit(&mut bytes).expect("it fits");
    ip.emit(&mut bytes[14..]).expect("it fits");
    udp.emit(&mut bytes[34..]).expect("it fits");
    bytes[42..].copy_from_slice(payload);
    bytes
}

/// Writes a pcap file with times in microseconds, as most programs do.
pub fn write_pcap(file: &Path, frames: &[Frame]) {
    let header = PcapHeader {
        ts_resolution: TsResolution::MicroSecond,
        endianness: Endianness::Big,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(file).unwrap(), header).unwrap();
    for (time, bytes) in frames {
        let length = bytes.len() as u32;
        let packet = PcapPacket::new(Duration::from_nanos(*time), length, bytes);
        writer.write_packet(&packet).unwrap();
    }
}

/// Writes a pcapng file whose times count 2⁻ⁿ s.
pub fn write_pcapng(file: &Path, bits: u8, frames: &[Frame]) {
    let mut writer = PcapNgWriter::new(File::create(file).unwrap()).unwrap();
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(0x80 | bits)],
    };
    writer.write_pcapng_block(interface).unwrap();
    for (time, bytes) in frames {
        let ticks = (u128::from(*time) << bits) / 1_000_000_000;
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            // The writer takes ticks for nanoseconds.
            timestamp: Duration::from_nanos(ticks as u64),
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(bytes),
            options: Vec::new(),
        };
        writer.write_pcapng_block(packet).unwrap();
    }
}

/// Reads a pcap file.
pub fn read_pcap(file: &Path) -> Vec<Frame> {
    let mut reader = PcapReader::new(File::open(file).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        frames.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec()));
    }
    frames
}

/// Reads a pcapng file whose times are in nanoseconds; each frame comes with
/// the name of its interface.
pub fn read_pcapng(file: &Path) -> Vec<(String, Frame)> {
    let mut reader = PcapNgReader::new(File::open(file).unwrap()).unwrap();
    let (mut frames, mut names) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert_eq!(interface.linktype, DataLink::ETHERNET);
                let option = |option: &InterfaceDescriptionOption<'_>| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                };
                names.push(interface.options.iter().find_map(option).unwrap());
                let nanoseconds = InterfaceDescriptionOption::IfTsResol(9);
                assert!(interface.options.contains(&nanoseconds));
            }
            Block::EnhancedPacket(packet) => {
                assert_eq!(packet.original_len as usize, packet.data.len());
                let frame = (packet.timestamp.as_nanos() as u64, packet.data.to_vec());
                frames.push((names[packet.interface_id as usize].clone(), frame));
            }
            _ => {}
        }
    }
    frames
}
