//! The socket of a node or a controller: where it is, and that only one has it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Where the sockets of this user's nodes are.
fn directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = rustix::process::geteuid();
    match runtime.filter(|directory| directory.is_absolute()) {
        Some(directory) => directory.join("weft"),
        None if user.is_root() => PathBuf::from("/run/weft"),
        None => PathBuf::from(format!("/tmp/weft-{}", user.as_raw())),
    }
}

/// The socket of the node of that name, unless it was given another.
pub fn socket_path(node: &str) -> PathBuf {
    directory().join(format!("{node}.sock"))
}

/// The socket of the controller of that name.
pub fn controller_path(controller: &str) -> PathBuf {
    directory().join(format!("{controller}.controller"))
}

/// Names of the nodes of this user that run now, in order.
pub fn nodes() -> Vec<String> {
    running(".sock")
}

/// Names of the controllers of this user that run now, in order.
pub fn controllers() -> Vec<String> {
    running(".controller")
}

fn running(ending: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory()) else { return Vec::new() };
    let name = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
        UnixStream::connect(&path).is_ok().then_some(name)
    };
    let mut names: Vec<_> = entries.flatten().filter_map(|entry| name(entry.path())).collect();
    names.sort();
    names
}

/// A socket that is ours: no other process can take it before this is dropped or
/// its process has ended, however that ends.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _lock: File,
}

/// Why a socket cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A process that runs has it.
    #[error("in use")]
    InUse,
    /// It cannot be made.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Claim {
    /// Takes the socket at `path` and listens there. What a dead node left
    /// behind is replaced.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn take(path: &Path) -> Result<(Claim, UnixListener), Refused> {
        make_directory(path)?;
        let lock = lock(&beside(path, "lock"))?;
        match fs::symlink_metadata(path) {
            Ok(known) if !known.file_type().is_socket() => {
                let reason = "there is a file of that name, which is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason).into());
            }
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(Refused::InUse),
            _ => {}
        }
        // Under another name until it is ours alone: no client can connect before
        // the mode is set, and the rename replaces a dead node's socket.
        let new = beside(path, "new");
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new)?;
        fs::set_permissions(&new, Permissions::from_mode(0o600))?;
        fs::rename(&new, path)?;
        Ok((Claim { path: path.to_owned(), _lock: lock }, listener))
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The lock file stays: to remove it could let two nodes in.
        let _ = fs::remove_file(&self.path);
    }
}

/// A file beside the socket. A node keeps the names it has always had.
fn beside(path: &Path, ending: &str) -> PathBuf {
    match path.extension().and_then(|known| known.to_str()) {
        Some("controller") => path.with_extension(format!("controller-{ending}")),
        _ => path.with_extension(ending),
    }
}

fn lock(path: &Path) -> Result<File, Refused> {
    let file =
        OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(Refused::InUse),
        Err(error) => Err(Refused::Io(error.into())),
    }
}

/// Makes the directory of a socket if it is our own one, and checks that no other user
/// has put one in its place.
fn make_directory(path: &Path) -> io::Result<()> {
    let own = directory();
    if path.parent() != Some(&own) {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&own)?;
    let known = fs::symlink_metadata(&own)?;
    if known.is_dir() && known.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let reason = format!("{} belongs to another user", own.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_one_owner_and_is_free_again_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (claim, listener) = Claim::take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Claim::take(&path), Err(Refused::InUse)));
        // The listener's end alone gives nothing away.
        drop(listener);
        assert!(matches!(Claim::take(&path), Err(Refused::InUse)));
        drop(claim);
        assert!(!path.exists());
        Claim::take(&path).unwrap();
    }

    #[test]
    fn what_a_dead_node_left_is_replaced_and_what_others_made_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).unwrap());
        drop(Claim::take(&path).unwrap());

        let foreign = UnixListener::bind(&path).unwrap();
        assert!(matches!(Claim::take(&path), Err(Refused::InUse)));
        drop(foreign);

        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert!(matches!(Claim::take(&file), Err(Refused::Io(_))));
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
}
