//! Transports among themselves, and among those who mean no good.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Leg, Message, NodeId, Step, User};
use weft_mobility_transport::hello::Hello;
use weft_mobility_transport::note::{N4Note, Note, Question};
use weft_mobility_transport::{
    Event, Options, PeerAddress, Sender, Statistics, Timing, Token, Transport,
};

const TOKEN: &str = "a token for all of these tests";
const CONTROLLER: NodeId = NodeId::CONTROLLER;
/// Longest wait for anything; what is waited for comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct Party {
    transport: Transport,
    events: Receiver<Event>,
}

impl Party {
    fn sender(&self) -> Sender {
        self.transport.sender()
    }

    /// The next message, past whatever else is told.
    fn message(&self) -> Envelope {
        loop {
            match self.events.recv_timeout(PATIENCE).expect("a message") {
                Event::Message(envelope) => return envelope,
                _ => continue,
            }
        }
    }

    fn wait(&self, event: &Event) {
        while self.events.recv_timeout(PATIENCE).expect("an event") != *event {}
    }
}

fn timing() -> Timing {
    Timing {
        pause: Duration::from_millis(2),
        pause_most: Duration::from_millis(20),
        alive: Duration::from_millis(50),
        // A machine under load keeps a thread waiting for long.
        silence: Duration::from_secs(10),
        ..Timing::default()
    }
}

fn token() -> Token {
    Token::new(&TOKEN.replace(' ', "-")).unwrap()
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn start(options: Options) -> Party {
    let (tell, events) = mpsc::channel();
    let transport = Transport::start(options, move |event| tell.send(event).is_ok()).unwrap();
    Party { transport, events }
}

fn options(node: NodeId, name: &str) -> Options {
    Options {
        node,
        name: name.to_owned(),
        listen: local(0),
        token: token(),
        controllers: Vec::new(),
        term: 0,
        places: Vec::new(),
        registration: None,
        admits: false,
        timing: timing(),
        security: None,
    }
}

fn controller(listen: SocketAddr, places: Vec<PeerAddress>) -> Party {
    start(Options { listen, places, ..options(CONTROLLER, "controller") })
}

fn node(number: u32, name: &str, listen: SocketAddr, controller: SocketAddr) -> Party {
    let controllers = vec![controller.to_string()];
    start(Options { listen, controllers, ..options(NodeId(number), name) })
}

/// A free port, for nodes that have to be told of it beforehand.
fn free() -> SocketAddr {
    crate::ports::free(Ipv4Addr::LOCALHOST.into())
}

fn place(number: u32, name: &str, address: SocketAddr) -> PeerAddress {
    PeerAddress { node: NodeId(number), name: name.to_owned(), address: address.to_string() }
}

fn envelope(from: NodeId, to: NodeId, user: u64, step: Step) -> Envelope {
    Envelope {
        from,
        from_incarnation: Incarnation(1),
        to,
        to_incarnation: Incarnation(2),
        message: Message::Handover { user: User(user), epoch: Epoch(3), step },
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} has not come to be");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A controller and two nodes, a and b, all connected.
fn three() -> (Party, Party, Party) {
    let (at_a, at_b) = (free(), free());
    let controller = controller(local(0), vec![place(1, "a", at_a), place(2, "b", at_b)]);
    let a = node(1, "a", at_a, controller.transport.address());
    let b = node(2, "b", at_b, controller.transport.address());
    a.wait(&Event::Connected(CONTROLLER));
    b.wait(&Event::Connected(CONTROLLER));
    let sender = controller.sender();
    until("a connection", || sender.is_connected(NodeId(1)) && sender.is_connected(NodeId(2)));
    (controller, a, b)
}

#[test]
fn messages_reach_whom_they_are_meant_for_in_order() {
    let (controller, a, b) = three();
    for user in 0..1000 {
        controller.sender().send(envelope(CONTROLLER, NodeId(1), user, Step::Release));
        controller.sender().send(envelope(CONTROLLER, NodeId(2), user, Step::Abort));
        a.sender().send(envelope(NodeId(1), CONTROLLER, user, Step::Moved));
    }
    for user in 0..1000 {
        assert_eq!(a.message(), envelope(CONTROLLER, NodeId(1), user, Step::Release));
        assert_eq!(b.message(), envelope(CONTROLLER, NodeId(2), user, Step::Abort));
        assert_eq!(controller.message(), envelope(NodeId(1), CONTROLLER, user, Step::Moved));
    }
    assert_eq!(controller.sender().statistics().sent, 2000);
}

#[test]
fn contexts_go_straight_from_node_to_node_whatever_their_size() {
    let (controller, a, b) = three();
    // Both have something to say before either has dialled the other.
    for user in 0..40 {
        let contexts = |salt: u64| (0..user * 20_000).map(|at| (at * 7 + salt) as u8).collect();
        a.sender().send(envelope(NodeId(1), NodeId(2), user, Step::Contexts(contexts(1))));
        b.sender().send(envelope(NodeId(2), NodeId(1), user, Step::Contexts(contexts(2))));
        let at_b = envelope(NodeId(1), NodeId(2), user, Step::Contexts(contexts(1)));
        let at_a = envelope(NodeId(2), NodeId(1), user, Step::Contexts(contexts(2)));
        assert!(b.message() == at_b && a.message() == at_a, "user {user}");
    }
    assert_eq!(controller.sender().statistics().received, 0);
}

#[test]
fn a_controller_that_starts_again_finds_its_nodes() {
    let at_a = free();
    let first = controller(local(0), vec![place(1, "a", at_a)]);
    let address = first.transport.address();
    let a = node(1, "a", at_a, address);
    a.wait(&Event::Connected(CONTROLLER));
    drop(first);
    a.wait(&Event::Lost(CONTROLLER));
    let second = controller(address, vec![place(1, "a", at_a)]);
    second.wait(&Event::Connected(NodeId(1)));
    second.sender().send(envelope(CONTROLLER, NodeId(1), 5, Step::Complete));
    assert_eq!(a.message(), envelope(CONTROLLER, NodeId(1), 5, Step::Complete));
}

/// A node looks for the controller that leads, and does not go back to one of a lower term,
/// which may not know yet that it was deposed.
#[test]
fn nodes_turn_to_the_controller_that_leads() {
    let (first, second) = (free(), free());
    let places = || vec![place(1, "a", local(9))];
    let lead = |listen, term| {
        start(Options { listen, term, places: places(), ..options(CONTROLLER, "controller") })
    };
    // No controller listens at the first address.
    let newer = lead(second, 20);
    let controllers = vec![first.to_string(), second.to_string()];
    let node = start(Options { controllers, ..options(NodeId(1), "a") });
    until("a connection", || newer.transport.sender().is_connected(NodeId(1)));
    let older = lead(first, 10);
    drop(newer);
    until("an end", || !node.transport.sender().is_connected(CONTROLLER));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!node.transport.sender().is_connected(CONTROLLER));
    drop(older);
    let newest = lead(first, 21);
    until("another one", || newest.transport.sender().is_connected(NodeId(1)));
    until("its other end", || node.transport.sender().is_connected(CONTROLLER));
}

#[test]
fn who_is_not_known_is_not_welcome() {
    let controller = controller(local(0), vec![place(1, "a", free())]);
    let address = controller.transport.address();
    let other = Token::new("another-token-than-that").unwrap();
    let refused = [
        Options { token: other, ..options(NodeId(1), "a") },
        options(NodeId(2), "a"),
        options(NodeId(1), "b"),
    ];
    for options in refused {
        let before = controller.sender().statistics().violations;
        let node = start(Options { controllers: vec![address.to_string()], ..options });
        until("a refusal", || controller.sender().statistics().violations > before + 1);
        assert!(!node.sender().is_connected(CONTROLLER));
    }
    assert!(controller.events.try_recv().is_err());
}

/// A connection that has greeted the controller as node 1.
fn greeted(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = Hello {
        from: NodeId(1),
        to: CONTROLLER,
        token: token().octets().to_vec(),
        name: "a".to_owned(),
        registration: None,
    };
    stream.write_all(&hello.emit()).unwrap();
    let mut answer = [0; 16];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[..6], b"WEFT\x02\0");
    stream
}

/// Reads until the other side ends the connection.
fn is_ended(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn hostile_octets_end_their_connection_and_no_other() {
    let controller = controller(local(0), vec![place(1, "a", free()), place(2, "b", free())]);
    let address = controller.transport.address();
    let b = node(2, "b", local(0), address);
    b.wait(&Event::Connected(CONTROLLER));
    let violations = || controller.sender().statistics().violations;

    for greeting in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0xff; 40], &[0; 40]] {
        let before = violations();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The end may have come while we were still at it.
        let _ = stream.write_all(greeting);
        assert!(is_ended(stream));
        until("a count", || violations() == before + 1);
    }

    let mut foreign = Vec::new();
    envelope(NodeId(2), CONTROLLER, 1, Step::Moved).emit(&mut foreign).unwrap();
    let mut astray = Vec::new();
    envelope(NodeId(1), NodeId(2), 1, Step::Moved).emit(&mut astray).unwrap();
    let mut long = Vec::new();
    envelope(NodeId(1), CONTROLLER, 1, Step::Moved).emit(&mut long).unwrap();
    long[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    for octets in [&foreign[..], &astray, &long, b"nonsense behind a greeting"] {
        let before = violations();
        let mut stream = greeted(address);
        stream.write_all(octets).unwrap();
        assert!(is_ended(stream));
        until("a count", || violations() == before + 1);
    }

    b.sender().send(envelope(NodeId(2), CONTROLLER, 9, Step::Moved));
    assert_eq!(controller.message(), envelope(NodeId(2), CONTROLLER, 9, Step::Moved));
}

/// A question reaches a node, and no place comes of it; what the node says is heard where nodes may
/// register, and ends the connection elsewhere.
#[test]
fn a_node_is_asked_and_answers() {
    for admits in [true, false] {
        let places = vec![place(1, "a", free())];
        let controller = start(Options { places, admits, ..options(CONTROLLER, "controller") });
        let a = node(1, "a", local(0), controller.transport.address());
        let unknown = PeerAddress { address: "what".to_owned(), ..Question::N4.place() };
        let question = Note::Places(vec![unknown, Question::N4.place()]);
        until("a connection", || controller.sender().note(NodeId(1), &question));
        a.wait(&Event::Asked(Question::N4));
        let said = N4Note { addresses: vec![local(0).ip()], ..N4Note::default() };
        assert!(a.sender().note(CONTROLLER, &Note::N4(said.clone())));
        if !admits {
            until("a violation", || controller.sender().statistics().violations == 1);
            continue;
        }
        controller.wait(&Event::N4(NodeId(1), said));
        let answer = N4Note { number: 7, ..N4Note::default() };
        assert!(controller.sender().note(NodeId(1), &Note::N4(answer.clone())));
        a.wait(&Event::N4(CONTROLLER, answer));
        // It dials the controller still, as before.
        assert!(a.sender().is_connected(CONTROLLER));
    }
}

#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let controller = start(Options {
        places: vec![place(1, "a", free())],
        timing: Timing { silence: Duration::from_secs(1), ..timing() },
        ..options(CONTROLLER, "controller")
    });
    let stream = greeted(controller.transport.address());
    controller.wait(&Event::Connected(NodeId(1)));
    controller.wait(&Event::Lost(NodeId(1)));
    assert!(is_ended(stream));
}

#[test]
fn a_peer_that_does_not_read_costs_its_own_messages_only() {
    let at_a = free();
    let short = Timing { queue: 100, queue_octets: 1 << 20, ..timing() };
    let controller = start(Options {
        places: vec![place(1, "a", at_a)],
        timing: short,
        ..options(CONTROLLER, "controller")
    });
    // There is no such node: dropped at once.
    controller.sender().send(envelope(CONTROLLER, NodeId(1), 1, Step::Abort));
    assert_eq!(controller.sender().statistics().unconnected, 1);
    let stream = greeted(controller.transport.address());
    controller.wait(&Event::Connected(NodeId(1)));
    let sender = controller.sender();
    let full = |statistics: Statistics| statistics.queue_full > 0;
    until("a full queue", || {
        sender.send(envelope(CONTROLLER, NodeId(1), 1, Step::Contexts(vec![7; 100_000])));
        full(sender.statistics())
    });
    drop(stream);
    controller.wait(&Event::Lost(NodeId(1)));
    // The room is there again for the next that comes.
    let a = node(1, "a", at_a, controller.transport.address());
    controller.wait(&Event::Connected(NodeId(1)));
    controller.sender().send(envelope(CONTROLLER, NodeId(1), 2, Step::Complete));
    while a.message() != envelope(CONTROLLER, NodeId(1), 2, Step::Complete) {}
}

/// Passes octets on, and cuts the connection after every so many of them.
fn cutting_relay(to: SocketAddr, after: usize) -> SocketAddr {
    let listener = TcpListener::bind(local(0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(client), Ok(server)) = (stream, TcpStream::connect(to)) else { return };
            let pass = |mut from: TcpStream, mut to: TcpStream, most: usize| {
                std::thread::spawn(move || {
                    let mut octets = [0; 1000];
                    let mut passed = 0;
                    while let Ok(read @ 1..) = from.read(&mut octets) {
                        let read = read.min(most - passed);
                        passed += read;
                        if to.write_all(&octets[..read]).is_err() || passed == most {
                            break;
                        }
                    }
                    let _ = from.shutdown(std::net::Shutdown::Both);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                })
            };
            pass(server.try_clone().unwrap(), client.try_clone().unwrap(), usize::MAX);
            pass(client, server, after);
        }
    });
    address
}

#[test]
fn a_cut_loses_messages_and_changes_none() {
    let controller = controller(local(0), vec![place(1, "a", free())]);
    let relay = cutting_relay(controller.transport.address(), 20_011);
    let a = node(1, "a", local(0), relay);
    let mut seen = 0;
    let mut cuts = 0;
    let mut user = 0;
    let mut last_cut = Instant::now();
    while cuts < 20 {
        assert!(last_cut.elapsed() < PATIENCE);
        user += 1;
        let leg = Leg { node: NodeId(1), incarnation: Incarnation(4), epoch: Epoch(user) };
        a.sender().send(envelope(NodeId(1), CONTROLLER, user, Step::Move { target: leg }));
        while let Ok(event) = controller.events.try_recv() {
            let Event::Message(envelope) = event else {
                if event == Event::Lost(NodeId(1)) {
                    (cuts, last_cut) = (cuts + 1, Instant::now());
                }
                continue;
            };
            let Message::Handover { user, step: Step::Move { target }, .. } = envelope.message
            else {
                panic!("{envelope:?} was never sent")
            };
            assert!(user.0 > seen && target.epoch.0 == user.0, "{user} after {seen}");
            seen = user.0;
        }
        std::thread::yield_now();
    }
    assert_eq!(controller.sender().statistics().violations, 0);
    assert!(seen > 0);
}
