//! The configurations that users start from.

use weft_functions::KINDS;

use crate::config::{Blueprint, read, schema};

/// Names and texts of the examples.
pub(super) const EXAMPLES: [(&str, &str); 3] = [
    ("gateway.yaml", include_str!("../../../../../examples/gateway.yaml")),
    ("two-networks.yaml", include_str!("../../../../../examples/two-networks.yaml")),
    ("wire.yaml", include_str!("../../../../../examples/wire.yaml")),
];

fn plan(name: &str) -> Blueprint {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == name).unwrap();
    read(text, name, KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn there_is_nothing_wrong_with_them() {
    for (name, _) in EXAMPLES {
        assert_eq!(plan(name).warnings.to_string(), "");
    }
}

#[test]
fn the_first_configuration_of_the_page_is_right() {
    let page = include_str!("../../../../../docs/configuration.md");
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
    let networks = plan("two-networks.yaml");
    assert_eq!(networks.networks, ["internet", "office"]);
    assert_eq!(networks.bearer_profiles[0].len(), 1);
}

#[test]
fn they_are_valid_by_the_schema() {
    let validator = jsonschema::validator_for(&schema(KINDS)).unwrap();
    for (name, text) in EXAMPLES {
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
    let (_, text) = EXAMPLES[0];
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
