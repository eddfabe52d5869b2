//! Reads a file, and tells a tail that was being written from damage.

use std::collections::BTreeSet;
use std::path::Path;

use weft_mobility_protocol::Epoch;

use super::entry::{FILE_HEAD, FRAME_HEAD, header, parse};
use super::{Entry, JournalError, Recovered};

/// Octets that a disk writes at once, or not at all.
const SECTOR: usize = 512;
/// Octets of which no entries have so many that are all blank.
const LEAST_HOLE: usize = 64;

/// What comes next in a file.
enum Next {
    End,
    Frame(Vec<Entry>, Epoch, usize),
    /// Was being written when the machine stopped.
    Tail,
    Damage,
}

/// What the file says, and octets up to the end of its last whole frame.
pub fn recover(octets: &[u8], path: &Path) -> Result<(Recovered, u64), JournalError> {
    if octets.get(..FILE_HEAD) != Some(&header()) {
        return Err(JournalError::Foreign(path.to_owned()));
    }
    let mut recovered = Recovered::default();
    let mut at = FILE_HEAD;
    loop {
        match next(&octets[at..], at) {
            Next::End => break,
            Next::Tail => {
                recovered.cut_off = (octets.len() - at) as u64;
                break;
            }
            Next::Damage => {
                return Err(JournalError::Damaged { path: path.to_owned(), at: at as u64 });
            }
            Next::Frame(entries, next_epoch, length) => {
                entries.into_iter().for_each(|entry| recovered.take(entry));
                recovered.next_epoch = recovered.next_epoch.max(next_epoch);
                at += length;
            }
        }
    }
    Ok((recovered, at as u64))
}

impl Recovered {
    pub(super) fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Record(user, record) => drop(self.records.insert(user, record)),
            Entry::Order(order) => {
                self.orders.insert(order.number, (order, BTreeSet::new()));
            }
            Entry::Meant(user, number) => {
                if let Some((_, users)) = self.orders.get_mut(&number) {
                    users.insert(user);
                }
            }
            Entry::Ended(user, number, end) => {
                if let Some((order, users)) = self.orders.get_mut(&number)
                    && users.remove(&user)
                {
                    order.ended[end as usize] += 1;
                }
            }
            Entry::Gone(node, gone) => drop(self.gone.insert(node, gone)),
        }
    }
}

fn next(rest: &[u8], at: usize) -> Next {
    if rest.is_empty() {
        return Next::End;
    }
    let Some(head) = rest.first_chunk::<FRAME_HEAD>() else { return Next::Tail };
    let number =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32fast::hash(&head[..8]) != number(8) {
        // The file had grown, and next to nothing was in it yet.
        return if is_blank(&rest[FRAME_HEAD..]) { Next::Tail } else { Next::Damage };
    }
    let length = FRAME_HEAD + number(0) as usize;
    let Some(frame) = rest.get(..length) else { return Next::Tail };
    if crc32fast::hash(&frame[FRAME_HEAD..]) != number(4) {
        let is_last = is_blank(&rest[length..]);
        return if is_last && is_torn(&frame[FRAME_HEAD..], at + FRAME_HEAD) {
            Next::Tail
        } else {
            Next::Damage
        };
    }
    match parse(&frame[FRAME_HEAD..]) {
        Some((entries, next_epoch)) => Next::Frame(entries, next_epoch, length),
        None => Next::Damage,
    }
}

/// Whether the entries of a frame, at this place of the file, were only written in part:
/// their end is not there, or a sector among them, as writes may come in any order. What was
/// written in full and does not read is damage, in the last frame, too: it was answered for.
fn is_torn(entries: &[u8], at: usize) -> bool {
    if entries.last() == Some(&0) {
        return true;
    }
    let first = SECTOR - at % SECTOR;
    let (head, rest) = entries.split_at(first.min(entries.len()));
    let mut sectors = std::iter::once(head).chain(rest.chunks(SECTOR));
    // Less than that may be blank in any entry.
    sectors.any(|sector| sector.len() >= LEAST_HOLE && is_blank(sector))
}

fn is_blank(octets: &[u8]) -> bool {
    octets.iter().all(|octet| *octet == 0)
}
