//! Two nodes and who grants them the users, over connections of this machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weft_mobility_protocol::standby::{Position, StandbyStep};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Message, NodeId};
use weft_mobility_standby::{Options, Pair, PairView, Successor, Told};
use weft_mobility_transport::{
    self as transport, Event, PeerAddress, Sender, Timing, Token, Transport,
};
use weft_state::{Change, Durability, Kind, Owner, Role, Store, Writer};

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const LEASE: u32 = 400;
const KIND: Kind = Kind(9);

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn options(node: NodeId, listen: SocketAddr, controllers: Vec<String>) -> transport::Options {
    transport::Options {
        node,
        name: format!("n{}", node.0),
        listen,
        token: Token::new("a-token-for-this-one-test").unwrap(),
        controllers,
        term: 0,
        places: Vec::new(),
        registration: None,
        admits: false,
        timing: Timing { pause_most: Duration::from_millis(100), ..Timing::default() },
        security: None,
    }
}

/// Grants the users to one node, in an epoch, and believes what it says of the standby.
struct Controller {
    transport: Transport,
    owner: Arc<AtomicU32>,
    epoch: Arc<AtomicU32>,
    whole: Arc<AtomicBool>,
    is_silent: Arc<AtomicBool>,
}

impl Controller {
    fn start(places: [(NodeId, SocketAddr); 2]) -> Controller {
        let owner = Arc::new(AtomicU32::new(A.0));
        let epoch = Arc::new(AtomicU32::new(1));
        let (whole, is_silent) = (Arc::new(AtomicBool::new(false)), Arc::<AtomicBool>::default());
        let sender: Arc<OnceLock<Sender>> = Arc::default();
        let mut own = options(NodeId::CONTROLLER, free_address(), Vec::new());
        own.places = places
            .map(|(node, address)| PeerAddress {
                node,
                name: format!("n{}", node.0),
                address: address.to_string(),
            })
            .to_vec();
        let (shared, silent) = ((owner.clone(), epoch.clone(), whole.clone()), is_silent.clone());
        let answering = sender.clone();
        let deliver = move |event: Event| {
            let Event::Message(Envelope {
                from,
                message: Message::Standby(StandbyStep::Claim { stamp, whole: said, .. }),
                ..
            }) = event
            else {
                return true;
            };
            if silent.load(Ordering::SeqCst) {
                return true;
            }
            let (owner, epoch, whole) = &shared;
            let epoch = Epoch(epoch.load(Ordering::SeqCst).into());
            let (lease, peer) = (LEASE, if from == A { B } else { A });
            let step = if from.0 == owner.load(Ordering::SeqCst) {
                whole.store(said, Ordering::SeqCst);
                StandbyStep::Grant { epoch, stamp, lease, whole: said, peer }
            } else {
                StandbyStep::Deny { epoch, stamp, lease, peer }
            };
            say(answering.wait(), NodeId::CONTROLLER, from, step);
            true
        };
        let transport = Transport::start(own, deliver).unwrap();
        let _ = sender.set(transport.sender());
        Controller { transport, owner, epoch, whole, is_silent }
    }

    fn address(&self) -> Vec<String> {
        vec![self.transport.address().to_string()]
    }

    fn promote(&self, node: NodeId) {
        self.owner.store(node.0, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

fn say(sender: &Sender, from: NodeId, to: NodeId, step: StandbyStep) {
    sender.send(Envelope {
        from,
        from_incarnation: Incarnation(1),
        to,
        to_incarnation: Incarnation(0),
        message: Message::Standby(step),
    });
}

struct Node {
    pair: Pair,
    told: Receiver<Told>,
    until: Arc<Mutex<Instant>>,
    view: Box<dyn Fn() -> PairView>,
}

fn store(folder: &TempDir, node: NodeId) -> Store {
    let owner = Owner { role: Role::Node, name: format!("n{}", node.0) };
    Store::open(&folder.path().join(&owner.name), &owner).unwrap()
}

fn part(node: NodeId, listen: SocketAddr, of: &Controller, life: u32) -> Options {
    Options {
        transport: options(node, listen, of.address()),
        incarnation: Incarnation(life),
        waits: true,
        bound: 1 << 20,
    }
}

fn node(node: NodeId, listen: SocketAddr, of: &Controller, life: u32, store: Store) -> Node {
    let options = part(node, listen, of, life);
    let (tell, told) = mpsc::channel();
    let until = Arc::new(Mutex::new(Instant::now()));
    let extended = until.clone();
    let pair = Pair::start(
        options,
        store,
        move |one| drop(tell.send(one)),
        move |until| *extended.lock().unwrap() = until,
    )
    .unwrap();
    let view = Box::new(pair.view());
    Node { pair, told, until, view }
}

impl Node {
    fn owns(&self) -> Store {
        let (mut records, mut all) = (Records::new(), 0);
        loop {
            match self.told.recv_timeout(Duration::from_secs(60)) {
                Ok(Told::Own(store, _)) => return store,
                Ok(told) => follow(told, &mut records, &mut all),
                other => panic!("{other:?}"),
            }
        }
    }

    fn holds(&self) -> bool {
        Instant::now() < *self.until.lock().unwrap()
    }
}

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Does to `records` what a node is told of them; `all` counts how often it was told of all.
fn follow(told: Told, records: &mut Records, all: &mut u32) {
    match told {
        Told::All(snapshot) => {
            *records = every(&snapshot);
            *all += 1;
        }
        Told::Changed(changes) => {
            for change in changes.iter().filter(|change| change.kind() == KIND) {
                match change.stored().1 {
                    Some(value) => drop(records.insert(change.key().to_vec(), value.to_vec())),
                    None => drop(records.remove(change.key())),
                }
            }
        }
        Told::Anew => records.clear(),
        other => panic!("{other:?}"),
    }
}

fn every(records: &dyn weft_state::Records) -> Records {
    let mut all = Records::new();
    let mut add = |key: &[u8], version: u8, record: &[u8]| {
        all.insert(key.to_vec(), [&[version], record].concat());
        Ok(())
    };
    records.each_of(KIND, &mut add).unwrap();
    all
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a record and waits for the answer.
fn write(writer: &Writer, key: u32, octets: usize) {
    let (done, answered) = mpsc::channel();
    let change = Change::put(KIND, &key.to_be_bytes(), 1, &vec![key as u8; octets]);
    writer.write(vec![change], vec![Box::new(move |outcome| drop(done.send(outcome)))]);
    answered.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
}

fn count(store: &Store) -> usize {
    let mut count = 0;
    store
        .each(KIND, |_, _, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
    count
}

#[test]
fn a_standby_has_what_was_answered_and_owns_the_users_when_it_is_granted_them() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    let a = node(A, at_a, &controller, 1, store(&folder, A));
    let writer = Writer::start(a.owns(), Durability::Durable).unwrap();
    assert!(a.holds());
    // More than may be under way at once, before there is a standby.
    (0..60).for_each(|key| write(&writer, key, 100_000));
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    wait_until("the standby has all", || {
        (a.view)().whole && controller.whole.load(Ordering::SeqCst)
    });
    (60..100).for_each(|key| write(&writer, key, 1000));
    // It goes on where it was when it starts again.
    drop(b);
    let b = node(B, at_b, &controller, 3, store(&folder, B));
    wait_until("the standby has all again", || (a.view)().whole && (b.view)().whole);
    (100..120).for_each(|key| write(&writer, key, 1000));
    assert_eq!((a.view)().copies, 1);
    // The controller is away, and the owner goes on by the word of its standby.
    controller.is_silent.store(true, Ordering::SeqCst);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(3 * u64::from(LEASE)) {
        assert!(a.holds(), "the standby is heard");
        thread::sleep(Duration::from_millis(5));
    }
    controller.is_silent.store(false, Ordering::SeqCst);
    // The standby is granted the users while the owner still lives.
    controller.promote(B);
    let taken = b.owns();
    assert!(!a.holds(), "two nodes own the users");
    assert_eq!(count(&taken), 120);
    match a.told.recv_timeout(Duration::from_secs(60)) {
        Ok(Told::End(why)) => assert_eq!(why, "node 2 owns the users, in epoch 2"),
        other => panic!("{other:?}"),
    }
    // The one that comes back stands by, with what the other one has.
    drop((a, writer));
    let writer = Writer::start(taken, Durability::Durable).unwrap();
    let back = node(A, at_a, &controller, 4, store(&folder, A));
    write(&writer, 500, 10);
    wait_until("the former owner has all", || (b.view)().whole && (back.view)().whole);
    drop(writer);
    assert!(b.pair.leave(Duration::from_secs(60)));
    assert!(!b.holds());
    controller.promote(A);
    assert_eq!(count(&back.owns()), 121);
}

/// Another process of node A goes on with what the first one has given.
fn goes_on(successor: Successor, options: Options, given: &[u8], since: Instant) -> Node {
    let (tell, told) = mpsc::channel();
    let until = Arc::new(Mutex::new(Instant::now()));
    let extended = until.clone();
    let pair = successor
        .go_on(
            options,
            (given, since),
            move |one| drop(tell.send(one)),
            move |until| *extended.lock().unwrap() = until,
        )
        .unwrap();
    let view = Box::new(pair.view());
    Node { pair, told, until, view }
}

/// The process of the owner gives its part to another one, again and again: the standby is given
/// nothing twice and has all that is answered, and what one process has it has alone.
#[test]
fn another_process_goes_on_as_the_owner_and_the_standby_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    let mut a = node(A, at_a, &controller, 1, store(&folder, A));
    let mut writer = Writer::start(a.owns(), Durability::Durable).unwrap();
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    (0..20).for_each(|key| write(&writer, key, 1000));
    wait_until("the standby has all", || (a.view)().whole);
    for life in 3..6 {
        let feed = writer.stop().unwrap().feed().unwrap().clone();
        // One that comes to nothing: the first process goes on, and so does its feed.
        let (_, given) = a.pair.give().unwrap();
        given.resume();
        let mut again = store(&folder, A);
        again.feed_into(feed);
        let between = Writer::start(again, Durability::Durable).unwrap();
        write(&between, 100 + life, 10);
        wait_until("the standby has all", || (a.view)().whole && (a.view)().waiting == 0);
        drop(between);
        let successor = Successor::new(1 << 20);
        let mut next = store(&folder, A);
        next.feed_into(successor.feed());
        let since = Instant::now();
        let (octets, given) = a.pair.give().unwrap();
        let before = a;
        a = goes_on(successor, part(A, at_a, &controller, life), &octets, since);
        // It cannot have heard anything yet.
        assert!(*a.until.lock().unwrap() <= *before.until.lock().unwrap(), "a longer lease");
        drop(given);
        writer = Writer::start(next, Durability::Durable).unwrap();
        write(&writer, 200 + life, 10);
        wait_until("the one before has ended", || before.pair.is_finished());
        assert!(!before.holds());
        wait_until("the standby has all", || (a.view)().whole && (a.view)().waiting == 0);
    }
    assert_eq!((b.view)().copies, 1);
    assert!(a.told.try_recv().is_err());
    wait_until("it holds", || a.holds());
    // One that does not own the users gives nothing.
    assert!(b.pair.give().is_none());
    // It is killed: the standby has all that was answered.
    drop((a, writer));
    controller.promote(B);
    assert_eq!(count(&b.owns()), 26);
}

#[test]
fn a_standby_that_is_not_level_is_given_a_copy_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    let a = node(A, at_a, &controller, 1, store(&folder, A));
    let writer = Writer::start(a.owns(), Durability::Durable).unwrap();
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    write(&writer, 1, 10);
    wait_until("the standby has all", || (a.view)().whole);
    drop(b);
    writer.write(vec![Change::put(KIND, b"unanswered", 1, b"x")], Vec::new());
    drop(writer);
    let successor = Successor::new(1 << 20);
    let mut next = store(&folder, A);
    next.feed_into(successor.feed());
    let since = Instant::now();
    let (octets, given) = a.pair.give().unwrap();
    let next_a = goes_on(successor, part(A, at_a, &controller, 3), &octets, since);
    drop(given);
    // What is answered without the standby, the controller knows that it lacks.
    let writer = Writer::start(next, Durability::Durable).unwrap();
    write(&writer, 2, 10);
    assert!(!controller.whole.load(Ordering::SeqCst));
    let b = node(B, at_b, &controller, 4, store(&folder, B));
    wait_until("the standby has all", || (next_a.view)().whole && (b.view)().whole);
    assert_eq!((b.view)().copies, 1);
    drop((next_a, writer, a));
    controller.promote(B);
    assert_eq!(count(&b.owns()), 3);
}

#[test]
fn words_that_are_none_are_not_gone_on_with() {
    let options =
        part(A, free_address(), &Controller::start([(A, free_address()), (B, free_address())]), 1);
    let outcome =
        Successor::new(1 << 20).go_on(options, (b"users", Instant::now()), |_| {}, |_| {});
    assert!(outcome.is_err());
}

/// A standby tells its node of all records and of each change, from the beginning again where
/// that has let too many wait. When the node owns the users, it knows what is in its store.
#[test]
fn a_standby_tells_its_node_of_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    let a = node(A, at_a, &controller, 1, store(&folder, A));
    let writer = Writer::start(a.owns(), Durability::Durable).unwrap();
    (0..30).for_each(|key| write(&writer, key, 1000));
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    let (mut records, mut all) = (Records::new(), 0);
    let mut take = |until: &dyn Fn(&Records) -> bool| {
        let begun = Instant::now();
        while !until(&records) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} records", records.len());
            if let Ok(told) = b.told.recv_timeout(Duration::from_millis(20)) {
                follow(told, &mut records, &mut all);
            }
        }
        all
    };
    assert_eq!(take(&|records| records.len() == 30), 1);
    (30..60).for_each(|key| write(&writer, key, 1000));
    assert_eq!(take(&|records| records.len() == 60), 1);
    // More than the node lets wait: what it had does not hold any more, and it gets all again.
    (60..80).for_each(|key| write(&writer, key, 100_000));
    assert_eq!(take(&|records| records.len() == 80), 2);
    // The node asks for all of them itself.
    b.pair.follow_anew();
    take(&|records| records.is_empty());
    assert_eq!(take(&|records| records.len() == 80), 3);
    writer.write(vec![Change::remove(KIND, &5_u32.to_be_bytes())], Vec::new());
    take(&|records| records.len() == 79);
    controller.promote(B);
    let store = loop {
        match b.told.recv_timeout(Duration::from_secs(60)) {
            Ok(Told::Own(store, _)) => break store,
            Ok(told) => follow(told, &mut records, &mut all),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(records, every(&store));
}

#[test]
fn answers_wait_until_it_is_known_that_the_standby_lacks_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    let a = node(A, at_a, &controller, 1, store(&folder, A));
    let writer = Writer::start(a.owns(), Durability::Durable).unwrap();
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    wait_until("the standby has all", || (a.view)().whole);
    drop(b);
    write(&writer, 1, 10);
    assert!(!controller.whole.load(Ordering::SeqCst), "it was answered, and is lost with the node");
    // Neither is heard: the owner carries nothing.
    controller.is_silent.store(true, Ordering::SeqCst);
    wait_until("the lease ends", || !a.holds());
}

#[test]
fn a_standby_believes_its_owner_in_its_epoch_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (at_a, at_b) = (free_address(), free_address());
    let controller = Controller::start([(A, at_a), (B, at_b)]);
    controller.epoch.store(7, Ordering::SeqCst);
    let b = node(B, at_b, &controller, 2, store(&folder, B));
    wait_until("it stands by", || (b.view)().epoch == 7);
    // Who knows the token and is called so, but speaks of an epoch that is over.
    let false_owner = options(A, at_a, controller.address());
    let transport = Transport::start(false_owner, |_| true).unwrap();
    let sender = transport.sender();
    wait_until("it is heard", || sender.is_connected(NodeId::CONTROLLER));
    let at = Position { stream: Incarnation(9), whole: false, base: 0, number: 0 };
    let old = Epoch(6);
    let octets = b"\x02\0\0\x09\x01\0\0\0\x01".to_vec();
    wait_until("it is refused", || {
        say(&sender, A, B, StandbyStep::Alive { epoch: old, stamp: 1, newest: 1, leaves: true });
        let octets = octets.clone();
        say(&sender, A, B, StandbyStep::Records { epoch: old, at, is_last: true, octets });
        (b.view)().refused > 4
    });
    assert_eq!(((b.view)().pieces, (b.view)().whole), (0, false));
    // In its epoch, octets that are none end it in one line.
    say(
        &sender,
        A,
        B,
        StandbyStep::Records { epoch: Epoch(7), at, is_last: true, octets: vec![9; 7] },
    );
    match b.told.recv_timeout(Duration::from_secs(60)) {
        Ok(Told::End(why)) => assert_eq!(why, "records of the other node: records that are none"),
        other => panic!("{other:?}"),
    }
}
