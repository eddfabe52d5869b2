//! What is ready for functions that may go elsewhere.

use std::collections::HashMap;

use weft_compose::Instance;

/// What stands for functions in the rules while they are in processes or at other nodes, of
/// functions that are not there now, and their queues.
#[derive(Default)]
pub(crate) struct Prepared(HashMap<String, Ready>);

struct Ready {
    remote_queue: u16,
    /// By worker.
    away: Vec<Box<dyn Instance>>,
}

impl Prepared {
    /// The queue to where a function may go is that of this number.
    pub(crate) fn note(
        &mut self,
        function: &str,
        remote_queue: u16,
    ) -> &mut Vec<Box<dyn Instance>> {
        let ready = Ready { remote_queue, away: Vec::new() };
        &mut self.0.entry(function.to_owned()).or_insert(ready).away
    }

    /// The queue to where a function may go.
    pub(crate) fn remote_queue(&self, function: &str) -> Option<u16> {
        self.0.get(function).map(|ready| ready.remote_queue)
    }

    pub(crate) fn take(&mut self, function: &str) -> Vec<Box<dyn Instance>> {
        self.0.get_mut(function).map(|ready| std::mem::take(&mut ready.away)).unwrap_or_default()
    }

    pub(crate) fn put(&mut self, function: &str, away: Vec<Box<dyn Instance>>) {
        if let Some(ready) = self.0.get_mut(function) {
            ready.away = away;
        }
    }
}
