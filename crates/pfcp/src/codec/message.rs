//! Messages (§7.4, §7.5).

mod node;
mod session;
mod set;

use super::frame::{begin, end};
use super::{Cause, Defect, Error, Frame, Header, Value};

pub use node::{
    ApplicationPfds, AssociationReleaseRequest, AssociationReleaseResponse,
    AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest,
    AssociationUpdateResponse, Heartbeat, NodeReportRequest, NodeReportResponse, PathReport,
    PfdContext, PfdManagementRequest, PfdManagementResponse, SessionRetention, VersionNotSupported,
};
pub use session::{
    SessionDeletionRequest, SessionDeletionResponse, SessionEstablishmentRequest,
    SessionEstablishmentResponse, SessionModificationRequest, SessionModificationResponse,
    SessionReportRequest, SessionReportResponse,
};
pub use set::{
    SessionChange, SessionSetDeletionRequest, SessionSetDeletionResponse,
    SessionSetModificationRequest, SessionSetModificationResponse,
};

macro_rules! messages {
    ($($(#[$doc:meta])* $number:literal $name:ident($type:ident $(<$life:lifetime>)?), $text:literal;)+) => {
        /// Types of messages (§7.3).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum MessageType {
            $($(#[$doc])* $name = $number,)+
        }

        impl MessageType {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The type of a number.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)+ _ => None }
            }

            /// The name, as the standard writes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }

        /// A message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        // Messages are read one at a time and not stored.
        #[allow(clippy::large_enum_variant)]
        pub enum Message<'a> {
            $($(#[$doc])* $name($type $(<$life>)?),)+
        }

        impl<'a> Message<'a> {
            /// The message of a frame.
            ///
            /// # Errors
            /// The type is unknown, a mandatory element is missing, or an element is wrong.
            pub fn parse(frame: &Frame<'a>) -> Result<Self, Error> {
                Ok(match frame.message {
                    $($number => Self::$name(Value::parse(0, frame.body)?),)+
                    _ => return Err(Error::message(Defect::UnknownMessage)),
                })
            }

            /// Its type.
            #[must_use]
            pub const fn message_type(&self) -> MessageType {
                match self { $(Self::$name(_) => MessageType::$name,)+ }
            }

            /// Appends the message as bytes.
            pub fn emit(&self, header: &Header, out: &mut Vec<u8>) {
                let at = begin(header, self.message_type() as u8, out);
                match self { $(Self::$name(message) => message.emit(out),)+ }
                end(at, out);
            }

            /// The body of a message with random contents.
            #[cfg(test)]
            pub(crate) fn random(kind: MessageType, draw: &mut super::tests::strategy::Draw) -> Vec<u8> {
                match kind { $(MessageType::$name => $type::random(0, draw),)+ }
            }

            /// The first element that the standard defines in this message and that is not read.
            #[must_use]
            pub const fn refused(&self) -> Option<u16> {
                match self { $(Self::$name(message) => message.refused,)+ }
            }
        }
    };
}

messages! {
    /// Heartbeat Request.
    1 HeartbeatRequest(Heartbeat<'a>), "Heartbeat Request";
    /// Heartbeat Response.
    2 HeartbeatResponse(Heartbeat<'a>), "Heartbeat Response";
    /// PFD Management Request.
    3 PfdManagementRequest(PfdManagementRequest<'a>), "PFD Management Request";
    /// PFD Management Response.
    4 PfdManagementResponse(PfdManagementResponse<'a>), "PFD Management Response";
    /// Association Setup Request.
    5 AssociationSetupRequest(AssociationSetupRequest<'a>), "Association Setup Request";
    /// Association Setup Response.
    6 AssociationSetupResponse(AssociationSetupResponse<'a>), "Association Setup Response";
    /// Association Update Request.
    7 AssociationUpdateRequest(AssociationUpdateRequest<'a>), "Association Update Request";
    /// Association Update Response.
    8 AssociationUpdateResponse(AssociationUpdateResponse<'a>), "Association Update Response";
    /// Association Release Request.
    9 AssociationReleaseRequest(AssociationReleaseRequest<'a>), "Association Release Request";
    /// Association Release Response.
    10 AssociationReleaseResponse(AssociationReleaseResponse<'a>), "Association Release Response";
    /// Version Not Supported Response.
    11 VersionNotSupported(VersionNotSupported), "Version Not Supported Response";
    /// Node Report Request.
    12 NodeReportRequest(NodeReportRequest<'a>), "Node Report Request";
    /// Node Report Response.
    13 NodeReportResponse(NodeReportResponse<'a>), "Node Report Response";
    /// Session Set Deletion Request.
    14 SessionSetDeletionRequest(SessionSetDeletionRequest<'a>), "Session Set Deletion Request";
    /// Session Set Deletion Response.
    15 SessionSetDeletionResponse(SessionSetDeletionResponse<'a>), "Session Set Deletion Response";
    /// Session Set Modification Request.
    16 SessionSetModificationRequest(SessionSetModificationRequest<'a>),
        "Session Set Modification Request";
    /// Session Set Modification Response.
    17 SessionSetModificationResponse(SessionSetModificationResponse<'a>),
        "Session Set Modification Response";
    /// Session Establishment Request.
    50 SessionEstablishmentRequest(SessionEstablishmentRequest<'a>),
        "Session Establishment Request";
    /// Session Establishment Response.
    51 SessionEstablishmentResponse(SessionEstablishmentResponse<'a>),
        "Session Establishment Response";
    /// Session Modification Request.
    52 SessionModificationRequest(SessionModificationRequest<'a>), "Session Modification Request";
    /// Session Modification Response.
    53 SessionModificationResponse(SessionModificationResponse<'a>),
        "Session Modification Response";
    /// Session Deletion Request.
    54 SessionDeletionRequest(SessionDeletionRequest), "Session Deletion Request";
    /// Session Deletion Response.
    55 SessionDeletionResponse(SessionDeletionResponse<'a>), "Session Deletion Response";
    /// Session Report Request.
    56 SessionReportRequest(SessionReportRequest<'a>), "Session Report Request";
    /// Session Report Response.
    57 SessionReportResponse(SessionReportResponse<'a>), "Session Report Response";
}

impl Message<'_> {
    /// The cause, of a response that has one.
    #[must_use]
    pub const fn cause(&self) -> Option<Cause> {
        Some(match self {
            Message::PfdManagementResponse(one) => one.cause,
            Message::AssociationSetupResponse(one) => one.cause,
            Message::AssociationUpdateResponse(one) => one.cause,
            Message::AssociationReleaseResponse(one) => one.cause,
            Message::NodeReportResponse(one) => one.cause,
            Message::SessionSetDeletionResponse(one) => one.cause,
            Message::SessionSetModificationResponse(one) => one.cause,
            Message::SessionEstablishmentResponse(one) => one.cause,
            Message::SessionModificationResponse(one) => one.cause,
            Message::SessionDeletionResponse(one) => one.cause,
            Message::SessionReportResponse(one) => one.cause,
            _ => return None,
        })
    }
}

impl MessageType {
    /// Whether it begins an exchange. All others answer one.
    #[must_use]
    pub const fn is_request(self) -> bool {
        let number = self as u8;
        if number < 50 {
            number % 2 == 1 && number < 11 || number > 11 && number.is_multiple_of(2)
        } else {
            number.is_multiple_of(2)
        }
    }

    /// Whether its header has a SEID (§7.2.2.4).
    #[must_use]
    pub const fn has_seid(self) -> bool {
        self as u8 >= 50
    }
}
