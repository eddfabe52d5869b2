//! The capture that both sides of a comparison read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, udp};

/// Bytes of a frame of 64 without its checksum, which a capture does not hold.
const FRAME: usize = 60;

/// Writes a capture with one packet of each of `users` users (10.0.0.0 and on),
/// in an order that jumps about; only of those whose number leaves `rest` when
/// divided by `parts`, as a NIC would steer them to one of so many queues.
pub fn write(path: &Path, users: u32, parts: u32, rest: u32) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    // pcap with microseconds, version 2.4, Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_ne_bytes())?;
    }
    // 617 has no factor in common with any number of users used here.
    let order = (0..users).map(|number| (number, number * 617 % users));
    for (number, user) in order.filter(|(_, user)| user % parts == rest) {
        let frame = frame(user).map_err(io::Error::other)?;
        for word in [0, number, FRAME as u32, FRAME as u32] {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.write_all(&frame)?;
    }
    file.flush()
}

fn frame(user: u32) -> Result<[u8; FRAME], weft_wire::Error> {
    let mut frame = [0; FRAME];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        ether_type: EtherType::IPV4,
    };
    link.emit(&mut frame)?;
    let payload_length = (FRAME - ethernet::HEADER_LENGTH - ipv4::MIN_HEADER_LENGTH) as u16;
    let network = ipv4::Repr {
        source: (0x0a00_0000 + user).into(),
        destination: [198, 51, 100, 1].into(),
        protocol: Protocol::UDP,
        payload_length,
        time_to_live: 64,
        ..Default::default()
    };
    network.emit(&mut frame[ethernet::HEADER_LENGTH..])?;
    let transport = udp::Repr {
        source_port: 1000,
        destination_port: 2000,
        payload_length: payload_length - udp::HEADER_LENGTH as u16,
    };
    transport.emit(&mut frame[ethernet::HEADER_LENGTH + ipv4::MIN_HEADER_LENGTH..])?;
    Ok(frame)
}
