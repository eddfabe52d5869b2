//! `weft replay`: captures in, captures and counters out.

use crate::common::frames::{
    FIRST, Frame, downlink, read_pcap, read_pcapng, uplink, write_pcap, write_pcapng,
};
use crate::common::{TestFolder, node};

const MILLISECOND: u64 = 1_000_000;

/// A folder with a node and captures of what comes in at its ports.
fn place(access: &[Frame], core: &[Frame]) -> TestFolder {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_null0", "net_null1"));
    write_pcap(&place.path("access.pcap"), access);
    write_pcap(&place.path("core.pcap"), core);
    place
}

/// Frames `apart` nanoseconds from each other.
fn spaced(frames: impl IntoIterator<Item = Vec<u8>>, first: u64, apart: u64) -> Vec<Frame> {
    let numbered = frames.into_iter().zip(0..);
    numbered.map(|(frame, number): (_, u64)| (first + number * apart, frame)).collect()
}

/// The frame as a router sends it on to `core`, or else to `access`.
fn routed(mut frame: Vec<u8>, to_core: bool) -> Vec<u8> {
    let (node, neighbour) = if to_core { (2, 2) } else { (1, 1) };
    frame[..6].copy_from_slice(&[2, 0, 0, 0, neighbour, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, node]);
    let mut ip = weft_wire::ipv4::Packet::new_checked(&mut frame[14..]).expect("it is IPv4");
    assert!(ip.decrement_time_to_live());
    frame
}

#[test]
fn packets_leave_in_order_at_their_own_times() {
    let up = spaced((0..50).map(|n| uplink(1 + n % 4, 5000, &[n; 20])), FIRST, MILLISECOND);
    let down = spaced((0..50).map(|n| downlink(1 + n % 4, 5000, &[n; 20])), FIRST + 7, MILLISECOND);
    let place = place(&up, &down);
    // Microseconds are all that the captures tell.
    let down: Vec<_> = down.into_iter().map(|(time, frame)| (time - 7, frame)).collect();
    let out = place.run(&[
        "replay",
        "node.yaml",
        "--in",
        "access=access.pcap",
        "--in",
        "core=core.pcap",
        "--out",
        "core=up.pcap",
        "--out",
        "access=down.pcapng",
        "--counters",
        "counters.json",
    ]);
    let out = out.succeeded();
    assert!(out.starts_with("100 packets in "), "{out}");
    let expected = |frames: &[Frame], to_core| {
        let frames = frames.iter();
        frames.map(|(time, frame)| (*time, routed(frame.clone(), to_core))).collect::<Vec<_>>()
    };
    assert_eq!(read_pcap(&place.path("up.pcap")), expected(&up, true));
    let (names, frames): (Vec<_>, Vec<_>) =
        read_pcapng(&place.path("down.pcapng")).into_iter().unzip();
    assert!(names.iter().all(|name| name == "access"));
    assert_eq!(frames, expected(&down, false));

    let counters: serde_json::Value =
        serde_json::from_str(&place.read("counters.json")).expect("JSON");
    assert_eq!(counters["ports"]["access"]["rx_packets"], 50);
    assert_eq!(counters["ports"]["access"]["tx_packets"], 50);
    assert_eq!(counters["ports"]["core"]["tx_bytes"], 50 * 62);
    assert_eq!(counters["functions"]["count"]["packets"], 100);
    assert_eq!(counters["drops"], serde_json::json!({}));
}

#[test]
fn what_is_dropped_is_counted_by_reason_and_function() {
    let frames = [uplink(1, 9, &[0; 20]), uplink(99, 5000, &[0; 20]), vec![0; 10]];
    let place = place(&spaced(frames, FIRST, MILLISECOND), &[]);
    let arguments =
        ["replay", "node.yaml", "--in", "access=access.pcap", "--counters", "counters.json"];
    let out = place.run(&arguments).succeeded();
    assert!(out.contains("unknown_user") && out.contains("function guard"), "{out}");
    let counters: serde_json::Value =
        serde_json::from_str(&place.read("counters.json")).expect("JSON");
    let drops = counters["functions"]["guard"]["drops"].as_object().expect("an object");
    assert_eq!(drops.values().collect::<Vec<_>>(), [1]);
    assert_eq!(counters["drops"], serde_json::json!({"ethernet_malformed": 1, "unknown_user": 1}));
}

#[test]
fn two_replays_are_alike_to_the_last_byte() {
    let up = spaced((0..200).map(|n| uplink(1 + n % 6, 5000, &[n; 30])), FIRST, 10_000);
    let place = place(&up, &[]);
    let results = ["1", "2"].map(|run| {
        let (out, counters) = (format!("out{run}.pcapng"), format!("counters{run}.json"));
        let output = format!("core={out}");
        let ended = place.run(&[
            "replay",
            "node.yaml",
            "--in",
            "access=access.pcap",
            "--out",
            &output,
            "--counters",
            &counters,
        ]);
        ended.succeeded();
        (std::fs::read(place.path(&out)).expect("it was written"), place.read(&counters))
    });
    assert!(results[0] == results[1]);
}

#[test]
fn times_of_any_resolution_are_understood() {
    let frames = spaced((0..5).map(|n| uplink(1, 5000, &[n; 20])), FIRST, 500 * MILLISECOND);
    let place = place(&[], &[]);
    // Half seconds are whole in powers of 2.
    write_pcapng(&place.path("access.pcapng"), 10, &frames);
    let ended = place.run(&[
        "replay",
        "node.yaml",
        "--in",
        "access=access.pcapng",
        "--out",
        "core=out.pcap",
    ]);
    ended.succeeded();
    let times = |frames: &[Frame]| frames.iter().map(|(time, _)| *time).collect::<Vec<_>>();
    assert_eq!(times(&read_pcap(&place.path("out.pcap"))), times(&frames));
}

#[test]
fn a_pause_in_the_capture_is_time_for_what_waits() {
    let frames = spaced((0..2).map(|n| uplink(1, 5000, &[n; 20])), FIRST, 60_000 * MILLISECOND);
    let place = place(&frames, &[]);
    // Next hops are asked for, and no host answers.
    let text =
        node("a", "net_null0", "net_null1").replace("    nextHopMac: 02:00:00:00:02:01\n", "");
    place.write("node.yaml", text);
    let ended = place.run(&[
        "replay",
        "node.yaml",
        "--in",
        "access=access.pcap",
        "--out",
        "core=out.pcap",
        "--counters",
        "counters.json",
    ]);
    ended.succeeded();
    let counters: serde_json::Value =
        serde_json::from_str(&place.read("counters.json")).expect("JSON");
    assert_eq!(counters["drops"], serde_json::json!({"neighbour_unreachable": 2}));
    let asked = read_pcap(&place.path("out.pcap"));
    assert!(asked.len() >= 2 && asked.iter().all(|(_, frame)| frame[12..14] == [8, 6]));
    let last = asked.last().expect("there are some").0;
    assert!(asked[0].0 == FIRST && last > FIRST + 60_000 * MILLISECOND, "{asked:?}");
}

#[test]
fn what_cannot_be_replayed_is_told_in_one_line() {
    let large = spaced([uplink(1, 5000, &[0; 20]), uplink(1, 5000, &[0; 3000])], FIRST, 1);
    let place = place(&large, &[]);
    let replay = |arguments: &[&str]| place.run(&[&["replay", "node.yaml"], arguments].concat());
    replay(&["--in", "access=access.pcap"]).refused(&["access.pcap: packet 2: ", "3042", "2048"]);
    replay(&["--in", "acces=core.pcap"]).refused(&["no port acces", "access, core"]);
    replay(&["--in", "access=no.pcap"]).refused(&["no.pcap: "]);
    replay(&["--in", "access=core.pcap", "--out", "core=out.txt"]).refused(&["out.txt", ".pcapng"]);
    replay(&["--in", "access=core.pcap", "--out", "core=no/out.pcap"]).refused(&["no/out.pcap"]);
    let twice = ["--in", "access=core.pcap", "--out", "core=a.pcap", "--out", "core=b.pcap"];
    replay(&twice).refused(&["core", "twice"]);
    for (name, bytes) in [("empty", vec![]), ("text", b"a text, not a capture".to_vec())] {
        place.write(name, bytes);
        replay(&["--in", &format!("access={name}")]).refused(&[name, "not a pcap or pcapng file"]);
    }
    let whole = std::fs::read(place.path("access.pcap")).expect("it is there");
    place.write("cut.pcap", &whole[..60]);
    replay(&["--in", "access=cut.pcap"]).refused(&["cut.pcap: packet 1: ", "ends within"]);
}
