//! Before a node stops whose standby takes over: what has changed of contexts is written while
//! packets pass, so that users wait for what changes after that only.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use weft_node::{Agent, Handle};

/// How long it may take. A service manager waits longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So few contexts are written in no time.
const FEW: u64 = 1000;

/// Rounds of checkpoints, one after another, as long as each leaves less to write.
pub struct LastRounds {
    handle: Handle,
    begun: Instant,
    /// Contexts that the round before has written.
    before: u64,
    round: Receiver<u64>,
}

impl LastRounds {
    /// Begins them.
    pub fn begin(handle: Handle) -> LastRounds {
        let round = begin_round(&handle);
        LastRounds { handle, begun: Instant::now(), before: u64::MAX, round }
    }

    /// Whether the node may stop.
    pub fn are_over(&mut self) -> bool {
        if self.begun.elapsed() > PATIENCE {
            tracing::warn!("not all contexts were written before the node stops");
            return true;
        }
        match self.round.try_recv() {
            Err(TryRecvError::Empty) => false,
            // No contexts are kept.
            Err(TryRecvError::Disconnected) => true,
            Ok(contexts) => {
                tracing::info!(contexts, "contexts that had changed were written");
                // Those that always change are written behind the last packet.
                let is_over = contexts <= FEW || contexts > self.before / 2;
                if !is_over {
                    self.before = contexts;
                    self.round = begin_round(&self.handle);
                }
                is_over
            }
        }
    }
}

fn begin_round(handle: &Handle) -> Receiver<u64> {
    let (tell, told) = channel();
    let tell = move |contexts| {
        // The rounds may be over.
        let _ = tell.send(contexts);
    };
    let begin = move |agent: &mut Agent| agent.checkpoint_all(tell);
    // An agent that has ended tells nothing.
    let _ = handle.tell(begin);
    told
}
