//! Messages of PFCP as bytes and as values (3GPP TS 29.244 §7 and §8, release 17).
//!
//! A datagram holds one message, or several if both ends support bundling:
//! [`frames`] splits it. [`Message::parse`] reads the body of one, [`Message::emit`] writes one.
//! Values borrow texts and lists of octets from the datagram.
//!
//! **What is read.** An information element that a message or group does not know is skipped
//! (§7.6.7), and so are those of vendors. One that is longer than its fields is read as far
//! as its fields go, since later releases append octets. One that repeats where it must not
//! counts the first time. Lists of elements that the standard defines in a place and that this
//! codec does not read are in `refused` of the group, so that nothing is ignored silently: the
//! field has the first one that came.
//!
//! **What is wrong** is an [`Error`] with the cause that a response has to carry and with the
//! offending element. Parsing panics for no bytes, and `parse(emit(x)) == x`.

mod cause;
mod cursor;
pub mod element;
mod error;
mod flags;
mod frame;
pub(crate) mod group;
pub mod message;
mod number;
pub mod rule;
pub mod vendor;

pub use cause::Cause;
pub use error::{Defect, Error};
pub use frame::{Frame, Header, frames};
pub use group::{Elements, Value};
pub use message::{Message, MessageType};
pub use number::{element_name, ie};

#[cfg(test)]
pub(crate) mod tests;
