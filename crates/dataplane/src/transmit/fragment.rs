//! Fragments of IPv4 packets that exceed the MTU of the link they leave on
//! (RFC 791 §3.2).
//!
//! A fragment is described, not made: its header as bytes, and where in the
//! packet its payload lies. The caller copies both into a buffer of its own, so
//! nothing is allocated here. Whether a packet may be fragmented at all (its DF
//! flag, and IPv6, which is fragmented by its sender only) is for the caller to
//! decide.

use std::ops::Range;

use arrayvec::ArrayVec;
use weft_wire::ipv4::{self, MAX_HEADER_LENGTH};
use weft_wire::options::{self, NO_OPERATION, Options};

/// Payloads of all fragments but the last are multiples of this many octets.
const UNIT: usize = 8;
/// Payload octets that a reassembled datagram can have at most: its total
/// length has 16 bits.
const MAX_DATAGRAM: usize = u16::MAX as usize;

/// Why a packet cannot be fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfragmentable {
    /// The header is not one of IPv4, or its options are malformed.
    #[error("malformed IPv4 header: {0}")]
    Malformed(#[from] weft_wire::Error),
    /// The MTU has no room for the header and 8 octets of payload; every
    /// link takes 68 octets (RFC 791 §3.2).
    #[error("the MTU has no room for a header and 8 octets of payload")]
    MtuTooSmall,
    /// The packet is a fragment that ends beyond the longest datagram.
    #[error("the fragment ends beyond the longest datagram")]
    BeyondDatagram,
}

/// One fragment of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its header with options, lengths and checksum.
    pub header: ArrayVec<u8, MAX_HEADER_LENGTH>,
    /// Where its payload lies in the bytes of the packet.
    pub payload: Range<usize>,
}

/// The fragments of one packet, in ascending order.
#[derive(Clone, Debug)]
pub struct Fragments {
    /// Header of the next fragment, but for lengths, offset and flags.
    header: ipv4::Repr,
    /// Options of all fragments but the first.
    copied_options: Options,
    /// Another fragment follows the packet itself.
    more_follow: bool,
    /// What is left of the payload, as it lies in the packet; `None` at the end.
    rest: Option<Range<usize>>,
    mtu: usize,
}

/// Fragments of `packet` of at most `mtu` octets each, headers included. The
/// bytes begin with the IPv4 header and may go on behind the packet. The packet
/// may itself be a fragment; one that fits the MTU comes out as it is.
///
/// # Errors
/// See [`Unfragmentable`].
pub fn fragments(packet: &[u8], mtu: u16) -> Result<Fragments, Unfragmentable> {
    let packet = ipv4::Packet::new_checked(packet)?;
    let (header, mtu) = (ipv4::Repr::parse(&packet), usize::from(mtu));
    let (start, end) = (packet.header_length(), usize::from(packet.total_length()));
    if end > mtu && start + UNIT > mtu {
        return Err(Unfragmentable::MtuTooSmall);
    }
    if usize::from(header.fragment_offset) + end - start > MAX_DATAGRAM {
        return Err(Unfragmentable::BeyondDatagram);
    }
    Ok(Fragments {
        copied_options: copied_options(packet.options())?,
        more_follow: header.more_fragments,
        header,
        rest: Some(start..end),
        mtu,
    })
}

/// The options that every fragment carries: those with the copied flag (RFC 791
/// §3.1). The others stand in the first one only.
fn copied_options(options: &[u8]) -> Result<Options, weft_wire::Error> {
    const COPIED: u8 = 0x80;
    let mut copied = ArrayVec::<u8, { options::MAX_LENGTH }>::new();
    for option in options::walk(options) {
        let option = option?;
        if option.kind & COPIED != 0 {
            copied.extend([option.kind, option.data.len() as u8 + 2]);
            copied.extend(option.data.iter().copied());
        }
    }
    while copied.len() % 4 != 0 {
        copied.push(NO_OPERATION);
    }
    Ok(Options::new(&copied).unwrap_or_default())
}

impl Iterator for Fragments {
    type Item = Fragment;

    fn next(&mut self) -> Option<Fragment> {
        let rest = self.rest.take()?;
        let room = self.mtu.saturating_sub(self.header.buffer_len());
        let is_last = rest.len() <= room;
        let length = if is_last { rest.len() } else { room - room % UNIT };
        let end = rest.start + length;

        self.header.payload_length = length as u16;
        self.header.more_fragments = self.more_follow || !is_last;
        let mut header = ArrayVec::from([0; MAX_HEADER_LENGTH]);
        self.header.emit(&mut header).ok()?;
        header.truncate(self.header.buffer_len());

        if !is_last {
            self.rest = Some(end..rest.end);
            self.header.fragment_offset += length as u16;
            self.header.options = self.copied_options;
        }
        Some(Fragment { header, payload: rest.start..end })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weft_wire::ip::Protocol;

    use super::*;

    fn packet(header: ipv4::Repr, payload: &[u8]) -> Vec<u8> {
        let header = ipv4::Repr { payload_length: payload.len() as u16, ..header };
        let mut bytes = vec![0; header.buffer_len()];
        header.emit(&mut bytes).unwrap();
        bytes.extend(payload);
        bytes
    }

    fn header(options: &[u8]) -> ipv4::Repr {
        ipv4::Repr {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            protocol: Protocol::UDP,
            identification: 0x1234,
            options: Options::new(options).unwrap(),
            ..Default::default()
        }
    }

    /// The fragments as packets of their own.
    fn cut(bytes: &[u8], mtu: u16) -> Vec<Vec<u8>> {
        let join = |one: Fragment| [&one.header, &bytes[one.payload]].concat();
        fragments(bytes, mtu).unwrap().map(join).collect()
    }

    fn reassemble(pieces: &[Vec<u8>]) -> Vec<u8> {
        let views: Vec<_> =
            pieces.iter().map(|piece| ipv4::Packet::new_checked(&piece[..]).unwrap()).collect();
        let start = views[0].fragment_offset();
        let mut payload = Vec::new();
        for view in &views {
            assert_eq!(usize::from(view.fragment_offset() - start), payload.len());
            payload.extend(view.payload());
        }
        let last = &views[views.len() - 1];
        let header =
            ipv4::Repr { more_fragments: last.more_fragments(), ..ipv4::Repr::parse(&views[0]) };
        packet(header, &payload)
    }

    #[test]
    fn a_packet_in_two() {
        #[rustfmt::skip]
        let bytes = [
            0x45, 0x00, 0x00, 0x23, 0xab, 0xcd, 0x00, 0x00, 0x40, 0x11, 0x03, 0x4b,
            10, 0, 0, 1, 192, 168, 1, 9,
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
            // Padding of the frame.
            0xff, 0xff,
        ];
        #[rustfmt::skip]
        let [first, second] = [
            [0x45, 0x00, 0x00, 0x1c, 0xab, 0xcd, 0x20, 0x00, 0x40, 0x11, 0xe3, 0x51,
             10, 0, 0, 1, 192, 168, 1, 9],
            [0x45, 0x00, 0x00, 0x1b, 0xab, 0xcd, 0x00, 0x01, 0x40, 0x11, 0x03, 0x52,
             10, 0, 0, 1, 192, 168, 1, 9],
        ];
        let pieces: Vec<_> = fragments(&bytes, 34).unwrap().collect();
        assert_eq!(pieces[0].header[..], first);
        assert_eq!(pieces[0].payload, 20..28);
        assert_eq!(pieces[1].header[..], second);
        assert_eq!(pieces[1].payload, 28..35);
        assert_eq!(pieces.len(), 2);
    }

    #[test]
    fn later_fragments_carry_the_copied_options_only() {
        // Record route is not copied; strict source route is.
        let (record, source) = ([7, 7, 4, 0, 0, 0, 0], [0x89, 7, 4, 203, 0, 113, 1]);
        let bytes = packet(header(&[&record[..], &source].concat()), &[0; 64]);
        let pieces = cut(&bytes, 68);
        let options =
            |piece: &Vec<u8>| ipv4::Packet::new_checked(&piece[..]).unwrap().options().to_vec();
        assert_eq!(options(&pieces[0]), bytes[20..36]);
        assert_eq!(options(&pieces[1]), [&source[..], &[NO_OPERATION]].concat());
        assert_eq!(reassemble(&pieces), bytes);
    }

    #[test]
    fn what_fits_comes_out_as_it_is() {
        for payload in [&[][..], &[1; 480]] {
            let bytes = packet(header(&[]), payload);
            let mtu = bytes.len() as u16;
            assert_eq!(cut(&bytes, mtu), [bytes]);
        }
    }

    #[test]
    fn a_fragment_is_cut_within_its_datagram() {
        let fragment = ipv4::Repr { fragment_offset: 800, more_fragments: true, ..header(&[]) };
        let bytes = packet(fragment, &[7; 160]);
        let pieces = cut(&bytes, 100);
        let places: Vec<_> = pieces
            .iter()
            .map(|piece| ipv4::Packet::new_checked(&piece[..]).unwrap())
            .map(|view| (view.fragment_offset(), view.more_fragments()))
            .collect();
        assert_eq!(places, [(800, true), (880, true)]);
        assert_eq!(reassemble(&pieces), bytes);
    }

    #[test]
    fn what_cannot_be_cut() {
        use weft_wire::Error;
        let cut = |bytes: &[u8], mtu| fragments(bytes, mtu).map(|_| ()).unwrap_err();
        let bytes = packet(header(&[]), &[0; 100]);
        assert_eq!(cut(&bytes, 27), Unfragmentable::MtuTooSmall);
        assert_eq!(cut(&bytes[..50], 68), Unfragmentable::Malformed(Error::BadTotalLength));
        let bytes = packet(header(&[0x89, 9, 4, 0]), &[0; 100]);
        assert_eq!(cut(&bytes, 68), Unfragmentable::Malformed(Error::BadOption));
        let end = ipv4::Repr { fragment_offset: 65528, ..header(&[]) };
        assert_eq!(cut(&packet(end, &[0; 8]), 68), Unfragmentable::BeyondDatagram);
        assert!(fragments(&packet(end, &[0; 7]), 68).is_ok());
    }

    /// Well-formed options: kind and data.
    fn any_options() -> impl Strategy<Value = Vec<u8>> {
        let option = (2u8.., vec(any::<u8>(), 0..8))
            .prop_map(|(kind, data)| [&[kind, data.len() as u8 + 2][..], &data].concat());
        vec(option, 0..4).prop_map(|options| options.concat())
    }

    proptest! {
        #[test]
        fn fragments_reassemble_to_the_packet(
            options in any_options(),
            payload in vec(any::<u8>(), 0..3000),
            mtu in 68u16..2000,
            units in 0u16..7000,
            more_fragments: bool,
        ) {
            let fragment_offset = units * 8;
            let header = ipv4::Repr { fragment_offset, more_fragments, ..header(&options) };
            let bytes = packet(header, &payload);
            let pieces = cut(&bytes, mtu);
            for piece in &pieces {
                prop_assert!(piece.len() <= usize::from(mtu));
                let view = ipv4::Packet::new_checked(&piece[..]).unwrap();
                prop_assert_eq!(view.verify_checksum(), Ok(()));
                prop_assert_eq!(usize::from(view.total_length()), piece.len());
            }
            prop_assert_eq!(reassemble(&pieces), bytes);
        }

        #[test]
        fn any_bytes_have_bounded_fragments(
            mut bytes in vec(any::<u8>(), 0..200),
            looks_right: bool,
            mtu: u16,
        ) {
            if looks_right && bytes.len() >= 20 {
                bytes[0] = 0x45 + bytes[0] % 4;
                let length = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
            }
            if let Ok(pieces) = fragments(&bytes, mtu) {
                let mut end = pieces.rest.clone().unwrap().start;
                for piece in pieces {
                    prop_assert_eq!(piece.payload.start, end);
                    end = piece.payload.end;
                }
                prop_assert!(end <= bytes.len());
            }
        }
    }
}
