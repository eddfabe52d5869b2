use super::{Directions, Profile, Tunnels};

const EXAMPLE: &str = include_str!("../../../../examples/smf.yaml");

/// What is said of the example with one text in the place of another.
fn said(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    let text = EXAMPLE.replacen(from, to, 1);
    Profile::read(&text, "p.yaml").map(|_| String::new()).unwrap_or_else(|wrong| wrong.to_string())
}

#[test]
fn the_example_says_what_it_means() {
    let profile = Profile::read(EXAMPLE, "p.yaml").unwrap();
    assert_eq!(profile.rules.pdrs.len(), 2);
    assert_eq!(profile.rules.tunnels(), 1);
    assert_eq!(profile.sessions.tunnels, Tunnels::Choose { ipv4: true });
    assert_eq!(profile.sessions.stations.len(), 2);
    assert_eq!(profile.load.unwrap().weights, [1, 1, 1, 1, 2, 1]);
    let mbr = Directions { uplink: 20_000, downlink: 100_000 };
    assert_eq!(profile.rules.qers[0].mbr, Some(mbr));
}

#[test]
fn rules_are_there_without_being_written() {
    let text = "{apiVersion: weft/v1, kind: ControlPlane, metadata: {name: t}, local: '::2',
        userPlane: '::1', sessions: {count: 3, ipv6: '2001:db8::/64', stations: ['2001:db8:1::1'],
        tunnels: {given: {address: '2001:db8:2::1', firstTeid: 7}}}}";
    let profile = Profile::read(text, "t").unwrap_or_else(|wrong| panic!("{wrong}"));
    let rules = &profile.rules;
    let counts = [rules.pdrs.len(), rules.fars.len(), rules.qers.len(), rules.urrs.len()];
    assert_eq!(counts, [2, 2, 1, 1]);
    assert!(!profile.sessions.tunnels.is_ipv4());
}

#[test]
fn mistakes_are_told_at_their_places() {
    for (from, to, what) in [
        ("count: 1000", "count: 0", "a number from 1"),
        ("ipv4: 10.45.0.1", "ipv4: 255.255.255.255", "there are not so many addresses"),
        ("far: 2", "far: 7", "no rule has the id 7"),
        ("qers: [1]", "qers: [3]", "no rule has the id 3"),
        ("local: 127.0.0.2", "local: '::1'", "addresses of one family"),
        ("id: 2", "id: 1", "another rule of this kind has the id 1"),
        ("kind: ControlPlane", "kind: Profile", "the kind of a controlplane"),
        ("outstanding:", "outstandin:", "is not known here"),
    ] {
        let said = said(from, to);
        assert!(said.contains(what) && said.starts_with("p.yaml:"), "{to}: {said}");
    }
}

#[test]
fn the_schema_accepts_the_example() {
    let example: serde_json::Value = serde_json::to_value(example_value()).unwrap();
    let validator = jsonschema::validator_for(&Profile::schema()).unwrap();
    let wrong: Vec<_> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn example_value() -> serde_json::Value {
    serde_yaml_ng::from_str(EXAMPLE).unwrap()
}
