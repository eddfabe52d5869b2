//! A user's belongings go from one node to another in the middle of traffic, and
//! everything goes on as if nothing had happened.

mod nodes;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::common::gtpu::{HOST, tunnelled};
use crate::common::{Rig, udp, udp_to};
use nodes::{BEHIND, BORDER, COMPRESS, EXPAND, PLAIN, SECURED, SESSIONS, TUNNELS};
use proptest::prelude::*;
use serde_json::json;
use weft_node::bearer::{BearerId, WrittenCommand};
use weft_node::show::BearerView;
use weft_node::transfer::TransferError;
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv6, udp as wire_udp};

/// What happens next to a node.
#[derive(Clone, Debug)]
enum Step {
    /// A frame comes in at a port.
    Frame(usize, Vec<u8>),
    /// Time passes, in nanoseconds.
    Time(u64),
}

fn ipv6_to_user(user: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 62 + payload.len()];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 0xaa]),
        ether_type: EtherType::IPV6,
    };
    link.emit(&mut frame).unwrap();
    let ip = ipv6::Repr {
        source: "2001:db8:ffff::1".parse().unwrap(),
        destination: format!("2001:db8:45:{user:x}::1").parse().unwrap(),
        next_header: Protocol::UDP,
        payload_length: 8 + payload.len() as u16,
        hop_limit: 64,
        ..Default::default()
    };
    ip.emit(&mut frame[14..]).unwrap();
    let payload_length = payload.len() as u16;
    let header = wire_udp::Repr { source_port: 1000, destination_port: 2000, payload_length };
    header.emit(&mut frame[54..]).unwrap();
    frame[62..].copy_from_slice(payload);
    let pseudo = ipv6::Packet::new_checked(&frame[14..]).unwrap().pseudo_header();
    wire_udp::Datagram::new_checked(&mut frame[54..]).unwrap().fill_checksum(&pseudo);
    frame
}

/// Packets of three users with orders for `mischief`, some to the port of a bearer.
fn plain() -> impl Strategy<Value = Step> {
    let order = proptest::sample::select(b"....kkrcgtd".to_vec());
    let frame = (0..3u8, any::<bool>(), order, 0..60usize, any::<u8>()).prop_map(
        |(user, uplink, order, length, number)| {
            let (user, host) = ([10, 0, 0, 1 + user], [198, 51, 100, 9]);
            let payload = [vec![order, b'0', number], vec![number; length + 21]].concat();
            match uplink {
                true => Step::Frame(0, udp(user, host, &payload)),
                false => Step::Frame(1, udp(host, user, &payload)),
            }
        },
    );
    prop_oneof![4 => frame, 1 => (1..30_000_000u64).prop_map(Step::Time)]
}

fn tunnels() -> impl Strategy<Value = Step> {
    let frame = (0..4u8, 0..3u8, any::<u8>()).prop_map(|(what, user, number)| {
        let payload = vec![number; 20];
        let ue = [10, 45, 0, 1 + user];
        match what {
            0 => {
                let inside = udp(ue, HOST, &payload).split_off(14);
                Step::Frame(0, tunnelled(0x1000 + u32::from(user), &inside))
            }
            1 => {
                let to_core = MacAddress([2, 0, 0, 0, 0, 2]);
                Step::Frame(1, udp_to(to_core, HOST, ue, 64, &payload))
            }
            2 => {
                let inside = udp([10, 46, 0, 1], HOST, &payload).split_off(14);
                Step::Frame(0, tunnelled(0x5000 + u32::from(user), &inside))
            }
            _ => Step::Frame(1, ipv6_to_user(user, &payload)),
        }
    });
    prop_oneof![8 => frame, 1 => (1..3_000_000_000_000u64).prop_map(Step::Time)]
}

/// Packets of two flows of each user, whose headers change little.
fn flows() -> impl Strategy<Value = Step> {
    let frame = (0..3u8, 0..2u8, 20..25usize).prop_map(|(user, flow, length)| {
        Step::Frame(0, udp([10, 0, 0, 1 + user], [198, 51, 100, flow], &vec![user; length]))
    });
    prop_oneof![8 => frame, 1 => (1..6_000_000_000u64).prop_map(Step::Time)]
}

/// Packets from the Internet to three users at the ends of softwires.
fn softwires() -> impl Strategy<Value = Step> {
    let frame = (0..3u8, 20..60usize).prop_map(|(user, length)| {
        Step::Frame(1, udp(HOST, [192, 0, 2, 129 + user], &vec![user; length]))
    });
    prop_oneof![8 => frame, 1 => (1..6_000_000_000u64).prop_map(Step::Time)]
}

/// How far the clock of the second node is ahead.
const AHEAD: u64 = 77_000_000_123;

impl Step {
    fn take(&self, rig: &mut Rig) -> [Vec<Vec<u8>>; 2] {
        match self {
            Step::Frame(port, frame) => rig.send(*port, std::slice::from_ref(frame)),
            Step::Time(passes) => rig.advance(*passes),
        }
        [rig.receive(0), rig.receive(1)]
    }
}

fn export(rig: &mut Rig, user: &str) -> Vec<u8> {
    let octets = rig.node.agent().export_user(user).expect("the user is there");
    rig.settle();
    octets.try_recv().expect("the worker has come to it")
}

fn import(rig: &mut Rig, octets: &[u8]) -> Result<(), TransferError> {
    let outcome = rig.node.agent().import_user(octets)?;
    rig.settle();
    outcome.try_recv().expect("the worker has come to it")
}

/// What contexts hold, by function.
type Shown = Vec<(String, Vec<(&'static str, u64)>)>;

fn contexts(rig: &mut Rig, user: &str) -> Shown {
    let (_, answer) = rig.node.agent().contexts_of(user).expect("the user is there");
    rig.settle();
    answer.recv().unwrap()
}

/// What a bearer is like that a command has added, but for its place.
fn bearer(rig: &mut Rig, id: BearerId) -> Option<(BearerView, Shown)> {
    let (view, answer) = rig.node.agent().bearer(id)?;
    rig.settle();
    Some((BearerView { slot: 0, worker: 0, ..view }, answer.recv().unwrap()))
}

/// What came, and what went; what is kept is the difference.
fn accounts(rig: &mut Rig) -> (u64, u64) {
    let end = rig.node.agent().snapshot();
    let came = end.received() + end.emitted + end.originated + end.fragments + end.moved_in;
    (came, end.sent() + end.dropped() + end.local + end.moved_out)
}

/// Takes the steps at one node, and at two of which the second has the users from
/// `split` on.
fn same_on_two_nodes(
    yaml: &str,
    users: &[&str],
    steps: &[Step],
    split: usize,
) -> Result<(), TestCaseError> {
    same_with_commands(yaml, users, &json!([]), steps, split)
}

/// The same, where commands have added bearers for the users.
fn same_with_commands(
    yaml: &str,
    users: &[&str],
    commands: &serde_json::Value,
    steps: &[Step],
    split: usize,
) -> Result<(), TestCaseError> {
    let _turn = turn();
    let (mut whole, mut first, mut second) = (Rig::new(yaml), Rig::new(yaml), Rig::new(yaml));
    let commands: Vec<WrittenCommand> = serde_json::from_value(commands.clone()).unwrap();
    for rig in [&mut whole, &mut first] {
        rig.node.agent().change_written(&commands).unwrap();
        rig.settle();
    }
    second.advance(AHEAD);
    for step in &steps[..split] {
        prop_assert_eq!(step.take(&mut whole), step.take(&mut first));
        if let Step::Time(passes) = step {
            second.advance(*passes);
        }
    }
    for user in users {
        let octets = export(&mut first, user);
        prop_assert_eq!(import(&mut second, &octets), Ok(()));
        first.node.agent().forget_user(user).unwrap();
    }
    first.settle();
    for step in &steps[split..] {
        prop_assert_eq!(step.take(&mut whole), step.take(&mut second), "{:?}", step);
    }
    // Buckets are filled as packets come, and as their user moves.
    for user in 0..3 {
        let last = Step::Frame(0, udp([10, 0, 0, 1 + user], HOST, b".0 fills the buckets"));
        prop_assert_eq!(last.take(&mut whole), last.take(&mut second));
    }
    for user in users {
        prop_assert_eq!(contexts(&mut whole, user), contexts(&mut second, user));
    }
    for command in &commands {
        let id = command.id();
        prop_assert_eq!(bearer(&mut whole, id), bearer(&mut second, id));
        prop_assert_eq!(bearer(&mut first, id), None);
    }
    let (came, went) = accounts(&mut first);
    prop_assert_eq!(came, went, "nothing is left behind");
    let kept = |rig: &mut Rig| {
        let (came, went) = accounts(rig);
        came - went
    };
    prop_assert_eq!(kept(&mut whole), kept(&mut second));
    Ok(())
}

fn steps(step: impl Strategy<Value = Step>) -> impl Strategy<Value = (Vec<Step>, usize)> {
    let steps = proptest::collection::vec(step, 1..60);
    (steps, any::<prop::sample::Index>())
        .prop_map(|(steps, split)| (split.index(steps.len() + 1), steps))
        .prop_map(|(split, steps)| (steps, split))
}

/// Three nodes at a time are as many as there is memory for.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const USERS: [&str; 3] = ["ue-0", "ue-1", "ue-2"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn users_with_bearers_meters_timers_and_kept_packets((steps, split) in steps(plain())) {
        same_on_two_nodes(PLAIN, &USERS, &steps, split)?;
    }

    /// Of the configuration's bearer, and of others that commands add; one is idle.
    #[test]
    fn users_with_bearers_that_commands_have_added((steps, split) in steps(plain())) {
        let meter = json!({"meter": {"singleRate":
            {"committedRate": "80 kbit/s", "committedBurst": "700 B"}}});
        let commands = json!([
            {"add": {"id": 7, "of": "ue-0", "functions": {"own": meter},
                "match": {"flow": {"protocol": 17, "userPort": 1000}}}},
            {"add": {"id": 8, "of": "ue-1", "functions": {"own": meter},
                "match": {"flow": {"protocol": 17}}}},
            {"add": {"id": 9, "of": "ue-1", "action": "buffer",
                "match": {"flow": {"remote": "198.51.100.9", "userPort": 2000}}}},
        ]);
        let roomy = PLAIN.replace("packets: 4095}", "packets: 4095}\nlimits: {bearers: 16}");
        same_with_commands(&roomy, &USERS, &commands, &steps, split)?;
    }

    #[test]
    fn users_in_tunnels((steps, split) in steps(tunnels())) {
        let users = [USERS, ["through-0", "through-1", "through-2"]].concat();
        same_on_two_nodes(TUNNELS, &users, &steps, split)?;
    }

    #[test]
    fn sessions((steps, split) in steps(tunnels())) {
        same_on_two_nodes(SESSIONS, &["usual", "filtered", "waiting"], &steps, split)?;
    }

    #[test]
    fn flows_with_compressed_headers((steps, split) in steps(flows())) {
        same_on_two_nodes(COMPRESS, &USERS, &steps, split)?;
    }

    #[test]
    fn users_behind_a_public_address((steps, split) in steps(flows())) {
        same_on_two_nodes(BEHIND, &USERS, &steps, split)?;
    }

    #[test]
    fn users_at_the_ends_of_softwires((steps, split) in steps(softwires())) {
        same_on_two_nodes(BORDER, &USERS, &steps, split)?;
    }

    #[test]
    fn users_of_ipsec_tunnels((steps, split) in steps(flows())) {
        same_on_two_nodes(SECURED, &USERS, &steps, split)?;
    }

    #[test]
    fn flows_whose_headers_are_expanded((steps, split) in steps(flows())) {
        let mut compressor = {
            let _turn = turn();
            Rig::new(COMPRESS)
        };
        let compressed: Vec<_> = steps
            .into_iter()
            .flat_map(|step| match step {
                Step::Time(_) => vec![step],
                Step::Frame(..) => {
                    let [_, core] = step.take(&mut compressor);
                    core.into_iter().map(|frame| Step::Frame(1, frame)).collect()
                }
            })
            .collect();
        drop(compressor);
        let split = split.min(compressed.len());
        same_on_two_nodes(EXPAND, &USERS, &compressed, split)?;
    }
}

#[test]
fn every_function_is_among_those_above() {
    for kind in weft_functions::KINDS {
        let named = format!("function: {}", kind.name);
        let stands =
            |yaml: &str| yaml.split([',', '}', '\n']).any(|part| part.trim_end().ends_with(&named));
        assert!(
            [PLAIN, TUNNELS, COMPRESS, EXPAND, BEHIND, BORDER, SECURED, SESSIONS]
                .into_iter()
                .any(stands),
            "{}",
            kind.name
        );
    }
}

#[test]
fn what_a_node_lacks_is_named() {
    let _turn = turn();
    let mut source = Rig::new(PLAIN);
    source.send(0, &[udp([10, 0, 0, 2], HOST, b"k0 kept until it is let go")]);
    let octets = export(&mut source, "ue-1");
    let refused = |from: &str, to: &str| {
        assert!(PLAIN.contains(from), "{from}");
        let refused = import(&mut Rig::new(&PLAIN.replace(from, to)), &octets);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        refused("nothing", "naught"),
        "user ue-1 has a context at function `nothing`, which is not configured here"
    );
    assert_eq!(
        refused("nothing: {function: pass}", "nothing: {function: forward}"),
        "user ue-1 has a context of `pass` at `nothing`, which is a `forward` here"
    );
    assert_eq!(refused("full", "fast"), "user ue-1 has chain `full`, which is not configured here");
    assert_eq!(
        refused("name: web", "name: voice"),
        "user ue-1 has a bearer `web`, which is not configured here"
    );
    assert_eq!(refused("name: ue", "name: other"), "no user of this node is called `ue-1`");
    assert_eq!(refused("count: 3", "count: 1"), "no user of this node is called `ue-1`");
    assert_eq!(
        refused("access", "radio"),
        "a packet of user ue-1 came in at port `access`, which is not configured here"
    );
}

#[test]
fn a_context_that_a_function_does_not_take_leaves_fresh_ones() {
    let _turn = turn();
    let mut source = Rig::new(PLAIN);
    source.send(0, &[udp([10, 0, 0, 2], HOST, b"..")]);
    let octets = export(&mut source, "ue-1");
    let mut target = Rig::new(PLAIN);
    target.send(0, &[udp([10, 0, 0, 2], HOST, b"k0"), udp([10, 0, 0, 2], HOST, b".0")]);
    let fresh = contexts(&mut Rig::new(PLAIN), "ue-1");
    let used = contexts(&mut target, "ue-1");
    assert_ne!(used, fresh);
    // The counter's context, which comes first, is of a version that there is not.
    let counted = octets.windows(7).rposition(|text| text == b"counter").unwrap();
    let mut refused = 0;
    for at in counted + 7..octets.len() {
        let mut bent = octets.clone();
        bent[at] ^= 0xff;
        let before = contexts(&mut target, "ue-1");
        match import(&mut target, &bent) {
            Err(TransferError::Context { .. }) => {
                refused += 1;
                assert_eq!(contexts(&mut target, "ue-1"), fresh, "octet {at}");
            }
            Err(_) => assert_eq!(contexts(&mut target, "ue-1"), before, "octet {at}"),
            Ok(()) => {}
        }
    }
    assert!(refused > 0);
    let (came, went) = accounts(&mut target);
    assert_eq!(came, went);
}
