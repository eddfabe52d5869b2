//! What the agent shows of its bearers.

use std::sync::mpsc::{Receiver, channel};

use weft_dataplane::command::{Command, Shown};

use crate::agent::Agent;
use crate::agent::show::BearerView;
use crate::bearer::{BearerId, Place, Selector};

impl Agent {
    /// Bearers that commands have added, in the order of their numbers: up to
    /// `count` from `first` on, without what their contexts hold.
    pub fn bearers(&self, first: BearerId, count: usize) -> Vec<BearerView> {
        let mut numbers: Vec<_> =
            self.bearers.entries.keys().copied().filter(|id| *id >= first).collect();
        let wanted = count.min(numbers.len());
        if wanted < numbers.len() {
            numbers.select_nth_unstable(wanted);
            numbers.truncate(wanted);
        }
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|id| self.bearer_view(id)).collect()
    }

    /// One bearer, and what its contexts hold: that comes once its worker has
    /// read the question.
    pub fn bearer(&mut self, id: BearerId) -> Option<(BearerView, Receiver<Shown>)> {
        let view = self.bearer_view(id)?;
        let (answer, wait) = channel();
        let user = view.slot;
        self.workers.send_to_owner(user, Command::Show { user, answer });
        Some((view, wait))
    }

    fn bearer_view(&self, id: BearerId) -> Option<BearerView> {
        let entry = self.bearers.entries.get(&id)?;
        let (of, found_by) = match &entry.place {
            Place::Default { keys, .. } => {
                (None, keys.iter().map(|key| self.key_text(key)).collect())
            }
            Place::Dedicated { of, selector, .. } => (Some(of.clone()), vec![text(selector)]),
        };
        let user = self.number_of_added(id).map(|user| user.0);
        let (slot, action) = (entry.slot, entry.record.action);
        let worker = self.workers.owner(slot);
        Some(BearerView { id, of, user, found_by, action, slot, worker, contexts: Vec::new() })
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
