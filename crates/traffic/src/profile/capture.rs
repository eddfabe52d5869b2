//! Lengths of packets from a capture.

use std::fs::File;
use std::io::BufReader;

use pcap_file::pcap::PcapReader;

/// So many packets of a capture are looked at.
const MOST: usize = 1 << 20;

/// The lengths of the packets of a pcap file, in their order, the first million
/// of them.
///
/// # Errors
/// Why the file cannot be read, in a few words.
pub fn lengths(path: &str) -> Result<Vec<usize>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = PcapReader::new(BufReader::new(file)).map_err(|error| error.to_string())?;
    let mut lengths = Vec::new();
    while let Some(packet) = reader.next_packet().filter(|_| lengths.len() < MOST) {
        lengths.push(packet.map_err(|error| error.to_string())?.orig_len as usize);
    }
    if lengths.is_empty() { Err("it holds no packets".to_owned()) } else { Ok(lengths) }
}
