//! What needs no node: usage, check, schema.

mod common;

use common::{Place, node};

#[test]
fn a_wrong_command_line_is_told_in_one_line() {
    let place = Place::new();
    place.run(&["rum"]).refused(&["weft: ", "rum", "run"]);
    place.run(&["run"]).refused(&["weft: ", "NODE.yaml"]);
    place.run(&["run", "x.yaml", "--cores", "2-"]).refused(&["weft: ", "2-"]);
    place.run(&["replay", "x.yaml", "--in", "access"]).refused(&["weft: ", "PORT=FILE"]);
    place.run(&["show", "users", "ue-1", "--count", "3"]).refused(&["weft: "]);
}

#[test]
fn help_lists_the_commands() {
    let help = Place::new().run(&["--help"]).succeeded();
    for command in
        ["run", "check", "replay", "show", "trace", "capture", "ctl", "compare", "schema"]
    {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{help}");
    }
}

#[test]
fn check_prints_the_paths() {
    let place = Place::new();
    place.write("node.yaml", node("a", "net_null0", "net_null1"));
    let paths = place.run(&["check", "node.yaml"]).succeeded();
    assert!(paths.contains("-> count -> guard -> core"), "{paths}");
    assert!(paths.contains("-> count -> guard -> access"), "{paths}");
}

#[test]
fn check_names_line_and_column_of_a_mistake() {
    let place = Place::new();
    let right = node("a", "net_null0", "net_null1");
    for (word, wrong, hint) in [
        ("counter", "conter", "counter"),
        ("direction: uplink", "direction: up", "uplink"),
        ("from access -> full", "from acess -> full", "access"),
    ] {
        let text = right.replacen(word, wrong, 1);
        let line = 1 + text.lines().position(|line| line.contains(wrong)).expect("it is there");
        place.write("node.yaml", &text);
        let ended = place.run(&["check", "node.yaml"]);
        assert_eq!(ended.out, "");
        ended.refused(&[&format!("node.yaml:{line}:"), hint]);
    }
}

#[test]
fn a_configuration_that_is_not_there_is_a_mistake_of_the_file() {
    Place::new().run(&["check", "no.yaml"]).refused(&["no.yaml:1:1: "]);
    Place::new().run(&["run", "no.yaml"]).refused(&["no.yaml:1:1: "]);
}

#[test]
fn schemas_are_json_and_name_the_functions() {
    let place = Place::new();
    let schema: serde_json::Value =
        serde_json::from_str(&place.run(&["schema"]).succeeded()).expect("JSON");
    assert!(schema["properties"]["ports"].is_object());
    let list = place.run(&["schema", "functions"]).succeeded();
    let names: Vec<_> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"counter") && names.contains(&"marker"), "{names:?}");
    for name in names {
        let schema = place.run(&["schema", "function", name]).succeeded();
        let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
        assert_eq!(schema["function"], name);
        assert!(schema["config"]["$schema"].is_string(), "{schema}");
    }
    place.run(&["schema", "function", "nothing"]).refused(&["nothing", "counter"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let mut command = place.weft(&["schema"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command.stdout(writer).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}
