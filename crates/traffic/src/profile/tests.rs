use serde::Deserialize;
use weft_yaml::document::Node;

use super::Profile;
use crate::source::load::{Arrivals, Rate};
use crate::template::sizes::Sizes;

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
    use crate::template::encapsulation::Encapsulation;
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

/// Two packets, the second longer, captured whole or cut.
fn capture(name: &str, cut: u32) -> String {
    let path = std::env::temp_dir().join(format!("weft-profile-{}-{name}", std::process::id()));
    let mut bytes = Vec::new();
    let word = |bytes: &mut Vec<u8>, word: u32| bytes.extend(word.to_le_bytes());
    // Version 2.4, microseconds, Ethernet.
    [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1].iter().for_each(|one| word(&mut bytes, *one));
    for length in [60, 90] {
        [1, 0, length - cut, length].iter().for_each(|one| word(&mut bytes, *one));
        bytes.extend((0..length - cut).map(|at| at as u8));
    }
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn captures_are_read_whole() {
    let (whole, cut) = (capture("whole.pcap", 0), capture("cut.pcap", 10));
    let with = |keys: &str| {
        let captures = format!("arrivals: poisson\n    captures: [{{name: c, {keys}}}]");
        Profile::read(&EXAMPLE.replacen("arrivals: poisson", &captures, 1), "p")
    };
    let profile = with(&format!("file: {whole}, weight: 2")).unwrap();
    let source = &profile.sources[0];
    let captured = &source.load.captured[0];
    assert_eq!((captured.stream, captured.weight, captured.packets.packets().0), (3, 2, 2));
    let names: Vec<_> = source.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!((names[2], source.streams[2].arriving.stream), ("c", 3));
    for (keys, said) in [
        (format!("file: {cut}"), "packet 1: it was cut as it was captured, 50 of 60 bytes"),
        ("file: none.pcap".to_owned(), "cannot send the capture `none.pcap`: No such file"),
        ("file: Cargo.toml".to_owned(), "not a pcap or pcapng file"),
        (format!("file: {whole}, weight: 0"), "from 1 to 1000 is expected, not 0"),
        (format!("file: {whole}, stamp: no"), "did you mean `stamps`?"),
    ] {
        let wrong = with(&keys).unwrap_err().to_string();
        assert!(wrong.contains(said) && wrong.lines().count() == 1, "{wrong}");
    }
    // The lengths of packets are those they had, however they were cut.
    let sizes = |file: &str| {
        let text = EXAMPLE.replacen("{fixed: 60}", &format!("{{capture: {file}}}"), 1);
        Profile::read(&text, "p").unwrap().sources[0].load.shares[1].template.sizes.clone()
    };
    assert_eq!((sizes(&whole), sizes(&cut)), (Sizes::Listed(vec![60, 90]), sizes(&whole)));
    [whole, cut].iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

#[test]
fn a_source_of_captures_needs_no_streams() {
    let file = capture("alone.pcap", 0);
    let at = EXAMPLE.find("    streams:").unwrap();
    let end = EXAMPLE.find("wires:").unwrap();
    let text = |captures: &str| format!("{}{captures}\n{}", &EXAMPLE[..at], &EXAMPLE[end..]);
    let one = text(&format!("    captures: [{{name: c, file: {file}}}]"));
    assert_eq!(Profile::read(&one, "p").unwrap().sources[0].streams.len(), 1);
    let none = Profile::read(&text(""), "p").unwrap_err().to_string();
    assert!(none.contains("a source has 1 to 1000 streams"), "{none}");
    std::fs::remove_file(file).unwrap();
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
