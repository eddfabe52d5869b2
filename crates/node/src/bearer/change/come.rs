//! Bearers that come, one by one or many at once.

use std::hint::black_box;

use super::{Undo, Work};
use crate::bearer::bearers::Bearers;
use crate::bearer::new::{NewBearer, NewRole};
use crate::bearer::{BearerId, Wrong};

impl Work<'_> {
    /// Puts a bearer into the books.
    pub fn come(&mut self, bearer: NewBearer) -> Result<(), Wrong> {
        let before = self.bearers.entries.len();
        self.come_without_tunnels(bearer)?;
        self.enter_tunnels(before);
        Ok(())
    }

    fn come_without_tunnels(&mut self, bearer: NewBearer) -> Result<(), Wrong> {
        let NewBearer { id, action, role, settings } = bearer;
        if self.bearers.entries.contains_key(&id) {
            return Err(Wrong::Exists);
        }
        let entry = match role {
            NewRole::User { like, nth, keys, user } => {
                self.user(id, (like, nth), keys, user, action, settings)?
            }
            NewRole::Dedicated { of, selector } => {
                self.dedicated(id, of, selector, action, settings)?
            }
        };
        self.tell(id, &entry);
        self.bearers.entries.insert(id, entry);
        self.staged.undo.push(Undo::Added(id));
        self.staged.summary.added += 1;
        Ok(())
    }

    /// Notes the tunnels of bearers that have come: those at this position and behind.
    fn enter_tunnels(&mut self, first: usize) {
        let Bearers { entries, tunnels, .. } = &mut *self.bearers;
        let new = entries.get_range(first..).into_iter().flatten();
        let ends = new.flat_map(|(id, entry)| entry.tunnels(self.trials).map(|end| (*id, end)));
        tunnels.enter_all(ends, self.paths, self.now);
    }

    /// The same of all of them. They have found room, as a rule: the memory that each touches is
    /// asked for ahead of use.
    ///
    /// # Errors
    /// Which of them is wrong, from 0, and why; those before it are in the books.
    pub fn come_all(&mut self, bearers: Vec<NewBearer>) -> Result<(), (usize, BearerId, Wrong)> {
        /// Bearers whose memory is asked for at once.
        const AHEAD: usize = 16;
        self.staged.undo.reserve(bearers.len());
        let mut left = bearers.into_iter();
        let mut at = 0;
        while left.len() > 0 {
            for key in left.as_slice().iter().take(AHEAD).flat_map(NewBearer::keys) {
                self.bearers.taken.prefetch(key);
            }
            // Lookups that do not depend on each other wait for memory at the same time.
            for bearer in left.as_slice().iter().take(AHEAD) {
                black_box(self.bearers.entries.contains_key(&bearer.id));
            }
            let before = self.bearers.entries.len();
            let mut some = left.by_ref().take(AHEAD);
            let come = some.try_for_each(|bearer| {
                let id = bearer.id;
                self.come_without_tunnels(bearer).map_err(|wrong| (at, id, wrong))?;
                at += 1;
                Ok(())
            });
            // Those that have come are taken back with their tunnels.
            self.enter_tunnels(before);
            come?;
        }
        Ok(())
    }
}
