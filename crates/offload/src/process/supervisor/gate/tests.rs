//! What goes through, and what does not.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};

use super::request::*;
use super::*;

/// A gate with both ends.
struct Rig {
    folder: tempfile::TempDir,
    listener: UnixListener,
    _gate: Gate,
}

/// A function and the node's end of its connection.
struct Ends {
    function: UnixStream,
    node: UnixStream,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let listener = UnixListener::bind(&inner).unwrap();
        let gate = Gate::start("guest", &folder.path().join("ring"), inner).unwrap();
        Rig { folder, listener, _gate: gate }
    }

    fn connect(&self) -> Ends {
        let function = UnixStream::connect(self.folder.path().join("ring")).unwrap();
        let (node, _) = self.listener.accept().unwrap();
        for end in [&function, &node] {
            end.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        Ends { function, node }
    }
}

fn message(request: u32, payload: &[u8]) -> Vec<u8> {
    let head = [request, 1, payload.len() as u32].map(u32::to_ne_bytes);
    [head.as_flattened(), payload].concat()
}

impl Ends {
    fn say(&self, request: u32, payload: &[u8], descriptors: &[OwnedFd]) {
        send(&self.function, &message(request, payload), descriptors).unwrap();
    }

    /// What the node hears of it.
    fn heard(&self) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
        let mut octets = [0; 8192];
        match receive(&self.node, &mut octets) {
            Ok((count, descriptors)) => Some((octets[..count].to_vec(), descriptors)),
            Err(End::Closed) => None,
            Err(other) => panic!("{other}"),
        }
    }

    fn is_passed(&self, request: u32, payload: &[u8], descriptors: Vec<OwnedFd>) -> Vec<OwnedFd> {
        self.say(request, payload, &descriptors);
        let (octets, got) = self.heard().expect("it goes through");
        assert_eq!(octets, message(request, payload));
        assert_eq!(got.len(), descriptors.len());
        got
    }

    /// The connection ends at both ends, and the node hears nothing of it.
    fn ends(mut self, request: u32, descriptors: &[OwnedFd]) {
        self.say(request, &[0; 8], descriptors);
        assert!(self.heard().is_none(), "request {request}");
        assert_eq!(self.function.read(&mut [0]).unwrap_or(0), 0);
    }
}

fn memory() -> OwnedFd {
    memfd_create("memory", MemfdFlags::CLOEXEC).unwrap()
}

fn notifier() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// A file of this program's own, which is on a disk.
fn on_disk() -> Option<OwnedFd> {
    let file = OwnedFd::from(File::open(std::env::current_exe().unwrap()).unwrap());
    is_in_memory(&file).is_err().then_some(file)
}

#[test]
fn messages_go_through_in_both_directions() {
    let rig = Rig::new();
    let mut ends = rig.connect();
    ends.is_passed(1, b"", vec![]);
    ends.is_passed(SET_MEM_TABLE, &[7; 264], (0..8).map(|_| memory()).collect());
    ends.is_passed(SET_VRING_KICK, &[0; 8], vec![notifier()]);
    ends.is_passed(SET_VRING_CALL, &[1, 1, 0, 0, 0, 0, 0, 0], vec![]);
    ends.is_passed(26, &[9; PAYLOAD], vec![]);
    let answer = message(1, &[3; 8]);
    send(&ends.node, &answer, &[memory()]).unwrap();
    let mut octets = [0; 100];
    let (count, descriptors) = receive(&ends.function, &mut octets).unwrap();
    assert_eq!((&octets[..count], descriptors.len()), (&answer[..], 1));
    // In pieces.
    for octet in message(2, &[5; 8]) {
        ends.function.write_all(&[octet]).unwrap();
    }
    assert_eq!(ends.heard().unwrap().0, message(2, &[5; 8]));
    // What ends at one end ends at the other.
    let Ends { function, node } = ends;
    drop(function);
    assert_eq!((&node).read(&mut [0]).unwrap(), 0);
}

/// A process that serves a file system itself delivers its pages when it likes: a worker that
/// reads one waits. So do pages of a slow disk.
#[test]
fn fault_54_memory_that_may_hold_up_a_worker_is_refused() {
    let rig = Rig::new();
    let Some(_) = on_disk() else { return eprintln!("skipped: this program is in memory") };
    for request in [SET_MEM_TABLE, ADD_MEM_REG, SET_LOG_BASE, SET_INFLIGHT_FD] {
        rig.connect().ends(request, &[memory(), on_disk().unwrap()]);
    }
    // Others are not hindered.
    rig.connect().is_passed(SET_MEM_TABLE, &[7; 264], vec![memory()]);
}

/// A worker that writes into a pipe that is full would wait for its reader.
#[test]
fn fault_54_calls_go_to_eventfds_alone() {
    let rig = Rig::new();
    for request in [SET_VRING_CALL, SET_VRING_KICK, SET_VRING_ERR, SET_LOG_FD] {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        rig.connect().ends(request, &[writer]);
    }
    // And others have no descriptors at all.
    rig.connect().ends(1, &[notifier()]);
}

#[test]
fn fault_54_a_function_that_takes_no_calls_holds_up_no_worker() {
    let rig = Rig::new();
    let ends = rig.connect();
    let theirs = notifier();
    let kept = theirs.try_clone().unwrap();
    let given = ends.is_passed(SET_VRING_CALL, &[3, 0, 0, 0, 0, 0, 0, 0], vec![theirs]);
    call(&given[0]);
    let mut count = [0; 8];
    rustix::io::read(&kept, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1, "it is called");
    // As full as it can be: a write of one more would wait.
    rustix::io::write(&kept, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    for _ in 0..1000 {
        call(&given[0]);
    }
    // The rest of the ring works.
    ends.is_passed(1, b"", vec![]);
    rustix::io::read(&kept, &mut count).unwrap();
    call(&given[0]);
    rustix::io::read(&kept, &mut count).unwrap();
    assert!(u64::from_ne_bytes(count) >= 1);
}

#[test]
fn fault_54_what_is_no_message_ends_its_connection_alone() {
    let rig = Rig::new();
    let good = rig.connect();
    let long = rig.connect();
    (&long.function)
        .write_all(&[[5, 1, 4097].map(u32::to_ne_bytes).as_flattened()].concat())
        .unwrap();
    assert!(long.heard().is_none());
    // One that does not go on.
    let slow = rig.connect();
    (&slow.function).write_all(&[5, 0, 0]).unwrap();
    assert!(slow.heard().is_none());
    good.is_passed(1, b"", vec![]);
    // More than may be at once: they wait.
    let many: Vec<_> = (0..3).map(|_| rig.connect()).collect();
    let waits = UnixStream::connect(rig.folder.path().join("ring")).unwrap();
    many.iter().for_each(|ends| drop(ends.is_passed(1, b"", vec![])));
    drop(many);
    let (node, _) = rig.listener.accept().unwrap();
    send(&waits, &message(1, b""), &[]).unwrap();
    assert_eq!(Ends { function: waits, node }.heard().unwrap().0, message(1, b""));
}
