//! `weft completions` and `weft manual`: what packages install beside the program, written
//! from the command line itself.

use std::fs;
use std::path::PathBuf;

use clap::{Command, ValueEnum};
use clap_complete::{Shell, generate};
use clap_mangen::generate_to;

use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Known,
}

#[derive(Clone, Copy, ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

#[derive(clap::Args)]
pub struct Manual {
    /// Folder for the pages, one for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints a script that the shell reads: `source <(weft completions bash)`.
///
/// # Errors
/// When standard output cannot be written.
pub fn completions(arguments: &Completions, mut line: Command) -> Result<(), Failure> {
    let shell = match arguments.shell {
        Known::Bash => Shell::Bash,
        Known::Zsh => Shell::Zsh,
        Known::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut line, "weft", &mut script);
    output::write(&script)
}

/// Writes `weft.1`, `weft-run.1`, `weft-ctl-apply.1` and so on.
///
/// # Errors
/// When a file cannot be written.
pub fn manual(arguments: &Manual, line: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let written = fs::create_dir_all(folder).and_then(|()| generate_to(line, folder));
    written.map_err(|error| Failure::input(format!("{}: {error}", folder.display())))
}
