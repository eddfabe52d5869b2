//! Standard output. Its reader may close it at any time, as `head` does; that
//! ends a command quietly.

use std::io::{self, Write};

use crate::failure::Failure;

/// Writes `text` to standard output, at once.
///
/// # Errors
/// [`Failure::Unread`] when the reader has closed it.
pub fn print(text: &str) -> Result<(), Failure> {
    write(text.as_bytes())
}

/// Writes a line to standard output, at once.
///
/// # Errors
/// As [`print()`].
pub fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output, at once.
///
/// # Errors
/// As [`print()`].
pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::broken(format!("standard output: {error}")),
    })
}
