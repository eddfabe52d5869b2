//! `weft capture`: packets at any place of a running node, as a pcapng file.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use crate::failure::Failure;
use crate::target::Target;
use crate::watch::Choice;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    choice: Choice,
    /// End after so many packets; otherwise at SIGINT
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Where to write the capture; - for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE.pcapng")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Captures until enough packets were seen. Each piece that comes is whole
/// blocks of the file and is written at once, so that the file is whole
/// whenever the command is ended.
///
/// # Errors
/// When no node answers, or the file cannot be written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let failed = |error: &io::Error| format!("{}: {error}", arguments.file.display());
    let standard_output = arguments.file.as_os_str() == "-";
    // Opened with the first piece: a question that is refused leaves no file.
    let mut output: Option<File> = None;
    let mut written = Ok(());
    client.stream("/v1/capture", &arguments.choice.question(arguments.count), |piece| {
        // Past the buffer of standard output, which would write a piece in two.
        let open = || match standard_output {
            true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            false => File::create(&arguments.file),
        };
        let output = match &mut output {
            Some(output) => Ok(output),
            none => open().map(|opened| none.insert(opened)),
        };
        written = output.and_then(|output| output.write_all(piece));
        written.is_ok()
    })?;
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ if output.is_none() => Failure::input(failed(&error)),
        _ => Failure::broken(failed(&error)),
    })
}
