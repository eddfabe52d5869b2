//! What the agent does about GTP-U messages (TS 29.281 §7.2, §7.3): it watches the
//! paths to peers, and learns from Error Indications which tunnels are gone.

use std::collections::HashMap;

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::UserChange;
use weft_dataplane::counters::DropReason;
use weft_function::TunnelEnd;
use weft_node_config::OnErrorIndication;
use weft_wire::gtpu::{PORT, Signal, Teid};

use super::Agent;
use crate::bearer::{Action, BearerCommand, Event, TunnelUsers};
use crate::gtpu_peers::Ends;
use crate::ports::gtpu::{self, Heard};
use crate::subscribers::Found;

/// Why the answer of a peer may have been dropped.
const RESPONSES_LOST: [DropReason; 4] = [
    DropReason::LocalFull,
    DropReason::LocalSourceRate,
    DropReason::EchoResponseRate,
    DropReason::PoolExhausted,
];

/// A message of a peer about a tunnel to it.
struct Indication {
    ends: Ends,
    teid: Teid,
    /// Ports of ours that the packet came from which it is about, as it says, and as it
    /// was sent there.
    ports: [Option<u16>; 2],
}

impl Agent {
    /// A message for the node itself came in at `port`.
    pub(super) fn hear(&mut self, port: u16, heard: &Heard) {
        if let Some(answer) = gtpu::answer(heard) {
            self.gtpu_peers.note_answer();
            self.ports.answer(port, answer);
        }
        match heard.signal {
            // Its restart counter means nothing (§8.2).
            Signal::EchoResponse { sequence, .. } => {
                let (ends, now) = ((heard.to, heard.from), self.clock.now());
                let (local, peer) = ends;
                let Some(returns) = self.gtpu_peers.take_response(ends, sequence, now) else {
                    return;
                };
                // What it answers went out at the port that has the address.
                if let Some(port) = self.ports.with_address(local) {
                    self.ports.confirm(port, peer, now);
                }
                if returns {
                    tracing::info!(%local, %peer, "the GTP-U peer answers again");
                    self.listeners.tell(&Event::PeerReturned { local, peer, time: now });
                }
            }
            Signal::ErrorIndication { teid, peer, udp_port } => {
                self.gtpu_peers.note_indication();
                let sent_to = Some(heard.to_port).filter(|port| *port != PORT);
                let ports = [udp_port, sent_to];
                let indication = Indication { ends: (heard.to, peer), teid, ports };
                // Only the peer itself can know, and it speaks from the address that
                // packets are sent to.
                if heard.from != peer || !self.tunnel_is_gone(&indication) {
                    self.gtpu_peers.ignore_indication();
                }
            }
            _ => {}
        }
    }

    /// A peer does not know a tunnel. False where no bearer has such a tunnel, or
    /// too many have lost theirs at once.
    fn tunnel_is_gone(&mut self, indication: &Indication) -> bool {
        let Indication { ends, teid, ports } = *indication;
        // Where the port of the packet is told that it is about, it must be ours: who
        // forges it does not see our packets.
        let is_ours =
            |end: TunnelEnd| ports.into_iter().flatten().all(|port| port == end.source_port);
        let Some(path) = self.gtpu_peers.paths.number(ends) else { return false };
        if let Some(end) = self.subscribers.sessions.tunnel(&self.trials, path, teid) {
            let now = self.clock.now();
            let acts = is_ours(end) && self.gtpu_peers.may_act(now);
            if acts {
                self.subscribers.sessions.tunnel_is_gone(path, teid, ends.1);
            }
            return acts;
        }
        let users = self.subscribers.of_tunnel(&self.trials, (path, ends), teid);
        let Some(TunnelUsers { bearers, user: of_user, end }) = users else { return false };
        let now = self.clock.now();
        if !is_ours(end) || !self.gtpu_peers.may_act(now) {
            return false;
        }
        let action = match self.blueprint.gtpu.error_indication {
            OnErrorIndication::Keep => None,
            OnErrorIndication::Drop => Some(Action::Drop),
            OnErrorIndication::Notify => Some(Action::Notify),
        };
        let (teid, peer) = (teid.0, ends.1);
        for id in bearers {
            if action.is_some() && self.subscribers.bearers.action(id) == action {
                continue;
            }
            if action.is_some() {
                let change =
                    BearerCommand::Change { id, action, settings: Vec::new(), end_marker: false };
                if self.change_bearers(&[change]).is_err() {
                    return false;
                }
            }
            let (bearer, user) = (Some(id), None);
            self.listeners.tell(&Event::ErrorIndication { bearer, user, teid, peer, time: now });
        }
        if let Some(found) = of_user
            && action.is_none_or(|action| self.stop(&found, action))
        {
            let (bearer, user) = (None, Some(found.user));
            self.listeners.tell(&Event::ErrorIndication { bearer, user, teid, peer, time: now });
        }
        true
    }

    /// Stops a bearer of the configuration. False where it is stopped already.
    fn stop(&mut self, found: &Found, action: Action) -> bool {
        if !self.gtpu_peers.stop(found.slot, found.usual) {
            return false;
        }
        let record = UserRecord { action, ..found.record };
        self.set_records([(found.slot, record)]);
        true
    }

    /// Lets the bearers of the configuration that were stopped go on.
    pub(crate) fn resume_stopped(&mut self) {
        let stopped = std::mem::take(&mut self.gtpu_peers.stopped);
        self.set_records(stopped);
    }

    fn set_records(&mut self, records: impl IntoIterator<Item = (u32, UserRecord)>) {
        for (slot, record) in records {
            let owner = self.workers.owner(slot);
            self.workers.change_users(owner, vec![UserChange::Record(slot, record)]);
        }
    }

    /// Notes the tunnels of all bearers after a change of the configuration;
    /// `before` is what [`Subscribers::paths_in_use`] was before.
    ///
    /// [`Subscribers::paths_in_use`]: crate::bearer::Subscribers::paths_in_use
    pub(crate) fn note_tunnels(&mut self, before: HashMap<Ends, u32>) {
        let (paths, now) = (&mut self.gtpu_peers.paths, self.clock.now());
        self.subscribers.note_tunnels(&self.trials, paths, before, now);
    }

    /// Asks the peers whose turn it is.
    pub(super) fn look_after_paths(&mut self, now: u64) {
        let lost = self.workers.dropped(&RESPONSES_LOST) + self.ports.missed();
        self.gtpu_peers.note_loss(lost + self.ports.unsent(), now);
        let probed = self.gtpu_peers.ask(&mut self.ports, now);
        for port in probed.ports {
            self.send_of_port(port);
        }
        for (local, peer) in probed.failed {
            tracing::warn!(%local, %peer, "the GTP-U peer does not answer");
            self.listeners.tell(&Event::PeerFailed { local, peer, time: now });
        }
    }
}
