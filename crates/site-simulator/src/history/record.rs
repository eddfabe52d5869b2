//! Histories that were recorded of a site that ran.
//!
//! A record is one JSON object on a line. Times are microseconds of one clock, that of the
//! machine on which all was seen. Lines may come in any order.
//!
//! ```json
//! {"at": 1700000000000000, "node": 2, "user": 7, "owns": 65}
//! {"at": 1700000000000090, "node": 1, "user": 7, "takes": [65, 129]}
//! {"at": 1700000000100000, "node": 2, "dies": true}
//! {"asked": 1700000000100000, "answered": 1700000000101000, "user": 7, "owner": 2, "owned": 65, "epoch": 129}
//! ```
//!
//! A node owns a user from a line with `owns` until the next one of that node and user, or until
//! it dies; `null` says that it owns the user no longer. An anchor takes packets of a user by no
//! other epochs than those of its last line with `takes`. A user's owner is who owns it by an
//! epoch by which the anchor takes its packets.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::{Seen, SiteHistory};

/// Octets of a line, at most.
const LONGEST: u64 = 4096;
/// Epochs by which an anchor takes packets of one user, at most.
const EPOCHS: usize = 2;

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Users.
    pub users: usize,
    /// Times in which a user was owned by one node and epoch.
    pub ownerships: usize,
    /// Changes at nodes, and deaths of nodes.
    pub changes: usize,
    /// Answers.
    pub answers: usize,
}

/// Why a history is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// A line is not a record.
    #[error("line {0}: {1}")]
    Line(usize, String),
    /// It cannot be the history of a site that keeps its promises.
    #[error("{0}")]
    Broken(String),
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Record {
    Owns { at: u64, node: u32, user: u64, owns: Option<u64> },
    Takes { at: u64, node: u32, user: u64, takes: Vec<u64> },
    Died { at: u64, node: u32, dies: bool },
    Read { asked: u64, answered: u64, user: u64, owner: Option<u32>, owned: u64, epoch: u64 },
}

enum Change {
    Owns(u64, Option<u64>),
    Takes(u64, Vec<u64>),
    Dies,
}

/// Reads a history and checks it: one owner, and each user's ownership a register.
///
/// # Errors
/// The first line that is no record; what is broken.
pub fn read(mut lines: impl BufRead) -> Result<Counted, Mistake> {
    let (mut history, mut changes, mut counted) = Default::default();
    for number in 1.. {
        let mut line = String::new();
        if lines.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            break;
        }
        record(&line, &mut history, &mut changes, &mut counted)
            .map_err(|what| Mistake::Line(number, what))?;
    }
    changes.sort_by_key(|(at, ..): &(u64, u32, Change)| *at);
    counted.changes = changes.len();
    let mut nodes = Nodes::default();
    for (at, node, change) in changes {
        nodes.change(&mut history, at, node, change).map_err(Mistake::Broken)?;
    }
    counted.users = history.users().count();
    counted.ownerships = history.ownerships();
    history.conclude().map_err(Mistake::Broken)?;
    Ok(counted)
}

fn record(
    line: &str,
    history: &mut SiteHistory,
    changes: &mut Vec<(u64, u32, Change)>,
    counted: &mut Counted,
) -> Result<(), String> {
    let record = serde_json::from_str(line).map_err(|_| {
        "no record: it has neither at, node, user and owns or takes, nor at, node and dies, nor \
         asked, answered, user, owner, owned and epoch"
            .to_owned()
    })?;
    match record {
        Record::Owns { at, node, user, owns } => changes.push((at, node, Change::Owns(user, owns))),
        Record::Takes { takes, .. } if takes.len() > EPOCHS => {
            return Err(format!("takes has {} epochs, and {EPOCHS} at most", takes.len()));
        }
        Record::Takes { at, node, user, takes } => {
            changes.push((at, node, Change::Takes(user, takes)));
        }
        Record::Died { dies: false, .. } => return Err("dies is true, or is left out".to_owned()),
        Record::Died { at, node, .. } => changes.push((at, node, Change::Dies)),
        Record::Read { asked, answered, .. } if answered < asked => {
            return Err(format!("answered at {answered}, before it was asked at {asked}"));
        }
        Record::Read { asked, answered, user, owner, owned, epoch } => {
            counted.answers += 1;
            let seen = Seen::Read { owner, least: owned, most: epoch, asked, answered };
            history.answered(user, seen);
        }
    }
    Ok(())
}

/// What nodes do with users.
#[derive(Default)]
struct Nodes {
    /// By user and station: by which epoch it owns the user.
    owns: BTreeMap<(u64, u32), u64>,
    /// By user: the anchor, and epochs by which it takes packets.
    takes: BTreeMap<u64, (u32, Vec<u64>)>,
}

impl Nodes {
    fn change(
        &mut self,
        history: &mut SiteHistory,
        at: u64,
        node: u32,
        change: Change,
    ) -> Result<(), String> {
        let users = match change {
            Change::Owns(user, epoch) => {
                match epoch {
                    Some(epoch) => self.owns.insert((user, node), epoch),
                    None => self.owns.remove(&(user, node)),
                };
                vec![user]
            }
            Change::Takes(user, epochs) => {
                self.takes.insert(user, (node, epochs));
                vec![user]
            }
            Change::Dies => {
                let owned = self.owns.keys().filter(|(_, owner)| *owner == node);
                let taken = self.takes.iter().filter(|(_, (anchor, _))| *anchor == node);
                let users = owned.map(|(user, _)| *user).chain(taken.map(|(user, _)| *user));
                let users: Vec<_> = users.collect();
                self.owns.retain(|(_, owner), _| *owner != node);
                self.takes.retain(|_, (anchor, _)| *anchor != node);
                users
            }
        };
        users.into_iter().try_for_each(|user| history.owned(user, &self.owners(user), at))
    }

    /// Who owns a user by an epoch by which its packets are taken.
    fn owners(&self, user: u64) -> Vec<(u32, u64)> {
        let taken = self.takes.get(&user).map_or(&[][..], |(_, epochs)| epochs);
        let owned = self.owns.range((user, 0)..=(user, u32::MAX));
        let owned = owned.filter(|(_, epoch)| taken.contains(epoch));
        owned.map(|((_, node), epoch)| (*node, *epoch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user that moves from node 2 to node 3 while it is asked for, and node 2 dies.
    const MOVED: &str = r#"{"at": 10, "node": 1, "user": 7, "takes": [65]}
{"at": 11, "node": 2, "user": 7, "owns": 65}
{"asked": 12, "answered": 14, "user": 7, "owner": 2, "owned": 65, "epoch": 65}
{"at": 20, "node": 1, "user": 7, "takes": [65, 129]}
{"at": 21, "node": 2, "user": 7, "owns": null}
{"at": 22, "node": 3, "user": 7, "owns": 129}
{"asked": 20, "answered": 26, "user": 7, "owner": 2, "owned": 65, "epoch": 129}
{"at": 24, "node": 1, "user": 7, "takes": [129]}
{"at": 25, "node": 2, "dies": true}
{"asked": 30, "answered": 31, "user": 7, "owner": 3, "owned": 129, "epoch": 129}
"#;

    fn told(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_history_that_can_be_is_taken() {
        let counted = read(MOVED.as_bytes()).unwrap();
        assert_eq!(counted, Counted { users: 1, ownerships: 2, changes: 7, answers: 3 });
        // Lines may come in any order.
        let mut lines: Vec<_> = MOVED.lines().collect();
        lines.reverse();
        assert_eq!(read(lines.join("\n").as_bytes()).unwrap(), counted);
        assert_eq!(read(&b""[..]).unwrap(), Counted::default());
    }

    #[test]
    fn what_was_changed_is_found() {
        let changed = |from: &str, to: &str| {
            assert!(MOVED.contains(from), "{from}");
            told(&MOVED.replace(from, to))
        };
        // The source goes on until the target has begun.
        let late = changed(r#"{"at": 21, "node": 2"#, r#"{"at": 23, "node": 2"#);
        assert_eq!(late, "user 7 has the owners [(2, 65), (3, 129)] (node, epoch) at 22");
        let other = changed(r#""owner": 3"#, r#""owner": 2"#);
        assert_eq!(other, "user 7: node 2 is said to own it by epoch 129, and 3 does");
        let old = changed(
            r#""answered": 31, "user": 7, "owner": 3, "owned": 129, "epoch": 129"#,
            r#""answered": 31, "user": 7, "owner": 2, "owned": 65, "epoch": 65"#,
        );
        assert_eq!(old, "user 7: epoch 65 is read at 30, and 129 had begun");
        // A station that the anchor has shut out may take itself for the owner.
        let shut_out = r#"{"at": 21, "node": 2, "user": 7, "owns": null}"#;
        let cut_off =
            MOVED.replace(shut_out, r#"{"at": 21, "node": 1, "user": 7, "takes": [129]}"#);
        read(cut_off.as_bytes()).unwrap();
    }

    #[test]
    fn what_is_no_record_is_told_with_its_line() {
        for line in ["", "{}", "[]", r#"{"at": -1, "node": 2, "dies": true}"#, "\u{0}", "\n"] {
            assert!(told(&format!("{MOVED}{line} \n")).starts_with("line 11: no record"), "{line}");
        }
        let long = format!("{MOVED}{}", "[".repeat(1 << 20));
        assert!(told(&long).starts_with("line 11: no record"));
        let many = r#"{"at": 1, "node": 1, "user": 7, "takes": [1, 2, 3]}"#;
        assert_eq!(told(many), "line 1: takes has 3 epochs, and 2 at most");
        assert!(told(r#"{"at": 1, "node": 1, "dies": false}"#).contains("dies"));
        let back = r#"{"asked": 5, "answered": 4, "user": 7, "owner": 3, "owned": 1, "epoch": 1}"#;
        assert!(told(back).contains("before it was asked"));
    }
}
