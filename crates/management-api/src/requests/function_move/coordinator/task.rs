//! The node's own part in a move that it decides: gate, contexts, switch. One thing is done
//! after another, so none comes behind what has taken its place.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use weft_mobility_protocol::function_move::{Destination, MoveKey, Piece};

use super::input;
use crate::requests::configuration::{ARRIVING, LOOK_EVERY, settle};
use crate::requests::function_move::pieces::{Reader, write};
use crate::requests::function_move::{Context, ask};

/// How long a gate may take to let nothing through any more.
const CLOSING: Duration = Duration::from_secs(10);

/// How often the agent hears of a move while the other node is waited for: much less than the
/// time after which it opens the gate by itself.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What is to be done.
pub(super) enum Task {
    Gate(MoveKey, Destination),
    Read(MoveKey, u32),
    Write(MoveKey, Piece),
    Switch(MoveKey),
    Restore(MoveKey, String),
}

/// A move as far as this node's part is done.
struct TaskWorker {
    state: Context,
    function: String,
    reader: Option<Reader>,
    /// Since when packets wait.
    since: Option<Instant>,
    /// What came of the switch, which happens once.
    switched: Option<Result<(), String>>,
}

/// Does what the machine asks for, until its move is over.
pub(super) async fn work(state: Context, function: String, mut tasks: UnboundedReceiver<Task>) {
    let mut worker =
        TaskWorker { state: state.clone(), function, reader: None, since: None, switched: None };
    loop {
        match tokio::time::timeout(HEARTBEAT, tasks.recv()).await {
            Err(_) => worker.keep().await,
            Ok(None) => return,
            Ok(Some(Task::Gate(key, destination))) => {
                let gated = worker.gate(destination, &tasks).await;
                input(&state, |machine, out| machine.gated(&key, gated, out));
            }
            Ok(Some(Task::Read(key, number))) => {
                let piece = worker.read(number).await;
                input(&state, |machine, out| machine.read(&key, piece, out));
            }
            Ok(Some(Task::Write(key, piece))) => {
                let what = (piece.number, piece.is_last, piece.count);
                let written = worker.write(piece).await;
                input(&state, |machine, out| machine.written(&key, what, written, out));
            }
            Ok(Some(Task::Switch(key))) => {
                let switched = worker.switch().await;
                input(&state, |machine, out| machine.switched(&key, switched, out));
            }
            Ok(Some(Task::Restore(key, reason))) => {
                worker.restore(reason).await;
                input(&state, |machine, out| machine.restored(&key, out));
            }
        }
    }
}

impl TaskWorker {
    /// The agent hears that the move is under way.
    async fn keep(&self) {
        if self.since.is_some() {
            let name = self.function.clone();
            // It stops with the node.
            let _ = ask(&self.state, move |agent| agent.is_gated(&name)).await;
        }
    }

    /// Lets packets wait, until none is at the function; or something else is to be done.
    async fn gate(
        &mut self,
        destination: Destination,
        tasks: &UnboundedReceiver<Task>,
    ) -> Result<(), String> {
        let goes = destination == Destination::Peer;
        let late = || "its packets do not come back".to_owned();
        let mut waited = Duration::ZERO;
        loop {
            let name = self.function.clone();
            match ask(&self.state, move |agent| agent.gate_function(&name, goes)).await? {
                Err(error) if error.passes() && waited < ARRIVING && tasks.is_empty() => {}
                Err(error) => return Err(error.to_string()),
                Ok(()) => break,
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
        self.since = Some(Instant::now());
        let mut waited = Duration::ZERO;
        loop {
            let name = self.function.clone();
            match ask(&self.state, move |agent| agent.is_gated(&name)).await? {
                Some(true) => return Ok(()),
                Some(false) if waited < CLOSING && tasks.is_empty() => {}
                Some(false) => return Err(late()),
                None => return Err("it moves no more".to_owned()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
            waited += LOOK_EVERY;
        }
    }

    async fn read(&mut self, number: u32) -> Result<Piece, String> {
        if self.reader.is_none() {
            self.reader = Some(Reader::new(&self.state, &self.function).await?);
        }
        match &mut self.reader {
            Some(reader) => reader.piece(&self.state, number).await,
            None => Err("there is nothing to read".to_owned()),
        }
    }

    /// What is to come back here is of those who are still here.
    async fn write(&mut self, piece: Piece) -> Result<(), String> {
        let name = self.function.clone();
        let kind = ask(&self.state, move |agent| {
            agent.contexts_named(&name).map(|(kind, _)| kind.to_owned())
        });
        let kind = kind.await?.map_err(|error| error.to_string())?;
        write(&self.state, &self.function, kind, piece, true).await
    }

    async fn switch(&mut self) -> Result<(), String> {
        if self.switched.is_none() {
            let switched = self.release(Ok(())).await;
            self.switched = Some(switched);
        }
        self.switched.clone().unwrap_or(Ok(()))
    }

    async fn restore(&mut self, reason: String) {
        if self.since.is_some() {
            // Where the agent has opened the gate already, there is nothing to do.
            let _ = self.release(Err(reason)).await;
        }
    }

    /// Lets packets go on; why they do where the function was.
    async fn release(&mut self, word: Result<(), String>) -> Result<(), String> {
        let since = self.since.take();
        let name = self.function.clone();
        let released = ask(&self.state, move |agent| agent.release_function(&name, word)).await?;
        if released.is_ok() {
            loop {
                let name = self.function.clone();
                if ask(&self.state, move |agent| agent.is_gated(&name)).await?.is_none() {
                    break;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // What the workers have still to do they do before anything that comes.
            let _ = settle(&self.state).await;
        }
        if let Some(since) = since {
            let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let mut own = self.state.moves.coordinating();
            if let Some(record) = own.records.get_mut(&self.function) {
                record.waited = waited;
            }
        }
        let failure = ask(&self.state, |agent| agent.move_failure().map(str::to_owned)).await?;
        match (failure, released) {
            (Some(stays), _) => Err(stays),
            (None, released) => released.map_err(|error| error.to_string()),
        }
    }
}
