//! `weft trace` and `weft capture` on a running node.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use crate::common::frames::{FIRST, read_pcapng, uplink, write_pcap};
use crate::common::{Killed, Running, TestFolder, busy_node, node, signal, wait_until};

/// A node that handles packets of two users all the time, one of which it
/// drops.
fn busy(place: &TestFolder) -> Running {
    let frames = [(FIRST, uplink(1, 5000, &[1; 30])), (FIRST, uplink(2, 9, &[2; 30]))];
    write_pcap(&place.path("in.pcap"), &frames);
    place.write("node.yaml", busy_node("busy", &place.path("in.pcap")));
    place.start(&["node.yaml"])
}

#[test]
fn a_trace_tells_the_way_of_each_packet() {
    let place = TestFolder::new();
    let running = busy(&place);
    let trace = place.run(&["trace", "--user", "ue-0", "--count", "3"]).succeeded();
    let heads = trace.lines().filter(|line| line.starts_with("packet ")).collect::<Vec<_>>();
    assert_eq!(heads.len(), 3, "{trace}");
    assert!(heads.iter().all(|head| head.contains("of ue-0")), "{trace}");
    let mut rest = &*trace;
    let steps = ["received at access", "to count", "from count", "to guard", "leaving at core"];
    for words in steps.into_iter().cycle().take(15) {
        let at = rest.find(words).unwrap_or_else(|| panic!("no {words} in {rest}"));
        rest = &rest[at..];
    }
    // As it comes and as it leaves.
    assert!(trace.contains("10.0.0.1 > 198.51.100.1 udp ttl 64"), "{trace}");
    assert!(trace.contains("10.0.0.1 > 198.51.100.1 udp ttl 63"), "{trace}");
    assert!(trace.contains("chain=full") && trace.contains("1000 > 5000"), "{trace}");

    let trace = place.run(&["trace", "--when", "destination-port == 9", "--count", "1"]);
    let trace = trace.succeeded();
    assert!(trace.contains("of ue-1") && trace.contains("dropped by guard"), "{trace}");

    let json = place.run(&["trace", "--port", "access", "--count", "2", "--json"]).succeeded();
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let end = lines.last().expect("there are lines");
    assert_eq!(end["end"]["packets"], 2);
    running.stop().succeeded();
}

#[test]
fn a_capture_holds_packets_as_they_are_at_a_place() {
    let place = TestFolder::new();
    let running = busy(&place);
    let capture = |at: &[&str], file: &str| {
        let arguments = [&["capture", "--count", "10", "-w", file, "--at"], at].concat();
        place.run(&arguments).succeeded();
        read_pcapng(&place.path(file))
    };
    let received = capture(&["port", "access", "rx"], "rx.pcapng");
    let sent = capture(&["port", "core", "tx"], "tx.pcapng");
    let before = capture(&["before", "guard"], "before.pcapng");
    let after = capture(&["after guard"], "after.pcapng");
    for frames in [&received, &sent, &before, &after] {
        assert_eq!(frames.len(), 10);
        assert!(frames.windows(2).all(|pair| pair[0].0 == pair[1].0));
    }
    let (first, second) = (uplink(1, 5000, &[1; 30]), uplink(2, 9, &[2; 30]));
    for frames in [&received, &before] {
        assert!(frames.iter().all(|(_, (_, frame))| *frame == first || *frame == second));
        assert!(frames.iter().any(|(_, (_, frame))| *frame == second));
    }
    // A condition holds of packets as they are at the place.
    let file = ["-w", "chosen.pcapng", "--when", "destination-port == 9"];
    let arguments = ["capture", "--count", "3", "--at", "before", "guard"];
    place.run(&[&arguments[..], &file].concat()).succeeded();
    let chosen = read_pcapng(&place.path("chosen.pcapng"));
    assert!(chosen.len() == 3 && chosen.iter().all(|(_, (_, frame))| *frame == second));
    // The filter drops the second.
    assert!(after.iter().all(|(_, (_, frame))| *frame == first));
    // A router gives a packet new addresses and takes a hop.
    for (_, (_, frame)) in &sent {
        assert_eq!(frame[..12], [2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 2]);
        assert_eq!(frame[22], 63);
    }
    running.stop().succeeded();
}

#[test]
fn a_capture_is_whole_whenever_it_is_ended() {
    let place = TestFolder::new();
    let running = busy(&place);
    for end in ["INT", "TERM", "KILL"] {
        let file = place.path(&format!("{end}.pcapng"));
        let mut capture = place.weft(&["capture", "-w", "-"]);
        let output = File::create(&file).expect("the folder is ours");
        let capture = capture.stdout(output).stdin(Stdio::null()).spawn().expect("it runs");
        let mut capture = Killed(capture);
        let size = || fs::metadata(&file).map_or(0, |file| file.len());
        wait_until("packets are captured", || size() > 100_000);
        signal(&capture.0, end);
        let status = capture.0.wait().expect("it is ours");
        match end {
            // Linux may end a write between two pages of a file when it kills a program.
            "KILL" => cut_behind_the_last_block(&file),
            _ => assert_eq!(status.code(), Some(0), "after SIG{end}"),
        }
        assert!(read_pcapng(&file).len() > 100);
    }
    // The node is none the worse for a client that went.
    place.run(&["trace", "--count", "1"]).succeeded();
    running.stop().succeeded();
}

/// Takes off what there is of a last block that is not whole.
fn cut_behind_the_last_block(file: &Path) {
    let bytes = fs::read(file).expect("the folder is ours");
    let length = |at: usize| {
        let bytes = bytes.get(at + 4..at + 8)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes) as usize)
    };
    let mut end = 0;
    while let Some(length) = length(end).filter(|length| end + length <= bytes.len()) {
        end += length;
    }
    // So long is the block of the longest packet that is sent here.
    assert!(bytes.len() - end < 128, "{} bytes are no block", bytes.len() - end);
    fs::write(file, &bytes[..end]).expect("the folder is ours");
}

#[test]
fn a_capture_or_trace_of_nothing_says_what_it_waits_for() {
    let place = TestFolder::new();
    place.write("node.yaml", node("idle", "net_null0,no-rx=1", "net_null1,no-rx=1"));
    let running = place.start(&["node.yaml"]);
    let capture = ["capture", "--at", "after count", "--user", "ue-0", "-w", "x.pcapng"];
    let trace = ["trace", "--port", "access", "--when", "protocol == udp"];
    for (words, said) in [
        (&capture[..], "no packet of ue-0 after count has passed yet"),
        (&trace[..], "no packet from port access with `protocol == udp` has passed yet"),
    ] {
        let mut waiting = Running::spawn(place.weft(words));
        waiting.wait_for(said);
        // As Ctrl-C does; the node has still nothing to say.
        waiting.signal("INT");
        let ended = waiting.ended();
        assert!(matches!(ended.code, Some(0) | None), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
    assert!(read_pcapng(&place.path("x.pcapng")).is_empty());
    running.stop().succeeded();
}

#[test]
fn what_cannot_be_watched_is_told_in_one_line() {
    let place = TestFolder::new();
    let running = busy(&place);
    let trace = |arguments: &[&str]| place.run(&[&["trace"], arguments].concat());
    trace(&["--user", "ue-9"]).refused(&["weft: no user ue-9"]);
    trace(&["--port", "acess"]).refused(&["weft: no port acess", "access, core"]);
    trace(&["--when", "protcol == udp"]).refused(&["weft: ", "protcol", "protocol"]);
    trace(&["--at", "at", "guard"]).refused(&["weft: `at guard` is no place", "before FUNCTION"]);
    trace(&["--at", "after", "gaurd"]).refused(&["weft: no function gaurd", "count", "guard"]);
    trace(&["--count", "0"]).refused(&["weft: no packet"]);
    place.run(&["capture", "--user", "x", "-w", "x.pcapng"]).refused(&["weft: no user x"]);
    assert!(!place.path("x.pcapng").exists());
    let capture = place.run(&["capture", "--count", "1", "-w", "no/x.pcapng"]);
    capture.refused(&["weft: no/x.pcapng"]);
    running.stop().succeeded();
}
