//! Routes as `ip route` prints them, from whatever is in the file.

use weft_functions::route::text;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(file) = std::str::from_utf8(bytes) else { return };
    let found = text::read(file, |named| named.device.map(|device| device.len() as u16));
    if let Err(mistake) = found {
        assert!(mistake.line <= file.lines().count() && mistake.column > 0);
    }
}
