//! Functions that are not in the node: in a process, which is a thread here, and at
//! another node.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weft_compose::Kind;
use weft_node::contexts::NotCarried;
use weft_offload::process::host::Host;

use super::{KINDS, Rig, eal};

/// A function behind a ring or devices, until it is dropped.
pub struct Hosted {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    pub fn start(function: &str, ring: PathBuf, devices: Vec<String>) -> Hosted {
        let kind = KINDS.iter().find(|kind| kind.name == function).unwrap();
        Hosted::of_kind(kind, ring, devices)
    }

    pub fn of_kind(kind: &'static Kind, ring: PathBuf, devices: Vec<String>) -> Hosted {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let (ring, stop) = (ring.as_path(), &*told);
            let host = Host { eal: eal(), kind, ring, devices: &devices, once: false, stop };
            host.run().unwrap();
        });
        Hosted { stop, thread: Some(thread) }
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A link that several nodes share: frames go to the station they are addressed to.
pub struct Link {
    /// Node and port of each station.
    stations: HashMap<[u8; 6], (usize, usize)>,
    /// All frames that were carried.
    pub frames: Vec<Vec<u8>>,
    /// Stations whose frames are lost, either way.
    pub cut: Vec<[u8; 6]>,
}

impl Link {
    pub fn new(stations: &[([u8; 6], (usize, usize))]) -> Link {
        Link { stations: stations.iter().copied().collect(), frames: Vec::new(), cut: Vec::new() }
    }

    /// Carries what lies at the ports; whether there was anything.
    pub fn carry(&mut self, rigs: &mut [&mut Rig]) -> bool {
        let mut busy = false;
        for (node, port) in self.stations.values().copied().collect::<Vec<_>>() {
            for frame in rigs[node].receive(port) {
                busy = true;
                let to: [u8; 6] = frame[..6].try_into().unwrap();
                let from: [u8; 6] = frame[6..12].try_into().unwrap();
                let is_cut = self.cut.iter().any(|cut| *cut == to || *cut == from);
                if let Some((node, port)) = self.stations.get(&to).copied().filter(|_| !is_cut) {
                    rigs[node].offer(port, std::slice::from_ref(&frame));
                }
                self.frames.push(frame);
            }
        }
        busy
    }

    /// Lets nodes and link work until they rest.
    pub fn settle(&mut self, rigs: &mut [&mut Rig]) {
        loop {
            rigs.iter_mut().for_each(|rig| rig.settle());
            if !self.carry(rigs) {
                return;
            }
        }
    }

    /// Lets time pass at all nodes.
    pub fn pass(&mut self, rigs: &mut [&mut Rig], milliseconds: u64) {
        for _ in 0..milliseconds {
            for rig in rigs.iter_mut() {
                rig.advance(1_000_000);
            }
            self.settle(rigs);
        }
    }
}

/// Copies the contexts of a function from one node to another; those whom that one does not
/// know are left out with `known_only`.
pub fn copy_contexts(
    from: &mut Rig,
    to: &mut Rig,
    function: &str,
    known_only: bool,
) -> Result<(), NotCarried> {
    let (kind, names) = from.node.agent().contexts_named(function)?;
    let reading = from.node.agent().read_contexts(function, &names)?;
    from.settle();
    let contexts = reading.wait()?;
    let writing = to.node.agent().write_contexts(function, kind, contexts, known_only)?;
    to.settle();
    writing.wait()
}

/// The MAC address of a node.
pub fn station(node: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, node]
}
