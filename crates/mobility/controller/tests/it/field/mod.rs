//! A controller's surroundings: an anchor and two stations, a configuration and a
//! folder, and a client.

pub mod node;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use node::{Input, Node};
use weft_http::client::{Client, Server};
use weft_mobility_controller::Controller;
use weft_mobility_controller::api;
use weft_mobility_controller::config::Configuration;
use weft_mobility_protocol::{NodeId, User};
use weft_mobility_transport::{Options, Registration, Timing, Token};

pub const TOKEN: &str = "a-token-for-all-of-these-tests";
pub const API_TOKEN: &str = "another-one-for-their-clients";
pub const GATEWAY: NodeId = NodeId(1);
pub const A: NodeId = NodeId(2);
pub const B: NodeId = NodeId(3);
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// What all nodes of a field know.
#[derive(Clone, Default)]
pub struct Shared {
    pub inputs: Arc<Mutex<HashMap<NodeId, std::sync::mpsc::Sender<Input>>>>,
    /// Who owns a user: one at most.
    pub owners: Arc<Mutex<HashMap<User, Vec<NodeId>>>>,
    /// How often a user's contexts were carried on since they were made.
    pub moves: Arc<Mutex<HashMap<User, u64>>>,
    /// What the controller has told nodes of how they are to run.
    pub settings: Arc<Mutex<HashMap<NodeId, String>>>,
    /// Programs that run nodes.
    pub programs: Arc<Mutex<HashMap<NodeId, Program>>>,
}

/// The program that runs a node, as the node says it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Processes of the node that there were before this one.
    pub before: u64,
    /// Why another process cannot have the node.
    pub refuses: Option<String>,
    /// Its process has ended, and is to be started again.
    pub has_ended: bool,
    /// It ends its connection at what it does not know.
    pub is_old: bool,
}

pub struct Field {
    pub folder: tempfile::TempDir,
    pub shared: Shared,
    pub nodes: Vec<Node>,
    places: [SocketAddr; 3],
    listen: SocketAddr,
    /// Where a second replica listens.
    other: SocketAddr,
    users: u64,
    /// Stations register, and are not in the file.
    joins: bool,
}

/// An address that is free, and stays so: below the ports that connections begin at,
/// as a node that dials again and again would meet its own sooner or later.
fn free() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(24) + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, 0, 0, 1], 20_000 + (number % 12_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// How a node is run that only speaks with the controller, and carries nothing.
pub fn speaking(number: u32, name: &str, controller: &Controller) -> Options {
    Options {
        node: NodeId(number),
        name: name.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        token: Token::new(TOKEN).unwrap(),
        controllers: vec![controller.address().to_string()],
        term: 0,
        places: Vec::new(),
        registration: Some(Registration {
            address: "127.0.0.1:9".to_owned(),
            capacity: 0,
            version: String::new(),
        }),
        admits: false,
        security: None,
        timing: Timing { pause: Duration::from_millis(2), ..Timing::default() },
    }
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} has not come to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What needs an address that was in use a moment ago: a process that another test
/// starts has its sockets, too, until it has begun.
pub fn in_the_end<T, E: std::fmt::Display>(mut start: impl FnMut() -> Result<T, E>) -> T {
    let since = Instant::now();
    loop {
        match start() {
            Ok(started) => return started,
            Err(error) => assert!(since.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Field {
    /// Three nodes, and a configuration with so many users at a.
    pub fn new(users: u64) -> Field {
        Field::of(users, false)
    }

    /// The same, where the stations register; users begin when they are added.
    pub fn joining() -> Field {
        Field::of(0, true)
    }

    /// The same with its controller, once so many users are at `a`.
    pub fn with_users(users: u64) -> (Field, Controller, Client) {
        let field = Field::joining();
        let controller = field.controller();
        let client = field.client();
        field.meet(&client);
        field.add(&client, 1..=users, r#"{"anchor":"gateway","node":"a"}"#);
        field.settle(&client, users as usize);
        (field, controller, client)
    }

    fn of(users: u64, joins: bool) -> Field {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), TOKEN).unwrap();
        std::fs::write(folder.path().join("api-token"), API_TOKEN).unwrap();
        let (listen, other, places) = (free(), free(), [free(), free(), free()]);
        let (shared, nodes) = (Shared::default(), Vec::new());
        let mut field = Field { folder, shared, nodes, places, listen, other, users, joins };
        for number in [GATEWAY, A, B] {
            let node = field.node(number, 1);
            field.nodes.push(node);
        }
        field.write();
        field
    }

    fn write(&self) {
        let [gateway, a, b] = self.places;
        let stations = match self.joins {
            true => "membership: {lease: 1, adopt: true}\n".to_owned(),
            false => format!(
                "  a: {{number: 2, address: '{a}'}}\n  b: {{number: 3, address: '{b}'}}\n\
                 users: [{{first: 1, count: {}, anchor: gateway, node: a}}]\n",
                self.users
            ),
        };
        let text = format!(
            "apiVersion: weft/v1\nkind: Controller\nmetadata: {{name: test}}\n\
             listen: {listen}\ntokenFile: token\nrecords: records\n\
             api: {{listen: '127.0.0.1:0', tokenFile: api-token}}\n\
             nodes:\n  gateway: {{number: 1, address: '{gateway}'}}\n{stations}",
            listen = self.listen,
        );
        std::fs::write(self.file(), text).unwrap();
    }

    /// The same, as the file of one of two replicas on etcd.
    pub fn replica(&self, name: &str, etcd: &[String]) -> Configuration {
        let text = std::fs::read_to_string(self.file()).unwrap();
        let etcd = format!("etcd: {{endpoints: {etcd:?}}}\nreplica: {{name: {name}}}");
        let listen = if name == "one" { self.listen } else { self.other };
        let text = text
            .replace("records: records", &etcd)
            .replace(&format!("listen: {}", self.listen), &format!("listen: {listen}"));
        let file = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, text).unwrap();
        Configuration::load(&file).unwrap()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("controller.yaml")
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("test.controller")
    }

    /// A node in a life.
    pub fn node(&self, number: NodeId, life: u32) -> Node {
        let at = number.0 as usize - 1;
        let options = Options {
            node: number,
            name: ["gateway", "a", "b"][at].to_owned(),
            listen: self.places[at],
            token: Token::new(TOKEN).unwrap(),
            controllers: vec![self.listen.to_string(), self.other.to_string()],
            term: 0,
            places: Vec::new(),
            registration: self.joins.then(|| Registration {
                address: self.places[at].to_string(),
                capacity: 1000 * u64::from(number.0),
                version: "0.1.0".to_owned(),
            }),
            admits: false,
            security: None,
            timing: Timing {
                pause: Duration::from_millis(2),
                pause_most: Duration::from_millis(50),
                ..Timing::default()
            },
        };
        Node::start(options, number == GATEWAY, life, &self.shared)
    }

    /// A node dies, and starts again in another life.
    pub fn restart(&mut self, number: NodeId, life: u32) {
        let at = self.nodes.iter().position(|node| node.number == number).unwrap();
        self.nodes.remove(at).stop();
        let node = self.node(number, life);
        self.nodes.push(node);
    }

    pub fn controller(&self) -> Controller {
        in_the_end(|| {
            let configuration = Configuration::load(&self.file()).unwrap();
            Controller::start(configuration, self.socket(), None, |error| panic!("{error}"))
        })
    }

    pub fn client(&self) -> Client {
        Client::of("controller", Server::Socket(self.socket())).unwrap()
    }

    /// Users that a node owns, by its own account.
    pub fn owned(&self, number: NodeId) -> usize {
        let owners = self.shared.owners.lock().unwrap();
        owners.values().filter(|nodes| **nodes == [number]).count()
    }

    /// Waits until every user is settled, by the controller's account.
    pub fn settle(&self, client: &Client, users: usize) {
        until("a settled state", || {
            // It may be about to start.
            let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap_or_default();
            let settled: usize = nodes.iter().map(|node| node.users).sum();
            let moving: usize = nodes.iter().map(|node| node.moving).sum();
            (settled, moving) == (users, 0)
        });
    }

    /// Waits until the controller has heard of all nodes.
    pub fn meet(&self, client: &Client) {
        until("three nodes", || {
            let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap_or_default();
            nodes.len() == 3
                && nodes.iter().all(|node| node.connected && node.incarnation.is_some())
        });
    }

    /// Adds users, each with that anchor and node.
    pub fn add(&self, client: &Client, users: RangeInclusive<u64>, place: &str) {
        for user in users {
            let path = format!("/v1/users/{user}");
            let _: api::User = client.put(&path, place.to_owned()).unwrap();
        }
    }

    /// Hands all users of a node over, and waits for the end.
    pub fn drain(&self, client: &Client, from: &str, to: &str) -> api::Handover {
        let order = format!(r#"{{"allFrom":"{from}","to":"{to}"}}"#);
        // A node that has just started is not connected yet.
        let handover: api::Handover = in_the_end(|| client.post("/v1/handovers", order.clone()));
        self.finish(client, handover.id)
    }

    pub fn finish(&self, client: &Client, id: u64) -> api::Handover {
        let since = Instant::now();
        loop {
            let handover: api::Handover =
                client.get(&format!("/v1/handovers/{id}?wait=20")).unwrap();
            if handover.finished {
                return handover;
            }
            assert!(since.elapsed() < PATIENCE, "an order does not come to its end");
        }
    }

    /// What the controller and the stations say of users agrees.
    pub fn check(&self, client: &Client, users: u64) {
        let owners = self.shared.owners.lock().unwrap().clone();
        let mut first = 1;
        while first <= users {
            let page: Vec<api::User> =
                client.get(&format!("/v1/users?first={first}&count=10000")).unwrap();
            assert!(!page.is_empty(), "{users} users, and none from {first} on");
            for user in &page {
                assert_eq!((user.user, user.state.as_str()), (first, "Settled"));
                let owner = match user.owner.as_deref() {
                    Some("a") => A,
                    Some("b") => B,
                    other => panic!("user {first} is at {other:?}"),
                };
                assert_eq!(owners[&User(first)], [owner], "user {first}");
                first += 1;
            }
        }
    }
}
