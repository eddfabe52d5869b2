//! The end of the old process's part: what still waits is dropped, and ports that two processes cannot
//! have open at the same time are closed by one and opened by the other, or by the first one again.

use std::time::{Duration, Instant};

use weft_dataplane::counters::DropReason;
use weft_dataplane::worker::Worker;

use super::super::Running;
use super::super::conversation::{Conversation, Kind, UpgradeError};
use super::STOPPED;

/// How long the other process may take to open its ports. No packet passes meanwhile.
const OPENING: Duration = Duration::from_secs(10);

impl Running {
    /// Packets that wait at workers that have ended.
    pub(super) fn waiting(&self) -> usize {
        self.paused.iter().map(Worker::waiting).sum()
    }

    /// Drops and counts them, as the users are another's.
    pub(super) fn drop_waiting(&mut self) -> usize {
        let dropped = self.paused.iter_mut().map(Worker::drop_waiting).sum();
        if dropped > 0 {
            tracing::warn!(
                packets = dropped,
                reason = DropReason::TakenOver.reason().name,
                "packets that waited for idle bearers or functions are dropped"
            );
        }
        dropped
    }

    /// Closes the ports, and waits until the other process has opened its own; for how long neither
    /// had them open. Workers stand still.
    ///
    /// # Errors
    /// That it has not, and why.
    pub(super) fn give_ports(
        &mut self,
        conversation: &mut Conversation,
    ) -> Result<Duration, UpgradeError> {
        let stopped = |_| UpgradeError::Refused("the node is stopping".to_owned());
        let since = Instant::now();
        let count = self.handle.ask(|agent| agent.ports.count()).map_err(stopped)?;
        for worker in &mut self.paused {
            for port in 0..count {
                drop(worker.give_port(port as u16));
            }
        }
        self.handle.ask(|agent| agent.ports.give_away()).map_err(stopped)?;
        conversation.say(Kind::Closed, &[])?;
        conversation.wait_at_most(OPENING)?;
        conversation.hear_only(Kind::Opened)?;
        conversation.wait_at_most(STOPPED)?;
        Ok(since.elapsed())
    }

    /// Opens the ports again that the other process was to have. If one does not open, the node
    /// waits for all, as for devices that are gone.
    pub(super) fn take_ports_back(&self, workers: &mut [Worker]) {
        let taken = self.handle.ask(|agent| {
            let taken = agent.ports.take();
            if taken.is_err() {
                agent.ports.wait_for_return();
            }
            taken
        });
        match taken {
            Ok(Ok(ports)) => {
                for attachments in ports {
                    for (worker, attachment) in workers.iter_mut().zip(attachments) {
                        worker.attach(attachment);
                    }
                }
            }
            Ok(Err(why)) => tracing::error!("{why}; the node waits for it"),
            // Its agent has ended, and it ends.
            Err(_) => {}
        }
    }
}
