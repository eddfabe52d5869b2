//! The share of a node goes to a node at another machine, with all PFCP sessions, while packets pass.
//!
//! It is an upgrade but for the ports. Both nodes have ports at the same networks, and the addresses
//! go from one to the other: what comes to this node behind its last packet waits in its receive
//! queues, and is relayed to the other node's MAC addresses once that has the share.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weft_dataplane::worker::{Inlet, Worker};
use weft_dpdk::Eal;

use super::super::conversation::{Conversation, Drained, Kind, OF_NEW, PortTransfer, UpgradeError};
use super::received::Received;
use super::relay::{Relay, RelayedPort};
use super::{Beside, PREPARING, STOPPED, accepted_of, send_prepared};
use crate::agent::{Agent, OfferedShare, Stopped};
use crate::node::Running;

/// A share that another node has.
pub struct GivenShare {
    /// For how long packets waited, up to the moment in which they were relayed.
    pub waited: Duration,
    /// Packets that waited for idle bearers or functions, and were dropped and counted.
    pub dropped: usize,
    /// Relays what still comes.
    relay: Option<JoinHandle<()>>,
}

impl GivenShare {
    /// Waits until nothing comes any more that goes to the other node.
    pub fn finish(self) {
        // A panic of it was reported when it happened.
        let _ = self.relay.map(JoinHandle::join);
    }
}

/// Queues that workers do not receive from while packets wait.
type Held = Vec<Vec<Inlet>>;

fn stopped(_: Stopped) -> UpgradeError {
    UpgradeError::Refused("the node is stopping".to_owned())
}

impl Running {
    /// Gives the share of the node to the one at the other end of `stream`. If that comes to
    /// nothing, the node goes on. Otherwise its workers have ended, and what comes is relayed;
    /// [`Beside::before_yours`] has decided that, and fails only where the share stays.
    ///
    /// # Errors
    /// Why it came to nothing.
    pub fn give_share(
        &mut self,
        eal: &'static Eal,
        stream: UnixStream,
        beside: &mut dyn Beside,
    ) -> Result<GivenShare, UpgradeError> {
        let mut conversation = Conversation::new(stream, OF_NEW)?;
        conversation.wait_at_most(STOPPED)?;
        let mut held = Vec::new();
        let given = self.try_to_give(&mut conversation, beside, &mut held);
        let (since, ports) = match given {
            Ok(given) => given,
            Err(error) => {
                let error = conversation.why(error);
                conversation.refuse(&error.to_string());
                for (worker, inlets) in self.paused.iter_mut().zip(held) {
                    worker.receive_again(inlets);
                }
                self.resume(eal, Received::default());
                // The node has stopped where the agent does not answer.
                let _ = self.handle.ask(Agent::end_upgrade);
                beside.resume();
                return Err(error);
            }
        };
        let waited = since.elapsed();
        let relay = self.relay(ports, held).and_then(|relay| Ok(relay.start(eal)?));
        // The share is the other node's, whatever becomes of this.
        let relay = relay.inspect_err(|error| tracing::error!("no packet is relayed: {error}"));
        let relay = relay.ok();
        // The other node hears it of the controller otherwise.
        let _ = conversation.say(Kind::Yours, &[]);
        let dropped = self.drop_waiting();
        Ok(GivenShare { waited, dropped, relay })
    }

    /// Everything up to the decision. Since when packets wait, and where they go from then on.
    fn try_to_give(
        &mut self,
        conversation: &mut Conversation,
        beside: &mut dyn Beside,
        held: &mut Held,
    ) -> Result<(Instant, Vec<RelayedPort>), UpgradeError> {
        let offer = self.handle.ask(|agent| agent.offering().offer_share()).map_err(stopped)?;
        let offer = offer.map_err(UpgradeError::Refused)?;
        let octets = serde_json::to_vec(&offer).map_err(io::Error::other)?;
        conversation.say(Kind::Offer, &octets)?;
        let accepted = conversation.hear_only(Kind::Accept)?;
        let (process, versions) = accepted_of(&accepted, &offer)?;
        let begin = Instant::now();
        let keep = beside.pause().map_err(UpgradeError::Refused)?;
        let paused = begin.elapsed();
        self.wait_for_rest().map_err(stopped)?;
        let prepared = self.handle.ask(|agent| agent.offering().begin(keep)).map_err(stopped)?;
        let prepared = prepared.map_err(UpgradeError::Refused)?;
        conversation.wait_at_most(PREPARING)?;
        let collected = begin.elapsed();
        send_prepared(conversation, &prepared)?;
        if PortTransfer::heard(&conversation.hear_only(Kind::Ready)?)? != PortTransfer::Elsewhere {
            return Err(UpgradeError::Foreign("it has no ports of its own"));
        }
        conversation.wait_at_most(STOPPED)?;
        let [paused, collected, built] =
            [paused, collected, begin.elapsed()].map(|time| time.as_secs_f64());
        tracing::info!(
            paused,
            collected,
            built,
            "the other node is built; seconds from the pause of PFCP"
        );
        // From here on packets wait.
        let since = Instant::now();
        self.pause();
        held.extend(self.paused.iter_mut().map(Worker::stop_receiving));
        conversation.say(Kind::Open, &0_u64.to_le_bytes())?;
        let macs = conversation.hear_only(Kind::Opened)?;
        let ports = ports_of(&macs, offer.share.as_ref())?;
        let mut received = Received::default();
        self.drain(&mut received)?;
        self.send_contexts(conversation, (&offer, &versions), &prepared)?;
        let octets = serde_json::to_vec(&Drained::default()).map_err(io::Error::other)?;
        conversation.say(Kind::Drained, &octets)?;
        conversation.hear_only(Kind::Taken)?;
        beside.before_yours(process, self.waiting()).map_err(UpgradeError::Refused)?;
        Ok((since, ports))
    }

    /// What relays packets: all queues of the ports.
    fn relay(&mut self, mut ports: Vec<RelayedPort>, held: Held) -> Result<Relay, UpgradeError> {
        for inlet in held.into_iter().flatten() {
            if let Some(port) = ports.get_mut(usize::from(inlet.port)) {
                port.queues.push(inlet.queue);
            }
        }
        for (number, port) in ports.iter_mut().enumerate() {
            for worker in &mut self.paused {
                let attachment = worker.give_port(number as u16);
                port.queues.extend(attachment.inlets.into_iter().map(|inlet| inlet.queue));
                port.outlet = port.outlet.take().or(attachment.queue);
            }
        }
        let pool = self.handle.ask(|agent| agent.answers.clone()).map_err(stopped)?;
        Ok(Relay { ports, pool })
    }
}

/// The ports, and where their packets go at the other node.
fn ports_of(macs: &[u8], share: Option<&OfferedShare>) -> Result<Vec<RelayedPort>, UpgradeError> {
    let macs: HashMap<String, [u8; 6]> =
        serde_json::from_slice(macs).map_err(|_| UpgradeError::Foreign("ports that are none"))?;
    let share = share.ok_or(UpgradeError::Foreign("no share"))?;
    let ports = share.ports.iter().map(|port| {
        let to = macs.get(&port.name).copied();
        if to.is_none() && !port.addresses.is_empty() {
            return Err(UpgradeError::Foreign("a port that it does not have"));
        }
        Ok(RelayedPort::new(port.mac, to.unwrap_or_default(), !port.addresses.is_empty()))
    });
    ports.collect()
}
