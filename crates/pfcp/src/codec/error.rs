//! What is wrong with a message.

use super::{Cause, element_name};

/// What is wrong with an information element or with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// The datagram ends inside the header, or the length field is beyond the datagram.
    Truncated,
    /// Another version of PFCP.
    Version,
    /// A message type that this node does not know.
    UnknownMessage,
    /// A mandatory element is missing.
    Missing,
    /// An element that the circumstances require is missing.
    MissingConditional,
    /// An element is shorter than its fields, or longer than what it is in.
    Length,
    /// An element has a value that the standard does not allow.
    Content,
}

/// A defect, and the element that has it; 0 if it is the message itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    /// What is wrong.
    pub defect: Defect,
    /// The type of the offending element (§8.2.22), or 0.
    pub element: u16,
}

impl Error {
    pub(crate) const fn message(defect: Defect) -> Self {
        Self { defect, element: 0 }
    }

    /// An error about an element.
    #[must_use]
    pub const fn new(defect: Defect, element: u16) -> Self {
        Self { defect, element }
    }

    /// The cause that a response carries (§7.6).
    #[must_use]
    pub const fn cause(self) -> Cause {
        match self.defect {
            Defect::Missing => Cause::MANDATORY_IE_MISSING,
            Defect::MissingConditional => Cause::CONDITIONAL_IE_MISSING,
            Defect::Length | Defect::Truncated => Cause::INVALID_LENGTH,
            Defect::Content => Cause::MANDATORY_IE_INCORRECT,
            Defect::Version | Defect::UnknownMessage => Cause::NOT_SUPPORTED,
        }
    }

    /// The offending element, for the element of that name.
    #[must_use]
    pub const fn offending(self) -> Option<u16> {
        if self.element == 0 { None } else { Some(self.element) }
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = element_name(self.element);
        let number = self.element;
        match self.defect {
            Defect::Truncated => write!(f, "the message is longer than its datagram"),
            Defect::Version => write!(f, "the message is not of PFCP version 1"),
            Defect::UnknownMessage => write!(f, "the message is of no known type"),
            Defect::Missing => write!(f, "the mandatory element {name} ({number}) is missing"),
            Defect::MissingConditional => {
                write!(f, "the element {name} ({number}) is missing here")
            }
            Defect::Length => {
                write!(f, "the length of the element {name} ({number}) is impossible")
            }
            Defect::Content => write!(f, "the element {name} ({number}) has an impossible value"),
        }
    }
}
