//! Flow rules of devices follow the users of the node.

use super::Agent;
use crate::bearer::{BearerRole, Subscribers};
use crate::subscribers::steering::runs;
use crate::workers::KeyNews;

impl Agent {
    /// Begins to give devices flow rules that take some, from the first round on.
    pub(crate) fn start_flow_rules(&mut self) {
        if self.ports.flow_rules().next().is_some() {
            self.workers.watch_keys();
        }
    }

    /// Tells devices what has changed of users; whether there was anything to do.
    pub(super) fn keep_flow_rules(&mut self) -> bool {
        let KeyNews { keys, is_reconfigured, is_first } = self.workers.take_key_news();
        if is_reconfigured {
            self.steer_configured();
        }
        if is_first {
            self.steer_added();
        }
        if !keys.is_empty() {
            let users = &self.subscribers.users;
            for (_, rules) in self.ports.flow_rules() {
                for (key, slot) in &keys {
                    rules.note(key, slot.map(|slot| users.worker_of(slot)));
                }
            }
        }
        self.ports.keep_flow_rules()
    }

    fn steer_configured(&mut self) {
        let blueprint = &self.configuration.blueprint;
        let (devices, workers) = (blueprint.devices(), blueprint.workers.count);
        for (number, rules) in self.ports.flow_rules() {
            rules.configure(runs(&devices[number], workers, &self.subscribers.users));
        }
    }

    /// Users whom commands and control planes have added.
    fn steer_added(&mut self) {
        let Subscribers { users, bearers, sessions, .. } = &self.subscribers;
        for (_, rules) in self.ports.flow_rules() {
            for entry in bearers.entries.values() {
                let BearerRole::Default { keys, .. } = &entry.place else { continue };
                keys.iter().for_each(|key| rules.note(key, Some(users.worker_of(entry.slot))));
            }
            for entry in sessions.entries.values() {
                let keys = sessions.keys(&entry.rules);
                keys.iter().for_each(|key| rules.note(key, Some(users.worker_of(entry.slot))));
            }
        }
    }
}
