//! A node that has died goes on with associations as they were at a checkpoint.

use super::*;

/// Sequence number and initialization vector of a packet over IPv4.
fn numbers(frame: &[u8]) -> (u32, u64) {
    let esp = &frame[NETWORK + 20..];
    let sequence = u32::from_be_bytes(esp[4..8].try_into().unwrap());
    (sequence, u64::from_be_bytes(esp[8..16].try_into().unwrap()))
}

fn again(rig: &Rig, mut fresh: Rig) -> Rig {
    let checkpoint = rig.export(0);
    fresh.instance.import(0, 0, &checkpoint).unwrap();
    fresh.instance.go_on(0);
    fresh
}

#[test]
fn no_number_and_no_vector_is_used_twice_though_the_clock_is_set_back() {
    for extended in [true, false] {
        // A first vector far ahead of the clock: as if that had been set back since.
        let ahead = json!({"extendedSequenceNumbers": extended, "firstIv": u64::MAX >> 1});
        let mut first = sender(json!({}), &ahead);
        let send = |rig: &mut Rig| numbers(&rig.send(&Spec::udp(b"payload")).bytes);
        send(&mut first);
        let fresh = sender(json!({}), &json!({"extendedSequenceNumbers": extended}));
        let mut second = again(&first, fresh);
        // What the first has sent behind its checkpoint.
        let last = (0..1000).map(|_| send(&mut first)).last().unwrap();
        let next = send(&mut second);
        assert!(next.0 > last.0 && next.1 > last.1, "{next:?} behind {last:?}");
    }
}

#[test]
fn what_came_before_the_checkpoint_is_not_taken_again_and_what_is_new_is() {
    let mut tunnel = Tunnel::plain();
    let sent: Vec<_> = (0..20).map(|_| tunnel.sent()).collect();
    // Some of them are late.
    for frame in sent.iter().step_by(2) {
        assert_eq!(tunnel.receive(frame).dropped, None);
    }
    let fresh = receiver(&json!({}));
    tunnel.decrypt = again(&tunnel.decrypt, fresh);
    for frame in &sent[..19] {
        assert_eq!(tunnel.receive(frame).dropped, Some("esp_replayed"));
    }
    assert_eq!(tunnel.receive(&sent[19]).dropped, None);
    assert_eq!(tunnel.receive(&sent[19]).dropped, Some("esp_replayed"));
    // Both ends have died, and go on.
    tunnel.encrypt = again(&tunnel.encrypt, sender(json!({}), &json!({})));
    let next = tunnel.sent();
    assert_eq!(tunnel.receive(&next).dropped, None);
}
