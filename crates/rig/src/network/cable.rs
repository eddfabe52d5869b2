//! Cables in the kernel: veth pairs, for ports that need an interface.

use crate::Failure;
use crate::Rig;
use crate::network::iproute::ip;
use crate::network::namespace::Namespace;

/// A pair of interfaces. It is gone when it is dropped.
#[derive(Debug)]
pub struct Cable {
    /// The end that the system under test has.
    pub near: String,
    /// The end that the traffic has.
    pub far: String,
}

impl Cable {
    /// Lays one.
    ///
    /// # Errors
    /// Without the rights for it, or without iproute2.
    pub fn lay(rig: &Rig) -> Result<Cable, Failure> {
        let name = format!("wc{}-{}", std::process::id(), rig.serial());
        let cable = Cable { near: format!("{name}n"), far: format!("{name}f") };
        let Cable { near, far } = &cable;
        ip(&["link", "add", near, "type", "veth", "peer", "name", far])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["link", "set", far, "up"])?;
        Ok(cable)
    }

    /// Lays one whose near end is in a namespace.
    ///
    /// # Errors
    /// As [`Cable::lay`].
    pub fn lay_into(rig: &Rig, namespace: &Namespace) -> Result<Cable, Failure> {
        let cable = Cable::lay(rig)?;
        namespace.take(&cable.near)?;
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The near end goes with it, wherever that is.
        let _ = ip(&["link", "delete", &self.far]);
    }
}
