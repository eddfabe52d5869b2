//! The node's part in moving users from node to node.
//!
//! The protocol is `weft_mobility_protocol`'s: its machines decide, and know nothing of packets.
//! Here stands what carries their decisions out. The agent holds the machine, gives it
//! messages, timers and what workers tell, and does what it asks in order for each
//! user, one thing after the other: a message that says that something is done leaves
//! when workers have done it. Messages come and go over a pair of channels; the
//! program holds the other ends and moves them ([`Mail`]).

mod dynamic_users;
mod host;
mod machine;
mod radio;
mod rest;
mod settling;
mod teids;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use weft_dataplane::command::Waker;
use weft_dataplane::command::{Command, Configure};
use weft_dataplane::gates::tunnel::{self, MovingTunnel, Purpose, Tunnels};
use weft_dataplane::gates::{Act, Order};
use weft_dpdk::Packet;
use weft_function::{PacketMetadata, Scope};
pub use weft_mobility_protocol::User;
use weft_mobility_protocol::{
    Anchor, AnchorPosture, Contexts, Counter, Direction, EndMarker, Envelope, Epoch, Incarnation,
    Leg, Message, NodeId, Output, Posture, Reason, Station, Step, TimerKey, Timers, Treatment,
    Ways,
};
use weft_node_config::{HandoverPlan, HandoverRole, UserKey};
use weft_wire::{EtherType, Protocol, ethernet};

pub(crate) use self::dynamic_users::Standing;
use self::dynamic_users::Unknown;
pub(crate) use self::host::Host;
pub(crate) use self::machine::Told;
use self::machine::{Machine, Outputs, user_of};
use self::radio::Drains;
pub use self::radio::{Radio, RadioError};
pub(crate) use self::rest::Remembered;
use self::teids::Teids;
use crate::bearer::Steered;
use crate::migration::transfer::{Asked, TransferError};
use crate::subscribers::{Member, NoRoom};

/// How long a user that is settled keeps its gate, for what an End Marker that was
/// given up for lost was to stand behind.
const LINGER: Duration = Duration::from_millis(300);

/// The far ends of the channels that messages come and go by.
#[derive(Debug)]
pub struct Mail {
    /// Messages for the node.
    pub to_node: Sender<Envelope>,
    /// Messages of the node, for the controller and for other nodes.
    pub from_node: Receiver<Envelope>,
    /// Wakes the agent for messages that were given to it: without, they wait for its
    /// next round.
    pub waker: Waker,
}

/// The configuration has no `handover`, or the node takes part already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node moves no users: its configuration has no `handover`, or it has begun to")]
pub struct NoHandover;

/// What a node has to do with users that move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoverView {
    /// Number of the node.
    pub node: u32,
    /// `station` or `anchor`.
    pub role: String,
    /// How often it has started, as it says.
    pub incarnation: u32,
    /// Users by the name of their state.
    pub users: BTreeMap<String, u64>,
    /// Users that a worker looks at gates for.
    pub gated: u64,
    /// Packets that have waited at gates.
    #[serde(default)]
    pub waited: u64,
    /// What was counted, by name.
    pub counts: BTreeMap<String, u64>,
}

/// What is said of a user whose node has died with all that commands had added for it.
const BARE: &str = "the user comes without what commands had added for it: add it again";

/// A user that the node has something to do with.
struct Mobile {
    slot: u32,
    /// What the machine asks for, in order.
    outputs: VecDeque<Output>,
    /// Answers that are due before the next is done.
    pending: usize,
    anchor: Option<NodeId>,
    /// Tunnels that workers know the user by.
    tunnels: Tunnels,
    /// How a station treats it.
    posture: Option<Posture>,
    /// An anchor's ways to it: the one in use, and the one before.
    legs: [Option<Leg>; 2],
    /// It has been owned here, or was to be: no node but the one it goes to has what
    /// commands have added for it.
    had: bool,
    /// What was exported, until another node has it or it is used again.
    exported: Option<Vec<u8>>,
    /// Whether a worker looks at a gate for it.
    gated: bool,
    /// When the gate is taken away.
    settled: Option<u64>,
}

/// What workers have finished.
pub(crate) enum Done {
    /// A user was exported.
    Exported(User, Epoch, Vec<u8>),
    /// Contexts were made for a user, or were not.
    Imported(User, Epoch, Result<(), TransferError>),
    /// What was exported is used again.
    Resumed(User),
    /// A worker has applied a command.
    Ordered(User),
    /// A user goes without what a process had of it.
    ContextLost,
    /// Something was told of the user at this slot.
    Told(u32, Told),
    /// A worker has seen to what its ports had received.
    Drained(u64),
}

/// The node's part in moving users.
pub(crate) struct Mobility {
    plan: HandoverPlan,
    teids: Teids,
    machine: Machine,
    mail: Receiver<Envelope>,
    post: Sender<Envelope>,
    mobiles: HashMap<User, Mobile>,
    slots: HashMap<u32, User>,
    timers: Timers<u64>,
    settled: BTreeSet<(u64, User)>,
    counts: BTreeMap<&'static str, u64>,
    drains: Drains,
    done: Vec<Done>,
    /// The far ends of the channels, where another process had the node before.
    unclaimed: Option<Mail>,
}

impl Mobility {
    /// Begins to take part, in an incarnation that the node has never had before. Returns
    /// what the machine asks for first, and the far ends of the channels.
    pub fn new(
        plan: HandoverPlan,
        (incarnation, secret): (Incarnation, &[u8]),
        waker: Waker,
    ) -> (Mobility, Outputs, Mail) {
        let settings = plan.settings;
        let mut out = Vec::new();
        let machine = match plan.role {
            HandoverRole::Station => {
                Machine::Station(Station::new(plan.node, incarnation, settings, &mut out))
            }
            HandoverRole::Anchor => {
                Machine::Anchor(Anchor::new(plan.node, incarnation, settings, &mut out))
            }
        };
        let (mobility, mail) = Mobility::with(plan, (machine, secret), waker);
        (mobility, out, mail)
    }

    fn with(
        plan: HandoverPlan,
        (machine, secret): (Machine, &[u8]),
        waker: Waker,
    ) -> (Mobility, Mail) {
        let ((to_node, mail), (post, from_node)) = (channel(), channel());
        let mobility = Mobility {
            plan,
            teids: Teids::new(secret),
            machine,
            mail,
            post,
            mobiles: HashMap::new(),
            slots: HashMap::new(),
            timers: Timers::default(),
            settled: BTreeSet::new(),
            // A rate of events needs their count from before the first.
            counts: Counter::ALL.map(|counter| (counter.name(), 0)).into(),
            drains: Drains::default(),
            done: Vec::new(),
            unclaimed: None,
        };
        (mobility, Mail { to_node, from_node, waker })
    }

    /// What the node has to do with users that move; `waited` is how many packets have
    /// waited at gates.
    pub fn view(&self, waited: u64) -> HandoverView {
        let counts = self.counts.iter().map(|(name, count)| ((*name).to_owned(), *count));
        HandoverView {
            node: self.plan.node.0,
            role: self.plan.role.name().to_owned(),
            incarnation: self.machine.incarnation().0,
            users: self.machine.states(),
            gated: self.mobiles.values().filter(|mobile| mobile.gated).count() as u64,
            waited,
            counts: counts.collect(),
        }
    }

    /// Notes what workers have finished, for the next round.
    pub fn note(&mut self, done: Done) {
        self.done.push(done);
    }

    /// One round; whether there was anything to do.
    pub fn work(&mut self, host: &mut dyn Host) -> bool {
        let mut busy = false;
        for done in std::mem::take(&mut self.done) {
            busy = true;
            self.finish(host, done);
        }
        while let Ok(envelope) = self.mail.try_recv() {
            busy = true;
            self.hear(host, envelope);
        }
        let now = host.now();
        while let Some(key) = self.timers.due(now) {
            busy = true;
            let mut out = Vec::new();
            self.machine.timer(key, &mut out);
            self.take(host, out);
        }
        busy | self.drain(host) | self.open_settled(host, now)
    }

    /// A message has come.
    fn hear(&mut self, host: &mut dyn Host, envelope: Envelope) {
        let mut about = None;
        if let Message::Handover { user, epoch, step } = &envelope.message {
            about = Some(*user);
            if let Err(unknown) = self.know(host, *user) {
                return self.refuse(*user, *epoch, step, &unknown);
            }
            if let (Step::Prepare { anchor, .. }, Some(mobile)) = (step, self.mobiles.get_mut(user))
            {
                mobile.anchor = Some(*anchor);
            }
        }
        let mut out = Vec::new();
        self.machine.message(envelope, &mut out);
        self.take(host, out);
        if let Some(user) = about {
            self.release_if_idle(host, user);
        }
    }

    /// A message speaks of a user that is not configured here, or has no room.
    fn refuse(&mut self, user: User, epoch: Epoch, step: &Step, unknown: &Unknown) {
        tracing::warn!(%user, step = step.name(), "{unknown}");
        let step = Step::Refused(Reason::Unknown);
        // The thread that moves messages may have gone.
        let _ = self.post.send(Envelope {
            from: self.plan.node,
            from_incarnation: self.machine.incarnation(),
            to: NodeId::CONTROLLER,
            to_incarnation: Incarnation(0),
            message: Message::Handover { user, epoch, step },
        });
    }

    /// Makes sure that there is an entry for a user.
    fn know(&mut self, host: &mut dyn Host, user: User) -> Result<(), Unknown> {
        if self.mobiles.contains_key(&user) {
            return Ok(());
        }
        let slot = self.slot_of(host, user)?;
        self.slots.insert(slot, user);
        self.mobiles.insert(
            user,
            Mobile {
                slot,
                outputs: VecDeque::new(),
                pending: 0,
                anchor: None,
                tunnels: Tunnels::new(),
                posture: None,
                legs: [None; 2],
                had: false,
                exported: None,
                gated: false,
                settled: None,
            },
        );
        Ok(())
    }

    /// What workers have finished.
    fn finish(&mut self, host: &mut dyn Host, done: Done) {
        let mut out = Vec::new();
        let user = match done {
            Done::Drained(number) => return self.drained(host, number),
            Done::Told(slot, told) => {
                let Some(&user) = self.slots.get(&slot) else { return };
                self.machine.told(user, told, &mut out);
                return self.take(host, out);
            }
            Done::Exported(user, epoch, octets) => {
                if let Some(mobile) = self.mobiles.get_mut(&user) {
                    mobile.exported = Some(octets.clone());
                }
                if let Machine::Station(station) = &mut self.machine {
                    station.exported(user, epoch, octets, &mut out);
                }
                user
            }
            Done::Imported(user, epoch, outcome) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%user, %error, "the user is not taken");
                }
                if let Some(mobile) = self.mobiles.get_mut(&user) {
                    mobile.had |= outcome.is_ok();
                }
                if let Machine::Station(station) = &mut self.machine {
                    station.imported(user, epoch, outcome.is_ok(), &mut out);
                }
                user
            }
            Done::ContextLost => return self.count(Counter::ContextLost),
            Done::Resumed(user) | Done::Ordered(user) => user,
        };
        if let Some(mobile) = self.mobiles.get_mut(&user) {
            mobile.pending = mobile.pending.saturating_sub(1);
        }
        self.take(host, out);
        self.go_on(host, user);
    }

    /// Takes what a machine asks for: what is about a user waits its turn.
    pub fn take(&mut self, host: &mut dyn Host, outputs: Outputs) {
        let mut users = Vec::new();
        for output in outputs {
            match user_of(&output).filter(|user| self.mobiles.contains_key(user)) {
                Some(user) => {
                    if let Some(mobile) = self.mobiles.get_mut(&user) {
                        mobile.outputs.push_back(output);
                    }
                    if !users.contains(&user) {
                        users.push(user);
                    }
                }
                None => self.carry_out(host, None, output),
            }
        }
        users.into_iter().for_each(|user| self.go_on(host, user));
    }

    /// Does what is asked for a user, as far as nothing has to be waited for.
    fn go_on(&mut self, host: &mut dyn Host, user: User) {
        while let Some(mobile) = self.mobiles.get_mut(&user)
            && mobile.pending == 0
            && let Some(output) = mobile.outputs.pop_front()
        {
            self.carry_out(host, Some(user), output);
        }
        self.release_if_idle(host, user);
    }

    fn carry_out(&mut self, host: &mut dyn Host, user: Option<User>, output: Output) {
        match output {
            Output::Send(envelope) => self.send(host, envelope),
            Output::SetTimer(key, after) => self.set_timer(host, key, after),
            Output::CancelTimer(key) => self.timers.cancel(key),
            Output::Count(counter) => self.count(counter),
            Output::Keep(user, kept) => host.keep_owned(user, kept),
            Output::KeepRoute(user, route) => host.keep_route(user, route),
            Output::Changed(user, change) => {
                let posture = self.mobiles.get(&user).and_then(|mobile| mobile.posture);
                let (epoch, event) = (posture.map(|posture| posture.epoch.0), change.event);
                tracing::debug!(%user, from = change.from, to = change.to, event, epoch);
            }
            Output::Persist { .. } | Output::Tell(_) => {}
            output => {
                let Some(user) = user else { return };
                self.carry_out_for(host, user, output);
            }
        }
    }

    fn carry_out_for(&mut self, host: &mut dyn Host, user: User, output: Output) {
        match output {
            Output::Steer(_, posture) => self.steer(host, user, posture),
            Output::SteerAnchor(_, posture) => self.steer_anchor(host, user, posture),
            Output::Export { epoch, .. } => self.export(host, user, epoch),
            Output::Import { epoch, contexts, .. } => self.import(host, user, epoch, contexts),
            Output::Resume { rolled_back, .. } => self.resume(host, user, rolled_back),
            Output::Drain { epoch, .. } => self.drains.ask(user, epoch),
            Output::Discard(_) => self.discard(host, user),
            Output::SendEndMarker { to, marker, .. } => {
                self.send_end_marker(host, user, to, marker);
            }
            _ => {}
        }
    }

    fn count(&mut self, counter: Counter) {
        *self.counts.entry(counter.name()).or_default() += 1;
    }

    fn set_timer(&mut self, host: &dyn Host, key: TimerKey, after: Duration) {
        let time = host.now().saturating_add(after.as_nanos() as u64);
        self.timers.set(key, time);
    }

    fn export(&mut self, host: &mut dyn Host, user: User, epoch: Epoch) {
        let Some(member) = self.member(host, user) else { return };
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        mobile.pending += 1;
        host.begin_export(Asked::Handover(user, epoch), member, Some(self.plan.tunnel));
    }

    fn import(&mut self, host: &mut dyn Host, user: User, epoch: Epoch, contexts: Contexts) {
        let steered: Vec<_> = self.steered(host.blueprint(), user).into_iter().collect();
        let member = self.member(host, user);
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        mobile.pending += 1;
        let (asked, without) = (Asked::Handover(user, epoch), Some(self.plan.tunnel));
        if contexts != Contexts::Kept
            && let Some(member) = &member
        {
            host.begin_contexts_anew(member);
        }
        match (contexts, member) {
            (Contexts::Exported(octets), _) => {
                match host.begin_import(asked, &octets, without, &steered) {
                    Ok(()) => {
                        mobile.had = true;
                        self.wait_for_keys(host, user);
                    }
                    Err(error) => self.done.push(Done::Imported(user, epoch, Err(error))),
                }
            }
            (Contexts::Kept, Some(member)) => host.begin_kept(asked, member),
            (Contexts::New, Some(member)) => {
                if self.is_dynamic(user) && member.default.is_none() {
                    tracing::warn!(%user, "{BARE}");
                }
                host.begin_fresh(asked, member, without);
            }
            (Contexts::Kept | Contexts::New, None) => {
                let unknown = TransferError::NoUser(user.to_string());
                self.done.push(Done::Imported(user, epoch, Err(unknown)));
            }
        }
    }

    /// Contexts have stayed, but timers and kept packets were taken out with them.
    fn resume(&mut self, host: &mut dyn Host, user: User, rolled_back: bool) {
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        let Some(octets) = mobile.exported.take() else { return };
        let (asked, without) = (Asked::Resumed(user), Some(self.plan.tunnel));
        match host.begin_resume(asked, &octets, rolled_back, without) {
            Ok(()) => mobile.pending += 1,
            Err(error) => tracing::error!(%user, %error, "the user is not resumed"),
        }
    }
}
