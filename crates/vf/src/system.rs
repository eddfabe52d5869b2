//! Who writes to sysfs and calls `ip`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Does what changes anything.
pub trait SystemAccess {
    /// Writes a text to a file that is there.
    ///
    /// # Errors
    /// What the kernel says.
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()>;

    /// Runs `ip` with these arguments; what it prints.
    ///
    /// # Errors
    /// What it says on standard error.
    fn ip(&mut self, arguments: &[String]) -> io::Result<String>;
}

/// The kernel of this machine.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The program `ip` of iproute2.
    pub ip: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Kernel { ip: "ip".into() }
    }
}

impl SystemAccess for Kernel {
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn ip(&mut self, arguments: &[String]) -> io::Result<String> {
        let output = Command::new(&self.ip).args(arguments).output();
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("there is no such program; install iproute2")
            }
            _ => error,
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let denied = said.contains("Operation not permitted") || said.contains("ermission denied");
        let kind = if denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::Other };
        Err(io::Error::new(kind, said))
    }
}
