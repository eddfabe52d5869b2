//! Interfaces and namespaces of the kernel, by `ip` of iproute2.

use std::process::Command;

use crate::Failure;

/// AF_PACKET's frames and blocks: with its defaults the receive ring loses packets.
pub const AF_PACKET_RING: &str = "framesz=2048,framecnt=4096,blocksz=4096";

/// Runs `ip`.
pub(crate) fn ip(words: &[&str]) -> Result<(), Failure> {
    succeed(Command::new("ip").args(words))
}

/// Runs a program to its end.
///
/// # Errors
/// When it fails: its words and what it said.
pub(crate) fn succeed(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{program} {}: {said}", words.join(" ")).into())
}
