//! Routes as `ip route` prints them, from whatever is in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_functions::route::text;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = std::str::from_utf8(bytes) else { return };
    let found = text::read(file, |named| named.device.map(|device| device.len() as u16));
    if let Err(mistake) = found {
        assert!(mistake.line <= file.lines().count() && mistake.column > 0);
    }
});
