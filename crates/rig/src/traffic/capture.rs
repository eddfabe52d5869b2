//! The capture that both sides of a comparison read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use weft_wire::{EtherType, MacAddress, ethernet, ipv4, udp};

use crate::traffic::datagram::datagram;

/// Bytes of a frame's checksum, which a capture does not hold.
const CHECKSUM: usize = 4;

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// One packet of each of so many users, 10.0.0.0 and on, in an order that
    /// jumps about.
    pub users: u32,
    /// Bytes of a frame with its checksum: 64 is the shortest.
    pub frame_bytes: usize,
    /// Only of users whose number leaves `rest` when divided by `parts`, as a NIC
    /// would steer them to one of so many queues.
    pub parts: u32,
    /// See `parts`.
    pub rest: u32,
}

impl Content {
    /// All of so many users.
    pub fn of(users: u32, frame_bytes: usize) -> Content {
        Content { users, frame_bytes, parts: 1, rest: 0 }
    }

    /// A file name that tells it from others.
    pub(crate) fn file_name(&self) -> String {
        let Content { users, frame_bytes, parts, rest } = self;
        format!("{users}-users-{frame_bytes}-bytes-{rest}-of-{parts}.pcap")
    }

    /// Writes the capture.
    ///
    /// # Errors
    /// When the file cannot be written, or the frame is too short for its headers.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        // 617 has no factor in common with any number of users used here.
        let order = (0..self.users).map(|n| (u64::from(n) * 617 % u64::from(self.users)) as u32);
        let own = order.filter(|user| user % self.parts == self.rest);
        write(path, own.map(|user| frame(user, self.frame_bytes)))
    }
}

/// Writes a capture of these frames.
///
/// # Errors
/// When the file cannot be written, or one of the frames could not be made.
pub fn write(
    path: &Path,
    frames: impl Iterator<Item = Result<Vec<u8>, weft_wire::Error>>,
) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    // pcap with microseconds, version 2.4, Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_ne_bytes())?;
    }
    for (number, frame) in (0_u32..).zip(frames) {
        let frame = frame.map_err(io::Error::other)?;
        for word in [0, number, frame.len() as u32, frame.len() as u32] {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.write_all(&frame)?;
    }
    file.flush()
}

/// A frame of a user's uplink datagrams, of so many octets with its checksum.
///
/// # Errors
/// When it would be longer than a datagram can be.
pub(crate) fn frame(user: u32, bytes: usize) -> Result<Vec<u8>, weft_wire::Error> {
    const HEADERS: usize = ethernet::HEADER_LENGTH + ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH;
    let mut frame = vec![0; bytes.saturating_sub(CHECKSUM).max(HEADERS)];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        ether_type: EtherType::IPV4,
    };
    link.emit(&mut frame)?;
    let ends = [(0x0a00_0000 + user).into(), [198, 51, 100, 1].into()];
    datagram(&mut frame[ethernet::HEADER_LENGTH..], ends, [1000, 2000])?;
    let mut ip = ipv4::Packet::new_checked(&mut frame[ethernet::HEADER_LENGTH..])?;
    let pseudo_header = ip.pseudo_header();
    udp::Datagram::new_checked(ip.payload_mut())?.fill_checksum(&pseudo_header);
    Ok(frame)
}
