//! Whether a history of ownership can be that of one register for each user.
//!
//! The register of a user holds an epoch and its owner; each write has a higher epoch. A history
//! is linearizable if its operations can be put in one order that agrees with their times. As
//! epochs tell the order of writes, that comes to four things, which are checked here:
//!
//! 1. Of one epoch there is one owner.
//! 2. Times in which a user is owned by different epochs do not overlap, and epochs rise with
//!    time. There is one exception: a target that ends before its move is complete may give the
//!    user back to the owner before it, which goes on by its own epoch. That of the target is
//!    over then: no node owns the user by it again, and no answer says that one does.
//! 3. What is read by a question that was asked after another one was answered is not older than
//!    that answer.
//! 4. What is read by a question that was asked after an owner began is not older than that.
//!
//! 5. Who is said to own a user by an epoch is who did.
//!
//! While a user moves, who reads learns two epochs: of the ownership that is known, and of the
//! one that may have begun meanwhile. The first of them never goes back, and the second one is
//! not older than any owner.

mod record;
mod site;

use std::collections::{BTreeMap, BTreeSet};

pub use record::{Counted, Mistake, read};
pub use site::SiteHistory;

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
    /// A question that was asked then was answered then.
    Read {
        /// Whose ownership is known to have begun, if the answer says so.
        owner: Option<u32>,
        /// The epoch of that ownership; 0 for none.
        least: u64,
        /// The highest epoch by which the user may be owned.
        most: u64,
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
    let (mut owned, mut reads, mut said) = (Vec::new(), Vec::new(), BTreeSet::new());
    for seen in history {
        match *seen {
            Seen::Owned { node, epoch, from, until } => owned.push((from, until, epoch, node)),
            Seen::Read { owner, least, most, asked, answered } => {
                said.extend(owner.filter(|_| least > 0).map(|owner| (least, owner)));
                reads.push((asked, answered, least, most));
            }
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
    for (epoch, node) in said {
        let is = owners.get(&epoch).copied().unwrap_or(node);
        if is != node {
            return Err(format!("node {node} is said to own it by epoch {epoch}, and {is} does"));
        }
    }
    for pair in owned.windows(2) {
        let ((_, until, before, first), (from, _, after, second)) = (pair[0], pair[1]);
        if until.is_none_or(|until| until > from) && before != after {
            return Err(format!(
                "node {second} owns it by epoch {after} while node {first} does by {before}"
            ));
        }
    }
    let over = check_epochs(&owned)?;
    if let Some((asked, _, least, _)) = reads.iter().find(|read| over.contains(&read.2)) {
        return Err(format!("epoch {least} is read at {asked}, which was given up"));
    }
    check_reads(&owned, reads)
}

/// When it began, when it ended, by which epoch, and who.
type Ownership = (u64, Option<u64>, u64, u32);
/// When it was asked and answered, and the epochs that were read.
type Read = (u64, u64, u64, u64);

/// Epochs rise, but for moves that are given up; returns the epochs of those.
fn check_epochs(owned: &[Ownership]) -> Result<BTreeSet<u64>, String> {
    // Owners that may go on by their epochs: the one that there is, and those before it.
    let (mut owners, mut over, mut highest) = (Vec::new(), BTreeSet::new(), 0);
    for (_, _, epoch, node) in owned {
        if owners.last() == Some(epoch) {
            continue;
        }
        if *epoch > highest {
            highest = *epoch;
            owners.push(*epoch);
            continue;
        }
        let before = owners.pop().unwrap_or_default();
        over.insert(before);
        if owners.last() != Some(epoch) {
            return Err(format!("epoch {epoch} of node {node} comes after {before}"));
        }
    }
    Ok(over)
}

fn check_reads(owned: &[Ownership], mut reads: Vec<Read>) -> Result<(), String> {
    // What was known at a time: by owners that had begun, and by answers that were given.
    let mut begun: Vec<_> = owned.iter().map(|(from, _, epoch, _)| (*from, *epoch)).collect();
    let mut given: Vec<_> = reads.iter().map(|(_, at, least, _)| (*at, *least)).collect();
    begun.sort_unstable();
    given.sort_unstable();
    reads.sort_unstable();
    let (mut begun, mut given) = (begun.into_iter().peekable(), given.into_iter().peekable());
    let (mut current, mut known) = (0, 0);
    for (asked, _, least, most) in reads {
        while let Some((_, epoch)) = begun.next_if(|(at, _)| *at < asked) {
            current = epoch;
        }
        while let Some((_, epoch)) = given.next_if(|(at, _)| *at < asked) {
            known = known.max(epoch);
        }
        if most < current {
            return Err(format!("epoch {most} is read at {asked}, and {current} had begun"));
        }
        // Without an owner there is none that is known.
        let older = if least == 0 { most } else { least };
        if older < known {
            return Err(format!("epoch {older} is read at {asked}, after {known} was read"));
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
        Seen::Read { owner: None, least: epoch, most: epoch, asked, answered }
    }

    #[test]
    fn a_history_that_can_be_is_taken() {
        let moves = [owned(1, 1, 0, 10), owned(2, 5, 10, 20), owned(2, 5, 25, 30)];
        check(&moves).unwrap();
        // Answers that are on their way at the same time may come in any order.
        let reads = [read(5, 3, 20), read(1, 4, 19), read(5, 21, 22)];
        check(&[&moves[..], &reads[..]].concat()).unwrap();
        // While it moves, both epochs are known.
        let moving = Seen::Read { owner: None, least: 0, most: 4, asked: 5, answered: 6 };
        check(&[owned(1, 4, 2, 9), moving]).unwrap();
        // The target of a move that is not complete may give the user back.
        let back = [owned(1, 1, 0, 10), owned(2, 5, 10, 20), owned(1, 1, 25, 30)];
        check(&back).unwrap();
        check(&[&back[..], &[read(1, 26, 27)]].concat()).unwrap();
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
        assert_eq!(told(&older), "epoch 8 is read at 6, after 9 was read");
        let late = [owned(1, 4, 10, 20), read(3, 11, 12)];
        assert_eq!(told(&late), "epoch 3 is read at 11, and 4 had begun");
        let back = [owned(1, 1, 0, 10), owned(2, 5, 10, 20), owned(1, 1, 25, 30)];
        let known = [&back[..], &[read(5, 21, 22)]].concat();
        assert_eq!(told(&known), "epoch 5 is read at 21, which was given up");
        let again = [&back[..], &[owned(2, 5, 30, 40)]].concat();
        assert_eq!(told(&again), "epoch 5 of node 2 comes after 1");
        let wrong = Seen::Read { owner: Some(2), least: 1, most: 1, asked: 3, answered: 4 };
        let said = told(&[owned(1, 1, 0, 10), wrong]);
        assert_eq!(said, "node 2 is said to own it by epoch 1, and 1 does");
        let endless = Seen::Owned { node: 1, epoch: 1, from: 0, until: None };
        assert!(told(&[endless, owned(2, 2, 10, 20)]).contains("while"));
    }
}
