//! Random nodes under random traffic: nothing is lost without a name, nothing
//! is overtaken, and compiled rules do what looked-up rules do.

use crate::common::scenario::{Scenario, Sent, overtaken, send, traffic};
use crate::common::{Rig, panic_quietly};
use proptest::prelude::*;
use weft_node::show::Snapshot;

/// Packets that come and go, by the counters of a node that has stopped.
fn balance(end: &Snapshot) -> (u64, u64) {
    let came = end.received() + end.emitted + end.originated + end.fragments;
    (came, end.sent() + end.dropped() + end.local)
}

/// Everything that comes out of the node, by port.
fn receive(rig: &mut Rig) -> [Vec<Vec<u8>>; 2] {
    [0, 1].map(|port| rig.receive(port))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_of_a_user_leave_in_order(
        scenario in Scenario::any(),
        packets in traffic("...dcgtp"),
        at_once in 1..32usize,
    ) {
        panic_quietly();
        let mut rig = Rig::new(&scenario.yaml("compiled"));
        send(&mut rig, &scenario, &packets, at_once);
        for frames in receive(&mut rig) {
            prop_assert_eq!(overtaken(&frames), [""; 0]);
        }
    }

    #[test]
    fn every_packet_is_accounted_for(
        scenario in Scenario::any(),
        packets in traffic("...dkrcgtp"),
        at_once in 1..32usize,
    ) {
        panic_quietly();
        let mut rig = Rig::new(&scenario.yaml("compiled"));
        let free = rig.node.agent().snapshot().buffers.available;
        send(&mut rig, &scenario, &packets, at_once);
        rig.advance(2000);
        let out: usize = receive(&mut rig).iter().map(Vec::len).sum();
        let Rig { node, far, .. } = rig;
        let end = node.stop();
        let (came, went) = balance(&end);
        prop_assert_eq!(end.received(), packets.len() as u64);
        prop_assert_eq!(end.sent(), out as u64);
        prop_assert_eq!(came, went, "{:?}", end.drops);
        prop_assert_eq!(end.buffers.available, free);
        drop(far);
    }

    #[test]
    fn compiled_rules_do_what_looked_up_rules_do(
        scenario in Scenario::any(),
        packets in traffic("...dcgp"),
    ) {
        panic_quietly();
        // So few at once that a burst has room for all that functions add.
        let run = |forwarding: &str, packets: &[Sent]| {
            let mut rig = Rig::new(&scenario.yaml(forwarding));
            send(&mut rig, &scenario, packets, 8);
            let out = receive(&mut rig);
            let end = rig.node.stop();
            let functions: Vec<_> =
                end.functions.iter().map(|one| (one.name.clone(), one.packets)).collect();
            (out, end.drops, functions, end.emitted, end.local)
        };
        let compiled = run("compiled", &packets);
        prop_assert_eq!(&compiled, &run("lookup", &packets));
    }
}
