//! What the agent does about GTP-U messages (TS 29.281 §7.2, §7.3): it watches the
//! paths to peers, and learns from Error Indications which tunnels are gone.

use weft_dataplane::classify::UserRecord;
use weft_dataplane::counters::DropReason;
use weft_dpdk::Pool;
use weft_function::TunnelEnd;
use weft_node_config::OnErrorIndication;
use weft_wire::gtpu::{PORT, Signal, Teid};

use super::provisioning::Provisioning;
use crate::bearer::{Action, BearerCommand, Event, Listeners, TunnelUsers};
use crate::gtpu_peers::{Ends, set_record};
use crate::mobility::Mobility;
use crate::ports::Means;
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

/// What GTP-U messages of peers are heard with.
pub(crate) struct PeerSignals<'a> {
    pub node: Provisioning<'a>,
    pub listeners: &'a mut Listeners,
    /// Users that move are not everywhere to be changed.
    pub mobility: Option<&'a Mobility>,
    /// Where packets of the node's own come from.
    pub answers: &'a Pool,
}

impl PeerSignals<'_> {
    /// A message for the node itself came in at `port`.
    pub fn hear(&mut self, port: u16, heard: &Heard) {
        if let Some(answer) = gtpu::answer(heard) {
            self.node.gtpu_peers.note_answer();
            self.node.ports.answer(port, answer);
        }
        match heard.signal {
            // Its restart counter means nothing (§8.2).
            Signal::EchoResponse { sequence, .. } => {
                let (ends, now) = ((heard.to, heard.from), self.node.clock.now());
                let (local, peer) = ends;
                let Some(returns) = self.node.gtpu_peers.take_response(ends, sequence, now) else {
                    return;
                };
                // What it answers went out at the port that has the address.
                if let Some(port) = self.node.ports.with_address(local) {
                    self.node.ports.confirm(port, peer, now);
                }
                if returns {
                    tracing::info!(%local, %peer, "the GTP-U peer answers again");
                    self.listeners.tell(&Event::PeerReturned { local, peer, time: now });
                }
            }
            Signal::ErrorIndication { teid, peer, udp_port } => {
                self.node.gtpu_peers.note_indication();
                let sent_to = Some(heard.to_port).filter(|port| *port != PORT);
                let ports = [udp_port, sent_to];
                let indication = Indication { ends: (heard.to, peer), teid, ports };
                // Only the peer itself can know, and it speaks from the address that
                // packets are sent to.
                if heard.from != peer || !self.tunnel_is_gone(&indication) {
                    self.node.gtpu_peers.ignore_indication();
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
        let Some(path) = self.node.gtpu_peers.paths.number(ends) else { return false };
        if let Some(end) = self.node.subscribers.sessions.tunnel(self.node.trials, path, teid) {
            let now = self.node.clock.now();
            let acts = is_ours(end) && self.node.gtpu_peers.may_act(now);
            if acts {
                self.node.subscribers.sessions.tunnel_is_gone(path, teid, ends.1);
            }
            return acts;
        }
        let users = self.node.subscribers.of_tunnel(self.node.trials, (path, ends), teid);
        let Some(TunnelUsers { bearers, user: of_user, end }) = users else { return false };
        let now = self.node.clock.now();
        if !is_ours(end) || !self.node.gtpu_peers.may_act(now) {
            return false;
        }
        let action = match self.node.blueprint.gtpu.error_indication {
            OnErrorIndication::Keep => None,
            OnErrorIndication::Drop => Some(Action::Drop),
            OnErrorIndication::Notify => Some(Action::Notify),
        };
        let (teid, peer) = (teid.0, ends.1);
        for id in bearers {
            if action.is_some() && self.node.subscribers.bearers.action(id) == action {
                continue;
            }
            if action.is_some() {
                let change =
                    BearerCommand::Change { id, action, settings: Vec::new(), end_marker: false };
                if self.node.change_bearers(&[change], self.mobility).is_err() {
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
        if !self.node.gtpu_peers.stop(found.slot, found.usual) {
            return false;
        }
        set_record(self.node.workers, found.slot, UserRecord { action, ..found.record });
        true
    }

    /// Asks the peers whose turn it is.
    pub fn look_after(&mut self, now: u64) {
        let lost = self.node.workers.dropped(&RESPONSES_LOST) + self.node.ports.missed();
        self.node.gtpu_peers.note_loss(lost + self.node.ports.unsent(), now);
        let probed = self.node.gtpu_peers.ask(self.node.ports, now);
        for port in probed.ports {
            let (workers, pool) = (&mut *self.node.workers, self.answers);
            self.node.ports.send(port, &mut Means { workers, pool });
        }
        for (local, peer) in probed.failed {
            tracing::warn!(%local, %peer, "the GTP-U peer does not answer");
            self.listeners.tell(&Event::PeerFailed { local, peer, time: now });
        }
    }
}
