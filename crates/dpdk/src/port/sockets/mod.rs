//! Sockets of the kernel that drivers receive by: what is lost in front of them, and which of
//! them a packet goes to.

mod channels;
mod fanout;
mod packet;
mod program;
mod xdp;

pub(super) use channels::{Given, Wanted};
pub(super) use fanout::joining;
pub(super) use packet::PacketSockets;
pub(super) use xdp::XdpSockets;

pub use program::{Steering, SteeringKey, SteeringRun};
