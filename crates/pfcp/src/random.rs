//! Numbers that nothing outside can predict, for SEIDs and TEIDs.

use std::io;

/// Numbers of the system's generator, read in blocks.
///
/// # Errors
/// The system has none.
pub(crate) fn entropy() -> io::Result<crate::Entropy> {
    use std::io::Read;
    let mut source = std::fs::File::open("/dev/urandom")?;
    let mut block = [0; 4096];
    source.read_exact(&mut block)?;
    let mut at = 0;
    let mut fallback = 0_u64;
    Ok(Box::new(move || {
        if at == block.len() {
            at = 0;
            // The device cannot fail once it has been read (random(4)); were it to, numbers
            // would at least differ.
            if source.read_exact(&mut block).is_err() {
                fallback = fallback.wrapping_add(0x9e37_79b9_7f4a_7c15);
            }
        }
        let octets = block[at..at + 8].try_into().unwrap_or_default();
        at += 8;
        u64::from_ne_bytes(octets).wrapping_add(fallback)
    }))
}
