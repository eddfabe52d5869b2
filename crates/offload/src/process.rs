//! Functions in processes of their own.
//!
//! The node is the back end of a ring in shared memory (vhost-user), the function
//! its front end (virtio-user, or whatever speaks it). A packet goes out with its
//! tags in a network service header ([`frame`](crate::frame), RFC 8300) and comes back the same
//! way; the node keeps a ticket for it meanwhile ([`weft_dataplane::offload`]), so that nothing that
//! comes back can make it another user's. Beside the ring runs a small control
//! protocol over a UNIX socket ([`protocol`]). One thread for each function, the
//! [`supervisor`], starts the process, gives it users, and sees when it dies or
//! stands still; [`host`] is the other end of all that.

mod carrier;
pub mod confine;
mod folder;
pub mod host;
mod inquiry;
pub mod order;
pub mod protocol;
pub mod supervisor;

pub use folder::own_folder;
pub use inquiry::{ContextsAnswer, InquiryKind, Question};
pub use order::Order;
pub use supervisor::{Plan, ResourceLimits, Restart, StartError, Status, Supervisor, View};

/// The socket of the control protocol beside the ring at `ring`.
pub fn control_path(ring: &std::path::Path) -> std::path::PathBuf {
    beside(ring, ".control")
}

/// The socket of the node's end of the ring at `ring`, to which no function connects itself.
pub(crate) fn inner_path(ring: &std::path::Path) -> std::path::PathBuf {
    beside(ring, ".node")
}

fn beside(ring: &std::path::Path, ending: &str) -> std::path::PathBuf {
    let mut path = ring.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
