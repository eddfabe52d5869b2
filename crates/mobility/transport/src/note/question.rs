//! What a controller asks its nodes.
//!
//! A question is a place of number 0, which is none of a node: its address says what is asked. Nodes
//! pass over places of that number, and over questions that they do not know, so nodes of older
//! releases may be asked, and answer nothing.

use weft_mobility_protocol::NodeId;

use crate::hello::PeerAddress;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where control planes find the node, if it is one for N4: it answers by a
    /// [note](super::N4Note).
    N4,
}

impl Question {
    /// The place that says it.
    pub fn place(self) -> PeerAddress {
        let Question::N4 = self;
        PeerAddress { node: NodeId::CONTROLLER, name: String::new(), address: "n4".to_owned() }
    }

    /// What a place asks; none if it is one of a node, or asks what is not known here.
    pub fn of(place: &PeerAddress) -> Option<Question> {
        let is_question = place.node == NodeId::CONTROLLER && place.address == "n4";
        is_question.then_some(Question::N4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_no_place_of_a_node() {
        let place = Question::N4.place();
        assert_eq!(Question::of(&place), Some(Question::N4));
        assert_eq!(Question::of(&PeerAddress { node: NodeId(1), ..place.clone() }), None);
        assert_eq!(Question::of(&PeerAddress { address: "other".to_owned(), ..place }), None);
    }
}
