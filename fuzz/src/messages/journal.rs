//! A controller's file of records of earlier releases, which its store takes over: an input is
//! a list of records, each what is put into the file and octets: a frame of them with right
//! checks, damaged ones, blanks, or the octets as they are.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use weft_mobility_controller::journal::{Entry, Journal, JournalError, Recovered};
use weft_mobility_protocol::{Epoch, User};

use crate::support::record;

/// What stands behind the entries of a frame.
const END: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 255];

thread_local! {
    static FOLDER: RefCell<TempDir> = RefCell::new(folder());
}

/// In memory, where there is such a place: recovery waits for the disk.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    FOLDER.with_borrow(|folder| recover(folder.path(), &file(bytes)));
}

/// Takes over a file, with another store for each.
fn open(folder: &Path, file: &[u8]) -> Result<(Journal, Recovered), JournalError> {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        fs::remove_file(entry.path()).expect("a file of this folder");
    }
    fs::write(folder.join("records"), file).expect("room for a file");
    Journal::open(folder)
}

fn recover(folder: &Path, file: &[u8]) {
    let first = match open(folder, file) {
        Ok((_, first)) => first,
        Err(JournalError::Foreign(_)) => return,
        Err(JournalError::Damaged { at, .. }) => return assert!(at as usize <= file.len()),
        Err(other) => panic!("{other}"),
    };
    // Without the torn tail the file says the same.
    assert!(first.cut_off as usize <= file.len());
    if first.cut_off > 0 {
        let whole = &file[..file.len() - first.cut_off as usize];
        let (_, whole) = open(folder, whole).expect("whole frames");
        assert_eq!(Recovered { cut_off: first.cut_off, ..whole }, first);
    }
    // They are taken over once, and all of them.
    let (mut journal, second) = Journal::open(folder).expect("it was opened before");
    assert_eq!(
        (&second.records, &second.orders, &second.gone),
        (&first.records, &first.orders, &first.gone)
    );
    assert_eq!(second.next_epoch, first.next_epoch);
    assert_eq!(second.cut_off, 0, "the torn tail is gone");
    // What is added behind them is found.
    let user = User(u64::MAX - 1);
    journal.append(&[Entry::Record(user, None)], Epoch(7)).expect("room");
    drop(journal);
    let (_, third) = Journal::open(folder).expect("it was opened before");
    assert_eq!(third.records.get(&user), Some(&None));
}

/// The file that an input describes.
fn file(mut input: &[u8]) -> Vec<u8> {
    let mut file = b"weftjrnl\0\0\0\x01".to_vec();
    file.extend(crc32fast::hash(&file).to_be_bytes());
    while let Some((what, octets)) = record(&mut input) {
        match what % 8 {
            0 => file.extend(octets),
            1 => file.extend(vec![0; octets.len()]),
            kind => {
                let mut content = octets.to_vec();
                if kind != 2 {
                    content.extend(END);
                }
                let mut frame = frame(&content);
                // A sector that was not written, or an octet that was not kept.
                let at = usize::from(what >> 3) * frame.len() / 32;
                match kind {
                    3 => frame[at] ^= 1,
                    4 => frame.truncate(at),
                    5 => frame[at..].fill(0),
                    _ => {}
                }
                file.extend(frame);
            }
        }
    }
    file
}

fn frame(content: &[u8]) -> Vec<u8> {
    let mut frame = (content.len() as u32).to_be_bytes().to_vec();
    frame.extend(crc32fast::hash(content).to_be_bytes());
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.extend(content);
    frame
}
