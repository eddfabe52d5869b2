//! Sockets of the kernel that drivers receive by: what is lost in front of them, and which of
//! them a packet goes to.

mod calls;
mod channels;
mod descriptors;
mod fanout;
mod packet;
mod privilege;
mod program;
mod tap;
mod xdp;

pub(super) use channels::{Given, Wanted};
pub(super) use descriptors::{bound_to, descriptors};
pub(super) use fanout::joining;
pub(super) use packet::PacketSockets;
pub(super) use privilege::{may_lock, may_use_interfaces};
pub(super) use tap::unchanged;
pub(super) use xdp::XdpSockets;

pub use descriptors::keep_from_children;
pub use program::{Steering, SteeringKey, SteeringRun};
