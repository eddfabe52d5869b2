//! The file of records that controllers kept before there was a store: it is read, and tells a
//! tail that was being written from damage.
//!
//! ```text
//! the file:  0..8   "weftjrnl"         8..12  version, 1      12..16  CRC of 0..12
//! a frame:   0..4   octets of entries   4..8  CRC of those     8..12  CRC of 0..8
//!           12..20  the lowest epoch that has not been given   20..   entries
//! ```
//! CRCs are those of IEEE 802.3. The last entry of a frame is 9 octets: 8 of 0, and 255.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use weft_mobility_protocol::Epoch;

use super::entry::take_entry;
use super::{Entry, JournalError, Recovered};

/// Octets of a frame before its entries.
const FRAME_HEAD: usize = 12;
/// Octets of the file before its frames.
const FILE_HEAD: usize = 16;
/// What stands behind the entries of a frame; the oldest files do without.
const END: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 255];

/// What a file of before says; none where there is none.
pub fn read(folder: &Path) -> Result<Option<Recovered>, JournalError> {
    let path = folder.join("records");
    let octets = match fs::read(&path) {
        Ok(octets) => octets,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(JournalError::Io { path, reason }),
    };
    recover(&octets, &path).map(Some)
}

/// Its records are in the store: it is out of the way from now on.
pub fn set_aside(folder: &Path) -> Result<(), JournalError> {
    let path = folder.join("records");
    let moved = fs::rename(&path, folder.join("records.taken-over"));
    let synced = moved.and_then(|()| fs::File::open(folder)?.sync_all());
    synced.map_err(|reason| JournalError::Io { path, reason })
}

/// What the file begins with.
pub fn header() -> [u8; FILE_HEAD] {
    let mut octets = *b"weftjrnl\0\0\0\x01\0\0\0\0";
    let check = crc32fast::hash(&octets[..12]);
    octets[12..].copy_from_slice(&check.to_be_bytes());
    octets
}

/// Reads what is in a frame; `None` if it means nothing.
fn parse(octets: &[u8]) -> Option<(Vec<Entry>, Epoch)> {
    let (epoch, mut octets) = octets.split_first_chunk()?;
    let mut entries = Vec::new();
    while !octets.is_empty() && octets != END {
        entries.push(take_entry(&mut octets)?);
    }
    let epoch = Epoch(u64::from_be_bytes(*epoch));
    (epoch < Epoch::END).then_some((entries, epoch))
}

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

/// What the file says, up to the end of its last whole frame.
pub fn recover(octets: &[u8], path: &Path) -> Result<Recovered, JournalError> {
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
    Ok(recovered)
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
