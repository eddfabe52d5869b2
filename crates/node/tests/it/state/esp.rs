//! Security associations of a node that is killed at any moment: no nonce and no sequence number
//! is used twice. Nothing is accepted again that was received since the node started, or before
//! a checkpoint. What was received between the last checkpoint and the crash may be accepted
//! once more (docs/state.md).

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// What leaves at the core is sealed, and what comes in there is opened.
const GATEWAY: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 2047}
state: {directory: unused, checkpoints: {rate: 100000}}
ports:
  access: {device: 'ring:access', direction: uplink, descriptors: 256}
  core: {device: 'ring:core', direction: downlink, descriptors: 256}
functions:
  seal: {function: esp-encrypt}
  open: {function: esp-decrypt}
users:
  - name: up
    match: {ipv4: 10.0.0.1}
    functions:
      seal: {spi: 4096, key: 'c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0', local: 192.0.2.1, peer: 192.0.2.2}
  - name: down
    match: {spi: 4097}
    functions:
      open: {spi: 4097, key: 'd0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0'}
rules: |
  from access -> seal
  from seal -> core
  from core -> open
  from open -> access
";

/// The peer, which seals what the node opens, and lives on.
const PEER: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: peer}
memory: {packets: 2047}
ports:
  access: {device: 'ring:access', direction: uplink, descriptors: 256}
  core: {device: 'ring:core', direction: downlink, descriptors: 256}
functions:
  seal: {function: esp-encrypt}
users:
  - name: down
    match: {ipv4: 10.0.0.9}
    functions:
      seal: {spi: 4097, key: 'd0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0', local: 192.0.2.2, peer: 192.0.2.1}
rules: |
  from access -> seal
  from seal -> core
";

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many packets are sealed.
    Seal(usize),
    /// So many come from the peer.
    Open(usize),
    /// All contexts have their turn, and are durable.
    Checkpoint,
    /// The node is killed and starts again.
    Kill,
    /// All that has come from the peer comes once more.
    Replay,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..40usize).prop_map(Step::Seal),
        3 => (1..40usize).prop_map(Step::Open),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Kill),
        1 => Just(Step::Replay),
    ];
    proptest::collection::vec(step, 1..30)
}

/// A sealed packet of the peer.
struct Came {
    frame: Vec<u8>,
    /// The life of the node that has accepted it last.
    life: u32,
    /// Whether a checkpoint of that life, or of one before, has it.
    is_kept: bool,
}

struct Secured {
    folder: tempfile::TempDir,
    rig: Rig,
    peer: Rig,
    life: u32,
    /// Sequence numbers and vectors of what was sealed.
    numbers: HashSet<[u8; 4]>,
    vectors: HashSet<[u8; 8]>,
    came: Vec<Came>,
}

impl Secured {
    fn new() -> Secured {
        let folder = tempfile::tempdir().unwrap();
        let rig = restored(GATEWAY, folder.path()).unwrap();
        let (numbers, vectors, came) = Default::default();
        Secured { folder, rig, peer: Rig::new(PEER), life: 0, numbers, vectors, came }
    }

    fn seal(&mut self, count: usize) -> Result<(), TestCaseError> {
        self.rig.send(0, &vec![udp([10, 0, 0, 1], HOST, b"up"); count]);
        let sealed = self.rig.receive(1);
        prop_assert_eq!(sealed.len(), count);
        for frame in sealed {
            // Behind Ethernet and IPv4: SPI, sequence number, vector (RFC 4303 §2, RFC 4106 §3.1).
            prop_assert_eq!(&frame[34..38], 4096_u32.to_be_bytes());
            prop_assert!(self.numbers.insert(frame[38..42].try_into().unwrap()), "a number twice");
            prop_assert!(self.vectors.insert(frame[42..50].try_into().unwrap()), "a nonce twice");
        }
        Ok(())
    }

    fn open(&mut self, count: usize) -> Result<(), TestCaseError> {
        self.peer.send(0, &vec![udp([10, 0, 0, 9], HOST, b"down"); count]);
        for frame in self.peer.receive(1) {
            self.rig.send(1, std::slice::from_ref(&frame));
            prop_assert_eq!(self.rig.receive(0).len(), 1, "what is new is accepted");
            self.came.push(Came { frame, life: self.life, is_kept: false });
        }
        Ok(())
    }

    fn checkpoint(&mut self) {
        checkpoint(&mut self.rig);
        let life = self.life;
        for came in self.came.iter_mut().filter(|came| came.life == life) {
            came.is_kept = true;
        }
    }

    fn kill(&mut self) {
        let left = left_by(self.folder.path());
        self.rig = restored(GATEWAY, left.path()).unwrap();
        self.folder = left;
        self.life += 1;
    }

    fn replay(&mut self) -> Result<(), TestCaseError> {
        for came in &mut self.came {
            self.rig.send(1, std::slice::from_ref(&came.frame));
            if !self.rig.receive(0).is_empty() {
                prop_assert!(came.life < self.life && !came.is_kept, "a replay is accepted");
                came.life = self.life;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn associations_of_a_node_that_is_killed(steps in steps()) {
        let mut secured = Secured::new();
        for step in steps.into_iter().chain([Step::Replay, Step::Replay]) {
            match step {
                Step::Seal(count) => secured.seal(count)?,
                Step::Open(count) => secured.open(count)?,
                Step::Checkpoint => secured.checkpoint(),
                Step::Kill => secured.kill(),
                Step::Replay => secured.replay()?,
            }
        }
    }
}
