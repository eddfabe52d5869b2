//! What a profile takes from captures.

use std::path::Path;

use crate::capture::{Capture, Frame};
use crate::source::captured::Captured;

/// So many packets of a capture are looked at.
const MOST: usize = 1 << 20;

/// The lengths of the packets of a capture, in their order, the first million of
/// them.
///
/// # Errors
/// Why the file cannot be read, in a few words.
pub fn lengths(path: &str) -> Result<Vec<usize>, String> {
    let frames = frames(path, |frame| Ok(frame.length))?;
    if frames.is_empty() { Err("it holds no packets".to_owned()) } else { Ok(frames) }
}

/// The packets of a capture themselves, the first million of them.
///
/// # Errors
/// Why the file cannot be read, or its packets cannot be sent, in a few words.
pub fn packets(path: &str, stamps: bool) -> Result<Captured, String> {
    let whole = |frame: Frame| match frame.bytes.len() {
        bytes if bytes < frame.length => {
            Err(format!("it was cut as it was captured, {bytes} of {} bytes", frame.length))
        }
        _ => Ok(frame.bytes),
    };
    Captured::new(frames(path, whole)?, stamps).map_err(|error| error.to_string())
}

/// Something of each packet.
fn frames<T>(path: &str, of: impl Fn(Frame) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut capture = Capture::open(Path::new(path))?;
    let mut all = Vec::new();
    while all.len() < MOST
        && let Some(frame) = capture.next_frame()?
    {
        let one = of(frame).map_err(|why| format!("packet {}: {why}", capture.packets()))?;
        all.push(one);
    }
    Ok(all)
}
