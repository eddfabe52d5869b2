//! Why the node itself drops packets.

use weft_function::{Reason, StepData};

/// Why the node itself drops packets; functions have reasons of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the texts below say what each means")]
pub enum DropReason {
    Segmented,
    EthernetMalformed,
    VlanMalformed,
    EtherTypeUnknown,
    PppoeMalformed,
    Ipv4Malformed,
    Ipv4Checksum,
    Ipv6Malformed,
    TransportMalformed,
    GtpuMalformed,
    GtpuExtensionUnknown,
    GtpuPayloadUnknown,
    OuterFragment,
    TunnelledToUs,
    NotForUs,
    Martian,
    UnknownUser,
    UnknownTeid,
    BearerDrop,
    BufferFull,
    BuffersExhausted,
    NotLoaded,
    NoRule,
    Rule,
    Loop,
    BurstFull,
    KeptFull,
    UserRemoved,
    TtlExceeded,
    PacketTooBig,
    PortGone,
    PortFull,
    NoRoute,
    NeighbourPending,
    NeighbourUnreachable,
    WorkerRingFull,
    PoolExhausted,
    LocalFull,
    NeighbourFull,
    NeighbourRequestRate,
    NeighbourAnswerRate,
    PingRate,
    EchoRequestRate,
    EchoResponseRate,
    GtpuMessageRate,
    LocalSourceRate,
    Overload,
    Backpressure,
    FunctionDown,
    HoldFull,
    FunctionLost,
    FunctionFull,
    FunctionMalformed,
    FunctionTooLong,
    NoOwner,
    TunnelWrongPeer,
    StaleEpoch,
    GateFull,
    NshMalformed,
    VxlanMalformed,
    NshPayloadUnknown,
    NshPathUnknown,
    NshWrongPeer,
    NshTtlExceeded,
    Stopped,
    TakenOver,
}

impl DropReason {
    /// All reasons, in order of their numbers.
    pub const ALL: &'static [(DropReason, Reason)] = {
        use DropReason::*;
        &[
            (Segmented, Reason::new("segmented", "longer than one buffer")),
            (
                EthernetMalformed,
                Reason::new("ethernet_malformed", "shorter than an Ethernet header"),
            ),
            (
                VlanMalformed,
                Reason::new("vlan_malformed", "VLAN tag cut off, reserved, or a third"),
            ),
            (EtherTypeUnknown, Reason::new("ethertype_unknown", "neither IPv4 nor IPv6")),
            (
                PppoeMalformed,
                Reason::new("pppoe_malformed", "PPPoE other than of a session, or cut off"),
            ),
            (Ipv4Malformed, Reason::new("ipv4_malformed", "impossible lengths in the IPv4 header")),
            (Ipv4Checksum, Reason::new("ipv4_checksum", "wrong IPv4 header checksum")),
            (
                Ipv6Malformed,
                Reason::new("ipv6_malformed", "impossible lengths or extension headers"),
            ),
            (
                TransportMalformed,
                Reason::new("transport_malformed", "impossible UDP or TCP header"),
            ),
            (GtpuMalformed, Reason::new("gtpu_malformed", "impossible GTP-U or extension header")),
            (
                GtpuExtensionUnknown,
                Reason::new(
                    "gtpu_extension_unknown",
                    "a GTP-U extension header that all must know is not known",
                ),
            ),
            (
                GtpuPayloadUnknown,
                Reason::new("gtpu_payload_unknown", "a tunnel carries neither IPv4 nor IPv6"),
            ),
            (
                OuterFragment,
                Reason::new("outer_fragment", "a fragment of a UDP datagram to the node itself"),
            ),
            (
                TunnelledToUs,
                Reason::new("tunnelled_to_us", "a packet in a tunnel is for the node itself"),
            ),
            (NotForUs, Reason::new("not_for_us", "addressed to another station of the link")),
            (Martian, Reason::new("martian", "an address that no router forwards")),
            (
                UnknownUser,
                Reason::new("unknown_user", "no user has this address, VLAN, flow or port"),
            ),
            (UnknownTeid, Reason::new("unknown_teid", "no user has this TEID")),
            (BearerDrop, Reason::new("bearer_drop", "the bearer's action is to drop")),
            (BufferFull, Reason::new("buffer_full", "more waits for an idle bearer than may")),
            (
                BuffersExhausted,
                Reason::new("buffers_exhausted", "more waits for all idle bearers than may"),
            ),
            (
                NotLoaded,
                Reason::new(
                    "not_loaded",
                    "the node has just started, and more waits for contexts of users than may",
                ),
            ),
            (NoRule, Reason::new("no_rule", "no rule says where the packet goes")),
            (Rule, Reason::new("rule", "a rule sends the packet to drop")),
            (Loop, Reason::new("loop", "went round in the rules too often")),
            (
                BurstFull,
                Reason::new("burst_full", "a function emitted more than there was room for"),
            ),
            (KeptFull, Reason::new("kept_full", "more packets kept than the user's queue holds")),
            (UserRemoved, Reason::new("user_removed", "kept for a user that was removed")),
            (TtlExceeded, Reason::new("ttl_exceeded", "TTL or hop limit used up")),
            (PacketTooBig, Reason::new("packet_too_big", "longer than the MTU and not to be cut")),
            (PortGone, Reason::new("port_gone", "the port's device has disappeared")),
            (PortFull, Reason::new("port_full", "the port's transmit queue was full")),
            (NoRoute, Reason::new("no_route", "no subnet or gateway of the port leads there")),
            (NeighbourPending, Reason::new("neighbour_pending", "too many wait for one address")),
            (
                NeighbourUnreachable,
                Reason::new("neighbour_unreachable", "next hop does not answer"),
            ),
            (
                WorkerRingFull,
                Reason::new("worker_ring_full", "the ring to another worker was full"),
            ),
            (PoolExhausted, Reason::new("pool_exhausted", "no buffer left for a new packet")),
            (LocalFull, Reason::new("local_full", "too many packets for the node itself at once")),
            (NeighbourFull, Reason::new("neighbour_full", "too many neighbour messages at once")),
            (
                NeighbourRequestRate,
                Reason::new(
                    "neighbour_request_rate",
                    "more ARP requests and neighbour solicitations than are answered",
                ),
            ),
            (
                NeighbourAnswerRate,
                Reason::new(
                    "neighbour_answer_rate",
                    "more ARP replies and neighbour advertisements than are read",
                ),
            ),
            (PingRate, Reason::new("ping_rate", "more echo requests than are answered")),
            (
                EchoRequestRate,
                Reason::new("echo_request_rate", "more GTP-U Echo Requests than are answered"),
            ),
            (
                EchoResponseRate,
                Reason::new("echo_response_rate", "more GTP-U Echo Responses than are read"),
            ),
            (
                GtpuMessageRate,
                Reason::new("gtpu_message_rate", "more other GTP-U messages than are read"),
            ),
            (
                LocalSourceRate,
                Reason::new("local_source_rate", "more for the node itself than one sender may"),
            ),
            (
                Overload,
                Reason::new("overload", "more came than the worker carries within `limits.delay`"),
            ),
            (
                Backpressure,
                Reason::new("backpressure", "the ring of a function further on was full"),
            ),
            (FunctionDown, Reason::new("function_down", "the process of a function is not there")),
            (
                HoldFull,
                Reason::new("hold_full", "more waits for the process of a function than may"),
            ),
            (FunctionLost, Reason::new("function_lost", "the process of a function has lost it")),
            (
                FunctionFull,
                Reason::new(
                    "function_full",
                    "the ring of a function was full, beyond what was let in",
                ),
            ),
            (
                FunctionMalformed,
                Reason::new(
                    "function_malformed",
                    "came back malformed from the process of a function",
                ),
            ),
            (
                FunctionTooLong,
                Reason::new("function_too_long", "too long for the ring of a function"),
            ),
            (NoOwner, Reason::new("no_owner", "the user moves, and is not here")),
            (
                TunnelWrongPeer,
                Reason::new(
                    "tunnel_wrong_peer",
                    "in a tunnel of a user that moves, from an address that no peer has",
                ),
            ),
            (
                StaleEpoch,
                Reason::new("stale_epoch", "in a tunnel that a move of the user has ended"),
            ),
            (GateFull, Reason::new("gate_full", "more waits for the end of a move than may")),
            (NshMalformed, Reason::new("nsh_malformed", "impossible service or context header")),
            (
                VxlanMalformed,
                Reason::new("vxlan_malformed", "impossible VXLAN-GPE header, or not with NSH"),
            ),
            (
                NshPayloadUnknown,
                Reason::new(
                    "nsh_payload_unknown",
                    "a service header carries neither Ethernet nor IP",
                ),
            ),
            (
                NshPathUnknown,
                Reason::new("nsh_path_unknown", "no path has this service path and index"),
            ),
            (
                NshWrongPeer,
                Reason::new(
                    "nsh_wrong_peer",
                    "a service header at another port or from another sender than its path's",
                ),
            ),
            (NshTtlExceeded, Reason::new("nsh_ttl_exceeded", "TTL of the service header used up")),
            (Stopped, Reason::new("stopped", "still waiting for something as the node stopped")),
            (
                TakenOver,
                Reason::new(
                    "taken_over",
                    "still waiting for its bearer or a function as another process got the node, \
                     or another node its share",
                ),
            ),
        ]
    };

    /// Name and meaning.
    pub fn reason(self) -> Reason {
        Self::ALL[self as usize].1
    }
}

/// The parser leaves it in a packet that is not to be carried.
impl StepData for DropReason {
    #[inline]
    fn to_bits(self) -> u32 {
        self as u32
    }

    #[inline]
    fn from_bits(bits: u32) -> DropReason {
        let known = DropReason::ALL.get(bits as usize);
        known.map_or(DropReason::Segmented, |(reason, ..)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_number_and_names_are_unique() {
        for (number, (reason, text)) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number, "{text}");
            let same = DropReason::ALL.iter().filter(|(_, other)| other.name == text.name);
            assert_eq!(same.count(), 1, "{text}");
        }
    }
}
