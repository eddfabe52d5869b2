//! Users as the node shows them: those of the configuration and, behind them, PFCP sessions.

pub mod usage;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::mpsc::{Receiver, channel};

use weft_dataplane::command::{Command, Shown};
use weft_function::{TagSlot, TagValues};
use weft_node_config::{UserKey, UserPlan};

use super::Agent;
use super::show::{BearerView, DedicatedView, UserView};
use crate::bearer::BearerId;
use crate::bearer::session::{SessionEntry, SessionId};
use crate::subscribers::Sought;

/// A user that is shown.
#[derive(Clone, Copy)]
enum Shows<'a> {
    /// One of the configuration: its plan, its number there, its slot.
    Configured(&'a UserPlan, u32, u32),
    /// A session.
    Session(SessionId, &'a SessionEntry),
}

impl Shows<'_> {
    fn slot(&self) -> u32 {
        match self {
            Shows::Configured(_, _, slot) => *slot,
            Shows::Session(_, entry) => entry.slot,
        }
    }
}

impl Agent {
    /// Users there are: of the configuration, and sessions.
    pub(super) fn user_count(&self) -> usize {
        self.subscribers.users.count() + self.subscribers.sessions.entries.len()
    }

    /// Up to `count` users from the `first` on, without what their contexts hold; see
    /// [`Agent::contexts_of`]. Those of the configuration come in its order, and behind them
    /// sessions in no order.
    pub fn users(&self, first: usize, count: usize) -> Vec<UserView> {
        let users = &self.subscribers.users;
        let configured =
            users.from(first).map(|(plan, nth, slot)| Shows::Configured(plan, nth, slot));
        let sessions = self.subscribers.sessions.entries.iter();
        let sessions = sessions.skip(first.saturating_sub(users.count()));
        let all = configured.chain(sessions.map(|(id, entry)| Shows::Session(*id, entry)));
        all.take(count).map(|user| self.user_view(user)).collect()
    }

    /// Users of the configuration whose name has `text` in it or that are found by it: an
    /// address, TEID, SPI, VLAN or session of a link; and the PFCP sessions of that name, SEID,
    /// address or TEID. Up to `count` from the `first` on.
    pub fn search_users(&self, text: &str, first: usize, count: usize) -> Vec<UserView> {
        let (sought, most) = (Sought::new(text), first.saturating_add(count));
        let found = self.subscribers.users.search(&sought, 0, most).into_iter();
        let configured = found.map(|(plan, nth, slot)| Shows::Configured(plan, nth, slot));
        let sessions = self.sessions_meant(text, &sought);
        let sessions = sessions.into_iter().filter_map(|id| self.session(id));
        let all = configured.chain(sessions).skip(first).take(count);
        all.map(|user| self.user_view(user)).collect()
    }

    /// The sessions of that name, or of that SEID in 16 hexadecimal digits, or that are found by
    /// the address or TEID that is sought, in order.
    fn sessions_meant(&self, text: &str, sought: &Sought) -> Vec<SessionId> {
        let text = text.trim();
        let named = SessionId::of_user_name(text).or_else(|| SessionId::of_digits(text));
        let keys = sought.keys(self.blueprint.networks.len() as u32);
        let slots = keys.iter().filter_map(|key| self.subscribers.bearers.taken.get(key));
        let by_key = slots.filter_map(|slot| self.subscribers.sessions.at(slot));
        let mut ids: Vec<_> = named.into_iter().chain(by_key).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn session(&self, id: SessionId) -> Option<Shows<'_>> {
        let entry = self.subscribers.sessions.entries.get(&id)?;
        Some(Shows::Session(id, entry))
    }

    /// The user that a name means: one of the configuration, or a session. An address or TEID
    /// means the session that is found by it, if only one is.
    fn user(&self, name: &str) -> Option<Shows<'_>> {
        if let Some((at, _)) = self.subscribers.users.position(name) {
            let (plan, nth, slot) = self.subscribers.users.from(at).next()?;
            return Some(Shows::Configured(plan, nth, slot));
        }
        match *self.sessions_meant(name, &Sought::new(name)) {
            [id] => self.session(id),
            _ => None,
        }
    }

    fn user_view(&self, user: Shows<'_>) -> UserView {
        let slot = user.slot();
        let (name, keys, plan) = match user {
            Shows::Configured(plan, nth, _) => {
                let keys = plan.keys.iter().map(|key| key.nth(nth)).collect();
                (plan.name_of(nth), keys, Some(plan))
            }
            Shows::Session(id, entry) => {
                let keys = self.subscribers.sessions.keys(&entry.rules);
                (id.user_name(), keys, self.plan_of(entry))
            }
        };
        let keys: Vec<UserKey> = keys;
        UserView {
            name,
            slot,
            worker: self.subscribers.users.worker_of(slot),
            keys: keys.iter().map(|key| self.key_text(key)).collect(),
            tags: plan.map_or_else(BTreeMap::new, |plan| self.tag_texts(plan)),
            contexts: Vec::new(),
        }
    }

    /// The `users` entry that a session is like.
    fn plan_of(&self, entry: &SessionEntry) -> Option<&UserPlan> {
        self.blueprint.users.iter().find(|plan| *plan.name == *entry.like)
    }

    /// Default bearers that commands have added and that are found by `text`, and the bearer
    /// of that number.
    pub fn search_bearers(&self, text: &str) -> Vec<BearerView> {
        let sought = Sought::new(text);
        let bearers = &self.subscribers.bearers;
        let keys = sought.keys(self.blueprint.networks.len() as u32);
        let by_key = keys.iter().filter(|key| bearers.taken.get(key).is_some());
        let mut ids: Vec<_> = by_key.filter_map(|key| bearers.with_key(key)).collect();
        ids.extend(sought.bearer().map(BearerId));
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.bearer_view(id)).collect()
    }

    /// The ways through the rules of the packets of the user of that name, as text.
    pub fn ways_of_user(&self, name: &str) -> Option<String> {
        let plan = match self.user(name)? {
            Shows::Configured(plan, ..) => plan,
            Shows::Session(_, entry) => self.plan_of(entry)?,
        };
        Some(self.ways_of(plan))
    }

    /// The dedicated bearers of the user of that name: those of the configuration, then those
    /// that commands have added. A session has none.
    pub fn bearers_of_user(&self, name: &str) -> Option<Vec<DedicatedView>> {
        let Shows::Configured(plan, _, slot) = self.user(name)? else { return Some(Vec::new()) };
        let vocabulary = self.blueprint.rules.vocabulary();
        let profile = plan.bearers.map_or(&[][..], |at| &self.blueprint.bearer_profiles[at]);
        let configured = profile.iter().map(|bearer| DedicatedView {
            name: bearer.name.clone(),
            when: bearer.when.display(vocabulary).to_string(),
        });
        let ids = self.subscribers.bearers.dedicated.get(&slot);
        let views = ids.into_iter().flatten().filter_map(|id| self.bearer_view(*id));
        let added = views.map(|view| DedicatedView {
            name: view.id.to_string(),
            when: view.found_by.join(", "),
        });
        Some(configured.chain(added).collect())
    }

    /// Names of the users at these slots. One pass over all users of the configuration: not for
    /// each packet.
    pub fn user_names(&self, slots: &[u32]) -> HashMap<u32, String> {
        let sessions = &self.subscribers.sessions;
        let of_sessions = slots.iter().filter_map(|slot| Some((*slot, sessions.at(*slot)?)));
        let mut names: HashMap<_, _> =
            of_sessions.map(|(slot, id)| (slot, id.user_name())).collect();
        let wanted: HashSet<u32> =
            slots.iter().copied().filter(|slot| !names.contains_key(slot)).collect();
        let users = self.subscribers.users.iter().filter(|(_, _, slot)| wanted.contains(slot));
        let users = users.map(|(plan, nth, slot)| (slot, plan.name_of(nth)));
        names.extend(users.take(wanted.len()));
        names
    }

    /// Asks the user's worker what the contexts of the user hold. The answer comes once the
    /// worker has read the question.
    pub fn contexts_of(&mut self, name: &str) -> Option<(UserView, Receiver<Shown>)> {
        let view = self.user_view(self.user(name)?);
        let (answer, wait) = channel();
        self.workers.send_to_owner(view.slot, Command::Show { user: view.slot, answer });
        Some((view, wait))
    }

    /// The slot of the user of that name.
    pub fn user_slot(&self, name: &str) -> Option<u32> {
        self.user(name).map(|user| user.slot())
    }

    /// What to say of a name that is no user's.
    pub fn no_user(&self, name: &str) -> String {
        let meant = self.subscribers.users.meant_by(name);
        format!("no user {name}{}", meant.map_or(String::new(), |meant| format!(" ({meant})")))
    }

    /// Name of the user at a slot; the slot's number where there is none.
    pub fn user_name(&self, slot: u32) -> String {
        self.subscribers.user_name(slot)
    }

    pub(crate) fn key_text(&self, key: &UserKey) -> String {
        let network = |number: &u32| {
            let name = self.blueprint.networks.get(*number as usize);
            name.map_or(String::new(), |name| format!("%{name}"))
        };
        let port = |number: &usize| &self.blueprint.ports[*number].name;
        match key {
            UserKey::Ipv4 { network: n, first } => format!("{first}{}", network(n)),
            UserKey::Ipv6 { network: n, first, prefix_len } => {
                format!("{first}/{prefix_len}{}", network(n))
            }
            UserKey::Route { network: n, first, prefix_len } => {
                format!("{first}/{prefix_len}{}", network(n))
            }
            UserKey::Teid { network: n, first } => format!("teid {first:#010x}{}", network(n)),
            UserKey::Spi { network: n, first } => format!("spi {first:#010x}{}", network(n)),
            UserKey::Vlan { port: p, first } => format!("{} vlan {first}", port(p)),
            UserKey::Session { port: p, first } => format!("{} session {first}", port(p)),
            UserKey::Port { port: p } => format!("port {}", port(p)),
            UserKey::Flow {
                network: n,
                protocol,
                source,
                source_port,
                destination,
                destination_port,
            } => format!(
                "{} {source}:{source_port} -> {destination}:{destination_port}{}",
                weft_wire::Protocol(*protocol),
                network(n)
            ),
        }
    }

    fn tag_texts(&self, plan: &weft_node_config::UserPlan) -> BTreeMap<String, String> {
        let tags = self.blueprint.tags.iter().zip(plan.tags).enumerate();
        tags.filter(|(slot, ((_, values), value))| {
            let unset = match values {
                TagValues::Named(names) => *value as usize >= names.len(),
                TagValues::Number => *value == 0,
            };
            *slot != TagSlot::DIRECTION.index() && !unset
        })
        .map(|(_, ((name, values), value))| {
            let text = match values {
                TagValues::Named(names) => names[value as usize].clone(),
                TagValues::Number => value.to_string(),
            };
            (name.to_owned(), text)
        })
        .collect()
    }
}
