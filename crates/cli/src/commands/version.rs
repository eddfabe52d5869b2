//! `weft version`: which program this is.

use crate::failure::Failure;
use crate::output;

/// Prints what `weft --version` prints.
///
/// # Errors
/// When standard output cannot be written.
pub fn run() -> Result<(), Failure> {
    output::line(&format!("weft {}", env!("CARGO_PKG_VERSION")))
}
