//! `weft check`: is a configuration right, and where do a node's packets go?

use std::path::{Path, PathBuf};

use weft_mobility_controller::config::Configuration;
use weft_yaml::locate::Source;

use crate::failure::Failure;
use crate::{node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of a node or a controller
    #[arg(value_name = "FILE.yaml")]
    file: PathBuf,
}

/// Prints the compiled paths of a node, and warnings to standard error; of a
/// controller, how many nodes and users it has.
///
/// # Errors
/// The file's mistakes, as FILE:LINE:COLUMN.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(configuration) = controller(&arguments.file)? {
        let (name, counts) = (&configuration.name, crate::control::counts(&configuration));
        return output::line(&format!("controller {name}: {counts}"));
    }
    let blueprint = node_file::load(&arguments.file)?;
    node_file::warn(&blueprint.warnings);
    output::print(&weft_node::paths(&blueprint))
}

/// The controller that a file describes, if it says that it does.
fn controller(path: &Path) -> Result<Option<Configuration>, Failure> {
    let text = weft_yaml::load(path)?;
    let source = Source::read(&text);
    match source.as_ref().ok().and_then(|source| source.root.text("kind")) {
        Some("Controller") => Ok(Some(Configuration::load(path)?)),
        _ => Ok(None),
    }
}
