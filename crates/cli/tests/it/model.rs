//! `weft model`: predictions, sweeps, plans.

use std::path::Path;

use crate::common::TestFolder;

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.display().to_string()
}

#[test]
fn a_bottleneck_is_named_and_set_beside_what_was_measured() {
    let place = TestFolder::new();
    let told = place.run(&["model", &example("model-sr-iov.yaml")]).succeeded();
    assert!(told.contains("limited by PCIe bus"), "{told}");
    assert!(told.contains("50.00 million/s (4 per packet: n)"), "{told}");
    assert!(told.contains("62.50 million/s by the paper's formula"), "{told}");
    assert!(told.contains("Bauer et al., table I"), "{told}");
    let sized = ["model", &example("model-sr-iov.yaml"), "--length", "1", "--size", "1518"];
    let told = place.run(&sized).succeeded();
    assert!(told.contains("812.744 kpps"), "{told}");
}

#[test]
fn a_load_is_turned_into_cores() {
    let place = TestFolder::new();
    let file = example("model-compound.yaml");
    let told = place.run(&["model", &file, "--load", "3 Mpps"]).succeeded();
    assert!(told.contains("for 3.000 Mpps: 3 worker cores carry 4.073 Mpps"), "{told}");
    let told = place.run(&["model", &file, "--load", "20 Gbit/s"]).succeeded();
    assert!(told.contains("no number of cores will do; 4 carry 5.431 Mpps"), "{told}");
}

#[test]
fn a_sweep_leaves_results_and_plots() {
    let place = TestFolder::new();
    let file = example("model-software-links.yaml");
    let told = place.run(&["model", &file, "--sweep", "length", "--out", "found"]).succeeded();
    assert!(told.contains("report: found/report.html"), "{told}");
    let results = place.read("found/model-software-links-length/results.json");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    assert_eq!(results["schema"], "weft/results/v1");
    let points = results["series"][0]["points"].as_array().expect("points");
    let rates: Vec<f64> = points.iter().filter_map(|point| point["mean"].as_f64()).collect();
    assert_eq!(rates.len(), 5);
    assert!(rates.windows(2).all(|pair| pair[0] > pair[1]), "{rates:?}");
    for plot in ["rate", "bits", "bus", "bus-load", "cycles"] {
        let svg = place.read(&format!("found/model-software-links-length/{plot}.svg"));
        assert!(svg.starts_with("<svg") && svg.contains("softwareLinks"), "{plot}");
    }
    let csv = place.read("found/model-software-links-length/results.csv");
    assert!(csv.lines().count() > 5 * 2 * 2);
    place.run(&["model", &file, "--out", "found"]).succeeded();
    assert!(place.read("found/report.html").contains("Model: software-links by length"));
}

#[test]
fn a_plan_stands_in_the_configuration_of_a_node() {
    let place = TestFolder::new();
    let file = example("model-gateway.yaml");
    let told = place.run(&["model", "plan", &file]).succeeded();
    assert!(told.contains("gateway: 4 of 5 nodes"), "{told}");
    let yaml = place.run(&["model", "plan", &file, "--yaml"]).succeeded();
    // The blocks of the third node, as they are printed.
    let third = yaml.split("  - name: ").nth(3).expect("three nodes have users");
    let workers = third.lines().find(|line| line.starts_with("    workers:")).expect("workers");
    let users = third.lines().filter(|line| line.starts_with("      - {"));
    let users: Vec<&str> = users.map(str::trim).collect();
    let text = format!(
        "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: edge}}\n{}\nports:\n  \
         access: {{device: net_null0, direction: uplink}}\n  \
         core: {{device: net_null1, direction: downlink}}\n\
         functions:\n  count: {{function: counter}}\nusers:\n  {}\nrules: |\n  \
         chain full = count\n  from access when chain == full -> full\n  from full -> core\n",
        workers.trim(),
        users.join("\n  "),
    );
    place.write("node.yaml", text);
    let paths = place.run(&["check", "node.yaml"]).succeeded();
    assert!(paths.contains("count"), "{paths}");
}

#[test]
fn users_without_room_are_told_and_the_exit_code_says_so() {
    let place = TestFolder::new();
    let text = std::fs::read_to_string(example("model-gateway.yaml")).expect("it is there");
    place.write("full.yaml", text.replace("count: 4", "count: 1"));
    let ended = place.run(&["model", "plan", "full.yaml"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.out.contains("centre"), "{ended:?}");
    assert_eq!(
        ended.err.trim_end(),
        "weft: no room for 2518 of homes; 2 more nodes like edge would carry them"
    );
}

#[test]
fn what_is_wrong_is_one_line() {
    let place = TestFolder::new();
    place.run(&["model"]).refused(&["weft: ", "MODEL.yaml"]);
    place.run(&["model", "no.yaml"]).refused(&["no.yaml:1:1: "]);
    let file = example("model-sr-iov.yaml");
    place.run(&["model", &file, "--size", "3"]).refused(&["weft: ", "64 and 9216"]);
    place.run(&["model", &file, "--load", "3x"]).refused(&["weft: ", "20 Gbit/s"]);
    place.run(&["model", "plan", &file]).refused(&["weft: ", "has no `plan`"]);
    place.write("wrong.yaml", "apiVersion: weft/v1\nkind: Model\nmetadata: {name: x}\n");
    let ended = place.run(&["model", "wrong.yaml"]);
    ended.refused(&["wrong.yaml:1:1: ", "hardware"]);
}

#[test]
fn machines_and_schemas_are_listed() {
    let place = TestFolder::new();
    let list = place.run(&["model", "profiles"]).succeeded();
    assert!(list.contains("xeon-e5-2640v2-x520") && list.contains("Bauer"), "{list}");
    for name in ["model", "calibration"] {
        let schema = place.run(&["schema", name]).succeeded();
        let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
        assert!(schema["properties"]["metadata"].is_object());
    }
}
