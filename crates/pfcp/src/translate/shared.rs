//! Rules that are equal in many sessions. A core gives most of its sessions the same QERs and URRs,
//! which then lie in memory once.

use std::hash::Hash;
use std::sync::Arc;

use weft_functions::session::rules::{Qer, Session, Shared, Urr};
use weft_node::bearer::Numbered;

/// Lists of each kind that are known at most; further ones belong to one session.
const LISTS: usize = 4096;

/// Lists that sessions have.
#[derive(Debug, Default)]
pub(crate) struct Known {
    qers: Lists<Qer>,
    urrs: Lists<Urr>,
}

impl Known {
    /// Gives a session the lists that others have, where they are equal to its own.
    pub fn share(&mut self, rules: &mut Session) {
        self.qers.share(&mut rules.qers);
        self.urrs.share(&mut rules.urrs);
    }
}

#[derive(Debug)]
struct Lists<T> {
    /// By what is in them. Rules have many fields, so a hash that is slow for each is felt.
    known: Numbered<Arc<Vec<T>>, ()>,
    /// The one that was found last: mostly it is the next one, too, and compared sooner than
    /// hashed.
    last: Option<Arc<Vec<T>>>,
    /// Lists that come until it is looked again which of them are in use.
    patience: usize,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Lists { known: Numbered::default(), last: None, patience: 0 }
    }
}

impl<T: Hash + Eq + Clone + 'static> Lists<T> {
    fn share(&mut self, list: &mut Shared<T>) {
        let Some(own) = list.list() else { return };
        if let Some(last) = &self.last
            && (Arc::ptr_eq(last, own) || last == own)
        {
            *list = last.clone().into();
            return;
        }
        if let Some((known, ())) = self.known.get_key_value(own) {
            self.last = Some(known.clone());
            *list = known.clone().into();
            return;
        }
        if self.known.len() >= LISTS {
            if self.patience > 0 {
                self.patience -= 1;
                return;
            }
            // Those that no session has any more.
            self.last = None;
            self.known.retain(|one, ()| Arc::strong_count(one) > 1);
            self.patience = LISTS;
            if self.known.len() >= LISTS {
                return;
            }
        }
        let mut kept = list.to_vec();
        kept.shrink_to_fit();
        let kept = Arc::new(kept);
        self.known.insert(kept.clone(), ());
        *list = kept.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(value: u32) -> Shared<u32> {
        vec![value].into()
    }

    #[test]
    fn equal_lists_are_one_list_as_long_as_there_is_room() {
        let mut lists = Lists::default();
        let (mut one, mut other) = (list(7), list(7));
        lists.share(&mut one);
        lists.share(&mut other);
        assert!(Arc::ptr_eq(one.list().unwrap(), other.list().unwrap()));
        // A flood of lists that differ is bounded.
        let mut kept: Vec<_> = (0..LISTS as u32 * 2).map(|value| list(value + 100)).collect();
        kept.iter_mut().for_each(|list| lists.share(list));
        assert_eq!(lists.known.len(), LISTS);
        // It makes room again once its sessions are gone.
        drop(kept);
        for value in 0..LISTS as u32 * 2 {
            lists.share(&mut list(value));
        }
        let (mut one, mut other) = (list(9_999_999), list(9_999_999));
        lists.share(&mut one);
        lists.share(&mut other);
        assert!(Arc::ptr_eq(one.list().unwrap(), other.list().unwrap()));
    }
}
