//! Every message, with random contents, before tshark's dissector: it reads the same types and
//! finds nothing malformed.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use super::emitted;
use super::strategy::Draw;
use crate::codec::{Frame, Header, Message, MessageType};

/// Messages of each type.
const EACH: u64 = 24;
/// Longest message that the capture holds: IPv4's longest packet, less its headers.
const LONGEST: usize = 65_535 - 28;

/// A packet of IPv4 and UDP between PFCP ports, without checksums.
fn packet(payload: &[u8]) -> Vec<u8> {
    let total = (payload.len() + 28) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(Ipv4Addr::new(10, 0, 0, 1).octets());
    packet.extend(Ipv4Addr::new(10, 0, 0, 254).octets());
    packet.extend(8805_u16.to_be_bytes());
    packet.extend(8805_u16.to_be_bytes());
    packet.extend((total - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// A capture of raw IP packets (draft-ietf-opsawg-pcap §4, link type 101).
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 101] {
        bytes.extend(field.to_le_bytes());
    }
    for packet in packets {
        let length = packet.len() as u32;
        for field in [0, 0, length, length] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(packet);
    }
    bytes
}

#[test]
fn tshark_reads_every_message() {
    let mut packets = Vec::new();
    let mut kinds = Vec::new();
    for kind in MessageType::ALL {
        for seed in 0..EACH {
            let body = Message::random(*kind, &mut Draw::new(seed * 7919 + *kind as u64 * 104_729));
            let frame = Frame { header: Header::default(), message: *kind as u8, body: &body };
            let message = Message::parse(&frame).unwrap();
            let seid = kind.has_seid().then_some(seed);
            let octets = emitted(&message, &Header { seid, sequence: seed as u32, priority: None });
            if octets.len() <= LONGEST {
                packets.push(packet(&octets));
                kinds.push(*kind as u8);
            }
        }
    }
    let arguments = ["-n", "-r", "-", "-T", "fields", "-e", "pfcp.msg_type", "-e", "_ws.malformed"];
    let tshark = Command::new("tshark")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut tshark = match tshark {
        Ok(tshark) => tshark,
        Err(error) => {
            eprintln!("skipped: tshark is not installed ({error})");
            return;
        }
    };
    let bytes = capture(&packets);
    let mut input = tshark.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = tshark.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.len(), kinds.len());
    for (number, (line, kind)) in lines.iter().zip(&kinds).enumerate() {
        let (read, malformed) = line.split_once('\t').unwrap_or((line, ""));
        assert_eq!(read, kind.to_string(), "message {number}");
        // The packet is told, to be looked at in Wireshark.
        let packet = &packets[number];
        assert_eq!(malformed, "", "message {number} of type {kind}: {packet:02x?}");
    }
}
