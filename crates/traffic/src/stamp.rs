//! What every packet carries in its UDP payload.

/// Where a packet comes from, and when it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number of its stream.
    pub stream: u16,
    /// Number of its flow within the stream, from 0: a user's bearers follow each
    /// other, then come those of the next user.
    pub flow: u32,
    /// How many packets of the flow went before it.
    pub sequence: u32,
    /// When it was sent, in cycles of the time-stamp counter.
    pub sent: u64,
}

impl Stamp {
    /// Bytes that a stamp takes: with Ethernet, IPv4 and UDP headers, those of
    /// the shortest Ethernet frame.
    pub const LENGTH: usize = 18;

    /// The stamp as it is sent, big endian.
    #[inline]
    pub fn octets(&self) -> [u8; Self::LENGTH] {
        let mut octets = [0; Self::LENGTH];
        octets[..2].copy_from_slice(&self.stream.to_be_bytes());
        octets[2..6].copy_from_slice(&self.flow.to_be_bytes());
        octets[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        octets[10..].copy_from_slice(&self.sent.to_be_bytes());
        octets
    }

    /// The stamp at the start of a payload; none when the payload is shorter
    /// than one.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Stamp> {
        let (stream, rest) = payload.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        Some(Stamp {
            stream: u16::from_be_bytes(*stream),
            flow: u32::from_be_bytes(*flow),
            sequence: u32::from_be_bytes(*sequence),
            sent: u64::from_be_bytes(*rest.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { stream: 0x0102, flow: 0x0304_0506, sequence: 7, sent: u64::MAX - 8 };
        let octets = stamp.octets();
        assert_eq!(octets[..6], [1, 2, 3, 4, 5, 6]);
        assert_eq!(Stamp::read(&octets), Some(stamp));
        assert_eq!(Stamp::read(&octets[..Stamp::LENGTH - 1]), None);
    }
}
