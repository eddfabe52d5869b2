//! The configuration file of a node, read with all functions there are.

use std::path::Path;

use weft_node_config::{self as config, Blueprint, Mistakes};

use crate::failure::Failure;
use crate::log;

/// Reads and checks the file.
///
/// # Errors
/// Its mistakes.
pub fn load(path: &Path) -> Result<Blueprint, Failure> {
    Ok(config::load(path, weft_functions::KINDS)?)
}

/// Prints what is probably not meant to standard error.
pub fn warn(warnings: &Mistakes) {
    if !warnings.0.is_empty() {
        log::say(warnings.to_string().trim_end());
    }
}
