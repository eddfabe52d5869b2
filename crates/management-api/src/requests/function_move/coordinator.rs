//! The machine that decides of this node's functions, and what it asks for.

mod task;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weft_http::post;
use weft_mobility_protocol::Envelope;
use weft_mobility_protocol::function_move::{Coordinator, MoveKey, Outcome, Output};
use weft_node::Wanted;
use weft_node_config::Composition;

use self::task::Task;
use super::{Context, Timers};
use crate::api::{FunctionMove, FunctionMoved};
use crate::requests::configuration::{run_as, settle};

/// How long the other node may take to answer a message.
const ANSWER: Duration = Duration::from_secs(10);

/// Moves that this node decides.
pub(super) struct Coordinating {
    pub machine: Coordinator,
    /// The last move of each function.
    pub records: HashMap<String, Record>,
    /// What does the node's own part, one thing after another.
    workers: HashMap<MoveKey, UnboundedSender<Task>>,
    timers: Timers,
}

/// A move that was asked for.
pub(super) struct Record {
    pub request: FunctionMove,
    /// How long packets have waited, in nanoseconds.
    pub waited: u64,
    /// What has come of it.
    pub result: Option<Result<FunctionMoved, String>>,
}

impl Record {
    pub fn new(request: FunctionMove) -> Record {
        Record { request, waited: 0, result: None }
    }
}

impl Coordinating {
    pub fn new(machine: Coordinator) -> Coordinating {
        let (records, workers, timers) = (HashMap::new(), HashMap::new(), Timers::default());
        Coordinating { machine, records, workers, timers }
    }

    /// Does what the machine asks for, or has it done.
    pub fn carry_out(&mut self, state: &Context, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send(Some(address), envelope) => {
                    tokio::spawn(send(state.clone(), address, envelope));
                }
                Output::SetTimer(key, after) => {
                    let number = self.timers.set(key.clone());
                    tokio::spawn(fire(state.clone(), key, number, after));
                }
                Output::CancelTimer(key) => self.timers.cancel(&key),
                Output::Gate(key, destination) => {
                    self.assign(state, &key, Task::Gate(key.clone(), destination));
                }
                Output::Read(key, number) => {
                    self.assign(state, &key, Task::Read(key.clone(), number));
                }
                Output::Write(key, piece) => {
                    self.assign(state, &key, Task::Write(key.clone(), piece));
                }
                Output::Switch(key) => self.assign(state, &key, Task::Switch(key.clone())),
                Output::Restore(key, reason) => {
                    self.assign(state, &key, Task::Restore(key.clone(), reason));
                }
                Output::Ended(key) => {
                    self.workers.remove(&key);
                    if let Some(outcome) = self.machine.outcome(&key.function) {
                        tokio::spawn(finish(state.clone(), key.function, outcome));
                    }
                }
                Output::Changed(key, change) => {
                    let (function, from, to) = (&key.function, change.from, change.to);
                    tracing::debug!(function, epoch = key.epoch.0, from, to, by = change.event);
                }
                Output::Send(None, _) | Output::Check(..) => {}
            }
        }
    }

    fn assign(&mut self, state: &Context, key: &MoveKey, task: Task) {
        let begin = || {
            let (sender, tasks) = unbounded_channel();
            tokio::spawn(task::work(state.clone(), key.function.clone(), tasks));
            sender
        };
        // It ends only with its sender.
        let _ = self.workers.entry(key.clone()).or_insert_with(begin).send(task);
    }

    /// The same request again, of a function that is where it was to be: what could not be done
    /// then is tried again.
    pub fn finish_again(&mut self, state: &Context, function: &str) {
        let Some(record) = self.records.get_mut(function) else { return };
        if matches!(record.result, Some(Err(_)))
            && let Some(outcome) = self.machine.outcome(function)
        {
            record.result = None;
            tokio::spawn(finish(state.clone(), function.to_owned(), outcome));
        }
    }
}

/// Gives the machine an input, and does what it asks for.
pub(super) fn input(state: &Context, give: impl FnOnce(&mut Coordinator, &mut Vec<Output>)) {
    let mut own = state.moves.coordinating();
    let mut out = Vec::new();
    give(&mut own.machine, &mut out);
    own.carry_out(state, out);
}

async fn fire(state: Context, key: MoveKey, number: u64, after: Duration) {
    tokio::time::sleep(after).await;
    let fires = state.moves.coordinating().timers.fires(&key, number);
    if fires {
        input(&state, |machine, out| machine.timer(&key, out));
    }
}

/// Sends a message to the other node; what it answers is an input.
async fn send(state: Context, address: String, envelope: Envelope) {
    let Some(key) = key_of(&envelope) else { return };
    let mut octets = Vec::new();
    let written = envelope.emit(&mut octets).map_err(|error| error.to_string());
    let answered = match written {
        Ok(()) => {
            let asked = post::octets(Path::new(&address), "/v1/function-moves", octets, ANSWER);
            asked.await.map_err(|error| error.to_string())
        }
        Err(reason) => Err(reason),
    };
    match answered.and_then(|octets| super::pieces::envelopes(&octets)) {
        Ok(envelopes) => {
            for envelope in envelopes {
                input(&state, |machine, out| machine.message(envelope, out));
            }
        }
        Err(reason) => input(&state, |machine, out| machine.unreachable(&key, &reason, out)),
    }
}

fn key_of(envelope: &Envelope) -> Option<MoveKey> {
    let weft_mobility_protocol::Message::FunctionMove { function, epoch, .. } = &envelope.message
    else {
        return None;
    };
    Some(MoveKey { coordinator: None, function: function.clone(), epoch: *epoch })
}

/// A move is over: a function that is back is run as was asked, and the result is told.
async fn finish(state: Context, function: String, outcome: Outcome) {
    let result = match outcome {
        Outcome::Moved { contexts } => run_there(&state, &function, contexts).await,
        Outcome::Failed(reason) => Err(reason),
        Outcome::Moving(_) => return,
    };
    if let Some(record) = state.moves.coordinating().records.get_mut(&function) {
        record.result = Some(result);
    }
    state.moves.changed.send_replace(());
}

async fn run_there(
    state: &Context,
    function: &str,
    contexts: u64,
) -> Result<FunctionMoved, String> {
    let (request, waited) = {
        let own = state.moves.coordinating();
        let record = own.records.get(function).ok_or("the move is not known")?;
        (record.request.clone(), record.waited)
    };
    let FunctionMove { composition, stage, core, .. } = request;
    let settled = if composition == Composition::Remote {
        settle(state).await
    } else {
        let wanted = Wanted { composition, stage, core };
        run_as(state, function.to_owned(), wanted).await.map(|applied| applied.0.settled)
    };
    let settled = settled.map_err(|failure| failure.reason().to_owned())?;
    Ok(FunctionMoved::Moved { contexts, waited, settled })
}
