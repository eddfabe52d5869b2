//! Users with a function in a process of its own: this program, started once more.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use weft_dpdk::{Eal, EalOptions};
use weft_mobility_protocol::{NodeId, User};
use weft_offload::process::host::Host;

use super::nodes::{GATEWAY, KEEPING, isolated_gateway, isolated_station, station};
use super::world::{ANCHOR, PATIENCE, SOURCE, TARGET, World, turn};
use crate::common::KINDS;

const RING: &str = "WEFT_TEST_RING";

/// Is the function's process in the tests below; alone it does nothing.
#[test]
fn function_process() {
    let Some(ring) = std::env::var_os(RING).map(PathBuf::from) else { return };
    let options = EalOptions { memory_megabytes: 96, huge_pages: false, ..Default::default() };
    let eal = Eal::start(&options).expect("the environment starts");
    let kind = KINDS.iter().find(|kind| kind.name == "tally").unwrap();
    let host =
        Host { eal, kind, ring: &ring, devices: &[], once: false, stop: &AtomicBool::new(false) };
    host.run().unwrap();
}

/// A folder with rings, and the processes that attach there.
struct Processes {
    folder: PathBuf,
    children: Vec<(NodeId, Child)>,
}

impl Processes {
    fn new() -> Processes {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("weft-move-{}-{serial}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Processes { folder, children: Vec::new() }
    }

    fn ring(&self, node: NodeId) -> PathBuf {
        self.folder.join(format!("{}.sock", node.0))
    }

    fn start(&mut self, node: NodeId) {
        let own = std::env::current_exe().unwrap();
        let child = Command::new(own)
            .args(["--exact", "handover::isolated::function_process"])
            .env(RING, self.ring(node))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.children.push((node, child));
    }

    fn kill(&mut self, node: NodeId) {
        for (_, child) in self.children.iter_mut().filter(|(of, _)| *of == node) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        self.children.retain(|(of, _)| *of != node);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // One that has ended already is gone, too.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_attached(world: &mut World, node: NodeId) -> bool {
    let snapshot = world.rigs.get_mut(&node).unwrap().node.agent().snapshot();
    let process = snapshot.functions.iter().find_map(|function| function.process.as_ref());
    process.is_some_and(|process| process.state == "running")
}

fn until(world: &mut World, node: NodeId, attached: bool) {
    let until = Instant::now() + PATIENCE;
    while is_attached(world, node) != attached {
        assert!(Instant::now() < until, "the function of {node} is not as it should be");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    world.round();
}

fn sent(world: &World, user: User) -> u64 {
    u64::from(world.users[&user].down.sent + world.users[&user].up.sent)
}

fn users(world: &World) -> Vec<User> {
    world.users.keys().copied().collect()
}

fn isolated(node: NodeId, ring: &Path, policy: &str) -> String {
    isolated_station(node.0, ring, policy)
}

#[test]
fn contexts_move_out_of_processes_and_into_them() {
    let _turn = turn();
    let mut processes = Processes::new();
    let source = isolated(SOURCE, &processes.ring(SOURCE), "drop");
    processes.start(SOURCE);
    let mut world = World::new(GATEWAY, &source, &station(3, KEEPING), 12);
    world.keeps = true;
    until(&mut world, SOURCE, true);
    for to in [TARGET, SOURCE, TARGET, SOURCE, TARGET] {
        world.move_under_traffic(to);
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), Default::default());
    for user in users(&world) {
        assert_eq!(world.tally(TARGET, user), sent(&world, user), "{user}");
    }
    assert_eq!(world.counted(SOURCE, "exported"), 36);
    for name in ["context_lost", "uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"]
    {
        assert_eq!(world.counted(SOURCE, name) + world.counted(TARGET, name), 0, "{name}");
    }
    world.settle();
}

/// An anchor whose count is in a process: End Markers go behind what its tunnel has sent, and
/// what the process still has then goes by the new tunnel.
#[test]
fn users_move_behind_an_anchor_with_a_process() {
    let _turn = turn();
    let mut processes = Processes::new();
    let anchor = isolated_gateway(&processes.ring(ANCHOR));
    processes.start(ANCHOR);
    let mut world = World::new(&anchor, &station(2, KEEPING), &station(3, KEEPING), 12);
    world.keeps = true;
    until(&mut world, ANCHOR, true);
    for to in [TARGET, SOURCE, TARGET, SOURCE] {
        world.move_under_traffic(to);
    }
    world.move_at_random(100);
    world.rest();
    world.check_all_arrived();
    assert_eq!(world.drops(), Default::default());
    let all: u64 = users(&world).into_iter().map(|user| sent(&world, user)).sum();
    let snapshot = world.rigs.get_mut(&ANCHOR).unwrap().node.agent().snapshot();
    let away = snapshot.functions.iter().find(|function| function.process.is_some());
    assert_eq!(away.map(|function| function.packets), Some(all));
    for name in ["uplink_gate_timeout", "downlink_gate_timeout"] {
        let counted = [ANCHOR, SOURCE, TARGET].map(|node| world.counted(node, name));
        assert_eq!(counted, [0; 3], "{name}");
    }
    world.settle();
}

/// FAULTS 57, for the function of a source: it dies at each step of moves.
#[test]
fn fault_57_users_leave_a_function_that_dies() {
    let _turn = turn();
    let mut any_lost = 0;
    for step in 0..6 {
        let policy = ["drop", "hold", "bypass"][step % 3];
        let mut processes = Processes::new();
        let source = isolated(SOURCE, &processes.ring(SOURCE), policy);
        processes.start(SOURCE);
        let mut world = World::new(GATEWAY, &source, &station(3, KEEPING), 6);
        until(&mut world, SOURCE, true);
        for round in 0..200 {
            if round == 40 {
                world.move_all(TARGET);
            }
            if round % 3 == 0 {
                world.send_to_all();
            }
            if round == 38 + step {
                processes.kill(SOURCE);
                until(&mut world, SOURCE, false);
            }
            world.round();
        }
        world.rest();
        world.settle();
        world.check_accounts();
        let lost = world.counted(SOURCE, "context_lost");
        let mut short = 0;
        for user in users(&world) {
            assert_eq!(world.controller.owner(user).map(|leg| leg.node), Some(TARGET), "{step}");
            short += u64::from(world.tally(TARGET, user) < sent(&world, user));
        }
        assert!(
            short <= lost || policy != "hold",
            "{step}: {short} users lack packets, {lost} counted"
        );
        let drops = world.drops();
        let known = ["function_lost", "function_down"];
        let strange = drops.keys().find(|(_, reason)| !known.contains(&reason.as_str()));
        assert_eq!(strange, None, "{step}: {drops:?}");
        let all = world.users.values();
        let gone: u64 =
            all.map(|ue| u64::from(ue.down.sent + ue.up.sent - ue.down.came - ue.up.came)).sum();
        assert_eq!(gone, drops.values().sum::<u64>(), "{step}");
        any_lost += lost;
    }
    assert!(any_lost > 0, "no function died before its contexts had gone");
}

#[test]
fn a_target_whose_function_is_not_there_leaves_users_where_they_were() {
    let _turn = turn();
    let mut processes = Processes::new();
    let target = isolated(TARGET, &processes.ring(TARGET), "drop");
    processes.start(TARGET);
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &target, 4);
    world.keeps = true;
    until(&mut world, TARGET, true);
    world.move_under_traffic(TARGET);
    world.move_under_traffic(SOURCE);
    processes.kill(TARGET);
    until(&mut world, TARGET, false);
    world.move_under_traffic(TARGET);
    world.check_all_arrived();
    assert_eq!(world.drops(), Default::default());
    for user in users(&world) {
        assert_eq!(world.controller.owner(user).map(|leg| leg.node), Some(SOURCE));
        assert_eq!(world.tally(SOURCE, user), sent(&world, user), "{user}");
    }
    assert_eq!(world.counted(SOURCE, "resumed"), 4);
    // It comes back, and with it the users can go.
    processes.start(TARGET);
    until(&mut world, TARGET, true);
    world.move_under_traffic(TARGET);
    world.move_under_traffic(SOURCE);
    world.check_all_arrived();
    for user in users(&world) {
        assert_eq!(world.tally(SOURCE, user), sent(&world, user), "{user}");
    }
    world.settle();
}
