//! `weft check`: is a configuration right, and where do its packets go?

use std::path::PathBuf;

use crate::failure::Failure;
use crate::{node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of the node
    #[arg(value_name = "NODE.yaml")]
    file: PathBuf,
}

/// Prints the compiled paths, and warnings to standard error.
///
/// # Errors
/// The file's mistakes, as FILE:LINE:COLUMN.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let blueprint = node_file::load(&arguments.file)?;
    node_file::warn(&blueprint.warnings);
    output::print(&weft_node::paths(&blueprint))
}
