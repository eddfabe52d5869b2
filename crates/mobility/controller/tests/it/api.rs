//! The API as a client sees it, on the socket and over TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::field::{API_TOKEN, Field, TOKEN, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use weft_http::client::{Client, ClientError, Server};
use weft_mobility_controller::config::Configuration;
use weft_mobility_controller::{Controller, api};

/// Says something over TCP; returns status, head and body.
fn say(address: SocketAddr, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let authorisation = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let said = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorisation}\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(said.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn nothing_is_granted_over_tcp_without_the_token() {
    let field = Field::new(1);
    let controller = field.controller();
    let address = controller.api().unwrap();
    for token in ["", "x", TOKEN, &API_TOKEN[1..], &format!("{API_TOKEN}x")] {
        for path in ["/v1/nodes", "/v1/openapi.json", "/v1/events", "/metrics", "/nothing"] {
            let (status, answer) = say(address, "GET", path, token, "");
            assert_eq!(status, 401, "{path} with `{token}`");
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"));
        }
    }
    // Probes say no more than whether it answers.
    for path in ["/healthz", "/readyz"] {
        let (status, answer) = say(address, "GET", path, "", "");
        assert!(status == 200 && answer.ends_with("\r\n\r\nok\n"), "{path}: {answer}");
        assert_eq!(say(address, "POST", path, "", "").0, 405);
        assert_eq!(say(address, "GET", &format!("{path}/"), "", "").0, 401);
    }
    assert_eq!(say(address, "GET", "/v1/nodes", API_TOKEN, "").0, 200);
    let token = API_TOKEN.to_owned();
    let server = Server::Remote { address: address.to_string(), token, trust: None };
    let client = Client::of("controller", server).unwrap();
    assert_eq!(client.get::<Vec<api::Node>>("/v1/nodes").unwrap().len(), 3);
    controller.stop();
}

/// FAULTS 61: requests that are slow, long or deep keep no others waiting and change nothing.
#[test]
fn fault_61_hostile_requests_cost_others_nothing() {
    let field = Field::new(3);
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.settle(&client, 3);
    let address = controller.api().unwrap();
    // As many as there are places, and each never comes to the end of what it says.
    let mut slow: Vec<_> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (nth, stream) in slow.iter_mut().enumerate() {
        let said = ["", "GET /v1/us", "POST /v1/handovers HTTP/1.1\r\nHost: x\r\nX: "][nth % 3];
        stream.write_all(said.as_bytes()).unwrap();
    }
    assert_eq!(client.get::<Vec<api::User>>("/v1/users").unwrap().len(), 3);
    // They are shown out, and then it is the others' turn.
    let order = r#"{"user":1,"to":"b"}"#;
    assert_eq!(say(address, "POST", "/v1/handovers", "", order).0, 401);
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        // Closed with an answer or without one.
        let ended = stream.read_to_end(&mut answer);
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    }
    let deep = format!("{}{}", r#"{"user":"#, "[".repeat(50_000));
    let (status, answer) = say(address, "POST", "/v1/handovers", API_TOKEN, &deep);
    assert_eq!(status, 400, "{answer}");
    let head = format!("/v1/users?owner={}", "x".repeat(20_000));
    assert!((400..500).contains(&say(address, "GET", &head, API_TOKEN, "").0));
    assert_eq!(client.get::<api::User>("/v1/users/1").unwrap().owner.as_deref(), Some("a"));
    assert_eq!(say(address, "POST", "/v1/handovers", API_TOKEN, order).0, 202);
    controller.stop();
}

#[test]
fn a_thousand_silent_connections_hold_nothing_up() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let field = Field::new(1);
    let controller = field.controller();
    let address = controller.api().unwrap();
    let silent: Vec<_> = (0..1000)
        .map(|nth| {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may have been ended already.
            let _ = stream.write_all(["", "GET /v1/us"][nth % 2].as_bytes());
            stream
        })
        .collect();
    let begin = Instant::now();
    assert_eq!(say(address, "GET", "/v1/nodes", API_TOKEN, "").0, 200);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    drop(silent);
    controller.stop();
}

#[test]
fn users_are_bounded() {
    let field = Field::new(3);
    let configuration = Configuration::load(&field.file()).unwrap();
    let configuration = Configuration { most_users: 4, ..configuration };
    let controller = Controller::start(configuration, field.socket(), None, |_| {}).unwrap();
    let client = field.client();
    field.meet(&client);
    field.settle(&client, 3);
    let address = controller.api().unwrap();
    let placement = r#"{"anchor":"gateway","node":"b"}"#;
    assert_eq!(say(address, "PUT", "/v1/users/8", API_TOKEN, placement).0, 202);
    let (status, answer) = say(address, "PUT", "/v1/users/9", API_TOKEN, placement);
    assert_eq!(status, 507, "{answer}");
    assert!(answer.contains("the controller has 4 users and takes no more"), "{answer}");
    // One that is known is told so, and room comes with one that goes.
    assert_eq!(say(address, "PUT", "/v1/users/8", API_TOKEN, placement).0, 409);
    assert_eq!(say(address, "DELETE", "/v1/users/1", API_TOKEN, "").0, 202);
    until("no user", || client.get::<api::User>("/v1/users/1").is_err());
    assert_eq!(say(address, "PUT", "/v1/users/9", API_TOKEN, placement).0, 202);
    controller.stop();
}

#[test]
fn what_cannot_be_done_is_told_as_a_problem() {
    let field = Field::new(3);
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.settle(&client, 3);
    let address = controller.api().unwrap();
    let placement = r#"{"anchor":"gateway","node":"a"}"#;
    for (method, path, said, status, detail) in [
        ("GET", "/v1/nothing", "", 404, "there is nothing here"),
        ("DELETE", "/v1/nodes", "", 405, "that cannot be done here"),
        ("GET", "/v1/users/x", "", 400, "`x` is not the number of a user"),
        ("GET", "/v1/users/4", "", 404, "there is no such user"),
        ("GET", "/v1/users?owner=c", "", 404, "there is no node `c`"),
        ("GET", "/v1/users?count=x", "", 400, "count"),
        ("PUT", "/v1/users/1", placement, 409, "there is such a user already"),
        ("PUT", "/v1/users/9", "{}", 400, "missing field `anchor`"),
        ("PUT", "/v1/users/9", r#"{"anchor":"a","node":"a"}"#, 400, "the anchor cannot own"),
        ("DELETE", "/v1/users/9", "", 404, "there is no such user"),
        ("POST", "/v1/handovers", "", 400, "EOF"),
        ("POST", "/v1/handovers", r#"{"to":"b"}"#, 400, "either `user` or `allFrom`"),
        ("POST", "/v1/handovers", r#"{"user":1,"allFrom":"a","to":"b"}"#, 400, "either"),
        ("POST", "/v1/handovers", r#"{"user":1,"to":"c"}"#, 404, "there is no node `c`"),
        ("POST", "/v1/handovers", r#"{"user":1,"to":"a"}"#, 409, "at that node already"),
        ("POST", "/v1/handovers", r#"{"user":1,"to":"gateway"}"#, 400, "the anchor cannot own"),
        ("POST", "/v1/handovers", r#"{"user":9,"to":"b"}"#, 404, "there is no such user"),
        ("POST", "/v1/handovers", r#"{"allFrom":"a","to":"a"}"#, 400, "cannot go to that node"),
        ("GET", "/v1/handovers/7", "", 404, "there is no such handover"),
        ("POST", "/v1/nodes/a/gone", r#"{"successor":"a"}"#, 400, "its own successor"),
    ] {
        let (got, answer) = say(address, method, path, API_TOKEN, said);
        assert_eq!(got, status, "{method} {path} {said}: {answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
        let problem: api::Problem = serde_json::from_value(body(&answer)).unwrap();
        assert_eq!(problem.status, status);
        assert!(problem.detail.contains(detail), "{method} {path} {said}: {}", problem.detail);
    }
    // A client says it in the controller's words.
    match client.get::<api::User>("/v1/users/4") {
        Err(ClientError::Refused(problem)) => assert_eq!(problem.detail, "there is no such user"),
        other => panic!("{other:?}"),
    }
    // Who announces too much is refused, whether the octets come or not.
    for announced in ["600000", "1000000000000"] {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /v1/handovers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Authorization: Bearer {API_TOKEN}\r\nContent-Length: {announced}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{announced}: {answer}");
    }
    let long = "x".repeat(600_000);
    assert_eq!(say(address, "POST", "/v1/handovers", API_TOKEN, &long).0, 413);
    controller.stop();
}

#[test]
fn users_come_and_go_and_those_removed_stay_away() {
    let field = Field::new(5);
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.settle(&client, 5);
    let user = |number: u64| client.get::<api::User>(&format!("/v1/users/{number}"));
    let settled = |number: u64| user(number).is_ok_and(|user| user.state == "Settled");
    let address = controller.api().unwrap();

    let placement = r#"{"anchor":"gateway","node":"b"}"#;
    let (status, _) = say(address, "PUT", "/v1/users/700", API_TOKEN, placement);
    assert_eq!(status, 202);
    until("a new user", || settled(700));
    assert_eq!(user(700).unwrap().owner.as_deref(), Some("b"));
    for number in [2, 700] {
        let (status, _) = say(address, "DELETE", &format!("/v1/users/{number}"), API_TOKEN, "");
        assert_eq!(status, 202);
        until("no user", || user(number).is_err());
    }
    let (status, _) = say(address, "PUT", "/v1/users/701", API_TOKEN, placement);
    assert_eq!(status, 202);
    until("a new user", || settled(701));
    controller.stop();

    let controller = field.controller();
    field.meet(&client);
    until("users", || settled(5));
    let numbers: Vec<_> = client.get::<Vec<api::User>>("/v1/users").unwrap();
    let numbers: Vec<_> = numbers.iter().map(|user| user.user).collect();
    assert_eq!(numbers, [1, 3, 4, 5, 701]);
    let at_b: Vec<api::User> = client.get("/v1/users?owner=b").unwrap();
    assert_eq!((at_b.len(), at_b[0].user), (1, 701));
    let page: Vec<api::User> = client.get("/v1/users?first=2&count=2").unwrap();
    assert_eq!(page.iter().map(|user| user.user).collect::<Vec<_>>(), [3, 4]);
    controller.stop();
}

#[test]
fn users_wait_for_their_nodes_and_may_be_removed_before() {
    let mut field = Field::new(10);
    for node in field.nodes.drain(..) {
        node.stop();
    }
    let controller = field.controller();
    let client = field.client();
    let user: api::User = client.get("/v1/users/3").unwrap();
    assert_eq!((user.state.as_str(), user.target.as_deref()), ("Waiting", Some("a")));
    let address = controller.api().unwrap();
    assert_eq!(say(address, "DELETE", "/v1/users/3", API_TOKEN, "").0, 202);
    assert!(client.get::<api::User>("/v1/users/3").is_err());
    let order = r#"{"user":4,"to":"b"}"#;
    assert_eq!(say(address, "POST", "/v1/handovers", API_TOKEN, order).0, 503);
    controller.stop();
    let controller = field.controller();
    let lives = [(crate::field::GATEWAY, 2), (crate::field::A, 2), (crate::field::B, 2)];
    field.nodes = lives.map(|(number, life)| field.node(number, life)).into();
    field.meet(&client);
    field.settle(&client, 9);
    assert!(client.get::<api::User>("/v1/users/3").is_err());
    controller.stop();
}

#[test]
fn events_tell_what_happens_as_it_happens() {
    let field = Field::new(20);
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.settle(&client, 20);
    let (tell, told) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let listener = field.client();
    let listening = std::thread::spawn(move || {
        let mut text = String::new();
        let take = |piece: &[u8]| {
            let _ = ready.send(());
            text.push_str(std::str::from_utf8(piece).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data {
                    tell.send(serde_json::from_str::<Value>(data).unwrap()).unwrap();
                }
                text = rest.to_owned();
            }
            true
        };
        // Ends with the controller.
        let _ = listener.listen("/v1/events", take);
    });
    is_ready.recv_timeout(Duration::from_secs(60)).unwrap();
    let handover = field.drain(&client, "a", "b");
    assert_eq!(handover.moved, 20);
    controller.stop();
    listening.join().unwrap();
    let events: Vec<_> = told.iter().collect();
    for user in 1..=20 {
        let of_user: Vec<_> = events.iter().filter(|event| event["user"] == user).collect();
        let names: Vec<_> = of_user.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["ready", "moved"], "user {user}");
        assert!(of_user.iter().all(|event| event["node"] == "b"));
    }
    let numbers: Vec<_> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
}

/// A path like the one that is described.
fn path_of(described: &str) -> String {
    described.replace("{user}", "77").replace("{id}", "77").replace("{name}", "a")
}

#[test]
fn the_description_is_of_what_is_there() {
    let field = Field::new(1);
    let controller = field.controller();
    let client = field.client();
    let described: Value = client.get("/v1/openapi.json").unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    let address = controller.api().unwrap();
    let mut operations = 0;
    for (shown, methods) in paths {
        let (methods, path) = (methods.as_object().unwrap(), path_of(shown));
        for method in methods.keys() {
            operations += 1;
            if path == "/v1/events" {
                continue;
            }
            let (status, answer) = say(address, &method.to_uppercase(), &path, API_TOKEN, "{}");
            assert_ne!(status, 405, "{method} {path}");
            assert!(!answer.contains("there is nothing here"), "{method} {path}");
            let code = &described["paths"][shown.as_str()][method]["responses"][status.to_string()];
            assert!(code.is_object(), "{method} {path}: {status} is not described");
        }
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            if !methods.contains_key(&method.to_lowercase()) {
                let (status, answer) = say(address, method, &path_of(shown), API_TOKEN, "{}");
                assert_eq!(status, 405, "{method} {shown}");
                assert!(answer.contains("content-type: application/problem+json"), "{answer}");
            }
        }
    }
    assert_eq!(operations, 33);
    // Answers are of the shape that is described.
    for (path, shape) in [("/v1/nodes", "Node"), ("/v1/users", "User")] {
        let answer: Value = client.get(path).unwrap();
        let mut schema = described["components"]["schemas"][shape].clone();
        schema["components"] = described["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for one in answer.as_array().unwrap() {
            assert!(validator.is_valid(one), "{path}: {one}");
        }
    }
    assert!(described["components"]["schemas"]["Handover"]["properties"]["underWay"].is_object());
    controller.stop();
}

#[test]
fn a_second_controller_does_not_start() {
    let field = Field::new(1);
    let controller = field.controller();
    let again = || {
        let configuration = Configuration::load(&field.file()).unwrap();
        let other = field.folder.path().join("other.controller");
        let same = field.socket();
        [same, other].map(|socket| {
            Controller::start(configuration.clone(), socket, None, |_| {}).unwrap_err().to_string()
        })
    };
    let [same, other] = again();
    assert!(same.starts_with("another controller named test is running"), "{same}");
    assert!(other.contains("another controller uses them"), "{other}");
    controller.stop();
    field.controller().stop();
}
