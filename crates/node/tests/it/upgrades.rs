//! A node that another process takes over, as both in this one: what goes along, and what is
//! refused. The kernel's part, ports that both have open, is in `tests/end-to-end/upgrade.sh`.

mod elsewhere;
mod processes;
mod standby;
mod times;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::Kind;
use weft_dataplane::worker::{Copies, Seen, digest};
use weft_function::{
    ConfigError, ContextError, Emit, Fields, NoSettings, Packet, Setup, UserPlaneFunction, Verdict,
};
use weft_node::bearer::session::{Keep, Query, SessionCommand, SessionEvent, SessionId};
use weft_node::show::Snapshot;
use weft_node::{Beside, Node, Predecessor};
use weft_state::{Owner, Role, Store};

use crate::common::{KINDS, Rig, eal, udp};
use crate::sessions::{UPF, downlink, establish, read, uplink, usual};

/// Counts packets, as a release wrote it.
struct Before;

/// The same of the release behind it: contexts hold octets, too.
struct After;

/// One that the first cannot be told of any more.
struct Newer(After);

#[derive(Default)]
struct Count {
    packets: u64,
    octets: u64,
}

fn count(packet: &Packet, context: &mut Count) -> Verdict {
    context.packets += 1;
    context.octets += packet.len() as u64;
    Verdict::Forward
}

impl UserPlaneFunction for Before {
    const NAME: &'static str = "sum";
    const SUMMARY: &'static str = "Counts packets.";
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = Count;

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Before)
    }

    fn process(&mut self, packet: &mut Packet, context: &mut Count, _: &mut Emit<'_>) -> Verdict {
        count(packet, context)
    }

    fn export(&self, context: &Count, out: &mut Vec<u8>) {
        out.extend(context.packets.to_le_bytes());
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Count, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let context = Count { packets: fields.u64()?, octets: 0 };
        fields.end().map(|()| context)
    }

    fn show(&self, context: &Count) -> Vec<(&'static str, u64)> {
        vec![("packets", context.packets)]
    }
}

impl UserPlaneFunction for After {
    const NAME: &'static str = "sum";
    const SUMMARY: &'static str = "Counts packets and octets.";
    const CONTEXT_VERSION: u16 = 2;
    const OLDEST_VERSION: u16 = 1;
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = Count;

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(After)
    }

    fn process(&mut self, packet: &mut Packet, context: &mut Count, _: &mut Emit<'_>) -> Verdict {
        count(packet, context)
    }

    fn export(&self, context: &Count, out: &mut Vec<u8>) {
        out.extend([context.packets, context.octets].into_iter().flat_map(u64::to_le_bytes));
    }

    fn export_as(&self, version: u16, context: &Count, out: &mut Vec<u8>) {
        match version {
            1 => Before.export(context, out),
            _ => self.export(context, out),
        }
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Count, ContextError> {
        let mut fields = Fields::new(bytes);
        let packets = fields.u64()?;
        let octets = match version {
            1 => 0,
            2 => fields.u64()?,
            _ => return Err(ContextError::Version(version)),
        };
        fields.end().map(|()| Count { packets, octets })
    }

    fn show(&self, context: &Count) -> Vec<(&'static str, u64)> {
        vec![("packets", context.packets), ("octets", context.octets)]
    }
}

impl UserPlaneFunction for Newer {
    const NAME: &'static str = "sum";
    const SUMMARY: &'static str = "Counts packets and octets.";
    const CONTEXT_VERSION: u16 = 3;
    const OLDEST_VERSION: u16 = 2;
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = Count;

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Newer(After))
    }

    fn process(&mut self, packet: &mut Packet, context: &mut Count, _: &mut Emit<'_>) -> Verdict {
        count(packet, context)
    }

    fn export(&self, context: &Count, out: &mut Vec<u8>) {
        self.0.export(context, out);
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Count, ContextError> {
        self.0.import(version.min(2), bytes)
    }
}

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: sums}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  sum: {function: sum}
users:
  - {name: ue, count: 2, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> sum
  from sum -> core
";

static BEFORE: [Kind; 1] = [Kind::of::<Before>()];
static AFTER: [Kind; 1] = [Kind::of::<After>()];
static NEWER: [Kind; 1] = [Kind::of::<Newer>()];

fn rig(kinds: &[Kind]) -> Rig {
    Rig::of_kinds(NODE, kinds, |blueprint| Node::build(eal(), blueprint)).unwrap()
}

/// Sends packets of a user of a size.
fn send(rig: &mut Rig, user: u8, count: usize) {
    rig.send(0, &vec![udp([10, 0, 0, 1 + user], [198, 51, 100, 1], b"payload"); count]);
    assert_eq!(rig.receive(1).len(), count);
}

/// What the function has counted of a user.
fn sum(rig: &mut Rig, user: u8) -> Vec<(&'static str, u64)> {
    let (_, answer) = rig.node.agent().contexts_of(&format!("ue-{user}")).unwrap();
    rig.settle();
    answer.recv().unwrap().remove(0).1
}

/// Another process, with another program, takes a node over. The node it has then, or why not
/// and the one that goes on.
fn take_over(
    old: Rig,
    yaml: &str,
    kinds: &[Kind],
    beside: impl Beside + Send + 'static,
    store: Option<Store>,
) -> Result<Rig, (String, Box<Snapshot>)> {
    take_over_with(old, yaml, kinds, beside, (move || store, |_: &[u8], _| {}))
}

/// The same with a store that is opened once the other process has closed it, and with what is
/// told that the node is the new process's.
pub fn take_over_with(
    old: Rig,
    yaml: &str,
    kinds: &[Kind],
    beside: impl Beside + Send + 'static,
    (store, ours): (impl FnOnce() -> Option<Store>, impl FnMut(&[u8], Instant)),
) -> Result<Rig, (String, Box<Snapshot>)> {
    take_over_knowing(old, yaml, kinds, beside, (store, ours, Vec::new()))
}

/// The same by a process that knows what nodes share that users move between.
pub fn take_over_knowing(
    old: Rig,
    yaml: &str,
    kinds: &[Kind],
    mut beside: impl Beside + Send + 'static,
    (store, ours, secret): (impl FnOnce() -> Option<Store>, impl FnMut(&[u8], Instant), Vec<u8>),
) -> Result<Rig, (String, Box<Snapshot>)> {
    let Rig { node, .. } = old;
    let mut running = node.start(eal()).unwrap();
    let (to_new, to_old) = UnixStream::pair().unwrap();
    let given = thread::spawn(move || {
        let _registration = eal().register_thread();
        match running.hand_over(eal(), to_new, &mut beside) {
            Ok(handed_over) => {
                running.leave(handed_over);
                Ok(())
            }
            Err(error) => Err((error.to_string(), running.stop().expect("it goes on").into())),
        }
    });
    let taken = Rig::of_kinds(yaml, kinds, |blueprint| {
        let predecessor = Predecessor::hear(to_old).map_err(|error| error.to_string())?;
        let mut predecessor = predecessor.with_secret(secret);
        predecessor.accept(&blueprint).map_err(|error| error.to_string())?;
        let taken = predecessor.take(eal(), blueprint, store(), ours);
        taken.map(|(node, _)| node).map_err(|error| error.to_string())
    });
    match (given.join().unwrap(), taken) {
        (Ok(()), Ok(rig)) => Ok(rig),
        (Err((of_old, snapshot)), Err(of_new)) => {
            assert!(of_new.contains("the node goes on in the other process"), "{of_new}");
            assert!(of_new.starts_with(&of_old), "{of_new}, {of_old}");
            Err((of_new, snapshot))
        }
        (given, taken) => panic!("{given:?} {:?}", taken.err()),
    }
}

/// 14 octets of Ethernet, 20 of IPv4, 8 of UDP, and the payload.
const OCTETS: u64 = 49;

#[test]
fn contexts_go_to_a_release_with_another_version_of_them_and_back() {
    let mut node = rig(&BEFORE);
    send(&mut node, 1, 2);
    let mut packets = 0;
    for _ in 0..10 {
        send(&mut node, 0, 3);
        node = take_over(node, NODE, &AFTER, (), None).unwrap();
        packets += 3;
        assert_eq!(sum(&mut node, 0), [("packets", packets), ("octets", 0)]);
        send(&mut node, 0, 2);
        packets += 2;
        node = take_over(node, NODE, &AFTER, (), None).unwrap();
        assert_eq!(sum(&mut node, 0), [("packets", packets), ("octets", 2 * OCTETS)]);
        // The release before has no place for octets.
        node = take_over(node, NODE, &BEFORE, (), None).unwrap();
        assert_eq!(sum(&mut node, 0), [("packets", packets)]);
    }
    assert_eq!(sum(&mut node, 1), [("packets", 2)]);
}

#[test]
fn contexts_that_only_a_newer_release_reads_are_refused_and_the_node_goes_on() {
    let mut old = rig(&NEWER);
    send(&mut old, 0, 3);
    let (why, went_on) = take_over(old, NODE, &BEFORE, (), None).err().unwrap();
    assert_eq!(
        why,
        "function sum: contexts of version 3, of a newer release; this one reads up to version 1; \
         the node goes on in the other process"
    );
    assert_eq!(went_on.sent(), 3);
}

#[test]
fn copies_of_what_another_process_has_carried_are_left_out_however_late_they_come() {
    let mut rig = rig(&AFTER);
    let packet = |payload: &[u8]| udp([10, 0, 0, 1], [198, 51, 100, 1], payload);
    let (carried, new) = (packet(b"carried"), packet(b"new"));
    let seen = HashMap::from([(0, Seen::from([(digest(&carried), 3)]))]);
    let copies = Arc::new(Copies::new(seen));
    rig.node.leave_out(&copies);
    // Nothing is delivered yet.
    rig.settle();
    rig.send(0, &[new.clone(), carried.clone()]);
    assert_eq!(rig.receive(1).len(), 1);
    rig.send(0, &[carried.clone(), new]);
    assert_eq!(rig.receive(1).len(), 1);
    // The last copy is there before the end is known, and is looked at behind it.
    copies.end();
    rig.send(0, &[carried.clone(), carried.clone()]);
    assert_eq!((rig.receive(1).len(), copies.dropped()), (1, 3));
    rig.send(0, &[carried]);
    assert_eq!((rig.receive(1).len(), copies.dropped()), (1, 3));
}

fn with_pfcp() -> String {
    let pfcp = "metadata: {name: upf}
pfcp:
  listen: [127.0.0.1]
  like: session
  interfaces:
    - {interface: access, addresses: [10.0.0.254]}
    - {interface: core}
";
    UPF.replace("metadata: {name: upf}\n", pfcp)
}

/// What a control protocol says of sessions, and hears.
#[derive(Default)]
struct Control {
    keep: Vec<Keep>,
    resumed: bool,
}

impl Beside for Control {
    fn pause(&mut self) -> Result<Vec<Keep>, String> {
        assert!(!self.resumed);
        Ok(self.keep.clone())
    }

    fn resume(&mut self) {
        self.resumed = true;
    }

    fn before_yours(&mut self, process: u32, _: usize) -> Result<Vec<u8>, String> {
        assert_eq!(process, std::process::id());
        Ok(Vec::new())
    }
}

/// A node with two sessions, and what a control protocol has of them.
fn with_sessions() -> (Rig, Control) {
    let mut rig = Rig::new(&with_pfcp());
    let mut keep = vec![Keep::Note(b"key".to_vec(), Some(b"note".to_vec()))];
    for n in [1, 2] {
        let changed = rig.node.agent().change_sessions(&[establish(n, usual(n as u8))]);
        assert_eq!(changed.results, [Ok(())]);
        rig.settle();
        keep.push(Keep::session(SessionId(n), "session", &read(usual(n as u8)), &[n as u8]));
    }
    (rig, Control { keep, resumed: false })
}

/// Sends packets of a session, which pass; octets of IP packets.
fn carry(rig: &mut Rig, n: u8, count: usize) -> u64 {
    let up = uplink(0x1000 + u32::from(n), [10, 45, 0, n], b"up");
    rig.send(0, &vec![up; count]);
    assert_eq!(rig.receive(1).len(), count);
    rig.send(1, &[downlink(n, b"down")]);
    assert_eq!(rig.receive(0).len(), 1);
    (count as u64) * 30 + 32
}

/// Asks for the usage of a session: octets, and the number of the report.
fn usage(rig: &mut Rig, n: u8) -> (u64, u32) {
    let events = rig.node.agent().listen_to_sessions();
    let modify = SessionCommand::Modify {
        id: SessionId(n.into()),
        rules: read(usual(n)),
        end_markers: Vec::new(),
        query: Query::All,
        drop_waiting: false,
    };
    assert_eq!(rig.node.agent().change_sessions(&[modify]).results, [Ok(())]);
    rig.settle();
    let told = events.try_iter().find_map(|event| match event {
        SessionEvent::Applied { usage, .. } if !usage.is_empty() => Some(usage[0].1[0]),
        _ => None,
    });
    let told = told.expect("a report");
    (told.volume.octets(), told.sequence)
}

#[test]
fn usage_of_sessions_is_counted_once() {
    let (mut rig, _) = with_sessions();
    let mut octets = [carry(&mut rig, 1, 3), carry(&mut rig, 2, 1)];
    let mut reported = usage(&mut rig, 1).0;
    octets[0] += carry(&mut rig, 1, 2);
    for life in 1..4 {
        let (_, control) = with_sessions();
        rig = take_over(rig, &with_pfcp(), &KINDS, control, None).unwrap();
        let kept = rig.node.agent().kept();
        assert_eq!((kept.keeps, kept.sessions.len()), (false, 2));
        assert!(kept.sessions.iter().all(|one| one.is_there && one.note == [one.id.0 as u8]));
        assert_eq!(kept.notes, [(b"key".to_vec(), b"note".to_vec())]);
        octets[0] += carry(&mut rig, 1, 1);
        octets[1] += carry(&mut rig, 2, 1);
        let (told, number) = usage(&mut rig, 1);
        assert_eq!(number, life);
        reported += told;
        octets[0] += carry(&mut rig, 1, 1);
    }
    reported += usage(&mut rig, 1).0;
    assert_eq!([reported, usage(&mut rig, 2).0], octets);
}

#[test]
fn a_store_that_the_process_before_did_not_have_gets_all() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    let yaml = with_pfcp().replace("pfcp:\n", "state: {directory: unused}\npfcp:\n");
    let open = || Store::open(folder.path(), &owner).unwrap();
    // What an earlier life has left there.
    let stale = Keep::session(SessionId(9), "session", &read(usual(9)), b"stale");
    let mut rig = Rig::restored(&yaml, open()).unwrap();
    rig.node.agent().keep(vec![stale], 0, Box::new(|_| {}));
    rig.node.stop();
    let (rig, control) = with_sessions();
    let rig = take_over(rig, &yaml, &KINDS, control, Some(open())).unwrap();
    rig.node.stop();
    let mut again = Rig::restored(&yaml, open()).unwrap();
    let kept = again.node.agent().kept();
    assert_eq!(kept.sessions.iter().map(|one| one.id.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(kept.notes, [(b"key".to_vec(), b"note".to_vec())]);
    assert_eq!(carry(&mut again, 1, 1), 62);
}

#[test]
fn a_configuration_without_pfcp_is_refused_and_sessions_stay() {
    let (rig, control) = with_sessions();
    let (why, _) = take_over(rig, UPF, &KINDS, control, None).err().unwrap();
    assert_eq!(
        why,
        "the node has 2 PFCP sessions, and the configuration no `pfcp`; the node goes on in the \
         other process"
    );
}

#[test]
fn what_is_to_be_kept_while_the_store_is_closed_is_durable_once_it_is_open_again() {
    let folder = tempfile::tempdir().unwrap();
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    let yaml = with_pfcp().replace("pfcp:\n", "state: {directory: unused}\npfcp:\n");
    let rig = Rig::restored(&yaml, Store::open(folder.path(), &owner).unwrap()).unwrap();
    let Rig { node, .. } = rig;
    let mut running = node.start(eal()).unwrap();
    let handle = running.handle();
    let (to_new, mut to_old) = UnixStream::pair().unwrap();
    let given = thread::spawn(move || {
        let _registration = eal().register_thread();
        let refused = running.hand_over(eal(), to_new, &mut Control::default()).unwrap_err();
        (running, refused.to_string())
    });
    let hear = |from: &mut UnixStream| {
        let mut head = [0; 5];
        from.read_exact(&mut head).unwrap();
        let mut octets = vec![0; u32::from_le_bytes(head[1..].try_into().unwrap()) as usize];
        from.read_exact(&mut octets).unwrap();
        head[0]
    };
    let (offer, accept, prepared) = (0, 1, 4);
    assert_eq!(hear(&mut to_old), offer);
    to_old.write_all(&[accept, 4, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    while hear(&mut to_old) != prepared {}
    // The store is closed: this process might have it.
    let (told, tells) = channel();
    let note = vec![Keep::Note(b"key".to_vec(), Some(b"note".to_vec()))];
    handle
        .tell(move |agent| agent.keep(note, 0, Box::new(move |kept| told.send(kept).unwrap())))
        .unwrap();
    let early = tells.recv_timeout(Duration::from_millis(50));
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    drop(Store::open(folder.path(), &owner).expect("it is closed"));
    drop(to_old);
    assert_eq!(tells.recv_timeout(Duration::from_secs(60)), Ok(Ok(())));
    let (running, refused) = given.join().unwrap();
    assert!(refused.starts_with("the other process went away"), "{refused}");
    running.stop().unwrap();
    let mut again = Rig::restored(&yaml, Store::open(folder.path(), &owner).unwrap()).unwrap();
    assert_eq!(again.node.agent().kept().notes, [(b"key".to_vec(), b"note".to_vec())]);
}
