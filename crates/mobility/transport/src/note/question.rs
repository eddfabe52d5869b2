//! What a controller asks its nodes.
//!
//! A question is a place of number 0, which is none of a node: its address says what is asked, in
//! words with blanks between. Nodes pass over places of that number, and over questions that they
//! do not know, so nodes of older releases may be asked, and answer nothing.

use std::net::IpAddr;

use weft_mobility_protocol::NodeId;

use crate::hello::PeerAddress;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Where control planes find the node, if it is one for N4: it answers by a
    /// [note](super::N4Note).
    N4,
    /// Which PFCP sessions the node has: it answers by a [note](super::SessionsNote).
    Sessions(SessionsQuestion),
}

/// Which PFCP sessions are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionsQuestion {
    /// The number of the question.
    pub id: u64,
    /// Sessions of the node to be skipped.
    pub first: u32,
    /// Sessions that are wanted, at most.
    pub count: u16,
    /// Only those of the control plane at this address.
    pub control_plane: Option<IpAddr>,
    /// Only those of this user's address.
    pub ue: Option<IpAddr>,
}

impl Question {
    /// The place that says it.
    pub fn place(self) -> PeerAddress {
        let address = match self {
            Question::N4 => "n4".to_owned(),
            Question::Sessions(question) => question.text(),
        };
        PeerAddress { node: NodeId::CONTROLLER, name: String::new(), address }
    }

    /// What a place asks; none if it is one of a node, or asks what is not known here.
    pub fn of(place: &PeerAddress) -> Option<Question> {
        if place.node != NodeId::CONTROLLER {
            return None;
        }
        let (what, rest) = place.address.split_once(' ').unwrap_or((&place.address, ""));
        match what {
            "n4" => Some(Question::N4),
            "sessions" => SessionsQuestion::parse(rest).map(Question::Sessions),
            _ => None,
        }
    }
}

impl SessionsQuestion {
    fn text(self) -> String {
        let word = |address: Option<IpAddr>| address.map_or("-".to_owned(), |one| one.to_string());
        let SessionsQuestion { id, first, count, control_plane, ue } = self;
        format!("sessions {id} {first} {count} {} {}", word(control_plane), word(ue))
    }

    fn parse(text: &str) -> Option<SessionsQuestion> {
        let address = |word: &str| match word {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [id, first, count, control_plane, ue] = words[..] else { return None };
        Some(SessionsQuestion {
            id: id.parse().ok()?,
            first: first.parse().ok()?,
            count: count.parse().ok()?,
            control_plane: address(control_plane)?,
            ue: address(ue)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_is_no_place_of_a_node() {
        let place = Question::N4.place();
        assert_eq!(Question::of(&place), Some(Question::N4));
        assert_eq!(Question::of(&PeerAddress { node: NodeId(1), ..place.clone() }), None);
        for other in ["", "other", "sessions", "sessions 1 2 3 - x", "sessions 1 2 3 - - -"] {
            let address = other.to_owned();
            assert_eq!(Question::of(&PeerAddress { address, ..place.clone() }), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn questions_read_as_they_were_asked(
            id: u64, first: u32, count: u16, control_plane: Option<IpAddr>, ue: Option<IpAddr>,
        ) {
            let asked = SessionsQuestion { id, first, count, control_plane, ue };
            let asked = Question::Sessions(asked);
            prop_assert!(crate::hello::fits(&asked.place()));
            prop_assert_eq!(Question::of(&asked.place()), Some(asked));
        }

        #[test]
        fn whatever_is_asked_is_read_or_passed_over(address: String) {
            let place = Question::N4.place();
            let _ = Question::of(&PeerAddress { address: format!("sessions {address}"), ..place });
        }
    }
}
