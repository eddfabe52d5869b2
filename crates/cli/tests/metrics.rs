//! `weft run --metrics`: what monitoring gets, and what other clients do not get.

mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use common::frames::{FIRST, uplink, write_pcap};
use common::{PATIENCE, Place, Running, busy_node, wait_until};

fn busy(place: &Place) -> (Running, String) {
    let frames = [(FIRST, uplink(1, 5000, &[1; 30])), (FIRST, uplink(2, 9, &[2; 30]))];
    write_pcap(&place.path("in.pcap"), &frames);
    place.write("node.yaml", busy_node("busy", &place.path("in.pcap")));
    let running = place.start(&["node.yaml", "--metrics", "127.0.0.1:0"]);
    let address = running.ready.rsplit_once("metrics ").expect("it names the address").1;
    let address = address.to_owned();
    (running, address)
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn get(address: &str, path: &str) -> String {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    exchange(stream, &format!("GET {path} HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n\r\n"))
}

/// Samples by name and labels; checks the form of every line.
fn samples(answer: &str) -> BTreeMap<String, f64> {
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"), "{head}");
    let mut kinds = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in body.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("name and kind");
            assert!(matches!(kind, "counter" | "gauge"), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{name} is described twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("series and value");
            let name = series.split_once('{').expect("labels").0;
            let kind = kinds.get(name).unwrap_or_else(|| panic!("{name} is not described"));
            assert_eq!(name.ends_with("_total"), *kind == "counter", "{line}");
            assert!(series.ends_with("\"}"), "{line}");
            let value = value.parse().expect("a number");
            assert!(samples.insert(series.to_owned(), value).is_none(), "{line} comes twice");
        }
    }
    samples
}

#[test]
fn packets_bytes_and_drops_are_told_by_port_function_and_reason() {
    let place = Place::new();
    let (running, address) = busy(&place);
    let mut seen = BTreeMap::new();
    wait_until("packets were dropped and sent", || {
        seen = samples(&get(&address, "/metrics"));
        let reached = |name: &str| seen.get(name).is_some_and(|value| *value > 0.0);
        reached("weft_packets_total{node=\"busy\",port=\"access\",direction=\"rx\"}")
            && reached("weft_packets_total{node=\"busy\",port=\"core\",direction=\"tx\"}")
            && reached("weft_bytes_total{node=\"busy\",function=\"count\",kind=\"counter\"}")
            && seen.iter().any(|(name, value)| {
                name.starts_with("weft_drops_total{node=\"busy\",reason=")
                    && name.ends_with(",function=\"guard\"}")
                    && *value > 0.0
            })
    });
    assert_eq!(seen["weft_port_up{node=\"busy\",port=\"core\"}"], 1.0);
    assert_eq!(seen["weft_users{node=\"busy\"}"], 4.0);
    assert_eq!(seen["weft_buffers{node=\"busy\"}"], 4095.0);
    assert!(seen.contains_key("weft_buffers_available{node=\"busy\"}"));
    let stage = "weft_stage_cycles_total{node=\"busy\",worker=\"0\",stage=\"classify\"}";
    assert!(seen.contains_key(stage), "{seen:?}");
    assert!(seen.contains_key("weft_function_cycles_total{node=\"busy\",function=\"guard\"}"));
    // Counters never go back.
    let later = samples(&get(&address, "/metrics"));
    for (name, before) in seen.iter().filter(|(name, _)| name.contains("_total{")) {
        assert!(later[name] >= *before, "{name}");
    }
    running.stop().succeeded();
}

#[test]
fn nothing_but_metrics_is_served_over_tcp() {
    let place = Place::new();
    let (running, address) = busy(&place);
    for path in ["/v1/snapshot", "/v1/users", "/v1/configuration", "/"] {
        assert!(get(&address, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    running.stop().succeeded();
}

#[test]
fn clients_that_say_nothing_or_too_much_do_no_harm() {
    let place = Place::new();
    let (running, address) = busy(&place);
    let silent: Vec<_> =
        (0..20).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    samples(&get(&address, "/metrics"));

    let local = || {
        let stream = UnixStream::connect(place.path("weft/busy.sock")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream
    };
    let head = "POST /v1/configuration HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n";
    let large = format!("{head}Content-Length: 999999999\r\n\r\n");
    assert!(exchange(local(), &large).starts_with("HTTP/1.1 413"));
    let deep = "[".repeat(100_000);
    let deep = format!("{head}Content-Length: {}\r\n\r\n{deep}", deep.len());
    let answer = exchange(local(), &deep);
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    let endless = format!("GET /{} HTTP/1.1\r\n", "x".repeat(8 << 10));
    // Its connection ends; whether it gets an answer is its own affair.
    let mut stream = local();
    stream.set_write_timeout(Some(PATIENCE)).expect("a time");
    let _ = (0..16).try_for_each(|_| stream.write_all(endless.as_bytes()));

    place.run(&["show", "ports"]).succeeded();
    drop(silent);
    running.stop().succeeded();
}
