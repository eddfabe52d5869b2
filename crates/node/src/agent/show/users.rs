//! Users and bearers as they are shown.

use std::collections::BTreeMap;

use weft_dataplane::classify::Selector;
use weft_function::{TagSlot, TagValues};
use weft_node_config::{Blueprint, UserKey, UserPlan};

use super::topology::ways_of;
use super::{BearerView, DedicatedView, UserView};
use crate::bearer::{BearerId, BearerRole, Subscribers};
use crate::subscribers::Sought;
use crate::workers::Workers;

/// What users and bearers are shown by.
pub(crate) struct UserViews<'a> {
    pub blueprint: &'a Blueprint,
    pub subscribers: &'a Subscribers,
    pub workers: &'a Workers,
}

impl UserViews<'_> {
    /// Up to `count` users from the `first` on, without what their contexts
    /// hold.
    pub fn users(&self, first: usize, count: usize) -> Vec<UserView> {
        let users = self.subscribers.users.from(first).take(count);
        users.map(|user| self.user_view(user)).collect()
    }

    fn user_view(&self, (plan, nth, slot): (&UserPlan, u32, u32)) -> UserView {
        UserView {
            name: plan.name_of(nth),
            slot,
            worker: self.subscribers.users.worker_of(slot),
            keys: plan.keys.iter().map(|key| self.key_text(&key.nth(nth))).collect(),
            tags: self.tag_texts(plan),
            contexts: Vec::new(),
        }
    }

    /// Users of the configuration whose name has `text` in it or that are found by it: an
    /// address, TEID, SPI, VLAN or session. Up to `count` from the `first` on.
    pub fn search(&self, text: &str, first: usize, count: usize) -> Vec<UserView> {
        let found = self.subscribers.users.search(&Sought::new(text), first, count);
        found.into_iter().map(|user| self.user_view(user)).collect()
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
        let (at, _) = self.subscribers.users.position(name)?;
        let (plan, ..) = self.subscribers.users.from(at).next()?;
        Some(ways_of(self.blueprint, plan))
    }

    /// The dedicated bearers of the user of that name: those of the configuration, then those
    /// that commands have added.
    pub fn dedicated(&self, name: &str) -> Option<Vec<DedicatedView>> {
        let (at, slot) = self.subscribers.users.position(name)?;
        let (plan, ..) = self.subscribers.users.from(at).next()?;
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
