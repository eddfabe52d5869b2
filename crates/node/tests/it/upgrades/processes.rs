//! Functions in processes of their own, as the node goes over to another process: that has them
//! in processes of its own, with their contexts. The processes are threads here.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::Kind;
use weft_function::{
    ConfigError, ContextError, Emit, NoSettings, Packet, Setup, UserPlaneFunction, Verdict,
};
use weft_node::Running;

use super::{AFTER, BEFORE, Count, NODE, OCTETS, count, send, sum, take_over};
use crate::common::apart::Hosted;
use crate::common::{Rig, eal, udp};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Counts as others do, and exports what is no context.
struct Liar;

impl UserPlaneFunction for Liar {
    const NAME: &'static str = "sum";
    const SUMMARY: &'static str = "Counts packets.";
    const CONTEXT_VERSION: u16 = 2;
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = Count;

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Liar)
    }

    fn process(&mut self, packet: &mut Packet, context: &mut Count, _: &mut Emit<'_>) -> Verdict {
        count(packet, context)
    }

    fn export(&self, _: &Count, out: &mut Vec<u8>) {
        out.extend(b"lies");
    }

    fn import(&mut self, _: u16, _: &[u8]) -> Result<Count, ContextError> {
        Ok(Count::default())
    }
}

static LIAR: Kind = Kind::of::<Liar>();

/// The node with its function in a process at this ring.
fn in_process(ring: &Path) -> String {
    let process = format!(
        "{{function: sum, composition: process, process: {{start: elsewhere, heartbeat: 20000, \
         onFailure: drop, socket: {}}}}}",
        ring.display()
    );
    NODE.replace("{function: sum}", &process)
}

/// Waits until the function is in its process.
fn until_attached(rig: &mut Rig) {
    let begun = Instant::now();
    let is_there = |rig: &mut Rig| {
        rig.settle();
        let functions = rig.node.agent().snapshot().functions;
        functions[0].process.as_ref().is_some_and(|process| process.state == "running")
    };
    while !is_there(rig) {
        assert!(begun.elapsed() < PATIENCE, "the process does not attach");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A node that runs with its function in a process, which has counted three packets of a user.
fn three_in_a_process(kinds: &'static [Kind; 1], ring: &Path) -> (Rig, Hosted) {
    let build = |blueprint| weft_node::Node::build(eal(), blueprint);
    let mut rig = Rig::of_kinds(&in_process(ring), kinds, build).unwrap();
    let hosted = Hosted::of_kind(&kinds[0], ring.to_owned(), Vec::new());
    until_attached(&mut rig);
    send(&mut rig, 0, 3);
    (rig, hosted)
}

/// Lets the node run by itself and another process take it over as far as it gets; why it went
/// on.
fn breaks_off(running: &mut Running, new: impl FnOnce(UnixStream) + Send) -> String {
    let (to_new, to_old) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || new(to_old));
        running.hand_over(eal(), to_new, &mut ()).unwrap_err().to_string()
    })
}

/// The kind of the next message.
pub fn hear(from: &mut UnixStream) -> u8 {
    let mut head = [0; 5];
    from.read_exact(&mut head).unwrap();
    let mut octets = vec![0; u32::from_le_bytes(head[1..].try_into().unwrap()) as usize];
    from.read_exact(&mut octets).unwrap();
    head[0]
}

#[test]
fn a_process_that_breaks_off_leaves_the_function_where_it_is() {
    let (accept, prepared, ready, contexts, drained) = (1, 4, 5, 8, 9);
    let folder = tempfile::tempdir().unwrap();
    let (rig, _hosted) = three_in_a_process(&BEFORE, &folder.path().join("old"));
    let Rig { node, mut far, pool, .. } = rig;
    let mut running = node.start(eal()).unwrap();
    let mut passed = 3;
    for last in [prepared, contexts, drained] {
        let why = breaks_off(&mut running, |mut to_old| {
            assert_eq!(hear(&mut to_old), 0);
            to_old.write_all(&[accept, 4, 0, 0, 0, 1, 0, 0, 0]).unwrap();
            while hear(&mut to_old) != prepared {}
            if last != prepared {
                to_old.write_all(&[ready, 1, 0, 0, 0, 0]).unwrap();
                while hear(&mut to_old) != last {}
            }
        });
        assert!(why.starts_with("the other process went away"), "{why}");
        // Packets go to the function as before.
        let functions = running.handle().ask(|agent| agent.snapshot().functions).unwrap();
        let process = functions[0].process.clone().unwrap();
        assert_eq!((&*process.state, process.failures, process.lost), ("running", 0, 0));
        let packet = udp([10, 0, 0, 1], [198, 51, 100, 1], b"payload");
        let mut batch = weft_dpdk::Batch::new();
        batch.push(pool.packet(&packet).unwrap()).unwrap();
        far[0].tx.transmit(&mut batch);
        let begun = Instant::now();
        while far[1].rx.receive(&mut batch, 32) == 0 {
            assert!(begun.elapsed() < PATIENCE, "no packet passes");
            thread::sleep(Duration::from_millis(1));
        }
        batch.clear();
        passed += 1;
    }
    let (to_new, to_old) = UnixStream::pair().unwrap();
    let given = thread::spawn(move || {
        let _registration = eal().register_thread();
        let handed_over = running.hand_over(eal(), to_new, &mut ()).unwrap();
        running.leave(handed_over);
    });
    let mut rig = Rig::of_kinds(NODE, &BEFORE, |blueprint| {
        let mut predecessor = weft_node::Predecessor::hear(to_old)?;
        predecessor.accept(&blueprint)?;
        predecessor.take(eal(), blueprint, None, |_, _| {}).map(|(node, _)| node)
    })
    .unwrap();
    given.join().unwrap();
    assert_eq!(sum(&mut rig, 0), [("packets", passed)]);
}

#[test]
fn contexts_go_from_process_to_process_in_the_version_that_each_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, mut hosted) = three_in_a_process(&BEFORE, &folder.path().join("0"));
    let mut packets = 3;
    // A newer release, the same, and the one before, which has no place for octets.
    for (number, kinds) in [&AFTER, &AFTER, &BEFORE].into_iter().enumerate() {
        let ring = folder.path().join((number + 1).to_string());
        rig = take_over(rig, &in_process(&ring), kinds, (), None).unwrap();
        hosted = Hosted::of_kind(&kinds[0], ring, Vec::new());
        until_attached(&mut rig);
        send(&mut rig, 0, 2);
        packets += 2;
    }
    send(&mut rig, 1, 1);
    let mut rig = take_over(rig, NODE, &AFTER, (), None).unwrap();
    drop(hosted);
    assert_eq!(sum(&mut rig, 0), [("packets", packets), ("octets", 0)]);
    assert_eq!(sum(&mut rig, 1), [("packets", 1), ("octets", 0)]);
    send(&mut rig, 1, 1);
    assert_eq!(sum(&mut rig, 1), [("packets", 2), ("octets", OCTETS)]);
}

#[test]
fn a_process_that_exports_no_contexts_keeps_the_node_from_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("old");
    let build = |blueprint| weft_node::Node::build(eal(), blueprint);
    let mut rig = Rig::of_kinds(&in_process(&ring), &AFTER, build).unwrap();
    let _hosted = Hosted::of_kind(&LIAR, ring, Vec::new());
    until_attached(&mut rig);
    send(&mut rig, 0, 3);
    let mut rig = take_over(rig, NODE, &AFTER, (), None).unwrap();
    assert_eq!(sum(&mut rig, 0), [("packets", 0), ("octets", 0)]);
    send(&mut rig, 0, 1);
    assert_eq!(sum(&mut rig, 0), [("packets", 1), ("octets", OCTETS)]);
}
