//! Why nothing comes of a packet for the node itself.

use weft_function::Reason;

/// What is counted of packets for the node itself of which nothing comes. They are among the
/// packets for the node itself, so these are no drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "ALL says what they mean")]
pub enum Ignored {
    PortUnknown,
    ProtocolUnknown,
    IcmpUnknown,
    IcmpMalformed,
    PingRefused,
    NeighbourMalformed,
    NeighbourRefused,
    GtpuMalformed,
    GtpuRefused,
}

impl Ignored {
    /// All of them, in order of their numbers.
    pub const ALL: [(Ignored, Reason); 9] = {
        use Ignored::*;
        [
            (
                PortUnknown,
                Reason::new("port_unknown", "UDP to a port that the node does not serve"),
            ),
            (
                ProtocolUnknown,
                Reason::new(
                    "protocol_unknown",
                    "a protocol that the node does not serve, or a part",
                ),
            ),
            (
                IcmpUnknown,
                Reason::new("icmp_unknown", "an ICMP message that the node does not act on"),
            ),
            (IcmpMalformed, Reason::new("icmp_malformed", "a malformed ICMP message")),
            (PingRefused, Reason::new("ping_refused", "an echo request that must not be answered")),
            (
                NeighbourMalformed,
                Reason::new("neighbour_malformed", "malformed ARP or neighbour discovery"),
            ),
            (
                NeighbourRefused,
                Reason::new(
                    "neighbour_refused",
                    "ARP or neighbour discovery that is not due, or not believed",
                ),
            ),
            (GtpuMalformed, Reason::new("gtpu_malformed", "a malformed GTP-U message")),
            (
                GtpuRefused,
                Reason::new("gtpu_refused", "a GTP-U message that is not due, or not believed"),
            ),
        ]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_at_its_number() {
        for (number, (ignored, reason)) in Ignored::ALL.iter().enumerate() {
            assert_eq!(*ignored as usize, number, "{}", reason.name);
        }
    }
}
