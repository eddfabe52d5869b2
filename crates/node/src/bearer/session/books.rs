//! The agent's record of sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weft_compose::Settings;
use weft_dataplane::command::Configure;
use weft_function::{TunnelEnd, UserPlaneFunction};
use weft_functions::session::Rules;
use weft_functions::session::rules::{Interface, Session};
use weft_functions::session::session_detection::SessionDetection;
use weft_functions::session::session_forwarding::SessionForwarding;
use weft_functions::session::usage::Usage;
use weft_node_config::{Blueprint, UserKey};
use weft_wire::gtpu::Teid;

use super::timers::Timers;
use super::{Kept, SessionEvent, SessionId};
use crate::bearer::Numbered;
use crate::bearer::tunnels::Tunnels;
use crate::gtpu_peers::Paths;
use crate::plan::Trials;

/// A session in the record.
#[derive(Clone, Debug)]
pub(crate) struct SessionEntry {
    pub slot: u32,
    /// The `users` entry that it is like.
    pub like: Arc<str>,
    pub rules: Arc<Session>,
    /// The rules, as functions take them.
    pub settings: Settings,
    /// The first packet that waits has been told.
    pub told: bool,
    /// Its worker is asked what is due.
    pub asked: bool,
    /// Its inactivity has been told.
    pub idle: bool,
    /// When it is asked next; `u64::MAX` for never.
    pub next: u64,
    /// When it came, or changed; `i64::MIN` where its context says that.
    pub since: i64,
    /// Questions about it that its worker has not answered.
    pub questions: u32,
    /// Number of the newest usage that it told; [`UNTOLD`] while that waits for others.
    pub usage: u64,
}

/// Usage that a worker has measured, and nothing has heard of yet.
pub(super) const UNTOLD: u64 = u64::MAX;

/// Numbers of the functions that carry out rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionFunctions {
    pub detection: Vec<u16>,
    pub forwarding: Vec<u16>,
}

impl SessionFunctions {
    pub fn of(blueprint: &Blueprint) -> SessionFunctions {
        let of = |kind: &str| {
            let functions = blueprint.functions.iter().enumerate();
            let of_kind = functions.filter(|(_, function)| function.kind.name == kind);
            of_kind.map(|(number, _)| number as u16).collect()
        };
        SessionFunctions {
            detection: of(SessionDetection::NAME),
            forwarding: of(SessionForwarding::NAME),
        }
    }

    /// All of them, those that forward first: what detection lets go meets the new rules.
    pub fn all(&self) -> impl Iterator<Item = u16> + '_ {
        self.forwarding.iter().chain(&self.detection).copied()
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub entries: Numbered<SessionId, SessionEntry>,
    pub by_slot: Numbered<u32, SessionId>,
    pub tunnels: Tunnels<SessionId>,
    pub functions: SessionFunctions,
    /// Names of network instances, by number.
    pub networks: Vec<String>,
    pub timers: Timers,
    pub batches: BTreeMap<u64, Batch>,
    pub next_batch: u64,
    pub listeners: super::listeners::SessionListeners,
    /// Sessions that have something to report.
    pub due: Vec<SessionId>,
    /// Questions that workers have not answered.
    pub asking: usize,
    /// Numbers of the newest usage that was told, and of the newest that is kept as reported.
    pub told: u64,
    pub reported: u64,
    /// Nothing is told, and nothing asked that leads to it: what there is to tell goes over to
    /// another process.
    pub is_held: bool,
    /// What was kept in the node's last life, until it is asked for.
    pub kept: Kept,
}

/// A batch of changes that workers have not all made.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Workers that are still at it.
    pub left: usize,
    /// For each worker the sessions that it is asked about, in order.
    pub asked: Vec<Vec<SessionId>>,
    /// What came of the questions.
    pub usage: Vec<(SessionId, Vec<Usage>)>,
    /// Whether a control plane waits for it.
    pub is_command: bool,
}

impl Sessions {
    /// No sessions, of a node with this configuration.
    pub fn new(blueprint: &Blueprint) -> Sessions {
        let mut sessions = Sessions::default();
        sessions.adopt(blueprint);
        sessions
    }

    /// The configuration is another.
    pub fn adopt(&mut self, blueprint: &Blueprint) {
        self.functions = SessionFunctions::of(blueprint);
        self.networks.clone_from(&blueprint.networks);
    }

    /// Whether anything listens, and may hear something new.
    pub fn may_tell(&self) -> bool {
        !self.is_held && !self.listeners.is_empty()
    }

    /// Asks for nothing and tells nothing, or does so again. Whether all that was asked is
    /// answered, and told.
    pub fn hold(&mut self, is_held: bool) -> bool {
        self.is_held = is_held;
        self.listeners.flush();
        self.asking == 0 && self.batches.is_empty() && !self.listeners.is_behind()
    }

    /// Whether all usage that its worker has measured and let go of is kept as reported. A
    /// context that is read otherwise would lose that usage if the node died now: it is in the
    /// context no more, and in no report yet.
    pub fn is_reported(&self, id: SessionId) -> bool {
        let entry = self.entries.get(&id);
        entry.is_none_or(|entry| entry.questions == 0 && entry.usage <= self.reported)
    }

    /// The keys of a session with these rules.
    pub fn keys(&self, rules: &Session) -> Vec<UserKey> {
        let mut keys: Vec<UserKey> = Vec::with_capacity(2);
        let mut add = |key: UserKey| {
            if !keys.contains(&key) {
                keys.push(key);
            }
        };
        for rule in &rules.pdrs {
            let name = rule.network.as_deref().unwrap_or("default");
            let Some(network) = self.networks.iter().position(|known| known == name) else {
                continue;
            };
            let network = network as u32;
            if let Some(local) = rule.local {
                add(UserKey::Teid { network, first: local.teid });
                continue;
            }
            if rule.source == Interface::CpFunction {
                continue;
            }
            // What comes in without a tunnel is known by addresses.
            let ue = rule.ue.unwrap_or_default();
            if let Some(first) = ue.ipv4 {
                add(UserKey::Ipv4 { network, first });
            }
            if let Some((prefix, bits)) = ue.ipv6.and_then(|one| Some((one, one.v6()?))) {
                let (first, prefix_len) = (Ipv6Addr::from_bits(bits.first()), prefix.length());
                add(match prefix_len {
                    64 | 128 => UserKey::Ipv6 { network, first, prefix_len },
                    _ => UserKey::Route { network, first: first.into(), prefix_len },
                });
            }
            for prefix in &rule.routes {
                let ipv4 = prefix.v4().map(|bits| Ipv4Addr::from_bits(bits.first()).into());
                let ipv6 = prefix.v6().map(|bits| Ipv6Addr::from_bits(bits.first()).into());
                if let Some(first) = ipv4.or(ipv6) {
                    add(UserKey::Route { network, first, prefix_len: prefix.length() });
                }
            }
        }
        keys
    }

    /// Settings of all sessions for the function of that number.
    pub fn settings_of(&self, function: usize) -> impl Iterator<Item = Configure> + '_ {
        let is_of = self.functions.all().any(|number| usize::from(number) == function);
        let entries = self.entries.values().filter(move |_| is_of);
        entries.map(move |entry| entry.configure(function as u16))
    }

    /// Those of one session, where the function carries out rules.
    pub fn settings_at(&self, function: usize, id: SessionId) -> Option<Configure> {
        let is_of = self.functions.all().any(|number| usize::from(number) == function);
        let entry = self.entries.get(&id).filter(|_| is_of)?;
        Some(entry.configure(function as u16))
    }

    /// Notes the tunnels of all sessions anew.
    pub fn note_tunnels(&mut self, trials: &Trials, paths: &mut Paths, now: u64) {
        self.tunnels = Tunnels::default();
        for (id, entry) in &self.entries {
            self.tunnels.enter(*id, entry.tunnels(&self.functions, trials), paths, now);
        }
    }

    /// The paths that tunnels of sessions are on, once for each tunnel.
    pub fn paths<'a>(
        &'a self,
        trials: &'a Trials,
    ) -> impl Iterator<Item = crate::gtpu_peers::Ends> + 'a {
        let ends = self.entries.values().flat_map(|entry| entry.tunnels(&self.functions, trials));
        ends.map(|end| (end.local, end.peer))
    }

    /// A tunnel that sessions send into.
    pub fn tunnel(&self, trials: &Trials, path: u32, teid: Teid) -> Option<TunnelEnd> {
        let first = self.tunnels.of(path, teid.0).into_iter().next()?;
        let entry = self.entries.get(&first)?;
        entry.tunnels(&self.functions, trials).find(|end| end.teid == teid)
    }

    /// The peer does not know it.
    pub fn tunnel_is_gone(&mut self, path: u32, teid: Teid, peer: IpAddr) {
        let mut sessions = self.tunnels.of(path, teid.0);
        sessions.sort_unstable();
        sessions.dedup();
        for session in sessions {
            let event = SessionEvent::ErrorIndication { session, teid: teid.0, peer };
            self.listeners.tell(&event);
        }
    }

    /// The session is asked at `time`, unless it is asked before.
    pub fn schedule(&mut self, id: SessionId, entry: &mut SessionEntry, time: u64) {
        if time < entry.next {
            entry.next = time;
            self.timers.ask_at(time, id);
        }
    }

    /// The session at a slot.
    pub fn at(&self, slot: u32) -> Option<SessionId> {
        self.by_slot.get(&slot).copied()
    }
}

impl SessionEntry {
    /// A session with these rules.
    pub fn new(slot: u32, like: Arc<str>, rules: Arc<Session>) -> SessionEntry {
        let settings = Settings::of(Arc::new(Rules(rules.clone())));
        SessionEntry {
            slot,
            like,
            rules,
            settings,
            told: false,
            asked: false,
            idle: false,
            next: u64::MAX,
            since: 0,
            questions: 0,
            usage: 0,
        }
    }

    /// Its settings for the function of that number.
    pub fn configure(&self, function: u16) -> Configure {
        Configure { function, slot: self.slot, settings: self.settings.clone(), nth: 0 }
    }

    /// The tunnels that it sends into.
    pub fn tunnels(
        &self,
        functions: &SessionFunctions,
        trials: &Trials,
    ) -> impl Iterator<Item = TunnelEnd> + use<> {
        let forwarding = functions.forwarding.first();
        let ends = forwarding
            .map(|number| trials.instance(usize::from(*number)).tunnels(&self.settings, 0));
        ends.unwrap_or_default().into_iter()
    }
}
