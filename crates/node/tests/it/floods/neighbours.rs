//! Neighbours while others flood the node.

use super::*;
use weft_wire::gtpu::{Message, Signal};

/// How long each flood lasts, in seconds: a neighbour is asked after 30, and given up after
/// three more.
const LONG: u64 = 100;

/// Lets `flood` go in each second before neighbours answer, while the agent is busy, and sends
/// a packet of a good user then. How many of these left, of `LONG`.
fn good_packets(rig: &mut Rig, is_v6: bool, flood: impl Fn(u16) -> Vec<Vec<u8>>) -> u64 {
    let mut passed = 0;
    for second in 0..LONG {
        pass(rig, SECOND);
        // The agent sees that the time has come, and asks.
        rig.settle();
        let asked = rig.receive(1);
        for burst in flood(second as u16).chunks(32) {
            let port = usize::from(burst[0][..6] == [2, 0, 0, 0, 0, 2]);
            rig.offer(port, burst);
            workers_only(rig);
            rig.receive(0);
        }
        let answers: Vec<_> = asked.iter().filter_map(|frame| frames::answer(frame)).collect();
        rig.offer(1, &answers);
        workers_only(rig);
        rig.settle();
        rig.offer(0, &[frames::udp(user(is_v6, 1), host(is_v6), 64, b"good")]);
        rig.settle();
        passed += rig.receive(1).iter().filter(|frame| frame.ends_with(b"good")).count() as u64;
        rig.receive(0);
    }
    passed
}

/// A user who sends packets on their last hop, or ones that are too long, takes no neighbour
/// from the others.
#[test]
fn errors_do_not_starve_neighbours() {
    for is_v6 in VERSIONS {
        let last = |_: u16| vec![frames::udp(user(is_v6, 0), host(is_v6), 1, b"last"); 1600];
        let long = |_: u16| vec![frames::udp(user(is_v6, 0), host(is_v6), 64, &[0; 1400]); 1600];
        let mut rig = node_with_gateways(NODE);
        assert_eq!(good_packets(&mut rig, is_v6, last), LONG, "last hop, IPv6 {is_v6}");
        assert_eq!(good_packets(&mut rig, is_v6, long), LONG, "too long, IPv6 {is_v6}");
        assert!(rig.drops("ttl_exceeded") + rig.drops("packet_too_big") == 2 * LONG * 1600);
    }
}

/// Pings and questions for MAC addresses take none either.
#[test]
fn questions_do_not_starve_neighbours() {
    for is_v6 in VERSIONS {
        let flood = |second: u16| {
            let stranger = |n| frames::stranger(is_v6, second.wrapping_mul(1000).wrapping_add(n));
            let ping = (0..800).map(|n| frames::ping(stranger(n), access(is_v6)));
            let question = (0..800).map(|n| frames::question(stranger(n), access(is_v6)));
            ping.chain(question).collect()
        };
        let mut rig = node_with_gateways(NODE);
        assert_eq!(good_packets(&mut rig, is_v6, flood), LONG, "IPv6 {is_v6}");
    }
}

/// The claims of strangers on the very link of the gateway: its answers are lost among them,
/// and it stays. Once they are heard and it does not answer, it goes.
#[test]
fn a_neighbour_stays_while_its_answers_may_be_lost() {
    for is_v6 in VERSIONS {
        let own = address(is_v6, "198.51.100.254", "2001:db8:ffff::fe");
        let stranger = |n: u16| {
            let low = 10 + n % 200;
            address(is_v6, &format!("198.51.100.{low}"), &format!("2001:db8:ffff::1:{n:x}"))
        };
        let flood = |_: u16| (0..1600).map(|n| frames::claim(stranger(n), own)).collect();
        let mut rig = node_with_gateways(NODE);
        assert_eq!(good_packets(&mut rig, is_v6, flood), LONG, "IPv6 {is_v6}");
        assert!(rig.drops("neighbour_answer_rate") > 0);
        for _ in 0..LONG {
            rig.advance(SECOND);
            rig.receive(1);
        }
        rig.send(0, &[frames::udp(user(is_v6, 1), host(is_v6), 64, b"good")]);
        assert!(rig.receive(1).iter().all(|frame| !frame.ends_with(b"good")), "IPv6 {is_v6}");
    }
}

/// A neighbour that does not answer ARP is there as long as it answers GTP-U Echo Requests
/// (RFC 4861 §7.3.1, RFC 1122 §2.3.2.1).
#[test]
fn an_answer_of_a_peer_confirms_its_next_hop() {
    let mut rig = Rig::new(&NODE.replace("echoInterval: 0", "echoInterval: 10"));
    let peer: IpAddr = "198.51.100.9".parse().unwrap();
    let downlink = || {
        let to = "10.45.0.1".parse().unwrap();
        frames::udp("198.51.100.77".parse().unwrap(), to, 64, b"down")
    };
    rig.send(1, &[downlink()]);
    answer_questions(&mut rig, 1);
    rig.settle();
    rig.receive(1);
    let mut answered = 0;
    for second in 0..LONG {
        pass(&rig, SECOND);
        rig.settle();
        for frame in rig.receive(1) {
            let Some(message) = frame.get(42..).and_then(|m| Message::new_checked(m).ok()) else {
                continue;
            };
            if let Ok(Signal::EchoRequest { sequence }) = Signal::parse(&message) {
                let response = Signal::EchoResponse { sequence, recovery: 0 };
                let to = "198.51.100.254".parse().unwrap();
                rig.send(1, &[frames::gtpu(peer, to, response)]);
                answered += 1;
            }
        }
        rig.send(1, &[downlink()]);
        let left = rig.receive(1);
        assert!(left.iter().any(|frame| frame.ends_with(b"down")), "second {second}");
    }
    assert!(answered >= LONG / 10 - 1, "{answered}");
}
