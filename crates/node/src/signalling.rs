//! What the agent does about GTP-U messages (TS 29.281 §7.2, §7.3): it watches the
//! paths to peers, and learns from Error Indications which tunnels are gone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;

use weft_dataplane::classify::UserRecord;
use weft_dataplane::clock::rate_limit::RateLimit;
use weft_dataplane::command::{Command, UserChange};
use weft_function::TunnelEnd;
use weft_node_config::OnErrorIndication;
use weft_wire::gtpu::{Signal, Teid};

use crate::agent::Agent;
use crate::bearer::{Action, BearerCommand, Event};
use crate::gtpu_peer::{Due, Ends, Paths};
use crate::ports::gtpu::{self, Heard};
use crate::show::{PeerView, SignalCounts};
use crate::users::Found;

/// Error Indications that are acted on, per second and at once.
const INDICATIONS: (u32, u32) = (1000, 1000);

/// What the agent knows of peers.
#[derive(Debug)]
pub(crate) struct Signalling {
    pub paths: Paths,
    pub counts: SignalCounts,
    indications: RateLimit,
    /// Bearers of the configuration that an Error Indication has stopped, by slot,
    /// and how they are told to go on.
    pub stopped: HashMap<u32, UserRecord>,
}

impl Signalling {
    pub fn new(paths: Paths) -> Signalling {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let indications = RateLimit::new(number(INDICATIONS.0), number(INDICATIONS.1));
        let counts = SignalCounts::default();
        Signalling { paths, counts, indications, stopped: HashMap::new() }
    }
}

/// A message of a peer about a tunnel to it.
struct Indication {
    ends: Ends,
    teid: Teid,
    udp_port: Option<u16>,
}

impl Agent {
    /// A message for the node itself came in at `port`.
    pub(crate) fn hear(&mut self, port: u16, heard: &Heard) {
        if let Some(answer) = gtpu::answer(heard) {
            self.signalling.counts.echo_requests_answered += 1;
            self.ports.put(port, answer);
        }
        match heard.signal {
            // Its restart counter means nothing (§8.2).
            Signal::EchoResponse { sequence, .. } => {
                let (ends, now) = ((heard.to, heard.from), self.clock.now());
                match self.signalling.paths.answered(ends, sequence, now) {
                    Some(returned) => {
                        self.signalling.counts.echo_responses += 1;
                        if returned {
                            let (local, peer) = ends;
                            tracing::info!(%local, %peer, "the GTP-U peer answers again");
                            self.tell(&Event::PeerReturned { local, peer, time: now });
                        }
                    }
                    None => self.signalling.counts.echo_responses_ignored += 1,
                }
            }
            Signal::ErrorIndication { teid, peer, udp_port } => {
                self.signalling.counts.error_indications += 1;
                let indication = Indication { ends: (heard.to, peer), teid, udp_port };
                // Only the peer itself can know, and it speaks from the address that
                // packets are sent to.
                if heard.from != peer || !self.tunnel_is_gone(&indication) {
                    self.signalling.counts.error_indications_ignored += 1;
                }
            }
            _ => {}
        }
    }

    /// A peer does not know a tunnel. False where no bearer has such a tunnel, or
    /// too many have lost theirs at once.
    fn tunnel_is_gone(&mut self, indication: &Indication) -> bool {
        let Indication { ends, teid, udp_port } = *indication;
        // Where the port of the packet is told that it is about, it must be ours: who
        // forges it does not see our packets.
        let is_ours = |end: TunnelEnd| udp_port.is_none_or(|port| port == end.source_port);
        let Some(path) = self.signalling.paths.number(ends) else { return false };
        let bearers = self.bearers.tunnels.bearers(path, teid.0);
        let of_bearer = bearers.first().and_then(|id| self.bearers.tunnel(*id, &self.trials, teid));
        let of_user = match of_bearer {
            Some(_) => None,
            None => self.users.with_tunnel(&self.trials, ends, teid.0),
        };
        let end = of_bearer.or(of_user.as_ref().map(|(_, end)| *end));
        let now = self.clock.now();
        if !end.is_some_and(is_ours) || !self.signalling.indications.take(now) {
            return false;
        }
        let action = match self.blueprint.gtpu.error_indication {
            OnErrorIndication::Keep => None,
            OnErrorIndication::Drop => Some(Action::Drop),
            OnErrorIndication::Notify => Some(Action::Notify),
        };
        let (teid, peer) = (teid.0, ends.1);
        for id in bearers {
            if action.is_some() && self.bearers.action(id) == action {
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
            self.tell(&Event::ErrorIndication { bearer, user, teid, peer, time: now });
        }
        if let Some((found, _)) = of_user
            && action.is_none_or(|action| self.stop(&found, action))
        {
            let (bearer, user) = (None, Some(found.user));
            self.tell(&Event::ErrorIndication { bearer, user, teid, peer, time: now });
        }
        true
    }

    /// Stops a bearer of the configuration. False where it is stopped already.
    fn stop(&mut self, found: &Found, action: Action) -> bool {
        if self.signalling.stopped.insert(found.slot, found.usual).is_some() {
            return false;
        }
        let record = UserRecord { action, ..found.record };
        self.set_records([(found.slot, record)]);
        true
    }

    /// Lets the bearers of the configuration that were stopped go on.
    pub(crate) fn resume_stopped(&mut self) {
        let stopped = std::mem::take(&mut self.signalling.stopped);
        self.set_records(stopped);
    }

    fn set_records(&mut self, records: impl IntoIterator<Item = (u32, UserRecord)>) {
        for (slot, record) in records {
            let change = Box::new([UserChange::Record(slot, record)]);
            self.changing += 1;
            self.waiting += 1;
            self.links[self.shift.worker(slot)].send(Command::Users(change));
        }
    }

    /// The paths that bearers of the configuration and of commands are on, and how
    /// many are on each.
    pub(crate) fn paths_in_use(&self) -> HashMap<Ends, u32> {
        let mut count = HashMap::new();
        let of_users = self.users.paths(&self.trials);
        for ends in of_users.chain(self.bearers.paths(&self.trials)) {
            *count.entry(ends).or_default() += 1;
        }
        count
    }

    /// Notes the tunnels of all bearers after a change of the configuration;
    /// `before` is what [`Agent::paths_in_use`] was before.
    pub(crate) fn note_tunnels(&mut self, before: HashMap<Ends, u32>) {
        let now = self.clock.now();
        let Signalling { paths, .. } = &mut self.signalling;
        for ends in self.users.paths(&self.trials) {
            paths.enter(ends, now);
        }
        self.bearers.note_tunnels(&self.trials, paths, now);
        for (ends, count) in before {
            paths.leave(ends, count);
        }
    }

    /// Asks the peers whose turn it is.
    pub(crate) fn look_after_paths(&mut self, now: u64) {
        let Agent { signalling, ports, .. } = self;
        let (mut failed, mut asked) = (Vec::new(), Vec::new());
        let counts = &mut signalling.counts;
        signalling.paths.ask(now, |path, due| match due {
            Due::Request(sequence) => {
                // Without a port of that address no answer could come.
                let port = ports.with_address(path.local);
                let request = gtpu::echo_request(path.local, path.peer, sequence);
                if let (Some(port), Some(request)) = (port, request) {
                    counts.echo_requests += 1;
                    ports.put(port, request);
                    asked.push(port);
                }
            }
            Due::Failed => failed.push((path.local, path.peer)),
        });
        for port in asked {
            self.send_of_port(port);
        }
        for (local, peer) in failed {
            self.signalling.counts.peer_failures += 1;
            tracing::warn!(%local, %peer, "the GTP-U peer does not answer");
            self.tell(&Event::PeerFailed { local, peer, time: now });
        }
    }

    /// The GTP-U peers in use.
    pub fn peers(&self) -> Vec<PeerView> {
        let has_port = |local: IpAddr| self.ports.with_address(local).is_some();
        let view = |path: &crate::gtpu_peer::Path| PeerView {
            local: path.local,
            peer: path.peer,
            tunnels: path.tunnels,
            state: path.state,
            watched: self.blueprint.gtpu.echo.interval > 0 && has_port(path.local),
            requests: path.requests,
            responses: path.responses,
            failures: path.failures,
        };
        let mut views: Vec<_> = self.signalling.paths.iter().map(view).collect();
        views.sort_by_key(|view| (view.local, view.peer));
        views
    }
}
