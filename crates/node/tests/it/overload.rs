//! A worker that gets more than it carries: how long packets wait for it, and whose are dropped.

use std::sync::atomic::Ordering;

use crate::common::{Rig, udp};

const MILLISECOND: u64 = 1_000_000;
const FLOODER: u8 = 1;
const OTHER: u8 = 2;

fn rig(limits: &str) -> Rig {
    Rig::new(&format!(
        "
apiVersion: weft/v1
kind: Node
metadata: {{name: busy}}
memory: {{packets: 8191}}
limits: {limits}
ports:
  access: {{device: 'ring:access', direction: uplink}}
  core: {{device: 'ring:core', direction: downlink}}
users:
  - {{name: ue, count: 2, match: {{ipv4: 10.0.0.1}}}}
rules: |
  from access -> core
"
    ))
}

/// What came out of the core port, by user: how many, and the longest wait in milliseconds.
#[derive(Debug, Default)]
struct Came {
    count: [u64; 3],
    longest: [u64; 3],
}

/// Each millisecond the worker has one round, in which it carries a burst of 32 packets; of each
/// user so many packets come before it.
fn carry(rig: &mut Rig, milliseconds: u64, sent: &[(u8, usize)]) -> Came {
    let mut came = Came::default();
    for _ in 0..milliseconds {
        let now = rig.time.fetch_add(MILLISECOND, Ordering::Relaxed) / MILLISECOND + 1;
        for (user, count) in sent {
            let frame = udp([10, 0, 0, *user], [198, 51, 100, 1], &now.to_be_bytes());
            for burst in vec![frame; *count].chunks(32) {
                rig.offer(0, burst);
            }
        }
        rig.node.step();
        for frame in rig.receive(1) {
            let user = usize::from(frame[29]);
            let then = frame.last_chunk().map_or(0, |octets| u64::from_be_bytes(*octets));
            came.count[user] += 1;
            came.longest[user] = came.longest[user].max(now - then);
        }
    }
    came
}

#[test]
fn packets_wait_no_longer_than_they_may_and_a_user_who_floods_loses_first() {
    let flooded = || {
        let mut rig = rig("{delay: 2000}");
        carry(&mut rig, 250, &[(FLOODER, 90), (OTHER, 4)]);
        let dropped = rig.drops("overload");
        let came = carry(&mut rig, 400, &[(FLOODER, 90), (OTHER, 4)]);
        (rig, dropped, came)
    };
    // The two share a bucket with one in some dozens of seeds, and fare alike then.
    let (mut rig, dropped, came) =
        (0..5).map(|_| flooded()).find(|(_, _, came)| came.count[2] > 1000).unwrap();
    assert!(rig.drops("overload") - dropped > 400 * 55, "{came:?}");
    assert_eq!(came.count[1] + came.count[2], 400 * 32);
    assert!((1590..=1610).contains(&came.count[2]), "{came:?}");
    assert!(came.longest[1] <= 4 && came.longest[2] <= 1, "{came:?}");
    // Once less comes than is carried, none is dropped; every packet is accounted for.
    carry(&mut rig, 10, &[(OTHER, 4)]);
    let dropped = rig.drops("overload");
    let came = carry(&mut rig, 300, &[(FLOODER, 12), (OTHER, 12)]);
    assert_eq!((came.count, came.longest), ([0, 3600, 3600], [0; 3]));
    assert_eq!(rig.drops("overload"), dropped);
    let snapshot = rig.node.agent().snapshot();
    assert_eq!(snapshot.received(), snapshot.sent() + dropped);
}

#[test]
fn a_burst_that_a_queue_holds_loses_nothing() {
    let mut rig = rig("{delay: 2000}");
    rig.time.fetch_add(1000 * MILLISECOND, Ordering::Relaxed);
    for _ in 0..4 {
        let came = carry(&mut rig, 1, &[(FLOODER, 900)]).count[1];
        let rest = carry(&mut rig, 40, &[]).count[1];
        assert_eq!(came + rest, 900);
    }
    assert_eq!(rig.drops("overload"), 0);
}

#[test]
fn a_fast_worker_is_held_to_the_bound_as_well() {
    let mut rig = rig("{delay: 900}");
    let burst = vec![udp([10, 0, 0, 1], [198, 51, 100, 1], b"fast"); 32];
    for _ in 0..2000 {
        // A million packets per second: the queue's 1024 are more than 900 µs.
        rig.time.fetch_add(30_000, Ordering::Relaxed);
        rig.offer(0, &burst);
        rig.offer(0, &burst);
        rig.node.step();
        rig.receive(1);
    }
    assert!(rig.drops("overload") > 10_000, "{}", rig.drops("overload"));
}

#[test]
fn without_a_bound_packets_wait_for_the_whole_queue() {
    let mut rig = rig("{}");
    carry(&mut rig, 250, &[(FLOODER, 90)]);
    let came = carry(&mut rig, 100, &[(FLOODER, 90)]);
    assert!(came.longest[1] >= 25, "{came:?}");
    assert_eq!(rig.drops("overload"), 0);
}
