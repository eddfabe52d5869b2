//! TCP: which segments establish, keep and end a mapping.

use super::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn with_flags(rig: &mut Rig, spec: &Spec, inside: bool, flags: u8) -> Seen {
    let mut frame = Spec { protocol: Protocol::TCP, ..spec.clone() }.frame();
    let mut metadata = metadata(&frame);
    metadata.tags[0] = u32::from(!inside);
    metadata.user = if inside { 1 } else { 7 };
    let ip = &mut frame[NETWORK..];
    let at = checksum::sum(&ip[32..34]);
    ip[33] = flags;
    let change = checksum::Change::NONE.field16(at, checksum::sum(&ip[32..34]));
    let sum = change.apply(u16::from_be_bytes([ip[36], ip[37]]));
    ip[36..38].copy_from_slice(&sum.to_be_bytes());
    rig.send_bytes(&frame, metadata)
}

/// RFC 5382 REQ-5.
#[test]
fn mappings_of_tcp_last_while_they_are_established() {
    let spec = from("10.0.0.1", 5000);
    let alive = |rig: &mut Rig, public| {
        let seen = with_flags(rig, &to(public, SERVER, 80), false, 0);
        seen.dropped.is_none()
    };
    let mut rig = rig();
    let [public, _] = ends(&with_flags(&mut rig, &spec, true, SYN).bytes);
    rig.now += 241 * SECOND;
    assert!(!alive(&mut rig, public), "a connection without an answer");
    let [public, _] = ends(&with_flags(&mut rig, &spec, true, SYN).bytes);
    with_flags(&mut rig, &to(public, SERVER, 80), false, SYN | ACK);
    with_flags(&mut rig, &spec, true, ACK);
    rig.now += 7400 * SECOND;
    assert!(alive(&mut rig, public), "an idle connection");
    with_flags(&mut rig, &to(public, SERVER, 80), false, FIN | ACK);
    with_flags(&mut rig, &spec, true, ACK);
    rig.now += 241 * SECOND;
    assert!(!alive(&mut rig, public), "a closed connection");
}

/// Whether a public end has a mapping still, as a stray segment shows.
fn is_mapped(rig: &mut Rig, public: (Ipv4Addr, u16)) -> bool {
    with_flags(rig, &to(public, "203.0.113.99", 9), false, 0).dropped.is_none()
}

/// RFC 7857 §2: what comes in keeps no mapping, neither of UDP nor of TCP.
#[test]
fn what_comes_in_does_not_keep_a_mapping() {
    let spec = from("10.0.0.1", 5000);
    let mut rig = rig();
    let [public, _] = ends(&with_flags(&mut rig, &spec, true, SYN).bytes);
    with_flags(&mut rig, &to(public, SERVER, 80), false, SYN | ACK);
    with_flags(&mut rig, &spec, true, ACK);
    for _ in 0..7 {
        rig.now += 1000 * SECOND;
        assert!(with_flags(&mut rig, &to(public, SERVER, 80), false, ACK).dropped.is_none());
    }
    rig.now += 441 * SECOND;
    assert!(!is_mapped(&mut rig, public), "only the far end has sent for 7441 s");
}

/// An acknowledgment from a host that the inside has not sent to establishes nothing.
#[test]
fn a_stranger_does_not_establish_a_connection() {
    let spec = from("10.0.0.1", 5000);
    let mut rig = rig();
    let [public, _] = ends(&with_flags(&mut rig, &spec, true, SYN).bytes);
    for (host, port) in [("203.0.113.9", 80), (SERVER, 81)] {
        with_flags(&mut rig, &to(public, host, port), false, ACK);
    }
    with_flags(&mut rig, &spec, true, SYN);
    rig.now += 241 * SECOND;
    assert!(!is_mapped(&mut rig, public), "the far end has not answered");
}

/// A reset is that of one connection: those to other ends go on, and so does the same one
/// where the inside does.
#[test]
fn a_forged_reset_ends_no_other_connection() {
    let first = from("10.0.0.1", 5000);
    let second = Spec { destination_port: 443, ..first.clone() };
    let open = |rig: &mut Rig| {
        let [public, _] = ends(&with_flags(rig, &first, true, SYN).bytes);
        for (spec, port) in [(&first, 80), (&second, 443)] {
            with_flags(rig, spec, true, SYN);
            with_flags(rig, &to(public, SERVER, port), false, SYN | ACK);
            with_flags(rig, spec, true, ACK);
        }
        public
    };
    // From a stranger, and from the far end of one of two connections.
    for (host, port) in [("203.0.113.9", 80), (SERVER, 81), (SERVER, 80)] {
        let mut rig = rig();
        let public = open(&mut rig);
        with_flags(&mut rig, &to(public, host, port), false, RST | ACK);
        with_flags(&mut rig, &second, true, ACK);
        rig.now += 7400 * SECOND;
        assert!(is_mapped(&mut rig, public), "{host} {port}");
    }
    // Both are reset by their ends, but the inside goes on with one.
    let mut rig = rig();
    let public = open(&mut rig);
    for port in [80, 443] {
        with_flags(&mut rig, &to(public, SERVER, port), false, RST | ACK);
    }
    with_flags(&mut rig, &second, true, ACK);
    rig.now += 7400 * SECOND;
    assert!(is_mapped(&mut rig, public), "a reset that the inside did not believe");
    // And where it does not, the mapping ends.
    let mut rig = rig_at(SECOND);
    let public = open(&mut rig);
    for port in [80, 443] {
        with_flags(&mut rig, &to(public, SERVER, port), false, RST | ACK);
    }
    rig.now += 241 * SECOND;
    assert!(!is_mapped(&mut rig, public), "both are reset");
    // One that is closed does not shorten the other.
    let mut rig = rig_at(SECOND);
    let public = open(&mut rig);
    with_flags(&mut rig, &first, true, FIN | ACK);
    with_flags(&mut rig, &second, true, ACK);
    rig.now += 7400 * SECOND;
    assert!(is_mapped(&mut rig, public), "the other connection is open");
}

fn rig_at(now: u64) -> Rig {
    let mut rig = rig();
    rig.now = now;
    rig
}
