//! A network namespace for a test, and a UDP socket of the kernel in it that
//! talks to a port. Namespace and interfaces go with the test's process.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use weft_dpdk::{Pool, RxQueue, TxQueue};

use super::{process, send, skipped, wait_until, waiting};

const KERNEL_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PORT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const KERNEL: [u8; 4] = [10, 0, 0, 1];
const PORT: [u8; 4] = [10, 0, 0, 2];
const UDP_PORT: u16 = 4000;
/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;

/// Runs `body` as the test `name`, in a process in a network namespace of its
/// own. One that is not root's enters a user namespace first, in which it is.
pub fn in_own_network(name: &str, body: impl FnOnce()) {
    let mut launcher = vec!["unshare", "--net"];
    if !process::is_root() {
        launcher.extend(["--user", "--map-root-user"]);
    }
    let possible = Command::new(launcher[0]).args(&launcher[1..]).args(["ip", "link"]).output();
    match possible {
        Ok(output) if output.status.success() => process::alone(name, &launcher, body),
        Ok(output) => skipped(name, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => skipped(name, &format!("unshare: {error}")),
    }
}

/// As [`in_own_network`], where AF_XDP works.
pub fn with_af_xdp(name: &str, body: impl FnOnce()) {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    if !process::is_root() {
        skipped(name, "AF_XDP needs root, outside of user namespaces");
    } else if !protocols.lines().any(|line| line.starts_with("XDP ")) {
        skipped(name, "the kernel has no AF_XDP");
    } else {
        in_own_network(name, body);
    }
}

/// As [`in_own_network`], where the rings of AF_PACKET can be locked.
pub fn with_af_packet(name: &str, body: impl FnOnce()) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let locked = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let locked = locked.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    if !process::is_root() && locked.is_some_and(|bytes| bytes < 32 << 20) {
        skipped(name, "AF_PACKET needs root or 32 MB of locked memory (ulimit -l)");
    } else {
        in_own_network(name, body);
    }
}

/// What `ip` prints with the words of `command`.
pub fn ip(command: &str) -> String {
    let output = Command::new("ip").args(command.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pair of veth interfaces, both up.
pub fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
    ip(&format!("link set {one} up"));
    ip(&format!("link set {other} up"));
}

/// The kernel's end: a socket on `interface`, whose other end is a port.
pub fn kernel_socket(interface: &str) -> UdpSocket {
    let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    ip(&format!("link set {interface} address {}", mac(KERNEL_MAC)));
    ip(&format!("link set {interface} up"));
    ip(&format!("address add 10.0.0.1/24 dev {interface}"));
    ip(&format!("neighbor add 10.0.0.2 lladdr {} dev {interface}", mac(PORT_MAC)));
    let socket = UdpSocket::bind((std::net::Ipv4Addr::from(KERNEL), UDP_PORT)).expect("binds");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout is set");
    socket
}

/// Sends numbered datagrams from the kernel to the port and back, and checks
/// that all arrive in order.
pub fn exchange(socket: &UdpSocket, rx: &mut RxQueue, tx: &mut TxQueue, pool: &Pool) {
    let sent: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 64 + usize::from(n) * 14]).collect();
    let mut seen = Vec::new();
    for payload in &sent {
        let to = (std::net::Ipv4Addr::from(PORT), UDP_PORT);
        socket.send_to(payload, to).expect("the kernel sends");
        seen.extend(waiting(rx).iter().filter_map(|frame| payload_of(frame)));
    }
    wait_until("all datagrams reach the port", || {
        seen.extend(waiting(rx).iter().filter_map(|frame| payload_of(frame)));
        seen.len() >= sent.len()
    });
    assert_eq!(seen, sent);
    for payload in &sent {
        send(tx, pool, &frame(payload));
        let mut buffer = [0; 2048];
        let length = socket.recv(&mut buffer).expect("the kernel receives");
        assert_eq!(buffer[..length], payload[..]);
    }
}

/// A frame from the port to the kernel's socket.
pub fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADERS + payload.len());
    frame.extend(KERNEL_MAC);
    frame.extend(PORT_MAC);
    frame.extend(0x0800_u16.to_be_bytes());
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[2..4].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&PORT);
    ip[16..20].copy_from_slice(&KERNEL);
    let sum: u32 = ip.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame.extend(ip);
    let udp_length = 8 + payload.len() as u16;
    // A checksum of 0 is none (RFC 768).
    for word in [UDP_PORT, UDP_PORT, udp_length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// The kernel's end over IPv6, beside [`kernel_socket`].
pub fn kernel_socket6(interface: &str) -> UdpSocket {
    ip(&format!("address add fd00::1/64 dev {interface} nodad"));
    // The kernel enters the route to its own address behind the address, from a work queue: what
    // comes before that is dropped.
    wait_until("the kernel has a route to its address", || {
        ip("-6 route show table local").contains("fd00::1 ")
    });
    let socket = UdpSocket::bind(("fd00::1", UDP_PORT)).expect("binds");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout is set");
    socket
}

/// A frame from the port to that socket, without a UDP checksum.
pub fn frame6(payload: &[u8]) -> Vec<u8> {
    let mut frame = [KERNEL_MAC, PORT_MAC].concat();
    frame.extend(0x86dd_u16.to_be_bytes());
    let udp_length = 8 + payload.len() as u16;
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(udp_length.to_be_bytes());
    frame.extend([17, 64]);
    for last in [2, 1] {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, last);
        frame.extend(address);
    }
    for word in [UDP_PORT, UDP_PORT, udp_length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// The payload of a datagram from the kernel's socket; none for what else the
/// kernel sends, such as its search for IPv6 neighbours.
fn payload_of(frame: &[u8]) -> Option<Vec<u8>> {
    let is_ours = frame.get(12..14)? == [8, 0] && frame.get(30..34)? == PORT;
    is_ours.then(|| frame[HEADERS..].to_vec())
}
