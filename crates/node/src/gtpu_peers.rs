//! GTP-U peers (TS 29.281 §7.2, §7.3): the paths to them, which the node probes, and what
//! their messages came to.

mod paths;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::clock::rate_limit::RateLimit;
use weft_dataplane::command::UserChange;
use weft_node_config::Echo;

use self::paths::{Due, Path};
pub use self::paths::{Ends, PathState, Paths};
use crate::ports::gtpu::echo_request;
use crate::ports::{Loss, Ports};
use crate::workers::Workers;

/// Error Indications that are acted on, per second and at once.
const INDICATIONS: (u32, u32) = (1000, 1000);

/// What the agent knows of peers.
#[derive(Debug)]
pub(crate) struct GtpuPeers {
    /// The paths to them.
    pub paths: Paths,
    counts: SignalCounts,
    indications: RateLimit,
    /// Of answers of peers.
    loss: Loss,
    /// Bearers of the configuration that an Error Indication has stopped, by slot,
    /// and how they are told to go on.
    pub stopped: HashMap<u32, UserRecord>,
}

/// What a round of probes came to.
#[derive(Debug, Default)]
pub(crate) struct Probed {
    /// Ports that have Echo Requests to send.
    pub ports: Vec<u16>,
    /// Paths whose peers have failed.
    pub failed: Vec<Ends>,
}

impl GtpuPeers {
    /// No peer is known; they are asked as `echo` says.
    pub fn new(echo: Echo) -> GtpuPeers {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        GtpuPeers {
            paths: Paths::new(echo),
            counts: SignalCounts::default(),
            indications: RateLimit::new(number(INDICATIONS.0), number(INDICATIONS.1)),
            loss: Loss::default(),
            stopped: HashMap::new(),
        }
    }

    /// What was counted, but for End Markers, which workers count.
    pub fn counts(&self) -> SignalCounts {
        SignalCounts { peers_down: self.paths.down() as u64, ..self.counts }
    }

    /// The node has answered an Echo Request.
    pub fn note_answer(&mut self) {
        self.counts.echo_requests_answered += 1;
    }

    /// A peer has answered an Echo Request. Returns whether it had failed before; none for
    /// an answer to no request.
    pub fn take_response(&mut self, ends: Ends, sequence: u16, now: u64) -> Option<bool> {
        let returned = self.paths.answered(ends, sequence, now);
        match returned {
            Some(_) => self.counts.echo_responses += 1,
            None => self.counts.echo_responses_ignored += 1,
        }
        returned
    }

    /// So many packets were lost until now that may have been answers.
    pub fn note_loss(&mut self, count: u64, now: u64) {
        self.loss.note(count, now);
    }

    /// An Error Indication has come.
    pub fn note_indication(&mut self) {
        self.counts.error_indications += 1;
    }

    /// It was not acted on.
    pub fn ignore_indication(&mut self) {
        self.counts.error_indications_ignored += 1;
    }

    /// Whether another Error Indication may be acted on now.
    pub fn may_act(&mut self, now: u64) -> bool {
        self.indications.take(now)
    }

    /// Notes that a bearer of the configuration is stopped. False where it is already.
    pub fn stop(&mut self, slot: u32, usual: UserRecord) -> bool {
        self.stopped.insert(slot, usual).is_none()
    }

    /// Lets the bearers of the configuration that were stopped go on.
    pub fn resume_stopped(&mut self, workers: &mut Workers) {
        for (slot, record) in std::mem::take(&mut self.stopped) {
            set_record(workers, slot, record);
        }
    }

    /// Asks the peers whose turn it is, by the ports that have the addresses.
    pub fn ask(&mut self, ports: &mut Ports, now: u64) -> Probed {
        let mut probed = Probed::default();
        let counts = &mut self.counts;
        self.paths.ask(now, &self.loss, |path, due| match due {
            Due::Request(sequence) => {
                // Without a port of that address no answer could come.
                let port = ports.with_address(path.local);
                let request = echo_request(path.local, path.peer, sequence);
                if let (Some(port), Some(request)) = (port, request) {
                    counts.echo_requests += 1;
                    ports.put(port, request);
                    probed.ports.push(port);
                }
            }
            Due::Failed => {
                counts.peer_failures += 1;
                probed.failed.push((path.local, path.peer));
            }
        });
        probed
    }

    /// The peers in use; they are watched through the ports that have the addresses.
    pub fn views(&self, ports: &Ports) -> Vec<PeerView> {
        let is_asked = self.paths.echo().interval > 0;
        let view = |path: &Path| PeerView {
            local: path.local,
            peer: path.peer,
            tunnels: path.tunnels,
            state: path.state,
            watched: is_asked && ports.with_address(path.local).is_some(),
            requests: path.requests,
            responses: path.responses,
            failures: path.failures,
        };
        let mut views: Vec<_> = self.paths.iter().map(view).collect();
        views.sort_by_key(|view| (view.local, view.peer));
        views
    }
}

/// Tells the owner of a slot what becomes of its packets.
pub(crate) fn set_record(workers: &mut Workers, slot: u32, record: UserRecord) {
    let owner = workers.owner(slot);
    workers.change_users(owner, vec![UserChange::Record(slot, record)]);
}

/// Messages of GTP-U (TS 29.281 §7) that were counted, and what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SignalCounts {
    /// Echo Requests that the node sent.
    pub echo_requests: u64,
    /// Answers to them.
    pub echo_responses: u64,
    /// Echo Responses that answered nothing.
    pub echo_responses_ignored: u64,
    /// Echo Requests of peers that were answered.
    pub echo_requests_answered: u64,
    /// How often a peer stopped answering.
    pub peer_failures: u64,
    /// Peers that do not answer now.
    pub peers_down: u64,
    /// Error Indications that came.
    pub error_indications: u64,
    /// Those among them that were not acted on: forged, about no tunnel of the
    /// node, or too many at once.
    pub error_indications_ignored: u64,
    /// End Markers that the node itself sent.
    pub end_markers: u64,
}

/// One GTP-U peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// The node's address.
    #[schema(value_type = String)]
    pub local: IpAddr,
    /// The peer's address.
    #[schema(value_type = String)]
    pub peer: IpAddr,
    /// Tunnels to it; those of a range of users count once.
    pub tunnels: u32,
    /// Whether it answers.
    pub state: PathState,
    /// Whether it is asked: a port has the node's address.
    pub watched: bool,
    /// Echo Requests sent to it.
    pub requests: u64,
    /// Those that it has answered.
    pub responses: u64,
    /// How often it has stopped answering.
    pub failures: u64,
}
