//! Messages about a session (§7.5).

use crate::codec::Cause;
use crate::codec::element::{
    AdditionalReports, EstablishmentFlags, FSeid, FqCsid, ModificationFlags, NodeId, Octets,
    PdnType, ReportRequestFlags, ReportResponseFlags, ReportType, RuleId, Seconds, Text, Time,
};
use crate::codec::group::group;
use crate::codec::ie::*;
use crate::codec::rule::{
    CreateBar, CreateFar, CreatePdr, CreateQer, CreateTrafficEndpoint, CreateUrr, CreatedPdr,
    CreatedTrafficEndpoint, DownlinkDataReport, ErrorIndicationReport, LoadControl,
    OverloadControl, QueryUrr, RemoveBar, RemoveFar, RemovePdr, RemoveQer, RemoveTrafficEndpoint,
    RemoveUrr, UpdateBar, UpdateBarInReport, UpdateFar, UpdatePdr, UpdateQer,
    UpdateTrafficEndpoint, UpdateUrr, UsageReport,
};

group! {
    /// Session Establishment Request (§7.5.2.1).
    SessionEstablishmentRequest<'a> {
        /// The control plane.
        node: must NodeId<'a> = NODE_ID,
        /// The control plane's identifier of the session.
        fseid: must FSeid = F_SEID,
        /// Packet detection rules, at least one.
        pdrs: many CreatePdr<'a> = CREATE_PDR,
        /// Forwarding action rules, at least one.
        fars: many CreateFar<'a> = CREATE_FAR,
        /// Usage reporting rules.
        urrs: many CreateUrr<'a> = CREATE_URR,
        /// QoS enforcement rules.
        qers: many CreateQer = CREATE_QER,
        /// Buffering action rule.
        bar: may CreateBar = CREATE_BAR,
        /// Traffic endpoints.
        endpoints: many CreateTrafficEndpoint<'a> = CREATE_TRAFFIC_ENDPOINT,
        /// What the user's packets are.
        pdn_type: may PdnType = PDN_TYPE,
        /// Sets that the session belongs to.
        sets: many FqCsid = FQ_CSID,
        /// Time without packets after which the user plane reports.
        inactivity: may Seconds = USER_PLANE_INACTIVITY_TIMER,
        /// The user, as it was sent.
        user: may Octets<'a> = USER_ID,
        /// What is traced, as it was sent.
        trace: may Octets<'a> = TRACE_INFORMATION,
        /// Access point or data network.
        dnn: may Text<'a> = APN_DNN,
        /// Flags.
        flags: may EstablishmentFlags = PFCPSEREQ_FLAGS,
        /// When the control plane started.
        recovery: may Time = RECOVERY_TIME_STAMP,
        /// The network slice, as it was sent.
        slice: may Octets<'a> = S_NSSAI,
        /// The group that the session belongs to.
        group: may Octets<'a> = GROUP_ID,
    } refuse CREATE_MAR, CREATE_BRIDGE_INFO_FOR_TSC, CREATE_SRR,
        PROVIDE_ATSSS_CONTROL_INFORMATION, PROVIDE_RDS_CONFIGURATION_INFORMATION,
        L2TP_TUNNEL_INFORMATION, L2TP_SESSION_INFORMATION, MBS_SESSION_N4MB_CONTROL_INFORMATION,
        MBS_SESSION_N4_CONTROL_INFORMATION, DSCP_TO_PPI_CONTROL_INFORMATION
}

group! {
    /// Session Establishment Response (§7.5.3.1).
    SessionEstablishmentResponse<'a> {
        /// The user plane.
        node: must NodeId<'a> = NODE_ID,
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
        /// The user plane's identifier of the session.
        fseid: may FSeid = F_SEID,
        /// What the user plane chose for PDRs.
        created: many CreatedPdr = CREATED_PDR,
        /// Load.
        load: may LoadControl = LOAD_CONTROL_INFORMATION,
        /// Overload.
        overload: may OverloadControl = OVERLOAD_CONTROL_INFORMATION,
        /// Sets that the session belongs to.
        sets: many FqCsid = FQ_CSID,
        /// The rule that could not be created.
        failed_rule: may RuleId = FAILED_RULE_ID,
        /// What the user plane chose for traffic endpoints.
        created_endpoints: many CreatedTrafficEndpoint = CREATED_TRAFFIC_ENDPOINT,
    }
}

group! {
    /// Session Modification Request (§7.5.4.1).
    SessionModificationRequest<'a> {
        /// The new identifier of the session at the control plane.
        fseid: may FSeid = F_SEID,
        /// PDRs that end.
        remove_pdrs: many RemovePdr = REMOVE_PDR,
        /// FARs that end.
        remove_fars: many RemoveFar = REMOVE_FAR,
        /// URRs that end.
        remove_urrs: many RemoveUrr = REMOVE_URR,
        /// QERs that end.
        remove_qers: many RemoveQer = REMOVE_QER,
        /// The BAR that ends.
        remove_bar: may RemoveBar = REMOVE_BAR,
        /// Traffic endpoints that end.
        remove_endpoints: many RemoveTrafficEndpoint = REMOVE_TRAFFIC_ENDPOINT,
        /// New PDRs.
        create_pdrs: many CreatePdr<'a> = CREATE_PDR,
        /// New FARs.
        create_fars: many CreateFar<'a> = CREATE_FAR,
        /// New URRs.
        create_urrs: many CreateUrr<'a> = CREATE_URR,
        /// New QERs.
        create_qers: many CreateQer = CREATE_QER,
        /// New BAR.
        create_bar: may CreateBar = CREATE_BAR,
        /// New traffic endpoints.
        create_endpoints: many CreateTrafficEndpoint<'a> = CREATE_TRAFFIC_ENDPOINT,
        /// PDRs that change.
        update_pdrs: many UpdatePdr<'a> = UPDATE_PDR,
        /// FARs that change.
        update_fars: many UpdateFar<'a> = UPDATE_FAR,
        /// URRs that change.
        update_urrs: many UpdateUrr<'a> = UPDATE_URR,
        /// QERs that change.
        update_qers: many UpdateQer = UPDATE_QER,
        /// The BAR that changes.
        update_bar: may UpdateBar = UPDATE_BAR_IN_SESSION_MODIFICATION_REQUEST,
        /// Traffic endpoints that change.
        update_endpoints: many UpdateTrafficEndpoint<'a> = UPDATE_TRAFFIC_ENDPOINT,
        /// Flags.
        flags: may ModificationFlags = PFCPSMREQ_FLAGS,
        /// URRs that report now.
        queries: many QueryUrr = QUERY_URR,
        /// Sets that the session belongs to.
        sets: many FqCsid = FQ_CSID,
        /// Time without packets after which the user plane reports; 0 for never.
        inactivity: may Seconds = USER_PLANE_INACTIVITY_TIMER,
        /// Number that the reports carry.
        query_reference: may u32 = QUERY_URR_REFERENCE,
        /// What is traced, as it was sent.
        trace: may Octets<'a> = TRACE_INFORMATION,
        /// The control plane, if it has changed.
        node: may NodeId<'a> = NODE_ID,
        /// The group that the session belongs to.
        group: may Octets<'a> = GROUP_ID,
    } refuse CREATE_MAR, UPDATE_MAR, REMOVE_MAR, CREATE_SRR, UPDATE_SRR, REMOVE_SRR,
        TSC_MANAGEMENT_INFORMATION_IN_SESSION_MODIFICATION_REQUEST,
        ETHERNET_CONTEXT_INFORMATION, PROVIDE_ATSSS_CONTROL_INFORMATION
}

group! {
    /// Session Modification Response (§7.5.5.1).
    SessionModificationResponse<'a> {
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
        /// What the user plane chose for PDRs.
        created: many CreatedPdr = CREATED_PDR,
        /// Load.
        load: may LoadControl = LOAD_CONTROL_INFORMATION,
        /// Overload.
        overload: may OverloadControl = OVERLOAD_CONTROL_INFORMATION,
        /// Usage.
        reports: many UsageReport<'a> = USAGE_REPORT_IN_SESSION_MODIFICATION_RESPONSE,
        /// The rule that could not be created or changed.
        failed_rule: may RuleId = FAILED_RULE_ID,
        /// Reports that follow.
        additional: may AdditionalReports = ADDITIONAL_USAGE_REPORTS_INFORMATION,
        /// What the user plane chose for traffic endpoints.
        created_endpoints: many CreatedTrafficEndpoint = CREATED_TRAFFIC_ENDPOINT,
        /// What the user plane chose for PDRs that changed.
        updated: many CreatedPdr = UPDATED_PDR,
    }
}

group! {
    /// Session Deletion Request (§7.5.6).
    SessionDeletionRequest {}
}

group! {
    /// Session Deletion Response (§7.5.7.1).
    SessionDeletionResponse<'a> {
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
        /// Load.
        load: may LoadControl = LOAD_CONTROL_INFORMATION,
        /// Overload.
        overload: may OverloadControl = OVERLOAD_CONTROL_INFORMATION,
        /// Usage.
        reports: many UsageReport<'a> = USAGE_REPORT_IN_SESSION_DELETION_RESPONSE,
        /// Reports that follow.
        additional: may AdditionalReports = ADDITIONAL_USAGE_REPORTS_INFORMATION,
    }
}

group! {
    /// Session Report Request (§7.5.8.1).
    SessionReportRequest<'a> {
        /// What is reported.
        report: must ReportType = REPORT_TYPE,
        /// Downlink packets for an idle user.
        downlink_data: may DownlinkDataReport = DOWNLINK_DATA_REPORT,
        /// Usage.
        usage: many UsageReport<'a> = USAGE_REPORT_IN_SESSION_REPORT_REQUEST,
        /// Error Indications.
        error_indication: may ErrorIndicationReport = ERROR_INDICATION_REPORT,
        /// Load.
        load: may LoadControl = LOAD_CONTROL_INFORMATION,
        /// Overload.
        overload: may OverloadControl = OVERLOAD_CONTROL_INFORMATION,
        /// Reports that follow.
        additional: may AdditionalReports = ADDITIONAL_USAGE_REPORTS_INFORMATION,
        /// Flags.
        flags: may ReportRequestFlags = PFCPSRREQ_FLAGS,
        /// The session at the control plane that it belonged to before.
        old_fseid: may FSeid = F_SEID,
    }
}

group! {
    /// Session Report Response (§7.5.9.1).
    SessionReportResponse<'a> {
        /// Result.
        cause: must Cause = CAUSE,
        /// What was wrong.
        offending: may u16 = OFFENDING_IE,
        /// How packets are buffered from now on.
        update_bar: may UpdateBarInReport = UPDATE_BAR_IN_SESSION_REPORT_RESPONSE,
        /// Flags.
        flags: may ReportResponseFlags = PFCPSRRSP_FLAGS,
        /// The session at the control plane that it belongs to from now on.
        fseid: may FSeid = F_SEID,
        /// That control plane, as it was sent.
        alternative: may Octets<'a> = ALTERNATIVE_SMF_IP_ADDRESS,
    }
}
