//! How each request is refused: its own response, with cause and offending element (§8.2.1).

use crate::codec::Message;
use crate::codec::element::{NodeId, Time};
use crate::codec::message::{
    AssociationReleaseResponse, AssociationSetupResponse, AssociationUpdateResponse, MessageType,
    PfdManagementResponse, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse, SessionSetDeletionResponse, SessionSetModificationResponse,
};
use crate::refusal::Refusal;

/// The response that refuses a request of this kind; none for a heartbeat that cannot be read,
/// and for requests that only a user plane sends.
pub(crate) fn refusing<'n>(
    kind: MessageType,
    node: NodeId<'n>,
    recovery: Time,
    refusal: Refusal,
) -> Option<Message<'n>> {
    if kind.has_seid() {
        return of_session(kind, node, refusal);
    }
    let Refusal { cause, offending, .. } = refusal;
    Some(match kind {
        MessageType::PfdManagementRequest => {
            Message::PfdManagementResponse(PfdManagementResponse {
                cause,
                offending,
                ..PfdManagementResponse::default()
            })
        }
        MessageType::AssociationSetupRequest => {
            Message::AssociationSetupResponse(AssociationSetupResponse {
                node,
                cause,
                recovery,
                ..AssociationSetupResponse::default()
            })
        }
        MessageType::AssociationUpdateRequest => {
            Message::AssociationUpdateResponse(AssociationUpdateResponse {
                node,
                cause,
                ..AssociationUpdateResponse::default()
            })
        }
        MessageType::AssociationReleaseRequest => {
            Message::AssociationReleaseResponse(AssociationReleaseResponse {
                node,
                cause,
                refused: None,
            })
        }
        MessageType::SessionSetDeletionRequest => {
            Message::SessionSetDeletionResponse(SessionSetDeletionResponse {
                node,
                cause,
                offending,
                refused: None,
            })
        }
        MessageType::SessionSetModificationRequest => {
            Message::SessionSetModificationResponse(SessionSetModificationResponse {
                node,
                cause,
                offending,
                refused: None,
            })
        }
        _ => return None,
    })
}

/// The same of messages about one session, which have a SEID.
fn of_session<'n>(kind: MessageType, node: NodeId<'n>, refusal: Refusal) -> Option<Message<'n>> {
    let Refusal { cause, offending, rule: failed_rule } = refusal;
    Some(match kind {
        MessageType::SessionEstablishmentRequest => {
            Message::SessionEstablishmentResponse(SessionEstablishmentResponse {
                node,
                cause,
                offending,
                failed_rule,
                ..SessionEstablishmentResponse::default()
            })
        }
        MessageType::SessionModificationRequest => {
            Message::SessionModificationResponse(SessionModificationResponse {
                cause,
                offending,
                failed_rule,
                ..SessionModificationResponse::default()
            })
        }
        MessageType::SessionDeletionRequest => {
            Message::SessionDeletionResponse(SessionDeletionResponse {
                cause,
                offending,
                ..SessionDeletionResponse::default()
            })
        }
        _ => return None,
    })
}
