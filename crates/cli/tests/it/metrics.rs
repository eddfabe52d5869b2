//! `weft run --metrics`: what monitoring gets, and no other client; and the API on the node's
//! socket as its description has it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::frames::{FIRST, uplink, write_pcap};
use crate::common::{PATIENCE, Running, TestFolder, busy_node, wait_until};
use serde_json::Value;

fn busy(place: &TestFolder) -> (Running, String) {
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
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{name} is described twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("series and value");
            let name = series.split_once('{').expect("labels").0;
            let endings = ["_sum", "_count", "_bucket"].iter();
            let family = endings.filter_map(|ending| name.strip_suffix(ending));
            let mut family = family.filter(|name| kinds.get(name) == Some(&"histogram"));
            let family = family.next_back().unwrap_or(name);
            let kind = kinds.get(family).unwrap_or_else(|| panic!("{name} is not described"));
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
    let place = TestFolder::new();
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
    let of_worker = |name: &str| seen[&format!("{name}{{node=\"busy\",worker=\"0\"}}")];
    assert_eq!(of_worker("weft_burst_packets_count"), of_worker("weft_bursts_total"));
    assert!(of_worker("weft_burst_packets_sum") >= of_worker("weft_burst_packets_count"));
    let timed = of_worker("weft_burst_duration_seconds_count");
    assert!(timed > 0.0 && timed <= of_worker("weft_bursts_total"), "{timed}");
    assert!(of_worker("weft_burst_duration_seconds_sum") > 0.0);
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
fn probes_are_answered_where_metrics_are() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    for path in ["/healthz", "/readyz"] {
        let answer = get(&address, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }
    assert!(get(&address, "/v1/snapshot").starts_with("HTTP/1.1 404"));
    running.stop().succeeded();
}

#[test]
fn clients_that_ask_for_open_metrics_get_the_same_series() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let stream = TcpStream::connect(&address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: weft\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    let answer = exchange(stream, &request);
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(kind), "{head}");
    assert!(body.ends_with("\n# EOF\n") && body.contains("# TYPE weft_packets counter\n"));
    let series = |line: &str| Some(line.rsplit_once(' ')?.0.to_owned());
    let samples_of = body.lines().filter(|line| !line.starts_with('#')).filter_map(series);
    let here: std::collections::BTreeSet<_> = samples_of.collect();
    let text = samples(&get(&address, "/metrics"));
    // A reason of drops may have come in between.
    assert!(here.iter().all(|series| text.contains_key(series)), "{here:?}");
    running.stop().succeeded();
}

/// Asks on the node's socket; the status, and the whole answer.
fn ask(place: &TestFolder, method: &str, path: &str, body: &str) -> (u16, String) {
    let stream = UnixStream::connect(place.path("weft/busy.sock")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: weft\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(stream, &request);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}

#[test]
fn the_description_is_of_what_is_served() {
    let place = TestFolder::new();
    let (running, _) = busy(&place);
    let (status, answer) = ask(&place, "GET", "/v1/openapi.json", "");
    assert_eq!(status, 200, "{answer}");
    let described: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let mut operations = 0;
    for (shown, methods) in described["paths"].as_object().unwrap() {
        let path = shown.replace("{name}", "nothing").replace("{id}", "77");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let operation = &methods[method.to_lowercase()];
            // Answers without end.
            if [("/v1/events", "POST"), ("/v1/live", "GET")].contains(&(shown.as_str(), method)) {
                operations += 1;
                continue;
            }
            // No question of a trace or a capture, and no order.
            let (status, answer) = ask(&place, method, &path, "{\"unknown\":1}");
            let problem = answer.contains("content-type: application/problem+json");
            assert_eq!(problem, status >= 400, "{method} {path}: {answer}");
            if operation.is_null() {
                assert_eq!(status, 405, "{method} {path}");
                continue;
            }
            operations += 1;
            let known = operation["responses"][status.to_string()].is_object();
            assert!(known, "{method} {path}: {status} is not described");
            if status == 200 {
                let (_, kind) = answer.split_once("content-type: ").expect("a media type");
                let kind = kind.split([';', '\r']).next().unwrap();
                let content = &operation["responses"]["200"]["content"];
                assert!(content[kind].is_object(), "{method} {path}: {kind} is not described");
            }
        }
    }
    assert_eq!(operations, 39);
    for (path, status) in [
        ("/nothing", 404),
        ("/v1/users?count=x", 400),
        ("/v1/bearers/x", 400),
        ("/v1/users/nothing", 404),
    ] {
        let (got, answer) = ask(&place, "GET", path, "");
        assert_eq!(got, status, "{answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
    }
    running.stop().succeeded();
}

#[test]
fn a_node_whose_device_never_stops_is_not_taken_over_and_goes_on() {
    let place = TestFolder::new();
    let (running, _) = busy(&place);
    let (status, answer) = ask(&place, "POST", "/v1/upgrade", "");
    assert!(status >= 400, "{answer}");
    assert!(answer.contains("packets come without end"), "{answer}");
    let received = || {
        let (_, answer) = ask(&place, "GET", "/v1/snapshot", "");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let shown: Value = serde_json::from_str(body).expect("JSON");
        let ports = shown["ports"].as_array().expect("ports").clone();
        ports.iter().filter_map(|port| port["rx_packets"].as_u64()).sum::<u64>()
    };
    let before = received();
    wait_until("it receives nothing any more", || received() > before);
    running.stop().succeeded();
}

#[test]
fn bearers_are_listed_page_by_page() {
    let place = TestFolder::new();
    let (running, _) = busy(&place);
    let add = |id: u32| {
        format!(
            "{{\"add\":{{\"id\":{id},\"like\":\"ue\",\"match\":{{\"ipv4\":\"10.0.1.{id}\"}}}}}}\n"
        )
    };
    let (status, answer) =
        ask(&place, "POST", "/v1/bearers", &(1..=5).map(add).collect::<String>());
    assert_eq!(status, 200, "{answer}");
    let (mut path, mut seen, mut pages) = ("/v1/bearers?limit=2".to_owned(), Vec::new(), 0);
    loop {
        let (status, answer) = ask(&place, "GET", &path, "");
        assert_eq!(status, 200, "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let page: Vec<Value> = serde_json::from_str(body).unwrap();
        assert!(page.len() <= 2);
        seen.extend(page.iter().map(|bearer| bearer["id"].as_u64().unwrap()));
        pages += 1;
        let next = head.lines().find_map(|line| line.strip_prefix("link: <"));
        let Some(next) = next.and_then(|next| next.strip_suffix(">; rel=\"next\"")) else { break };
        path = next.to_owned();
    }
    assert_eq!((seen.as_slice(), pages), ([1, 2, 3, 4, 5].as_slice(), 3));
    for (query, ids) in [
        ("?after=3", vec![4, 5]),
        ("?after=5", vec![]),
        ("?after=18446744073709551615", vec![]),
        ("?first=2&count=2", vec![2, 3]),
        ("?limit=0", vec![]),
        ("?limit=18446744073709551615", vec![1, 2, 3, 4, 5]),
    ] {
        let (status, answer) = ask(&place, "GET", &format!("/v1/bearers{query}"), "");
        assert_eq!(status, 200, "{answer}");
        let page: Vec<Value> =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        let page: Vec<_> = page.iter().map(|bearer| bearer["id"].as_u64().unwrap()).collect();
        assert_eq!(page, ids, "{query}");
    }
    running.stop().succeeded();
}

#[test]
fn nothing_but_metrics_is_served_over_tcp() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    for path in ["/v1/snapshot", "/v1/users", "/v1/configuration", "/"] {
        assert!(get(&address, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    running.stop().succeeded();
}

/// A node is named by a flag, whatever the environment says.
#[test]
fn flags_come_before_the_environment() {
    let place = TestFolder::new();
    let (running, _) = busy(&place);
    let ended = |arguments: &[&str], name: &str, value: &str| {
        let output = place.weft(arguments).env(name, value).output().expect("it runs");
        output.status.success()
    };
    let elsewhere = place.path("elsewhere.sock");
    let elsewhere = elsewhere.to_str().expect("a name");
    let own = place.path("weft/busy.sock");
    let own = own.to_str().expect("a name");
    assert!(ended(&["show", "ports", "--node", "busy"], "WEFT_SOCKET", elsewhere));
    assert!(ended(&["show", "ports", "--socket", own], "WEFT_NODE", "other"));
    assert!(ended(&["show", "ports"], "WEFT_SOCKET", own));
    assert!(ended(&["show", "ports"], "WEFT_NODE", "busy"));
    assert!(!ended(&["show", "ports"], "WEFT_SOCKET", elsewhere));
    assert!(!ended(&["show", "ports"], "WEFT_NODE", "other"));
    running.stop().succeeded();
}

#[test]
fn clients_that_say_nothing_or_too_much_do_no_harm() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    // Fewer than this process may have files open; as many connections again end at the node.
    let silent: Vec<_> =
        (0..400).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    let silent_local: Vec<_> = (0..400)
        .map(|_| UnixStream::connect(place.path("weft/busy.sock")).expect("it listens"))
        .collect();
    let begin = Instant::now();
    samples(&get(&address, "/metrics"));
    assert!(ask(&place, "GET", "/v1/peers", "").0 == 200);
    // Without its limits the node took minutes.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());

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
    drop((silent, silent_local));
    running.stop().succeeded();
}
