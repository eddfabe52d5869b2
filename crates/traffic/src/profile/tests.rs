use serde::Deserialize;
use weft_yaml::document::Node;

use super::Profile;
use crate::load::{Arrivals, Rate};
use crate::sizes::Sizes;

const EXAMPLE: &str = include_str!("../../../../examples/profile.yaml");

/// What is said of the example with one text in the place of another.
fn said(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    let text = EXAMPLE.replacen(from, to, 1);
    Profile::read(&text, "p.yaml").map(|_| String::new()).unwrap_or_else(|wrong| wrong.to_string())
}

#[test]
fn the_example_says_what_it_means() {
    let profile = Profile::read(EXAMPLE, "p.yaml").unwrap();
    assert_eq!((profile.ports.len(), profile.wires.len()), (4, 1));
    let source = &profile.sources[0];
    assert_eq!((source.from, source.to), (0, Some(3)));
    assert_eq!((source.load.rate, source.load.arrivals), (Rate::Packets(5e4), Arrivals::Poisson));
    let [subscribers, meters] = [0, 1].map(|nth| &source.load.shares[nth]);
    assert_eq!((subscribers.weight, meters.weight), (3, 1));
    assert_eq!((subscribers.template.stream, meters.template.stream), (1, 2));
    assert_eq!(meters.template.sizes, Sizes::Fixed(60));
    assert_eq!(source.streams[1].arriving.bearers, 2);
}

#[test]
fn every_kind_of_value_is_read() {
    let source = |from: &str, to: &str| {
        let text = EXAMPLE.replacen(from, to, 1);
        Profile::read(&text, "p.yaml").unwrap_or_else(|wrong| panic!("{wrong}")).sources.remove(0)
    };
    let link = source("{packets: 50000}", "{link: {speed: 10 Gbit/s, share: 0.5}}").load.rate;
    assert_eq!(link, Rate::Link { bits: 10_000_000_000, share: 0.5 });
    assert_eq!(source("{packets: 50000}", "unlimited").load.rate, Rate::Unlimited);
    assert_eq!(source("poisson", "{burst: 32}").load.arrivals, Arrivals::Burst(32));
    let sweep = source("imix", "{sweep: {from: 60, to: 100}}").load.shares.remove(0);
    assert_eq!(sweep.template.sizes, Sizes::Sweep { from: 60, to: 100, step: 1 });
}

#[test]
fn tunnels_are_read_and_their_mistakes_told() {
    use crate::encapsulation::Encapsulation;
    let with = |text: &str| {
        let line = format!("name: meters\n        encapsulation: {text}");
        Profile::read(
            &EXAMPLE.replace("name: meters", &line).replace("fixed: 60", "fixed: 200"),
            "p",
        )
    };
    let gtpu = "{gtpu: {source: 192.0.2.8, destination: 192.0.2.9, firstTeid: 1, qfi: 9}}";
    for (text, is_gtpu) in [(gtpu, true), ("{nsh: {path: 7}}", false)] {
        let profile = with(text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let encapsulation = profile.sources[0].load.shares[1].template.encapsulation;
        assert_eq!(matches!(encapsulation, Encapsulation::Gtpu { .. }), is_gtpu);
        assert_eq!(matches!(encapsulation, Encapsulation::Nsh { .. }), !is_gtpu);
    }
    for (text, said) in [
        (gtpu.replace("firstTeid: 1", "firstTeid: 0"), "from 1 to 4294967276 is expected, not 0"),
        (gtpu.replace("qfi: 9", "qfi: 64"), "from 0 to 63 is expected, not 64"),
        (gtpu.replace("192.0.2.9", "2001:db8::9"), "of one family"),
        ("{nsh: {path: 16777216}}".to_owned(), "from 0 to 16777215"),
    ] {
        let wrong = with(&text).unwrap_err().to_string();
        assert!(wrong.contains(said), "{wrong}");
    }
}

#[test]
fn mistakes_stand_at_their_place() {
    for (from, to, line) in [
        ("kind: Profile", "kind: Node", "the kind of a profile is `Profile`, not `Node`"),
        ("to: receiver", "to: reciever", "no port `reciever` (did you mean `receiver`?)"),
        ("poisson", "poison", "`poison` is not known here (did you mean `poisson`?)"),
        ("{packets: 50000}", "{packets: -1}", "from 0.001 to 1000000000 is expected, not -1"),
        ("{zipf: 1.0}", "{zipf: 100}", "from 0 to 10 is expected, not 100"),
        ("{fixed: 60}", "{fixed: 59}", "a frame of this stream has 60 to 2048 bytes"),
        ("{fixed: 60}", "{capture: none.pcap}", "cannot read the capture `none.pcap`"),
        ("peer: 192.0.2.1", "peer: 2001:db8::1", "not of one family"),
        ("users: 1000", "users: 1000\n        usres: 1", "`usres` is not known here"),
        ("loss: 0.001", "loss: 1.5", "from 0 to 1 is expected, not 1.5"),
        ("duration: 5", "duration: .nan", "duration"),
        ("bearers: 2", "bearers: 65", "from 1 to 64 is expected, not 65"),
        ("bearers: 2", "bearers: 2\n        watch: [20]", "from 0 to 19 is expected, not 20"),
    ] {
        let wrong = said(from, to);
        let place = EXAMPLE.split(from).next().unwrap().lines().count();
        let told = wrong.strip_prefix("p.yaml:").and_then(|rest| rest.split(':').next());
        let told: usize =
            told.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{wrong}"));
        assert!(told.abs_diff(place) <= 1 && told >= place, "{place}: {wrong}");
        assert!(wrong.contains(line) || line == "duration", "{wrong}");
    }
}

#[test]
fn the_example_is_valid_by_the_schema_and_mistakes_are_not() {
    let validator = jsonschema::validator_for(&Profile::schema()).unwrap();
    let valid = |text: &str| {
        let document = Node::parse(text, &mut Vec::new()).unwrap();
        let value = serde_json::Value::deserialize(&document).unwrap();
        validator.is_valid(&value)
    };
    assert!(valid(EXAMPLE));
    for (from, to) in [
        ("kind: Profile", "kind: Node"),
        ("poisson", "poison"),
        ("poisson", "{burst: many}"),
        ("weight: 3", "weigth: 3"),
        ("{packets: 50000}", "{packet: 50000}"),
        ("10.0.0.1", "home"),
    ] {
        assert!(!valid(&EXAMPLE.replacen(from, to, 1)), "{to}");
    }
}
