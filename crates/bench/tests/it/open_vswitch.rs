//! Open vSwitch as a baseline, with the real programs.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weft_rig::baseline::kernel;
use weft_rig::baseline::open_vswitch::{self, Bridges};
use weft_rig::{Ends, MEGABYTES, Offer, Rig};

use crate::turn;

/// Longest wait for anything; a machine under load is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tells a second process of this test that it is to be killed.
const VICTIM: &str = "WEFT_TEST_VICTIM";

/// Why nothing can be shown here.
fn lacking() -> Option<&'static str> {
    kernel::lacking().or((!open_vswitch::is_installed()).then_some(open_vswitch::MISSING))
}

/// Says on standard error, past the test's own capture, what is not tested and why.
fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}

/// The directory and the namespace of a row of bridges.
fn traces(name: &str) -> [PathBuf; 2] {
    [env::temp_dir().join(name), Path::new("/run/netns").join(name)]
}

fn is_alive(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    // A child without a waiting parent stays, dead.
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

fn daemons(directory: &Path) -> Vec<u32> {
    let read = |program: &str| {
        let file = directory.join(format!("{program}.pid"));
        let text = fs::read_to_string(&file).expect("the daemon runs");
        text.trim().parse().expect("a number")
    };
    ["ovsdb-server", "ovs-vswitchd"].map(read).to_vec()
}

#[test]
fn packets_pass_a_row_of_bridges_which_leaves_nothing_behind() {
    if let Some(why) = lacking() {
        return skipped("packets_pass_a_row_of_bridges", why);
    }
    let _turn = turn();
    let rig = Rig::start(MEGABYTES).expect("the environment starts");
    if let Err(missing) = rig.cores.traffic() {
        return skipped("packets_pass_a_row_of_bridges", &missing.to_string());
    }
    let bridges = Bridges::new(2, rig.cores.system).expect("bridges are made");
    let mut ends = Ends::open(&rig, &bridges.ends(&rig), 1024).expect("their ends are open");
    let [directory, namespace] = traces(&bridges.namespace());
    let daemons = daemons(&directory);
    assert!(namespace.exists() && daemons.iter().all(|one| is_alive(*one)));

    // On a machine under load a packet may be given up before it comes.
    let until = Instant::now() + PATIENCE;
    let arrivals = loop {
        let arrivals = rig.offer(&mut ends, &Offer::new(1000.0, Duration::from_millis(100)));
        let arrivals = arrivals.expect("packets are made");
        if arrivals.lost() == 0 || Instant::now() > until {
            break arrivals;
        }
    };
    assert!(arrivals.sent > 0);
    assert_eq!((arrivals.lost(), arrivals.duplicated, arrivals.reordered), (0, 0, 0));

    drop(ends);
    drop(bridges);
    assert!(!directory.exists() && !namespace.exists());
    assert!(!daemons.iter().any(|one| is_alive(*one)));
}

#[test]
fn daemons_die_with_a_killed_process_and_the_next_one_clears_what_it_left() {
    let name =
        "open_vswitch::daemons_die_with_a_killed_process_and_the_next_one_clears_what_it_left";
    if let Some(why) = lacking() {
        return skipped(name, why);
    }
    if env::var_os(VICTIM).is_some() {
        let bridges = Bridges::new(1, 0).expect("bridges are made");
        println!("\nready {}", bridges.namespace());
        thread::sleep(PATIENCE);
        return;
    }
    let mut victim = Command::new(env::current_exe().expect("a path"))
        .args(["--exact", name, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(victim.stdout.take().expect("it is piped")).lines();
    let ready =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("ready ")?.to_owned()));
    let [directory, namespace] = traces(&ready.expect("the other process makes bridges"));
    let daemons = daemons(&directory);
    victim.kill().expect("it can be killed");
    victim.wait().expect("it ends");
    assert!(directory.exists() && namespace.exists());

    let until = Instant::now() + PATIENCE;
    while daemons.iter().any(|one| is_alive(*one)) {
        assert!(Instant::now() < until, "a daemon outlives its process");
        thread::sleep(Duration::from_millis(20));
    }
    let _turn = turn();
    drop(Rig::start(MEGABYTES).expect("remains do not disturb"));
    assert!(!directory.exists() && !namespace.exists());
}
