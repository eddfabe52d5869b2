//! `weft run`: how a node starts, what keeps it from starting, and how it ends.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Running, TestFolder, node, skipped};

fn two_nulls(name: &str) -> String {
    node(name, "net_null0", "net_null1,no-rx=1")
}

#[test]
fn a_node_runs_until_it_is_told_to_stop_and_tells_what_it_counted() {
    for signal in ["TERM", "INT"] {
        let place = TestFolder::new();
        place.write("node.yaml", two_nulls("a"));
        let running = place.start(&["node.yaml"]);
        assert!(
            running.ready.starts_with("node a is ready: 2 ports, 4 users"),
            "{}",
            running.ready
        );
        let socket = place.path("weft/a.sock");
        let mode = fs::metadata(&socket).expect("the socket is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A busy machine gives the worker its turn late.
        let has_counted =
            || place.run(&["show", "drops"]).succeeded().contains("ethertype_unknown");
        while !has_counted() {}
        running.signal(signal);
        let out = running.ended().succeeded();
        for words in ["rx packets", "net_null0", "count", "guard", "ethertype_unknown"] {
            assert!(out.contains(words), "no {words} in {out}");
        }
        assert!(!socket.exists());
    }
}

#[test]
fn a_second_node_of_one_name_is_refused_and_the_first_goes_on() {
    let place = TestFolder::new();
    place.write("node.yaml", two_nulls("a"));
    let running = place.start(&["node.yaml"]);
    let refused = place.run(&["run", "node.yaml"]);
    refused.refused(&["weft: another node named a is running", "weft/a.sock"]);
    place.run(&["show", "ports"]).succeeded();
    running.stop().succeeded();
}

#[test]
fn the_socket_of_a_dead_node_is_replaced() {
    let place = TestFolder::new();
    place.write("node.yaml", two_nulls("a"));
    let running = place.start(&["node.yaml"]);
    running.signal("KILL");
    assert_eq!(running.ended().code, None);
    assert!(place.path("weft/a.sock").exists());
    place.run(&["show", "ports"]).refused(&["weft: no node is running here"]);
    place.start(&["node.yaml"]).stop().succeeded();
}

#[test]
fn a_socket_may_be_put_elsewhere_but_not_over_a_file() {
    let place = TestFolder::new();
    place.write("node.yaml", two_nulls("a"));
    let running = place.start(&["node.yaml", "--socket", "here.sock"]);
    place.run(&["show", "ports", "--socket", "here.sock"]).succeeded();
    running.stop().succeeded();
    place.write("file", "precious");
    place.run(&["run", "node.yaml", "--socket", "file"]).refused(&["file", "not a socket"]);
    assert_eq!(place.read("file"), "precious");
}

#[test]
fn a_missing_device_is_named() {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_af_packet0,iface=nowhere0", "net_null1"));
    place.run(&["run", "node.yaml"]).refused(&["weft: port access", "nowhere0"]);
    place.write("node.yaml", node("a", "net_nothing0", "net_null1"));
    place.run(&["run", "node.yaml"]).refused(&["weft: port access", "net_nothing0"]);
    place.write("node.yaml", node("a", "net_pcap0,rx_pcap=no.pcap", "net_null1"));
    place.run(&["run", "node.yaml"]).refused(&["weft: port access", "no.pcap"]);
    assert!(!place.path("weft/a.sock").exists());
}

#[test]
fn a_device_that_wants_privileges_says_so() {
    // The user ID without privileges (Debian's base-passwd).
    const UNPRIVILEGED: u32 = 65534;
    let place = TestFolder::new();
    let folder = place.path("");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    place.write("node.yaml", node("a", "net_af_packet0,iface=lo", "net_null1"));
    let mut command = place.weft(&["run", "node.yaml"]);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        if Command::new(env!("CARGO_BIN_EXE_weft"))
            .uid(UNPRIVILEGED)
            .arg("--version")
            .output()
            .is_err()
        {
            return skipped("privileges", "the program cannot be run from where it was built");
        }
    }
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("weft: port access") && said.contains("no permission"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn an_address_for_metrics_that_is_in_use_is_refused() {
    let place = TestFolder::new();
    place.write("node.yaml", two_nulls("a"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let refused = place.run(&["run", "node.yaml", "--metrics", &address]);
    refused.refused(&["weft: metrics address", &address, "in use"]);
}

#[test]
fn flags_come_before_the_environment_and_the_environment_before_the_file() {
    let place = TestFolder::new();
    place.write("node.yaml", two_nulls("a"));
    // One worker: two cores are a mistake, and whose words are told shows who won.
    let mut command = place.weft(&["run", "node.yaml"]);
    let output = command.env("WEFT_CORES", "0,0").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 worker, --cores names 2 cores"), "{said}");
    let mut command = place.weft(&["run", "node.yaml", "--max-sleep", "0"]);
    let output = command.env("WEFT_MAX_SLEEP", "500").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("0 is not in 1..=1000000"), "{said}");
    let mut command = place.weft(&["run", "node.yaml", "--cores", "0", "--max-sleep", "500"]);
    command.env("WEFT_CORES", "0,0").env("WEFT_POLLING", "adaptive").env("WEFT_MAX_SLEEP", "0");
    Running::start(command).stop().succeeded();
}

#[test]
fn too_little_memory_is_told() {
    let place = TestFolder::new();
    let text = two_nulls("a").replace("packets: 4095", "packets: 200000, megabytes: 16");
    place.write("node.yaml", text);
    place.run(&["run", "node.yaml"]).refused(&["weft: ", "memory"]);
}
