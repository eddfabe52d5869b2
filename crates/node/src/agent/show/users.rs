//! Users and bearers as they are shown: users of the configuration and, behind them, PFCP sessions.

use std::collections::{BTreeMap, HashMap, HashSet};

use weft_dataplane::classify::Selector;
use weft_function::{TagSlot, TagValues};
use weft_node_config::{Blueprint, UserKey, UserPlan};

use super::topology::ways_of;
use super::{BearerView, DedicatedView, UserView};
use crate::bearer::session::{SessionEntry, SessionId};
use crate::bearer::{BearerId, BearerRole, Subscribers};
use crate::subscribers::Sought;
use crate::workers::Workers;

/// What users and bearers are shown by.
pub(crate) struct UserViews<'a> {
    pub blueprint: &'a Blueprint,
    pub subscribers: &'a Subscribers,
    pub workers: &'a Workers,
}

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

impl<'a> UserViews<'a> {
    /// Users there are: of the configuration, and sessions.
    pub fn count(&self) -> usize {
        self.subscribers.users.count() + self.subscribers.sessions.entries.len()
    }

    /// Up to `count` users from the `first` on, without what their contexts hold. Those of the
    /// configuration come in its order, and behind them sessions in no order.
    pub fn users(&self, first: usize, count: usize) -> Vec<UserView> {
        let users = &self.subscribers.users;
        let configured = users.from(first);
        let configured = configured.map(|(plan, nth, slot)| Shows::Configured(plan, nth, slot));
        let sessions = self.subscribers.sessions.entries.iter();
        let sessions = sessions.skip(first.saturating_sub(users.count()));
        let all = configured.chain(sessions.map(|(id, entry)| Shows::Session(*id, entry)));
        all.take(count).map(|user| self.view(user)).collect()
    }

    /// The user that a name means, without what its contexts hold.
    pub fn named(&self, name: &str) -> Option<UserView> {
        Some(self.view(self.user(name)?))
    }

    /// The slot of the user that a name means.
    pub fn slot(&self, name: &str) -> Option<u32> {
        self.user(name).map(|user| user.slot())
    }

    /// Names of the users at these slots. One pass over all users of the configuration: not for
    /// each packet.
    pub fn names(&self, slots: &[u32]) -> HashMap<u32, String> {
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

    /// Users of the configuration whose name has `text` in it or that are found by it: an
    /// address, TEID, SPI, VLAN or session of a link; and the PFCP sessions of that name, SEID,
    /// address or TEID. Up to `count` from the `first` on.
    pub fn search(&self, text: &str, first: usize, count: usize) -> Vec<UserView> {
        let (sought, most) = (Sought::new(text), first.saturating_add(count));
        let found = self.subscribers.users.search(&sought, 0, most).into_iter();
        let configured = found.map(|(plan, nth, slot)| Shows::Configured(plan, nth, slot));
        let sessions = self.sessions_meant(text, &sought);
        let sessions = sessions.into_iter().filter_map(|id| self.session(id));
        let all = configured.chain(sessions).skip(first).take(count);
        all.map(|user| self.view(user)).collect()
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

    fn session(&self, id: SessionId) -> Option<Shows<'a>> {
        let entry = self.subscribers.sessions.entries.get(&id)?;
        Some(Shows::Session(id, entry))
    }

    /// The user that a name means: one of the configuration, or a session. An address or TEID
    /// means the session that is found by it, if only one is.
    fn user(&self, name: &str) -> Option<Shows<'a>> {
        if let Some((at, _)) = self.subscribers.users.position(name) {
            let (plan, nth, slot) = self.subscribers.users.from(at).next()?;
            return Some(Shows::Configured(plan, nth, slot));
        }
        match *self.sessions_meant(name, &Sought::new(name)) {
            [id] => self.session(id),
            _ => None,
        }
    }

    fn view(&self, user: Shows<'_>) -> UserView {
        let slot = user.slot();
        let (name, keys, plan): (_, Vec<UserKey>, _) = match user {
            Shows::Configured(plan, nth, _) => {
                let keys = plan.keys.iter().map(|key| key.nth(nth)).collect();
                (plan.name_of(nth), keys, Some(plan))
            }
            Shows::Session(id, entry) => {
                (id.user_name(), self.subscribers.sessions.keys(&entry.rules), self.plan_of(entry))
            }
        };
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
    fn plan_of(&self, entry: &SessionEntry) -> Option<&'a UserPlan> {
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
        ids.into_iter().filter_map(|id| self.bearer(id)).collect()
    }

    /// The ways through the rules of the packets of the user of that name, as text.
    pub fn ways_of(&self, name: &str) -> Option<String> {
        let plan = match self.user(name)? {
            Shows::Configured(plan, ..) => plan,
            Shows::Session(_, entry) => self.plan_of(entry)?,
        };
        Some(ways_of(self.blueprint, plan))
    }

    /// The dedicated bearers of the user of that name: those of the configuration, then those
    /// that commands have added. A session has none.
    pub fn dedicated(&self, name: &str) -> Option<Vec<DedicatedView>> {
        let Shows::Configured(plan, _, slot) = self.user(name)? else { return Some(Vec::new()) };
        let vocabulary = self.blueprint.rules.vocabulary();
        let profile = plan.bearers.map_or(&[][..], |at| &self.blueprint.bearer_profiles[at]);
        let configured = profile.iter().map(|bearer| DedicatedView {
            name: bearer.name.clone(),
            when: bearer.when.display(vocabulary).to_string(),
        });
        let ids = self.subscribers.bearers.dedicated.get(&slot);
        let views = ids.into_iter().flatten().filter_map(|id| self.bearer(*id));
        let added = views.map(|view| DedicatedView {
            name: view.id.to_string(),
            when: view.found_by.join(", "),
        });
        Some(configured.chain(added).collect())
    }

    /// Bearers that commands have added, in the order of their numbers: up to `count` from
    /// `first` on.
    pub fn bearers(&self, first: BearerId, count: usize) -> Vec<BearerView> {
        let numbers = self.subscribers.bearer_numbers(first, count);
        numbers.into_iter().filter_map(|id| self.bearer(id)).collect()
    }

    /// A bearer that a command has added, without what its contexts hold.
    pub fn bearer(&self, id: BearerId) -> Option<BearerView> {
        let entry = self.subscribers.bearers.entries.get(&id)?;
        let (of, found_by) = match &entry.place {
            BearerRole::Default { keys, .. } => {
                (None, keys.iter().map(|key| self.key_text(key)).collect())
            }
            BearerRole::Dedicated { of, selector, .. } => (Some(of.clone()), vec![text(selector)]),
        };
        let user = self.subscribers.bearers.number_of_added(id).map(|user| user.0);
        let (slot, action) = (entry.slot, entry.record.action);
        let worker = self.workers.owner(slot);
        Some(BearerView { id, of, user, found_by, action, slot, worker, contexts: Vec::new() })
    }

    fn key_text(&self, key: &UserKey) -> String {
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

fn text(selector: &Selector) -> String {
    let filter = match selector {
        Selector::Qfi(qfi) => return format!("qfi {}", qfi.value()),
        Selector::Filter(filter) => filter,
    };
    let fields = [
        filter.protocol.map(|protocol| weft_wire::Protocol(protocol).to_string()),
        filter.user_port.map(|port| format!("user port {port}")),
        filter.remote.map(|remote| format!("remote {remote}")),
        filter.remote_port.map(|port| format!("remote port {port}")),
    ];
    fields.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
