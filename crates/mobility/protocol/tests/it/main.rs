//! The integration tests of this crate, as one program: one to link, not one for each file.

mod by_node;
mod course;
mod encoding;
mod kept;
mod plane;
mod tables;
mod turns;

use weft_mobility_protocol::{Envelope, Incarnation, Message, NodeId};

/// What a node that has begun so often says to the controller.
fn said(from: NodeId, life: u32, message: Message) -> Envelope {
    Envelope {
        from,
        from_incarnation: Incarnation(life),
        to: NodeId::CONTROLLER,
        to_incarnation: Incarnation(0),
        message,
    }
}
