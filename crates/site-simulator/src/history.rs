//! Whether a history of ownership can be that of one register for each user.
//!
//! The register of a user holds an epoch and its owner; each write has a higher epoch. A history
//! is linearizable if its operations can be put in one order that agrees with their times. As
//! epochs tell the order of writes, that comes to four things, which are checked here:
//!
//! 1. Of one epoch there is one owner.
//! 2. Times in which a user is owned by different epochs do not overlap, and epochs rise with
//!    time.
//! 3. What is read by a question that was asked after another one was answered is not older than
//!    that answer.
//! 4. What is read by a question that was asked after an owner began is not older than that.

use std::collections::BTreeMap;

/// What was seen of a user. Times are of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A node owned the user, by this epoch, from a time until another one.
    Owned {
        /// Which.
        node: u32,
        /// By which.
        epoch: u64,
        /// From when.
        from: u64,
        /// Until when; `None` if it still does.
        until: Option<u64>,
    },
    /// A question that was asked then was answered then with this epoch.
    Read {
        /// What was said.
        epoch: u64,
        /// When the question was asked.
        asked: u64,
        /// When the answer came.
        answered: u64,
    },
}

/// Checks the history of one user.
///
/// # Errors
/// What cannot be, in one line.
pub fn check(history: &[Seen]) -> Result<(), String> {
    let (mut owned, mut reads) = (Vec::new(), Vec::new());
    for seen in history {
        match *seen {
            Seen::Owned { node, epoch, from, until } => owned.push((from, until, epoch, node)),
            Seen::Read { epoch, asked, answered } => reads.push((asked, answered, epoch)),
        }
    }
    owned.sort_unstable();
    let mut owners = BTreeMap::new();
    for (_, _, epoch, node) in &owned {
        let first = *owners.entry(*epoch).or_insert(*node);
        if first != *node {
            return Err(format!("nodes {first} and {node} own it by epoch {epoch}"));
        }
    }
    for pair in owned.windows(2) {
        let ((_, until, before, first), (from, _, after, second)) = (pair[0], pair[1]);
        if until.is_none_or(|until| until > from) && before != after {
            return Err(format!(
                "node {second} owns it by epoch {after} while node {first} does by {before}"
            ));
        }
        if after < before {
            return Err(format!("epoch {after} of node {second} comes after {before}"));
        }
    }
    // What was known at a time: by answers given and owners that had begun.
    let mut known: Vec<_> = owned.iter().map(|(from, _, epoch, _)| (*from, *epoch)).collect();
    known.extend(reads.iter().map(|(_, answered, epoch)| (*answered, *epoch)));
    known.sort_unstable();
    reads.sort_unstable();
    let (mut known, mut least) = (known.into_iter().peekable(), 0);
    for (asked, _, epoch) in reads {
        while let Some((_, seen)) = known.next_if(|(at, _)| *at < asked) {
            least = least.max(seen);
        }
        if epoch < least {
            return Err(format!("epoch {epoch} is read at {asked}, after {least} was seen"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(node: u32, epoch: u64, from: u64, until: u64) -> Seen {
        Seen::Owned { node, epoch, from, until: Some(until) }
    }

    fn read(epoch: u64, asked: u64, answered: u64) -> Seen {
        Seen::Read { epoch, asked, answered }
    }

    #[test]
    fn a_history_that_can_be_is_taken() {
        let moves = [owned(1, 1, 0, 10), owned(2, 5, 10, 20), owned(2, 5, 25, 30)];
        check(&moves).unwrap();
        // Answers that are on their way at the same time may come in any order.
        let reads = [read(5, 3, 20), read(1, 4, 19), read(5, 21, 22)];
        check(&[&moves[..], &reads[..]].concat()).unwrap();
        check(&[]).unwrap();
    }

    #[test]
    fn what_cannot_be_is_told() {
        let told = |history: &[Seen]| check(history).unwrap_err();
        let twice = [owned(1, 1, 0, 10), owned(2, 1, 10, 20)];
        assert_eq!(told(&twice), "nodes 1 and 2 own it by epoch 1");
        let both = [owned(1, 1, 0, 11), owned(2, 2, 10, 20)];
        assert_eq!(told(&both), "node 2 owns it by epoch 2 while node 1 does by 1");
        let back = [owned(1, 7, 0, 10), owned(2, 2, 10, 20)];
        assert_eq!(told(&back), "epoch 2 of node 2 comes after 7");
        let older = [read(9, 0, 5), read(8, 6, 7)];
        assert_eq!(told(&older), "epoch 8 is read at 6, after 9 was seen");
        let late = [owned(1, 4, 10, 20), read(3, 11, 12)];
        assert_eq!(told(&late), "epoch 3 is read at 11, after 4 was seen");
        let endless = Seen::Owned { node: 1, epoch: 1, from: 0, until: None };
        assert!(told(&[endless, owned(2, 2, 10, 20)]).contains("while"));
    }
}
