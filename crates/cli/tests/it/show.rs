//! `weft show` and `weft ctl` on a running node.

use crate::common::frames::{FIRST, uplink, write_pcap};
use crate::common::{Running, TestFolder, busy_node, node, wait_until};
use serde_json::Value;

/// A node that handles packets of four users all the time.
fn busy(place: &TestFolder) -> (String, Running) {
    let frames: Vec<_> = (1..=4).map(|user| (FIRST, uplink(user, 5000, &[user; 30]))).collect();
    write_pcap(&place.path("in.pcap"), &frames);
    let text = busy_node("busy", &place.path("in.pcap"));
    place.write("node.yaml", &text);
    // What flags say holds for each configuration that the node is given.
    let running = place.start(&["node.yaml", "--max-sleep", "200"]);
    (text, running)
}

fn shown(place: &TestFolder, arguments: &[&str]) -> Value {
    let arguments = [&["show"], arguments, &["--json"]].concat();
    serde_json::from_str(&place.run(&arguments).succeeded()).expect("JSON")
}

#[test]
fn a_running_node_shows_everything_it_counts() {
    let place = TestFolder::new();
    let (_, running) = busy(&place);
    wait_until("packets leave", || {
        let drops = shown(&place, &["runtime"]);
        drops["ports"][1]["tx_packets"].as_u64().expect("a number") > 1000
    });
    let runtime = place.run(&["show", "runtime"]).succeeded();
    for words in ["node busy", "packets/burst", "cycles/packet", "classify", "guard"] {
        assert!(runtime.contains(words), "no {words} in {runtime}");
    }
    let users = place.run(&["show", "users", "--first", "1", "--count", "2"]).succeeded();
    let names: Vec<_> = users.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["user", "ue-1", "ue-2"]);
    let user = shown(&place, &["users", "ue-2"]);
    assert_eq!(user["keys"][0], "10.0.0.3%default");
    let one = place.run(&["show", "users", "ue-2"]).succeeded();
    assert!(one.contains("chain=full") && one.contains("packets"), "{one}");
    let paths = place.run(&["show", "paths"]).succeeded();
    assert!(paths.contains("count -> guard -> core"), "{paths}");
    let ports = place.run(&["show", "ports"]).succeeded();
    assert!(ports.contains("net_pcap0") && ports.contains("up"), "{ports}");
    place.run(&["show", "drops"]).succeeded();
    for name in ["ue", "ue-9"] {
        let said = format!("weft: no user {name} (users are `ue-0` to `ue-3`)");
        place.run(&["show", "users", name]).refused(&[&said]);
        place.run(&["trace", "--user", name]).refused(&[&said]);
    }
    place.run(&["show", "users", "eu"]).refused(&["weft: no user eu\n"]);
    running.stop().succeeded();
}

#[test]
fn what_is_shown_can_be_watched() {
    let place = TestFolder::new();
    let (_, running) = busy(&place);
    // The first line comes at once, the next ones after a pause each.
    let mut watching = Running::start(place.weft(&["show", "runtime", "--watch=0.2", "--json"]));
    let mut lines = vec![watching.ready.clone()];
    lines.extend((0..2).map(|_| watching.line()));
    let uptime = |line: &String| {
        let snapshot: Value = serde_json::from_str(line).expect("JSON in one line");
        snapshot["uptime"].as_u64().expect("a number")
    };
    assert!(lines.windows(2).all(|pair| uptime(&pair[0]) < uptime(&pair[1])), "{lines:?}");
    // A table again and again, with an empty line between where it is no terminal.
    let mut watching = Running::start(place.weft(&["show", "drops", "--watch"]));
    let head = watching.ready.clone();
    assert!(!head.contains('\x1b'), "{head:?}");
    while !watching.line().is_empty() {}
    assert_eq!(watching.line(), head);
    // It ends with its node.
    running.stop().succeeded();
    let ended = watching.ended();
    assert!(matches!(ended.code, Some(1 | 2)) && ended.err.starts_with("weft: "), "{ended:?}");
    place.run(&["show", "events", "--watch"]).refused(&["weft: "]);
    place.run(&["show", "drops", "--watch=0"]).refused(&["weft: ", "0.1"]);
}

#[test]
fn which_node_is_meant_must_be_clear() {
    let place = TestFolder::new();
    place.run(&["show", "ports"]).refused(&["weft: no node is running here"]);
    place.run(&["show", "ports", "--node", "a"]).refused(&["weft: no node named a is running"]);
    let nodes: Vec<_> = ["a", "b"]
        .map(|name| {
            let file = format!("{name}.yaml");
            place.write(&file, node(name, "net_null0,no-rx=1", "net_null1,no-rx=1"));
            place.start(&[&file])
        })
        .into();
    place.run(&["show", "ports"]).refused(&["weft: several nodes", "a, b"]);
    assert_eq!(shown(&place, &["ports", "--node", "b"])["node"], "b");
    for node in nodes {
        node.stop().succeeded();
    }
}

#[test]
fn a_configuration_is_applied_whole_while_traffic_runs() {
    let place = TestFolder::new();
    let (text, running) = busy(&place);
    let new = text
        .replace("count -> guard\n", "count -> idle -> guard\n")
        .replace("  count: {", "  idle: {function: pass}\n  count: {")
        .replace("count: 4, match", "count: 3, match");
    place.write("new.yaml", &new);
    let applied = place.run(&["ctl", "apply", "new.yaml"]).succeeded();
    assert_eq!(applied, "applied: functions kept 2, new 1; users before 4, now 3\n");
    wait_until("the new function gets packets", || {
        let functions = shown(&place, &["runtime"])["functions"].clone();
        functions[0]["name"] == "idle" && functions[0]["packets"].as_u64() > Some(0)
    });
    wait_until("the user that left is unknown", || {
        let drops = shown(&place, &["drops"])["drops"].clone();
        drops.as_array().expect("a list").iter().any(|drop| drop["reason"] == "unknown_user")
    });
    running.stop().succeeded();
}

#[test]
fn a_configuration_that_cannot_be_applied_changes_nothing() {
    let place = TestFolder::new();
    let (text, running) = busy(&place);
    place.write("bad.yaml", text.replace("-> guard\n", "-> gard\n"));
    let line = 1 + text.lines().position(|line| line.contains("chain full =")).expect("a chain");
    let words = [&*format!("bad.yaml:{line}:"), "gard", "guard"];
    place.run(&["ctl", "apply", "bad.yaml"]).refused(&words);
    place.write("ports.yaml", text.replace("net_null1", "net_null2"));
    place.run(&["ctl", "apply", "ports.yaml"]).refused(&["weft: ports cannot be changed"]);
    place.run(&["ctl", "apply", "no.yaml"]).refused(&["no.yaml:1:1: "]);
    let paths = place.run(&["show", "paths"]).succeeded();
    assert!(paths.contains("count -> guard -> core"), "{paths}");
    running.stop().succeeded();
}

#[test]
fn a_worker_says_whether_fused_functions_run_fused_and_why() {
    let place = TestFolder::new();
    let (text, running) = busy(&place);
    let fused = format!("composition: fused\n{text}");
    place.write("fused.yaml", &fused);
    place.run(&["ctl", "apply", "fused.yaml"]).succeeded();
    let choice = || shown(&place, &["runtime"])["functions"][0]["fused"].clone();
    wait_until("the worker has measured both", || choice()["workers"][0].is_object());
    let chosen = choice();
    assert_eq!(chosen["functions"], serde_json::json!(["count", "guard"]));
    let cycles = |name: &str| chosen["workers"][0][name].as_f64().expect("a number");
    assert!(cycles("fusedCycles") > 0.0 && cycles("calledCycles") > 0.0);
    let runtime = place.run(&["show", "runtime"]).succeeded();
    assert!(runtime.contains("count -> guard") && runtime.contains("packet fused, "), "{runtime}");
    // What is always to run fused is not measured.
    place.write("always.yaml", format!("fused: always\n{fused}"));
    place.run(&["ctl", "apply", "always.yaml"]).succeeded();
    wait_until("the worker is told", || choice()["always"] == true);
    let runtime = place.run(&["show", "runtime"]).succeeded();
    assert!(runtime.contains("fused: always"), "{runtime}");
    running.stop().succeeded();
}
