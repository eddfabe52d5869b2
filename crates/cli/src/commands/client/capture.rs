//! `weft capture`: packets at any place of a running node, as a pcapng file.

mod blocks;

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::commands::client::target::Target;
use crate::commands::client::watch::{Choice, Waiting};
use crate::failure::Failure;
use crate::signals::Termination;
use blocks::Blocks;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    choice: Choice,
    /// End after so many packets; otherwise at SIGINT or SIGTERM
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Where to write the capture; - for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE.pcapng")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Captures until enough packets were seen, or until a signal ends it. The
/// file holds whole blocks then.
///
/// # Errors
/// When no node answers, or the file cannot be written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let output = Arc::new(Mutex::new(Output::new(&arguments.file)));
    end_between_blocks(&output)?;
    let question = arguments.choice.question(arguments.count);
    let answer = client.question("/v1/capture", &question)?;
    let waiting = Waiting::start(&arguments.choice);
    let mut blocks = Blocks::default();
    let mut written = Ok(());
    answer.pieces(|piece| {
        let whole = blocks.take(piece);
        if whole.packets > 0 {
            waiting.over();
        }
        written = output.lock().unwrap_or_else(PoisonError::into_inner).write(&whole.bytes);
        written.is_ok()
    })?;
    written
}

/// Ends the program at a signal, after the blocks that are being written. A
/// second signal ends it at once: the reader of a pipe may have stopped.
fn end_between_blocks(output: &Arc<Mutex<Output>>) -> Result<(), Failure> {
    let termination = Termination::catch()?;
    let output = output.clone();
    thread::spawn(move || {
        termination.wait();
        thread::spawn(move || {
            let _unwritten = output.lock();
            process::exit(0);
        });
        termination.wait();
        process::exit(1);
    });
    Ok(())
}

/// Where the capture goes.
struct Output {
    path: PathBuf,
    /// Opened with the first block: a question that is refused leaves no file.
    file: Option<File>,
}

impl Output {
    fn new(path: &Path) -> Output {
        Output { path: path.to_owned(), file: None }
    }

    /// Writes whole blocks, past the buffer of standard output, which would
    /// divide them.
    fn write(&mut self, blocks: &[u8]) -> Result<(), Failure> {
        if blocks.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(self.open().map_err(|error| Failure::input(self.failed(&error)))?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(blocks).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::broken(self.failed(&error)),
        })
    }

    fn open(&self) -> io::Result<File> {
        match self.path.as_os_str() == "-" {
            true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            false => File::create(&self.path),
        }
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }
}
