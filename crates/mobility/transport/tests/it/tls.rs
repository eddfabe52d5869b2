//! Transports that show certificates, among themselves and among those who have none, or those
//! of others.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use time::OffsetDateTime;
use weft_http::client::{Client, Server};
use weft_http::tls::{CertificateFiles, Mutual, Trust};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Message, NodeId, Step, User};
use weft_mobility_transport::hello::Hello;
use weft_mobility_transport::{Event, Options, PeerAddress, Security, Timing, Token, Transport};

use crate::ports::free;

const TOKEN: &str = "a-token-that-everyone-knows";
const CONTROLLER: NodeId = NodeId::CONTROLLER;
/// Longest wait for anything; what is waited for comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a certificate is valid, where it is to be so for long.
const LONG: Duration = Duration::from_secs(3600);

/// An authority, and where its certificates are.
struct Authority {
    folder: TempDir,
    signer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut own = CertificateParams::default();
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let folder = tempfile::tempdir().unwrap();
        let signed = own.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("authority.pem"), signed.pem()).unwrap();
        Authority { folder, signer: Issuer::new(own, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self, name: &str) -> CertificateFiles {
        CertificateFiles {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}-key.pem")),
            authority: self.path("authority.pem"),
        }
    }

    /// Signs a certificate, in the place of one of that name.
    fn issue(&self, name: &str, valid: Duration) {
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new([name.to_owned()]).unwrap();
        leaf.not_after = OffsetDateTime::now_utc() + valid;
        let signed = leaf.signed_by(&key, &self.signer).unwrap();
        let CertificateFiles { certificate, key: private, .. } = self.files(name);
        std::fs::write(private, key.serialize_pem()).unwrap();
        std::fs::write(certificate, signed.pem()).unwrap();
    }

    fn security(&self, name: &str) -> Security {
        self.issue(name, LONG);
        let mutual = Mutual::load(name, &self.files(name)).unwrap();
        Security { mutual, controller: "site".to_owned() }
    }
}

struct Party {
    transport: Transport,
    events: Receiver<Event>,
}

impl Party {
    fn start(options: Options) -> Party {
        let (tell, events) = mpsc::channel();
        let transport = Transport::start(options, move |event| tell.send(event).is_ok()).unwrap();
        Party { transport, events }
    }

    fn wait(&self, event: &Event) {
        while self.events.recv_timeout(PATIENCE).expect("an event") != *event {}
    }

    fn violations(&self) -> u64 {
        self.transport.sender().statistics().violations
    }

    fn is_with(&self, node: u32) -> bool {
        self.transport.sender().is_connected(NodeId(node))
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} has not come to be");
        thread::sleep(Duration::from_millis(2));
    }
}

fn options(node: u32, name: &str, listen: SocketAddr, security: Security) -> Options {
    Options {
        node: NodeId(node),
        name: name.to_owned(),
        listen,
        token: Token::new(TOKEN).unwrap(),
        controllers: Vec::new(),
        term: 0,
        places: Vec::new(),
        registration: None,
        admits: false,
        timing: Timing {
            pause: Duration::from_millis(2),
            pause_most: Duration::from_millis(20),
            greeting: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            ..Timing::default()
        },
        security: Some(security),
    }
}

/// A controller named site, of the nodes a (1) and b (2).
struct Site {
    authority: Authority,
    controller: Party,
    at: [SocketAddr; 2],
}

impl Site {
    fn at(address: impl Into<IpAddr>) -> Site {
        let (authority, address) = (Authority::new(), address.into());
        let at = [free(address), free(address)];
        let place = |(number, (name, at)): (u32, (&str, SocketAddr))| PeerAddress {
            node: NodeId(number),
            name: name.to_owned(),
            address: at.to_string(),
        };
        let places = (1..).zip(["a", "b"].into_iter().zip(at)).map(place).collect();
        let security = authority.security("site");
        let own = options(0, "site", SocketAddr::new(address, 0), security);
        let controller = Party::start(Options { node: CONTROLLER, places, ..own });
        Site { authority, controller, at }
    }

    fn new() -> Site {
        Site::at(Ipv4Addr::LOCALHOST)
    }

    /// One that says it is the node of that number and name, and shows what it has.
    fn node(&self, number: u32, name: &str, security: Security) -> Party {
        let controllers = vec![self.controller.transport.address().to_string()];
        let listen = self.at[number as usize - 1];
        Party::start(Options { controllers, ..options(number, name, listen, security) })
    }

    fn right(&self, number: u32, name: &str) -> Party {
        let node = self.node(number, name, self.authority.security(name));
        node.wait(&Event::Connected(CONTROLLER));
        node
    }

    /// It is refused again and again, and the right node is let in.
    fn refuses(&self, wrong: Party) {
        let before = self.controller.violations();
        until("a refusal", || self.controller.violations() > before + 2);
        assert!(!self.controller.is_with(1), "it spoke for a");
        assert!(wrong.events.try_iter().all(|event| event != Event::Connected(CONTROLLER)));
        drop(wrong);
        let right = self.right(1, "a");
        until("a connection", || self.controller.is_with(1));
        drop(right);
    }
}

fn envelope(from: u32, to: u32, user: u64) -> Envelope {
    Envelope {
        from: NodeId(from),
        from_incarnation: Incarnation(1),
        to: NodeId(to),
        to_incarnation: Incarnation(2),
        message: Message::Handover {
            user: User(user),
            epoch: Epoch(3),
            step: Step::Contexts(b"a key of ESP".repeat(10_000)),
        },
    }
}

/// Sends a message until it has come, as the protocol does.
fn exchange(from: &Party, to: &Party, envelope: Envelope) {
    let expected = Event::Message(envelope.clone());
    let (start, again) = (Instant::now(), Duration::from_secs(2));
    while start.elapsed() < PATIENCE {
        from.transport.sender().send(envelope.clone());
        let round = Instant::now();
        while let Some(left) = again.checked_sub(round.elapsed())
            && let Ok(event) = to.events.recv_timeout(left)
        {
            if event == expected {
                return;
            }
        }
    }
    panic!("no message came");
}

#[test]
fn nodes_and_controller_speak_to_each_other_over_both_ip_versions() {
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let site = Site::at(address);
        let (a, b) = (site.right(1, "a"), site.right(2, "b"));
        until("a connection", || site.controller.is_with(1) && site.controller.is_with(2));
        exchange(&site.controller, &a, envelope(0, 1, 1));
        exchange(&a, &site.controller, envelope(1, 0, 2));
        exchange(&a, &b, envelope(1, 2, 3));
        exchange(&b, &a, envelope(2, 1, 4));
        assert_eq!([&site.controller, &a, &b].map(Party::violations), [0, 0, 0]);
    }
}

#[test]
fn a_node_of_another_authority_is_refused() {
    let (site, other) = (Site::new(), Authority::new());
    other.issue("a", LONG);
    // It believes both, so it would talk to the controller.
    let files = other.files("a");
    let both = [site.authority.files("a").authority, files.authority.clone()];
    let both = both.map(|file| std::fs::read_to_string(file).unwrap()).concat();
    std::fs::write(&files.authority, both).unwrap();
    let mutual = Mutual::load("a", &files).unwrap();
    let security = Security { mutual, controller: "site".to_owned() };
    site.refuses(site.node(1, "a", security));
}

#[test]
fn a_node_that_says_it_is_another_is_refused() {
    let site = Site::new();
    let security = site.authority.security("b");
    site.refuses(site.node(1, "a", security.clone()));
    // Nor is it one of another number.
    site.refuses(site.node(1, "b", security));
}

#[test]
fn an_expired_certificate_is_refused_here_and_there() {
    let site = Site::new();
    site.authority.issue("a", Duration::from_secs(2));
    let mutual = Mutual::load("a", &site.authority.files("a")).unwrap();
    thread::sleep(Duration::from_secs(3));
    let said = Mutual::load("a", &site.authority.files("a")).unwrap_err().to_string();
    assert!(said.contains("a.pem: not to be used with") && said.contains("xpired"), "{said}");
    site.refuses(site.node(1, "a", Security { mutual, controller: "site".to_owned() }));
}

/// Greets as a node would, over what it is given; the answer of the other end, if any.
fn greet(stream: &mut TcpStream) -> Vec<u8> {
    let (from, to) = (NodeId(1), CONTROLLER);
    let hello = Hello { from, to, token: TOKEN.into(), name: "a".to_owned(), registration: None };
    let _ = stream.write_all(&hello.emit());
    let mut answer = Vec::new();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn who_shows_no_certificate_is_refused() {
    let site = Site::new();
    let address = site.controller.transport.address();
    // Without TLS: the right token says nothing.
    let answer = greet(&mut TcpStream::connect(address).unwrap());
    assert!(!answer.starts_with(b"WEFT"), "{answer:?}");
    until("a refusal", || site.controller.violations() == 1);
    // With TLS, and without a certificate of its own.
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let own = options(0, "localhost", listen, site.authority.security("localhost"));
    let other = Party::start(Options { node: CONTROLLER, ..own });
    let server = Server::Remote {
        address: format!("localhost:{}", other.transport.address().port()),
        token: TOKEN.to_owned(),
        trust: Some(Trust::load(&site.authority.files("site").authority).unwrap()),
    };
    let asked = Client::of("controller", server).unwrap().get::<u32>("/v1/nodes");
    assert!(asked.is_err());
    until("a refusal", || other.violations() == 1);
    site.refuses(site.node(1, "a", site.authority.security("b")));
}

/// A node does not tell its token to one that is not its controller.
#[test]
fn a_controller_has_to_show_that_it_is_the_one() {
    let site = Site::new();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let own = options(0, "site", listen, site.authority.security("b"));
    let wrong = Party::start(Options { node: CONTROLLER, ..own });
    let controllers = vec![wrong.transport.address().to_string()];
    let own = options(1, "a", site.at[0], site.authority.security("a"));
    let a = Party::start(Options { controllers, ..own });
    until("a refusal", || wrong.violations() > 2);
    assert!(a.events.try_iter().next().is_none());
}

/// Passes on what a client says to a server, and keeps it.
fn recorder(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, kept) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let said = kept.clone();
    thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else { return };
        let mut server = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            said.lock().unwrap().extend(&buffer[..length]);
            if server.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    (address, kept)
}

#[test]
fn what_a_node_has_said_is_of_no_use_again_whole_or_in_part() {
    let site = Site::new();
    let address = site.controller.transport.address();
    let (recorded, said) = recorder(address);
    let own = options(1, "a", site.at[0], site.authority.security("a"));
    let a = Party::start(Options { controllers: vec![recorded.to_string()], ..own });
    a.wait(&Event::Connected(CONTROLLER));
    let sent = envelope(1, 0, 7);
    exchange(&a, &site.controller, sent.clone());
    drop(a);
    until("the end of a", || !site.controller.is_with(1));
    let said = said.lock().unwrap().clone();
    let before = site.controller.violations();
    let all = [said.len()].into_iter().chain((0..1000).step_by(37)).chain([2000, 10_000]);
    for length in all {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&said[..length.min(said.len())]);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|four| four == b"WEFT"));
    }
    until("a refusal", || site.controller.violations() > before);
    assert!(!site.controller.is_with(1));
    assert!(site.controller.events.try_iter().all(|event| event != Event::Message(sent.clone())));
}

#[test]
fn a_thousand_who_say_nothing_keep_no_node_out() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let site = Site::new();
    let address = site.controller.transport.address();
    let silent: Vec<_> = (0..1000).filter_map(|_| TcpStream::connect(address).ok()).collect();
    assert!(silent.len() > 900, "{} connections", silent.len());
    let since = Instant::now();
    let (a, b) = (site.right(1, "a"), site.right(2, "b"));
    exchange(&a, &b, envelope(1, 2, 3));
    // Not one after the other has been waited for.
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    drop(silent);
}

#[test]
fn new_certificates_are_used_without_a_restart() {
    let site = Site::new();
    let (a, b) = (site.right(1, "a"), site.right(2, "b"));
    exchange(&a, &b, envelope(1, 2, 1));
    for party in ["a", "b", "site"] {
        site.authority.issue(party, LONG);
    }
    for party in [&a, &b] {
        party.wait(&Event::Lost(CONTROLLER));
        party.wait(&Event::Connected(CONTROLLER));
    }
    exchange(&a, &b, envelope(1, 2, 2));
    // A key that does not belong to its certificate changes nothing.
    std::fs::write(site.authority.files("a").key, KeyPair::generate().unwrap().serialize_pem())
        .unwrap();
    thread::sleep(Duration::from_secs(4));
    exchange(&a, &b, envelope(1, 2, 3));
    assert!(a.is_with(0));
}
