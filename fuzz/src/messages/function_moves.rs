//! The machines that move functions: an input is a list of records, each what happens to a
//! participant or a coordinator, and a message where one comes. What the machines ask for
//! is answered as the records say, or later, or never.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use weft_mobility_protocol::function_move::{
    Coordinator, Destination, FunctionStep, MoveKey, Order, Output, Participant, Piece, Settings,
    Side,
};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Message, NodeId};

const COORDINATOR: NodeId = NodeId(7);
const PARTICIPANT: NodeId = NodeId(8);
/// Steps of one input at most.
const STEPS: usize = 500;
/// Outputs that wait to be answered at most; further ones are lost.
const WAITING: usize = 64;

/// What happens.
#[derive(Arbitrary, Debug)]
enum Happens {
    /// An operator orders a move.
    Ordered { here: bool, function: bool, with_peer: bool },
    /// What waits at this place is done, or fails.
    Done { at: u8, well: bool },
    /// What waits at this place is lost.
    Lost { at: u8 },
    /// What waits at this place happens twice.
    Twice { at: u8 },
    /// A message that the other machine did not send.
    Forged { from: bool, life: u8, epoch: u8, number: u8, kind: u8 },
    /// Octets that may be a message.
    Octets { at: u8 },
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let settings = Settings::default();
    let mut machines = Machines {
        coordinator: Coordinator::new(COORDINATOR, Incarnation(1), Epoch(1), settings),
        participant: Participant::new(PARTICIPANT, Incarnation(1), settings),
        waiting: Vec::new(),
    };
    let mut input = Unstructured::new(bytes);
    for _ in 0..STEPS {
        if input.is_empty() {
            return;
        }
        let Ok(happens) = Happens::arbitrary(&mut input) else { return };
        machines.happens(&happens, bytes);
    }
}

struct Machines {
    coordinator: Coordinator,
    participant: Participant,
    /// What is still to be done, and whether the coordinator asked for it.
    waiting: Vec<(bool, Output)>,
}

impl Machines {
    fn happens(&mut self, happens: &Happens, bytes: &[u8]) {
        match *happens {
            Happens::Ordered { here, function, with_peer } => {
                let destination = if here { Destination::Here } else { Destination::Peer };
                let peer = (with_peer || !here).then(|| "peer".to_owned());
                let order = Order { destination, peer, kind: "counter".to_owned() };
                let mut out = Vec::new();
                self.coordinator.order(name(function), order, &mut out);
                self.wait(true, out);
            }
            Happens::Done { at, well } => {
                if let Some((own, output)) = self.take(at) {
                    self.answer(own, output, well);
                }
            }
            Happens::Lost { at } => drop(self.take(at)),
            Happens::Twice { at } => {
                if let Some((own, output)) = self.take(at) {
                    self.answer(own, output.clone(), true);
                    self.answer(own, output, true);
                }
            }
            Happens::Forged { from, life, epoch, number, kind } => {
                let [sender, to] = match from {
                    true => [COORDINATOR, PARTICIPANT],
                    false => [PARTICIPANT, COORDINATOR],
                };
                let message = Message::FunctionMove {
                    function: name(number & 0x80 != 0).to_owned(),
                    epoch: Epoch(epoch.into()),
                    step: step(kind, number & 0x7f),
                };
                let envelope = Envelope {
                    from: sender,
                    from_incarnation: Incarnation(u32::from(life & 3)),
                    to,
                    to_incarnation: Incarnation(u32::from(life >> 2 & 3)),
                    message,
                };
                self.message(envelope);
            }
            Happens::Octets { at } => {
                let octets = bytes.get(usize::from(at)..).unwrap_or_default();
                if let Ok((envelope, _)) = Envelope::parse(octets) {
                    self.message(envelope);
                }
            }
        }
    }

    fn wait(&mut self, own: bool, out: Vec<Output>) {
        self.waiting.extend(out.into_iter().map(|output| (own, output)));
        self.waiting.truncate(WAITING);
    }

    fn take(&mut self, at: u8) -> Option<(bool, Output)> {
        let count = self.waiting.len().max(1);
        (!self.waiting.is_empty()).then(|| self.waiting.remove(usize::from(at) % count))
    }

    /// A message arrives over the wire.
    fn message(&mut self, envelope: Envelope) {
        let mut octets = Vec::new();
        if envelope.emit(&mut octets).is_err() {
            return;
        }
        let (read, length) = Envelope::parse(&octets).expect("what was written is read");
        assert_eq!((&read, length), (&envelope, octets.len()));
        let mut out = Vec::new();
        let own = read.to == COORDINATOR;
        match own {
            true => self.coordinator.message(read, &mut out),
            false => self.participant.message(read, &mut out),
        }
        self.wait(own, out);
    }

    /// Does what a machine asks for, or fails to.
    fn answer(&mut self, own: bool, output: Output, well: bool) {
        let done = || if well { Ok(()) } else { Err("it failed".to_owned()) };
        let mut out = Vec::new();
        match (own, output) {
            (_, Output::Send(_, envelope)) if well => self.message(envelope),
            (true, Output::Send(_, envelope)) => {
                if let Message::FunctionMove { function, epoch, .. } = envelope.message {
                    let key = MoveKey { coordinator: None, function, epoch };
                    self.coordinator.unreachable(&key, "it is away", &mut out);
                }
            }
            (true, Output::SetTimer(key, after)) => {
                assert!(after > Duration::ZERO);
                self.coordinator.timer(&key, &mut out);
            }
            (false, Output::SetTimer(key, _)) => self.participant.timer(&key, &mut out),
            (false, Output::Check(key, _)) => self.participant.checked(&key, done(), &mut out),
            (true, Output::Gate(key, _)) => self.coordinator.gated(&key, done(), &mut out),
            (own, Output::Read(key, number)) => {
                let piece = done().map(|()| piece(number as u8));
                match own {
                    true => self.coordinator.read(&key, piece, &mut out),
                    false => self.participant.read(&key, piece, &mut out),
                }
            }
            (own, Output::Write(key, piece)) => {
                let Piece { number, is_last, count, .. } = piece;
                match own {
                    true => {
                        self.coordinator.written(&key, (number, is_last, count), done(), &mut out);
                    }
                    false => self.participant.written(&key, (number, is_last), done(), &mut out),
                }
            }
            (true, Output::Switch(key)) => self.coordinator.switched(&key, done(), &mut out),
            (true, Output::Restore(key, _)) => self.coordinator.restored(&key, &mut out),
            _ => {}
        }
        self.wait(own, out);
    }
}

fn name(second: bool) -> &'static str {
    if second { "second" } else { "first" }
}

/// The third piece is the last.
fn piece(number: u8) -> Piece {
    let number = number.into();
    Piece { number, is_last: number >= 2, count: 1, octets: vec![0, 0, 0, 0] }
}

fn step(kind: u8, number: u8) -> FunctionStep {
    let side = if number & 1 == 0 { Side::Source } else { Side::Target };
    match kind % 10 {
        0 => FunctionStep::Prepare { side, kind: "counter".to_owned() },
        1 => FunctionStep::Prepared,
        2 => FunctionStep::Contexts(piece(number)),
        3 => FunctionStep::Taken(number.into()),
        4 => FunctionStep::Fetch(number.into()),
        5 => FunctionStep::Release,
        6 => FunctionStep::Released,
        7 => FunctionStep::Abort,
        8 => FunctionStep::Aborted,
        _ => {
            let newest = Epoch(if number == 0x7f { u64::MAX } else { number.into() });
            FunctionStep::Refused { newest, reason: "no".to_owned() }
        }
    }
}
