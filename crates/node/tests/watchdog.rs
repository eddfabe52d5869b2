//! Functions that take their thread with them: the node names them and ends, so that what
//! started it starts it again. Each node is a process of its own, of this program.

#[path = "it/common/mod.rs"]
mod common;

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Rig, udp};
use weft_dpdk::watchdog::{self, Watchdog};

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: watched}
memory: {packets: 8191}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: counter, composition: COMPOSITION}
  play: {function: mischief, composition: COMPOSITION}
users:
  - {name: ue, count: 6, match: {ipv4: 10.0.0.1}, chain: all}
rules: |
  chain all = count -> play
  from access -> all
  from all -> core
  from core -> drop
";

/// Longest time that a round may take.
const LIMIT: Duration = Duration::from_millis(500);

/// What a node is to do, for the process that is started for it.
const ORDER: &str = "WEFT_TEST_ORDER";

/// Not a test of its own: the node, where a test has started this program for it.
#[test]
fn node() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let (composition, order) = order.split_once(' ').unwrap();
    watchdog::catch_faults().unwrap();
    let mut rig = Rig::new(&NODE.replace("COMPOSITION", composition));
    // As `weft run` does it.
    let _watchdog = Watchdog::start(
        Some(LIMIT),
        |trouble| {
            eprintln!("weft: {trouble}: the node ends");
            watchdog::end_process()
        },
        || {},
    );
    let packet = |payload: &str| udp([10, 0, 0, 1], [198, 51, 100, 1], payload.as_bytes());
    rig.offer(0, &[packet(".0"), packet(&format!("{order}0"))]);
    let Rig { node, mut far, .. } = rig;
    let running = node.start(common::eal()).unwrap();
    match order {
        "agent" => {
            let _ = running.handle().ask(|_| panic!("as the test wants"));
            thread::sleep(Duration::from_secs(120));
        }
        // Not long: one round after the other takes none at all.
        "." | "p" => thread::sleep(4 * LIMIT),
        "idle" => loop {
            thread::sleep(LIMIT);
        },
        _ => thread::sleep(Duration::from_secs(120)),
    }
    assert!(far.iter_mut().all(|far| far.rx.receive(&mut Default::default(), 32) < 3));
    drop(running.stop());
}

/// Starts a node with this order, and waits until it ends. How it did, and what it said.
fn run(composition: &str, order: &str) -> (ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node", "--nocapture", "--test-threads=1"])
        .env(ORDER, format!("{composition} {order}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

/// The line of the program itself.
fn line(said: &str) -> &str {
    said.lines().find(|line| line.starts_with("weft: ")).unwrap_or(said)
}

#[test]
fn fault_55_an_endless_loop_is_named_and_ends_the_node() {
    for (composition, thread) in [("call", "worker-0"), ("thread", "stage-")] {
        let since = Instant::now();
        let (status, said) = run(composition, "l");
        assert_eq!(status.code(), Some(1), "{said}");
        let line = line(&said);
        let begin = format!("weft: the function `play` does not return (watchdog: {thread}");
        assert!(line.starts_with(&begin), "{line}");
        assert!(line.ends_with(" s): the node ends"), "{line}");
        assert!(since.elapsed() >= LIMIT);
    }
}

#[test]
fn fault_55_a_function_that_sleeps_for_ever_is_named_and_ends_the_node() {
    let (status, said) = run("call", "z");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(line(&said).starts_with("weft: the function `play` does not return"), "{said}");
}

#[test]
fn fault_55_a_memory_fault_names_its_function() {
    for (composition, thread) in [("call", "worker-0"), ("thread", "stage-")] {
        let (status, said) = run(composition, "m");
        assert_eq!(status.signal(), Some(11), "{said}");
        let line = line(&said);
        let begin = "weft: SIGSEGV, a memory fault at address 0x10, in the thread ";
        assert!(line.starts_with(&format!("{begin}{thread}")), "{line}");
        assert!(line.ends_with(", in the function `play`: the process ends"), "{line}");
    }
}

#[test]
fn fault_55_a_panic_of_the_agent_ends_the_node() {
    let (status, said) = run("call", "agent");
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(line(&said), "weft: the thread agent has ended by a panic: the node ends");
}

#[test]
fn fault_55_a_panic_inside_a_function_ends_no_node() {
    for composition in ["call", "thread"] {
        for order in ["p", "."] {
            let (status, said) = run(composition, order);
            assert!(status.success() && !said.contains("weft: "), "{said}");
        }
    }
}

/// The time of a machine that stands still is the time of no function.
#[test]
fn fault_55_a_node_that_is_stopped_for_a_while_goes_on() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node", "--nocapture", "--test-threads=1"])
        .env(ORDER, "call idle")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let signal = |name: &str, pid: u32| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
        assert!(sent.success());
    };
    for _ in 0..3 {
        thread::sleep(LIMIT);
        signal("-STOP", child.id());
        thread::sleep(3 * LIMIT);
        signal("-CONT", child.id());
    }
    thread::sleep(2 * LIMIT);
    assert_eq!(child.try_wait().unwrap(), None, "it runs");
    child.kill().unwrap();
    child.wait().unwrap();
}
