//! The folder of rings: sockets in a folder that another user has made, or may write to,
//! could be exchanged for others.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes the folder, unless it is there: a folder of this user, which no other writes to.
///
/// # Errors
/// When it cannot be made, or is not such a folder.
pub fn own_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    // Not through a link, which another user may have put there.
    let known = path.symlink_metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if known.is_dir() && known.uid() == user && known.mode() & 0o022 == 0 {
        return Ok(());
    }
    let reason = format!("{} is not a folder of this user alone", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn a_folder_that_another_has_made_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let refused = |path: &Path| own_folder(path).unwrap_err().kind();
        let own = base.path().join("own");
        own_folder(&own).unwrap();
        own_folder(&own).unwrap();
        let others_write = base.path().join("others-write");
        fs::create_dir(&others_write).unwrap();
        fs::set_permissions(&others_write, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(refused(&others_write), io::ErrorKind::PermissionDenied);
        let link = base.path().join("link");
        symlink(&own, &link).unwrap();
        assert_eq!(refused(&link), io::ErrorKind::PermissionDenied);
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(refused(&file), io::ErrorKind::PermissionDenied);
        let foreign = base.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        // Only root may give a folder away.
        if chown(&foreign, Some(65_534), None).is_ok() {
            assert_eq!(refused(&foreign), io::ErrorKind::PermissionDenied);
        }
    }
}
