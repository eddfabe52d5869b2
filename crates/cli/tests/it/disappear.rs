//! A port that disappears while its node runs.

use std::process::Command;

use crate::common::{Running, TestFolder, node, skipped};

/// Makes a pair of interfaces in a network namespace of its own, runs the
/// program there, and removes the interfaces when a file appears.
const SCRIPT: &str = r#"
ip link add one type veth peer name two && ip link set one up && ip link set two up || exit 77
"$0" run node.yaml &
node=$!
trap 'kill -s TERM $node' TERM
until [ -e remove ]; do sleep 0.05; done
ip link del one
wait $node || wait $node
"#;

#[test]
fn the_node_says_so_and_goes_on() {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_af_packet0,iface=one", "net_null1,no-rx=1"));
    let mut unshare = vec!["--net"];
    if !Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n") {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let possible = Command::new("unshare").args(&unshare).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return skipped("disappear", "network namespaces cannot be made here");
    }
    let program = place.weft(&[]);
    let mut command = Command::new("unshare");
    command.args(&unshare).args(["sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_weft")]);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(place.path(""));
    let mut running = Running::start(command);
    place.write("remove", "");
    running.wait_for("the device is gone");
    let ports = place.run(&["show", "ports"]).succeeded();
    let access = ports.lines().find(|line| line.starts_with("access")).expect("it has a line");
    assert!(access.contains("gone"), "{ports}");
    running.stop().succeeded();
}
