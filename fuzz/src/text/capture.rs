//! Captures, as `weft replay` and traffic profiles read them.

use std::fs;

use weft_traffic::capture::Capture;

/// Packets of one input at most.
const PACKETS: usize = 1000;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir =
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    }
    FOLDER.with(|folder| {
        let file = folder.path().join("capture");
        fs::write(&file, bytes).expect("room for a file");
        let Ok(mut capture) = Capture::open(&file) else { return };
        for _ in 0..PACKETS {
            match capture.next_frame() {
                Ok(Some(frame)) => assert!(frame.bytes.len() <= bytes.len()),
                Ok(None) => return,
                Err(reason) => return assert!(!reason.is_empty()),
            }
        }
    });
}
