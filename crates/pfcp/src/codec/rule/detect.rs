//! PDRs, PDIs and traffic endpoints (§7.5.2.2, §7.5.2.7, §7.5.3.2, §7.5.4.2).

use crate::codec::element::{
    Bits, FTeid, FarId, Interface, OuterHeaderRemoval, PdrId, QerId, SdfFilter, Text, Time,
    TrafficEndpointId, UeIpAddress, UrrId,
};
use crate::codec::group::group;
use crate::codec::ie::*;

group! {
    /// Create PDR (§7.5.2.2).
    CreatePdr<'a> {
        /// Its number.
        id: must PdrId = PDR_ID,
        /// The PDR with the lowest value is searched first.
        precedence: must u32 = PRECEDENCE,
        /// What packets look like.
        pdi: must Pdi<'a> = PDI,
        /// The outer header that packets lose.
        outer_header_removal: may OuterHeaderRemoval = OUTER_HEADER_REMOVAL,
        /// What happens to packets.
        far: may FarId = FAR_ID,
        /// What measures packets.
        urrs: many UrrId = URR_ID,
        /// What polices and marks packets.
        qers: many QerId = QER_ID,
        /// Predefined rules in force.
        activate_predefined: many Text<'a> = ACTIVATE_PREDEFINED_RULES,
        /// Begin of its validity.
        activation: may Time = ACTIVATION_TIME,
        /// End of its validity.
        deactivation: may Time = DEACTIVATION_TIME,
    } refuse MAR_ID, PACKET_REPLICATION_AND_DETECTION_CARRY_ON_INFORMATION,
        IP_MULTICAST_ADDRESSING_INFO, UE_IP_ADDRESS_POOL_IDENTITY, TRANSPORT_DELAY_REPORTING
}

group! {
    /// Packet detection information (§7.5.2.2).
    Pdi<'a> {
        /// Where packets come from.
        source: must Interface = SOURCE_INTERFACE,
        /// The tunnel that packets come from.
        fteid: may FTeid = F_TEID,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// The user's addresses.
        ue_addresses: many UeIpAddress = UE_IP_ADDRESS,
        /// Traffic endpoints, in place of tunnel, address space and addresses.
        endpoints: many TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
        /// Filters; a packet matches one of them.
        filters: many SdfFilter<'a> = SDF_FILTER,
        /// The application of packets.
        application: may Text<'a> = APPLICATION_ID,
        /// QoS flows; a packet is of one of them.
        qfis: many Bits<6> = QFI,
        /// IPv4 networks behind the user.
        framed_routes: many Text<'a> = FRAMED_ROUTE,
        /// How framed routes are announced.
        framed_routing: may u32 = FRAMED_ROUTING,
        /// IPv6 networks behind the user.
        framed_ipv6_routes: many Text<'a> = FRAMED_IPV6_ROUTE,
        /// The kind of reference point, for statistics.
        interface_type: may Bits<6> = TGPP_INTERFACE_TYPE,
    } refuse ETHERNET_PDU_SESSION_INFORMATION, ETHERNET_PACKET_FILTER,
        REDUNDANT_TRANSMISSION_PARAMETERS, IP_MULTICAST_ADDRESSING_INFO, DNS_QUERY_RESPONSE_FILTER
}

group! {
    /// Update PDR (§7.5.4.2). What is absent stays.
    UpdatePdr<'a> {
        /// Its number.
        id: must PdrId = PDR_ID,
        /// The outer header that packets lose.
        outer_header_removal: may OuterHeaderRemoval = OUTER_HEADER_REMOVAL,
        /// The PDR with the lowest value is searched first.
        precedence: may u32 = PRECEDENCE,
        /// What packets look like.
        pdi: may Pdi<'a> = PDI,
        /// What happens to packets.
        far: may FarId = FAR_ID,
        /// What measures packets.
        urrs: many UrrId = URR_ID,
        /// What polices and marks packets.
        qers: many QerId = QER_ID,
        /// Predefined rules that come into force.
        activate_predefined: many Text<'a> = ACTIVATE_PREDEFINED_RULES,
        /// Predefined rules that end.
        deactivate_predefined: many Text<'a> = DEACTIVATE_PREDEFINED_RULES,
        /// Begin of its validity.
        activation: may Time = ACTIVATION_TIME,
        /// End of its validity.
        deactivation: may Time = DEACTIVATION_TIME,
    } refuse IP_MULTICAST_ADDRESSING_INFO, TRANSPORT_DELAY_REPORTING
}

group! {
    /// Remove PDR (§7.5.4.6).
    RemovePdr {
        /// Its number.
        id: must PdrId = PDR_ID,
    }
}

group! {
    /// Created PDR, and Updated PDR (§7.5.3.2, §7.5.5.5): what the user plane chose.
    CreatedPdr {
        /// Its number.
        id: must PdrId = PDR_ID,
        /// The tunnel endpoint.
        fteid: may FTeid = F_TEID,
        /// The user's addresses.
        ue_addresses: many UeIpAddress = UE_IP_ADDRESS,
    }
}

group! {
    /// Create Traffic Endpoint (§7.5.2.7).
    CreateTrafficEndpoint<'a> {
        /// Its number.
        id: must TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
        /// The tunnel.
        fteid: may FTeid = F_TEID,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// The user's addresses.
        ue_addresses: many UeIpAddress = UE_IP_ADDRESS,
        /// IPv4 networks behind the user.
        framed_routes: many Text<'a> = FRAMED_ROUTE,
        /// How framed routes are announced.
        framed_routing: may u32 = FRAMED_ROUTING,
        /// IPv6 networks behind the user.
        framed_ipv6_routes: many Text<'a> = FRAMED_IPV6_ROUTE,
        /// QoS flows.
        qfis: many Bits<6> = QFI,
        /// The kind of reference point, for statistics.
        interface_type: may Bits<6> = TGPP_INTERFACE_TYPE,
    } refuse ETHERNET_PDU_SESSION_INFORMATION, REDUNDANT_TRANSMISSION_PARAMETERS
}

group! {
    /// Update Traffic Endpoint (§7.5.4.13). What is absent stays.
    UpdateTrafficEndpoint<'a> {
        /// Its number.
        id: must TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
        /// The tunnel.
        fteid: may FTeid = F_TEID,
        /// The address space.
        network_instance: may Text<'a> = NETWORK_INSTANCE,
        /// The user's addresses.
        ue_addresses: many UeIpAddress = UE_IP_ADDRESS,
        /// IPv4 networks behind the user.
        framed_routes: many Text<'a> = FRAMED_ROUTE,
        /// How framed routes are announced.
        framed_routing: may u32 = FRAMED_ROUTING,
        /// IPv6 networks behind the user.
        framed_ipv6_routes: many Text<'a> = FRAMED_IPV6_ROUTE,
        /// QoS flows.
        qfis: many Bits<6> = QFI,
        /// The kind of reference point, for statistics.
        interface_type: may Bits<6> = TGPP_INTERFACE_TYPE,
    } refuse REDUNDANT_TRANSMISSION_PARAMETERS
}

group! {
    /// Remove Traffic Endpoint (§7.5.4.14).
    RemoveTrafficEndpoint {
        /// Its number.
        id: must TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
    }
}

group! {
    /// Created Traffic Endpoint (§7.5.3.5): what the user plane chose.
    CreatedTrafficEndpoint {
        /// Its number.
        id: must TrafficEndpointId = TRAFFIC_ENDPOINT_ID,
        /// The tunnel endpoint.
        fteid: may FTeid = F_TEID,
        /// The user's addresses.
        ue_addresses: many UeIpAddress = UE_IP_ADDRESS,
    }
}
