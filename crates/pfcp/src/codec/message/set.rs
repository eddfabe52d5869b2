//! Messages about sets of sessions (§7.4.6, §7.4.7).

use crate::codec::Cause;
use crate::codec::element::{FqCsid, NodeId, Octets};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Session Set Deletion Request (§7.4.6.1).
    SessionSetDeletionRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Sets whose sessions end.
        sets: many FqCsid = FQ_CSID,
    }
}

group! {
    /// Session Set Deletion Response (§7.4.6.2).
    SessionSetDeletionResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
    }
}

group! {
    /// Session Set Modification Request (§7.4.7.1).
    SessionSetModificationRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Which sessions belong to another control plane from now on.
        changes: many SessionChange<'a> = PFCP_SESSION_CHANGE_INFO,
    }
}

group! {
    /// PFCP Session Change Info (§7.4.7.1).
    SessionChange<'a> {
        /// Sets of sessions.
        sets: many FqCsid = FQ_CSID,
        /// Groups of sessions.
        groups: many Octets<'a> = GROUP_ID,
        /// Addresses in the sessions' CP F-SEIDs, as they were sent.
        addresses: many Octets<'a> = CP_IP_ADDRESS,
        /// The control plane that messages go to, as it was sent.
        alternative: must Octets<'a> = ALTERNATIVE_SMF_IP_ADDRESS,
    }
}

group! {
    /// Session Set Modification Response (§7.4.7.2).
    SessionSetModificationResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
    }
}
