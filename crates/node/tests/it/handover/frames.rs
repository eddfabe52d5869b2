//! Packets of users, and frames between nodes.

use weft_mobility_protocol::User;

use super::world::FIRST;

pub fn address(user: User) -> [u8; 4] {
    [10, 45, 0, (user.0 - FIRST) as u8]
}

pub const HOST: [u8; 4] = [198, 51, 100, 1];

pub fn is_ipv6(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd]
}

/// Where the GTP-U message of a frame begins.
pub fn message_at(frame: &[u8]) -> usize {
    if is_ipv6(frame) { 14 + 40 + 8 } else { 14 + 20 + 8 }
}

/// The frame, as a host sends it that is none of the nodes.
pub fn from_stranger(frame: &[u8]) -> Vec<u8> {
    let mut forged = frame.to_vec();
    if is_ipv6(frame) {
        forged[14 + 23] = 77;
        // None, which a receiver may take (RFC 6936).
        forged[14 + 40 + 6..][..2].fill(0);
        return forged;
    }
    forged[14 + 15] = 77;
    forged[14 + 10..][..2].fill(0);
    let sum = weft_wire::checksum::of(&forged[14..34]);
    forged[14 + 10..][..2].copy_from_slice(&sum.to_be_bytes());
    forged
}

pub fn payload(order: u8, user: User, sequence: u32) -> Vec<u8> {
    let mut payload = vec![order, b'0', (user.0 - FIRST) as u8, 0];
    payload.extend(sequence.to_be_bytes());
    payload.resize(64, 0);
    payload
}

pub fn read(frame: &[u8]) -> (User, u32) {
    let user = User(FIRST + u64::from(frame[44]));
    (user, u32::from_be_bytes(frame[46..50].try_into().unwrap()))
}
