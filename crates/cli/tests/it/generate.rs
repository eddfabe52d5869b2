//! `weft generate` on memory rings: real runs, short ones.

use crate::common::TestFolder;
use serde_json::Value;

const EXAMPLE: &str = include_str!("../../../../examples/profile.yaml");

/// Runs the example with some texts replaced; returns its summary.
fn generate(place: &TestFolder, edits: &[(&str, &str)], arguments: &[&str]) -> (String, Value) {
    let text = edits.iter().fold(EXAMPLE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    place.write("profile.yaml", text);
    let common = ["generate", "profile.yaml", "--json", "out.json"];
    let printed = place.run(&[&common[..], arguments].concat()).succeeded();
    (printed, serde_json::from_str(&place.read("out.json")).expect("it is JSON"))
}

fn sum(summary: &Value, key: &str) -> u64 {
    let streams = summary["sources"][0]["streams"].as_array().expect("there are streams");
    streams.iter().map(|stream| stream["arrived"][key].as_u64().expect("it is a number")).sum()
}

#[test]
fn what_the_wire_does_is_found() {
    let place = TestFolder::new();
    for threads in [&[][..], &["--one-thread"]] {
        let arguments = [&["--duration", "0.5", "--rate", "20000"], threads].concat();
        // Enough for a machine that sends few.
        let losses = [("loss: 0.001", "loss: 0.02")];
        let (printed, summary) = generate(&place, &losses, &arguments);
        let (source, wire) = (&summary["sources"][0], &summary["wires"][0]);
        let missed = summary["missed"].as_array().expect("a list").len();
        assert_eq!(missed, 0, "{printed}");
        assert!(wire["lost"].as_u64() > Some(0), "{printed}");
        assert_eq!(wire["carried"], source["sent"]);
        for key in ["lost", "duplicated", "reordered"] {
            assert_eq!(wire[key].as_u64(), Some(sum(&summary, key)), "{key}: {printed}");
        }
        let number = |key: &str| source[key].as_u64().expect("a number");
        let unsent = number("refused") + number("no_buffer") + number("late");
        assert_eq!(number("offered"), number("sent") + unsent);
        let delay = &source["streams"][0]["arrived"]["delay"];
        assert!(delay["min"].as_u64() >= Some(99_900), "{delay}");
        assert!(summary["generator_limit"].as_f64() > Some(0.0));
        assert!(printed.contains("pacing: ") && printed.contains("generator itself reaches"));
    }
}

#[test]
fn what_arrives_is_captured() {
    let place = TestFolder::new();
    let arguments = ["--duration", "0.2", "--rate", "5000", "--capture", "out.pcap"];
    let arguments = [&arguments[..], &["--capture-packets", "100"]].concat();
    let (_, summary) = generate(&place, &[("imix", "{fixed: 100}")], &arguments);
    assert!(sum(&summary, "received") > 100);
    let bytes = std::fs::read(place.path("out.pcap")).expect("there is a capture");
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_be_bytes(), "pcap with nanoseconds");
    let (mut at, mut packets) = (24, 0);
    while at < bytes.len() {
        let length = u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        at += 16 + length as usize;
        packets += 1;
    }
    assert_eq!((at, packets), (bytes.len(), 100));
}

#[test]
fn a_port_that_forgets_needs_no_receiver() {
    let place = TestFolder::new();
    place.write(
        "null.yaml",
        "apiVersion: weft/v1\nkind: Profile\nmetadata: {name: forget}\n\
         ports: {out: {device: net_null0}}\nsources:\n  - from: out\n    rate: unlimited\n\
         \x20   streams: [{name: all, firstUser: 10.0.0.1, peer: 192.0.2.1, sizes: {fixed: 60}}]\n",
    );
    let printed = place.run(&["generate", "null.yaml", "--duration", "0.2"]).succeeded();
    assert!(printed.contains("0 unsent") && !printed.contains("pacing"), "{printed}");
}

#[test]
fn what_is_wrong_is_one_line() {
    let place = TestFolder::new();
    place.run(&["generate", "no.yaml"]).refused(&["no.yaml:1:1: "]);
    place.write("bad.yaml", EXAMPLE.replace("to: receiver", "to: reciever"));
    place.run(&["generate", "bad.yaml"]).refused(&["bad.yaml:", "did you mean `receiver`"]);
    place.write("good.yaml", EXAMPLE);
    place.run(&["generate", "good.yaml", "--rate=-1"]).refused(&["weft: ", "rate"]);
    place.run(&["generate", "good.yaml", "--capture", "no/out.pcap"]).refused(&["no/out.pcap: "]);
    place.write("core.yaml", EXAMPLE.replace("duration: 5", "duration: 5\ncores: {receiver: 999}"));
    place.run(&["generate", "core.yaml"]).refused(&["weft: core 999: "]);
    place.write("twice.yaml", EXAMPLE.replace("from: entry", "from: receiver"));
    place.run(&["generate", "twice.yaml"]).refused(&["weft: the port receiver"]);
}

#[test]
fn the_schema_is_that_of_profiles() {
    let schema = TestFolder::new().run(&["schema", "profile"]).succeeded();
    let schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    assert_eq!(schema["title"], "Profile");
}

#[test]
fn packets_of_a_capture_are_sent_whole() {
    let place = TestFolder::new();
    // What arrives of the example is a capture that can be sent.
    let arguments = ["--duration", "0.2", "--rate", "5000", "--capture", "first.pcap"];
    generate(&place, &[("imix", "{fixed: 100}")], &arguments);
    let at = EXAMPLE.find("    streams:").expect("there are streams");
    let end = EXAMPLE.find("wires:").expect("there are wires");
    let captures = "    captures: [{name: first, file: first.pcap}]\n\n";
    let profile = format!("{}{captures}{}", &EXAMPLE[..at], &EXAMPLE[end..]);
    place.write("again.yaml", &profile);
    let run =
        ["generate", "again.yaml", "--duration", "0.5", "--rate", "20000", "--json", "o.json"];
    let printed = place.run(&run).succeeded();
    let summary: Value = serde_json::from_str(&place.read("o.json")).expect("it is JSON");
    let stream = &summary["sources"][0]["streams"][0];
    assert_eq!((stream["name"].as_str(), stream["unstamped"].as_u64()), (Some("first"), Some(0)));
    assert!(stream["flows"].as_u64() > Some(50), "{printed}");
    for key in ["lost", "duplicated", "reordered"] {
        assert_eq!(summary["wires"][0][key].as_u64(), Some(sum(&summary, key)), "{key}: {printed}");
    }
    assert_eq!(stream["arrived"]["misaddressed"].as_u64(), Some(0));

    place.write("bare.yaml", profile.replace("first.pcap", "first.pcap, stamps: false"));
    let printed = place.run(&["generate", "bare.yaml", "--duration", "0.2"]).succeeded();
    assert!(printed.contains("of the packets sent have no stamp"), "{printed}");
    place.write("none.yaml", profile.replace("first.pcap", "none.pcap"));
    place.run(&["generate", "none.yaml"]).refused(&["none.yaml:", "cannot send the capture"]);
}
