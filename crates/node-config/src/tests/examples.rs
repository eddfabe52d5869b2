//! The configurations that users start from.

use std::path::Path;
use std::sync::LazyLock;

use weft_functions::KINDS;

use crate::{Blueprint, read, schema};

/// Names and texts of the examples of nodes, by name.
pub(super) static EXAMPLES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = directory.read_dir().unwrap().map(|file| file.unwrap().path());
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    let mut examples: Vec<_> =
        files.map(|file| (name(&file), std::fs::read_to_string(&file).unwrap())).collect();
    examples.retain(|(_, text)| text.contains("\nkind: Node\n"));
    examples.sort();
    examples
});

fn text(name: &str) -> &'static str {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| known == name).unwrap();
    text
}

fn plan(name: &str) -> Blueprint {
    read(text(name), name, KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn there_is_nothing_wrong_with_them() {
    for (name, _) in &*EXAMPLES {
        assert_eq!(plan(name).warnings.to_string(), "");
    }
}

#[test]
fn the_first_configuration_of_the_page_is_right() {
    let page = include_str!("../../../../docs/configuration.md");
    let text = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let blueprint = read(text, "page", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(blueprint.warnings.to_string(), "");
    assert_eq!(blueprint.users[0].count, 1000);
}

#[test]
fn they_say_what_they_mean() {
    let gateway = plan("gateway.yaml");
    assert!(gateway.ports.iter().all(|port| port.is_routed()));
    assert_eq!(gateway.users.iter().map(|user| user.count).sum::<u32>(), 1050);
    assert_eq!(gateway.classes().len(), 3);
    let wire = plan("wire.yaml");
    assert!(!wire.ports.iter().any(|port| port.is_routed()));
    for (name, users) in [("upf.yaml", 1000), ("sgw.yaml", 1000)] {
        let gateway = plan(name);
        assert!(gateway.ports.iter().all(|port| port.is_routed()), "{name}");
        assert_eq!(gateway.users.iter().map(|user| user.count).sum::<u32>(), users, "{name}");
    }
    let networks = plan("two-networks.yaml");
    assert_eq!(networks.networks, ["internet", "office"]);
    assert_eq!(networks.bearer_profiles[0].len(), 1);
}

#[test]
fn they_are_valid_by_the_schema() {
    let validator = jsonschema::validator_for(&schema(KINDS)).unwrap();
    for (name, text) in &*EXAMPLES {
        let value = super::value(text);
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{name}: {}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, [""; 0]);
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let validator = jsonschema::validator_for(&schema(KINDS)).unwrap();
    let text = text("gateway.yaml");
    for (from, to) in [
        ("kind: Node", "kind: Profile"),
        ("direction: uplink", "direction: up"),
        ("direction: uplink", "direction: uplink\n    adresses: []"),
        ("{function: counter}", "{function: countr}"),
        ("{function: counter}", "{function: counter, config: {payload: 5}}"),
        ("scope: user", "scope: usr"),
        ("committedBurst: 128 KiB", "committedBirst: 128 KiB"),
        ("10.1.0.1/24", "10.1.0.1"),
    ] {
        assert!(text.contains(from), "{from}");
        let value = super::value(&text.replacen(from, to, 1));
        assert!(!validator.is_valid(&value), "{to}");
    }
}
