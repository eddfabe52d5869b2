//! Messages between nodes (§7.4).

use crate::codec::Cause;
use crate::codec::element::{
    AssociationRelease, AssociationRequestFlags, AssociationResponseFlags, AssociationUpdateFlags,
    CpFeatures, GracePeriod, NodeId, NodeReportType, Octets, PfdContents, RemoteGtpuPeer, Text,
    Time, UpFeatures,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Heartbeat Request and Response (§7.4.2).
    Heartbeat<'a> {
        /// When the sender started.
        recovery: must Time = RECOVERY_TIME_STAMP,
        /// The address that a translator between the nodes may have changed, as it was sent.
        source: may Octets<'a> = SOURCE_IP_ADDRESS,
    }
}

group! {
    /// PFD Management Request (§7.4.3.1): the applications, in place of all before.
    PfdManagementRequest<'a> {
        /// Applications; one without contents is removed.
        applications: many ApplicationPfds<'a> = APPLICATION_IDS_PFDS,
        /// The sender.
        node: may NodeId<'a> = NODE_ID,
    }
}

group! {
    /// Application ID's PFDs (§7.4.3.1).
    ApplicationPfds<'a> {
        /// Which application.
        application: must Text<'a> = APPLICATION_ID,
        /// How its packets are recognised.
        contexts: many PfdContext<'a> = PFD_CONTEXT,
    }
}

group! {
    /// PFD Context (§7.4.3.1).
    PfdContext<'a> {
        /// How packets are recognised.
        contents: many PfdContents<'a> = PFD_CONTENTS,
    }
}

group! {
    /// PFD Management Response (§7.4.3.2).
    PfdManagementResponse<'a> {
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
        /// The sender.
        node: may NodeId<'a> = NODE_ID,
    }
}

group! {
    /// Association Setup Request (§7.4.4.1).
    AssociationSetupRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// When the sender started.
        recovery: must Time = RECOVERY_TIME_STAMP,
        /// What the sender supports, if it is a user plane.
        up_features: may UpFeatures = UP_FUNCTION_FEATURES,
        /// What the sender supports, if it is a control plane.
        cp_features: may CpFeatures = CP_FUNCTION_FEATURES,
        /// Ranges of TEIDs, as they were sent.
        resources: many Octets<'a> = USER_PLANE_IP_RESOURCE_INFORMATION,
        /// Other addresses of the control plane, as they were sent.
        alternatives: many Octets<'a> = ALTERNATIVE_SMF_IP_ADDRESS,
        /// The set that the control plane is of, as it was sent.
        smf_set: may Octets<'a> = SMF_SET_ID,
        /// Sessions of an earlier association are kept.
        retention: may SessionRetention<'a> = PFCP_SESSION_RETENTION_INFORMATION,
        /// Flags.
        flags: may AssociationRequestFlags = PFCPASREQ_FLAGS,
    }
}

group! {
    /// PFCP Session Retention Information (§7.4.4.1).
    SessionRetention<'a> {
        /// Whose sessions; without any, those of the sender, as they were sent.
        entities: many Octets<'a> = CP_PFCP_ENTITY_IP_ADDRESS,
    }
}

group! {
    /// Association Setup Response (§7.4.4.2).
    AssociationSetupResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// When the sender started.
        recovery: must Time = RECOVERY_TIME_STAMP,
        /// What the sender supports, if it is a user plane.
        up_features: may UpFeatures = UP_FUNCTION_FEATURES,
        /// What the sender supports, if it is a control plane.
        cp_features: may CpFeatures = CP_FUNCTION_FEATURES,
        /// Ranges of TEIDs, as they were sent.
        resources: many Octets<'a> = USER_PLANE_IP_RESOURCE_INFORMATION,
        /// Other addresses of the control plane, as they were sent.
        alternatives: many Octets<'a> = ALTERNATIVE_SMF_IP_ADDRESS,
        /// Whether sessions were retained.
        flags: may AssociationResponseFlags = PFCPASRSP_FLAGS,
    }
}

group! {
    /// Association Update Request (§7.4.4.3).
    AssociationUpdateRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// What the sender supports, if it is a user plane.
        up_features: may UpFeatures = UP_FUNCTION_FEATURES,
        /// What the sender supports, if it is a control plane.
        cp_features: may CpFeatures = CP_FUNCTION_FEATURES,
        /// The user plane asks for the end of the association.
        release: may AssociationRelease = PFCP_ASSOCIATION_RELEASE_REQUEST,
        /// How long until the user plane ends it.
        grace: may GracePeriod = GRACEFUL_RELEASE_PERIOD,
        /// Flags.
        flags: may AssociationUpdateFlags = PFCPAUREQ_FLAGS,
        /// Ranges of TEIDs, as they were sent.
        resources: many Octets<'a> = USER_PLANE_IP_RESOURCE_INFORMATION,
        /// Other addresses of the control plane, as they were sent.
        alternatives: many Octets<'a> = ALTERNATIVE_SMF_IP_ADDRESS,
        /// The set that the control plane is of, as it was sent.
        smf_set: may Octets<'a> = SMF_SET_ID,
    }
}

group! {
    /// Association Update Response (§7.4.4.4).
    AssociationUpdateResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// What the sender supports, if it is a user plane.
        up_features: may UpFeatures = UP_FUNCTION_FEATURES,
        /// What the sender supports, if it is a control plane.
        cp_features: may CpFeatures = CP_FUNCTION_FEATURES,
    }
}

group! {
    /// Association Release Request (§7.4.4.5).
    AssociationReleaseRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
    }
}

group! {
    /// Association Release Response (§7.4.4.6).
    AssociationReleaseResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
    }
}

group! {
    /// Version Not Supported Response (§7.4.4.7).
    VersionNotSupported {}
}

group! {
    /// Node Report Request (§7.4.5.1).
    NodeReportRequest<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// What is reported.
        report: must NodeReportType = NODE_REPORT_TYPE,
        /// Paths that failed.
        failed: may PathReport<'a> = USER_PLANE_PATH_FAILURE_REPORT,
        /// Paths that work again.
        recovered: may PathReport<'a> = USER_PLANE_PATH_RECOVERY_REPORT,
    }
}

group! {
    /// User Plane Path Failure Report and User Plane Path Recovery Report (§7.4.5.1).
    PathReport<'a> {
        /// Far ends.
        peers: many RemoteGtpuPeer<'a> = REMOTE_GTP_U_PEER,
    }
}

group! {
    /// Node Report Response (§7.4.5.2).
    NodeReportResponse<'a> {
        /// The sender.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
    }
}
