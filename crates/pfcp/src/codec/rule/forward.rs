//! FARs (§7.5.2.3, §7.5.4.3).

use crate::codec::element::{
    ApplyAction, BarId, Bits, Change, FarId, ForwardingPolicy, Interface, ModificationFlags,
    OuterHeaderCreation, RedirectInformation, Text, TrafficEndpointId, TransportLevelMarking,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Create FAR (§7.5.2.3).
    CreateFar<'a> {
        /// Its number.
        id: must FarId = FAR_ID,
        /// What happens to packets.
        action: must ApplyAction = APPLY_ACTION,
        /// Where packets go.
        forwarding: may ForwardingParameters<'a> = FORWARDING_PARAMETERS,
        /// Where copies go.
        duplicating: many DuplicatingParameters<'a> = DUPLICATING_PARAMETERS,
        /// How packets are buffered.
        bar: may BarId = BAR_ID,
    } refuse REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS
}

group! {
    /// Forwarding Parameters (§7.5.2.3).
    ForwardingParameters<'a> {
        /// Where packets go.
        destination: must Interface = DESTINATION_INTERFACE,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// Where HTTP requests go.
        redirect: may RedirectInformation<'a> = REDIRECT_INFORMATION,
        /// The outer header that packets get.
        outer_header: may OuterHeaderCreation = OUTER_HEADER_CREATION,
        /// ToS or Traffic Class of the outer header.
        marking: may TransportLevelMarking = TRANSPORT_LEVEL_MARKING,
        /// A configured policy.
        policy: may ForwardingPolicy<'a> = FORWARDING_POLICY,
        /// The traffic endpoint of the same tunnel.
        endpoint: may TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
        /// The kind of reference point, for statistics.
        interface_type: may Bits<6> = TGPP_INTERFACE_TYPE,
    } refuse HEADER_ENRICHMENT, PROXYING, DATA_NETWORK_ACCESS_IDENTIFIER
}

group! {
    /// Duplicating Parameters (§7.5.2.3).
    DuplicatingParameters<'a> {
        /// Where copies go.
        destination: must Interface = DESTINATION_INTERFACE,
        /// The outer header that copies get.
        outer_header: may OuterHeaderCreation = OUTER_HEADER_CREATION,
        /// ToS or Traffic Class of the outer header.
        marking: may TransportLevelMarking = TRANSPORT_LEVEL_MARKING,
        /// A configured policy.
        policy: may ForwardingPolicy<'a> = FORWARDING_POLICY,
    }
}

group! {
    /// Update FAR (§7.5.4.3). What is absent stays.
    UpdateFar<'a> {
        /// Its number.
        id: must FarId = FAR_ID,
        /// What happens to packets.
        action: may ApplyAction = APPLY_ACTION,
        /// Where packets go.
        forwarding: may UpdateForwardingParameters<'a> = UPDATE_FORWARDING_PARAMETERS,
        /// Where copies go.
        duplicating: many UpdateDuplicatingParameters<'a> = UPDATE_DUPLICATING_PARAMETERS,
        /// How packets are buffered.
        bar: may BarId = BAR_ID,
    } refuse REDUNDANT_TRANSMISSION_FORWARDING_PARAMETERS
}

group! {
    /// Update Forwarding Parameters (§7.5.4.3). What is absent stays.
    UpdateForwardingParameters<'a> {
        /// Where packets go.
        destination: may Interface = DESTINATION_INTERFACE,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// Where HTTP requests go.
        redirect: may Change<RedirectInformation<'a>> = REDIRECT_INFORMATION,
        /// The outer header that packets get.
        outer_header: may Change<OuterHeaderCreation> = OUTER_HEADER_CREATION,
        /// ToS or Traffic Class of the outer header.
        marking: may Change<TransportLevelMarking> = TRANSPORT_LEVEL_MARKING,
        /// A configured policy.
        policy: may Change<ForwardingPolicy<'a>> = FORWARDING_POLICY,
        /// Whether the old tunnel ends with an End Marker.
        flags: may ModificationFlags = PFCPSMREQ_FLAGS,
        /// The traffic endpoint of the same tunnel.
        endpoint: may Change<TrafficEndpointId> = TRAFFIC_ENDPOINT_ID,
        /// The kind of reference point, for statistics.
        interface_type: may Bits<6> = TGPP_INTERFACE_TYPE,
    } refuse HEADER_ENRICHMENT, DATA_NETWORK_ACCESS_IDENTIFIER
}

group! {
    /// Update Duplicating Parameters (§7.5.4.3). What is absent stays.
    UpdateDuplicatingParameters<'a> {
        /// Where copies go.
        destination: may Interface = DESTINATION_INTERFACE,
        /// The outer header that copies get.
        outer_header: may Change<OuterHeaderCreation> = OUTER_HEADER_CREATION,
        /// ToS or Traffic Class of the outer header.
        marking: may Change<TransportLevelMarking> = TRANSPORT_LEVEL_MARKING,
        /// A configured policy.
        policy: may Change<ForwardingPolicy<'a>> = FORWARDING_POLICY,
    }
}

group! {
    /// Remove FAR (§7.5.4.7).
    RemoveFar {
        /// Its number.
        id: must FarId = FAR_ID,
    }
}
