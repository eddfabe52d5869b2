//! What a node serves at `--http`, and what `weft top --once` prints.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::common::frames::{FIRST, uplink, write_pcap};
use crate::common::{PATIENCE, Running, TestFolder, busy_node, wait_until};

const TOKEN: &str = "0123456789abcdef";

/// A node under traffic, and the address of its page.
fn busy(place: &TestFolder) -> (Running, String) {
    let frames = [(FIRST, uplink(1, 5000, &[1; 30])), (FIRST, uplink(2, 9, &[2; 30]))];
    write_pcap(&place.path("in.pcap"), &frames);
    place.write("node.yaml", busy_node("busy", &place.path("in.pcap")));
    place.write("token", TOKEN);
    let page = ["--http", "127.0.0.1:0", "--http-token-file", "token"];
    let running = place.start(&[&["node.yaml"], &page[..]].concat());
    let url = running.ready.rsplit_once(", page http://").expect("it names the page").1;
    let address = url.trim_end_matches('/').to_owned();
    (running, address)
}

fn open(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.write_all(request.as_bytes()).expect("it listens");
    stream
}

/// Status, head and body.
fn ask(address: &str, method: &str, path: &str, more: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    );
    let mut answer = String::new();
    open(address, &request).read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), body.to_owned())
}

fn get(address: &str, path: &str) -> Value {
    let (status, _, body) = ask(address, "GET", path, "", "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

#[test]
fn the_page_and_its_api_are_served() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    let (status, head, body) = ask(&address, "GET", "/", "", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(body.contains("/page/script/node.js") && !body.contains("<script>"), "{body}");

    let topology = get(&address, "/v1/topology");
    let rules = topology["rules"].as_array().expect("rules");
    let hop =
        |from: &str, to: &str| rules.iter().any(|rule| rule["from"] == from && rule["to"] == to);
    assert!(hop("access", "count") && hop("count", "guard") && hop("guard", "core"), "{topology}");
    let found = get(&address, "/v1/users?search=10.0.0.3");
    assert_eq!(found[0]["name"], "ue-2");
    assert_eq!(get(&address, "/v1/neighbours"), Value::Array(Vec::new()));
    assert_eq!(get(&address, "/v1/users/ue-1/bearers"), Value::Array(Vec::new()));
    let (_, _, ways) = ask(&address, "GET", "/v1/users/ue-1/ways", "", "");
    assert!(ways.contains("-> count -> guard"), "{ways}");
    assert_eq!(ask(&address, "GET", "/v1/users/unknown/ways", "", "").0, 404);
    wait_until("it has a past", || {
        // Before the second look nothing is known of any place.
        let (status, _, body) = ask(&address, "GET", "/v1/history?of=guard", "", "");
        status == 200 && body.contains("\"times\":[1")
    });
    running.stop().succeeded();
}

#[test]
fn looks_have_the_counters_and_shares_of_a_sample() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    let request = format!("GET /v1/live HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut lines = BufReader::new(open(&address, &request)).lines();
    let mut look = || -> Value {
        let data = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("it tells on")).expect("JSON")
    };
    let mut before = look();
    loop {
        let now = look();
        let packets = |look: &Value| look["snapshot"]["functions"][0]["packets"].as_u64();
        assert!(packets(&now) > packets(&before));
        if now["flows"]["sample"].as_u64() > Some(100) {
            let flows = now["flows"]["rules"].as_array().expect("rules");
            let rate = |from: &str, to: &str| {
                let flow = flows.iter().find(|flow| flow["from"] == from && flow["to"] == to);
                flow.and_then(|flow| flow["rate"].as_f64()).unwrap_or(0.0)
            };
            // The guard drops what one of two users sends: a half.
            let (sent, dropped) = (rate("guard", "core"), rate("guard", "drop"));
            assert!(sent > 0.2 * (sent + dropped) && dropped > 0.2 * (sent + dropped), "{now}");
            assert_eq!(now["flows"]["users"].as_array().map(Vec::len), Some(2), "{now}");
            break;
        }
        before = now;
    }
    running.stop().succeeded();
}

#[test]
fn a_write_needs_the_token() {
    let place = TestFolder::new();
    let (running, address) = busy(&place);
    let order = r#"{"composition": "thread"}"#;
    let compose = |more: &str| ask(&address, "POST", "/v1/functions/guard", more, order).0;
    assert_eq!(compose(""), 401);
    assert_eq!(compose("Authorization: Bearer 0123456789abcdeF\r\n"), 401);
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(compose(&format!("{right}Origin: http://evil.example\r\n")), 403);
    assert_eq!(compose(&right), 200);
    assert_eq!(ask(&address, "POST", "/v1/trace", "", "{}").0, 401);
    let (status, _, said) = ask(&address, "POST", "/v1/trace", &right, r#"{"count": 2}"#);
    assert!(status == 200 && said.contains("received at access"), "{said}");
    running.stop().succeeded();
}

#[test]
fn what_cannot_be_served_is_refused_in_one_line() {
    let place = TestFolder::new();
    place.write("node.yaml", busy_node("busy", &place.path("in.pcap")));
    place.write("token", TOKEN);
    let run = |more: &[&str]| place.run(&[&["run", "node.yaml"], more].concat());
    run(&["--http", "0.0.0.0:0", "--http-token-file", "token"])
        .refused(&["without encryption", "--http-certificate"]);
    run(&["--http", "127.0.0.1:0", "--http-token-file", "nothing"]).refused(&["nothing"]);
    run(&["--http-token-file", "token"]).refused(&["--http"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    run(&["--http", &address]).refused(&["page address", &address]);
}

#[test]
fn top_prints_one_look_for_scripts() {
    let place = TestFolder::new();
    let (running, _) = busy(&place);
    let text = place.run(&["top", "--once"]).succeeded();
    assert!(text.starts_with("node busy: up "), "{text}");
    for words in
        ["cycles/packet: receive ", "\nguard ", "\naccess ", "filter_denied", "\nno moves\n"]
    {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    place.run(&["top"]).refused(&["needs a terminal", "--once"]);
    running.stop().succeeded();
    place.run(&["top", "--once"]).refused(&["no node is running"]);
}
