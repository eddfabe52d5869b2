//! The formats of RFC 2507 §6, octet by octet, and that no octets do harm.

use proptest::collection::vec;
use proptest::prelude::*;

mod figures;
mod kinds;

use super::tcp::{Delta, loss_is_hidden, read_nodelta, write_nodelta};
use super::*;
use crate::Error;
use crate::testing::{hex, hostile};

/// IPv4 and UDP, with four octets of data.
fn udp4() -> Vec<u8> {
    hex("45 00 0020 1234 4000 40 11 5c97 0a000001 c0000201 03e8 07d0 000c abcd 61626364")
}

/// IPv6, hop-by-hop options, TCP with a time stamp, and one octet of data.
fn tcp6() -> Vec<u8> {
    hex("60000000 0029 00 40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         06 00 01 04 00000000 \
         9c40 01bb 00000064 000000c8 80 10 0200 aaaa 0000 0101080a 00000001 00000002 78")
}

/// IPv4 and TCP without data.
fn tcp4() -> Vec<u8> {
    hex("45 00 0028 0007 4000 40 06 0000 0a000001 c0000201 9c40 01bb 00000064 000000c8 50 10 0200 \
         aaaa 0000")
}

/// Headers where a decompressor has them.
fn room(headers: &[u8]) -> [u8; MAX_HEADER] {
    let mut room = [0; MAX_HEADER];
    room[..headers.len()].copy_from_slice(headers);
    room
}

fn chain(bytes: &[u8]) -> Chain {
    Chain::walk(bytes).expect("a chain")
}

#[test]
fn chains_end_where_compression_does() {
    for (bytes, length, transport, at) in [
        (udp4(), 28, Transport::Udp, 20),
        (tcp6(), 80, Transport::Tcp, 48),
        (tcp4(), 40, Transport::Tcp, 20),
    ] {
        let chain = chain(&bytes);
        assert_eq!((chain.length(), chain.transport()), (length, transport));
        assert_eq!(chain.transport_offset(), at);
        for cut in 0..length {
            assert_eq!(Chain::walk(&bytes[..cut]), None, "{cut} octets");
        }
    }
    let mut echo = udp4();
    echo[9] = 1;
    assert_eq!((chain(&echo).length(), chain(&echo).transport()), (20, Transport::Other));
}

/// RFC 2507 §7: each octet of an IPv4 and UDP header is of its kind.
#[test]
fn octets_are_of_their_kinds() {
    let (bytes, chain) = (udp4(), chain(&udp4()));
    for place in 0..28 {
        let mut other = bytes.clone();
        other[place] ^= 1;
        let volatile = matches!(place, 2..6 | 10..12 | 24..28);
        assert_eq!(chain.unchanged(&bytes, &other), volatile, "octet {place}");
    }
    let mut none = bytes.clone();
    none[26..28].fill(0);
    assert!(!chain.unchanged(&bytes, &none), "a flow has checksums or none");
}

#[test]
fn lengths_and_checksums_are_inferred() {
    let (bytes, chain) = (udp4(), chain(&udp4()));
    assert!(chain.can_be_inferred(&bytes, 32) && !chain.can_be_inferred(&bytes, 33));
    let mut header = bytes[..28].to_vec();
    for field in [2..4, 10..12, 24..26] {
        header[field].fill(0);
    }
    chain.infer(&mut header, 32).unwrap();
    assert_eq!(header, bytes[..28]);
    assert_eq!(chain.infer(&mut header, 27), Err(Error::PayloadTooLong));
}

#[test]
fn full_headers_carry_the_context_in_their_lengths() {
    let (bytes, chain) = (udp4(), chain(&udp4()));
    for (id, first, second) in [(7, [0x05, 0x07], [0, 0]), (0x0102, [0x85, 0], [1, 2])] {
        let context =
            full::Context { id: ContextId(id), generation: Generation::new(5), number: 0 };
        let mut header = bytes[..28].to_vec();
        full::write(&chain, &mut header, context).unwrap();
        assert_eq!((&header[2..4], &header[24..26]), (&first[..], &second[..]));
        assert_eq!(full::read(&chain, &header), Ok(context));
    }
    let (mut header, chain) = (tcp4(), Chain::walk(&tcp4()).unwrap());
    let context = full::Context { id: ContextId(9), generation: Generation::default(), number: 0 };
    full::write(&chain, &mut header, context).unwrap();
    assert_eq!(header[2..4], [0, 9]);
    assert_eq!(full::read(&chain, &header), Ok(context));
    let wide = full::Context { id: ContextId(256), ..context };
    assert_eq!(full::write(&chain, &mut header, wide), Err(Error::BadCompressedHeader));
}

#[test]
fn headers_other_than_tcp() {
    let chain = chain(&udp4());
    for (id, front) in [(7, &[7, 5][..]), (0x0102, &[1, 0x85, 2])] {
        let repr = non_tcp::Repr { id: ContextId(id), generation: Generation::new(5) };
        let mut out = Compressed::new();
        non_tcp::write(&chain, &udp4(), repr, &mut out);
        // Identification, UDP checksum.
        assert_eq!(out[..], [front, &[0x12, 0x34, 0xab, 0xcd]].concat());
        let (read, rest) = non_tcp::read(&out).unwrap();
        assert_eq!(read, repr);
        let mut header = room(&udp4()[..28]);
        header[4..6].fill(1);
        header[26..28].fill(1);
        assert_eq!(non_tcp::read_random(&chain, &mut header, rest), Ok((chain, &[][..])));
        assert_eq!(header[..28], udp4()[..28]);
    }
    // An octet of data is passed over.
    assert_eq!(non_tcp::read(&[7, 0x45, 0xee, 1]).unwrap().1, [1]);
}

/// A compressed header for `new` behind `old`, and back.
fn there_and_back(old: &[u8], new: &[u8], data: u16) -> Option<Vec<u8>> {
    numbered_there_and_back(old, new, data, None)
}

fn numbered_there_and_back(
    old: &[u8],
    new: &[u8],
    data: u16,
    number: Option<u16>,
) -> Option<Vec<u8>> {
    let form = chain(new);
    let delta = Delta::between(&form, old, new)?.numbered(number);
    let mut out = Compressed::new();
    if !delta.write(&form, new, ContextId(3), data, &mut out) {
        return None;
    }
    let read = |header: &mut [u8; MAX_HEADER], end: usize| {
        let found = Delta::read(&chain(old), header, data, number.is_some(), &out[1..end]);
        found.map(|(delta, found, payload)| {
            assert_eq!((found, payload, delta.number()), (form, &[][..], number));
            delta.apply(&form, &mut header[..form.length()]);
        })
    };
    let mut header = room(old);
    read(&mut header, out.len()).unwrap();
    assert_eq!(&header[..new.len()], new);
    for cut in 1..out.len() {
        assert_eq!(read(&mut room(old), cut), Err(Error::BadCompressedHeader));
    }
    Some(out.to_vec())
}

#[test]
fn segments_by_their_differences() {
    let old = tcp4();
    let change = |changes: &[(usize, u8)]| {
        let mut new = old.clone();
        new[5] = 8; // the identification
        changes.iter().for_each(|(place, octet)| new[*place] = *octet);
        there_and_back(&old, &new, 100)
    };
    let by = |flags: u8, fields: &[u8]| Some([&[3, flags, 0xaa, 0xaa], fields].concat());
    assert_eq!(change(&[]), by(0x00, &[]));
    assert_eq!(change(&[(27, 0x65)]), by(0x08, &[1]), "sequence number");
    assert_eq!(change(&[(27, 200)]), by(0x0f, &[]), "by the data of the segment before");
    assert_eq!(change(&[(27, 200), (30, 1), (31, 44)]), by(0x0b, &[]), "both numbers");
    assert_eq!(change(&[(31, 201)]), by(0x04, &[1]), "acknowledgment");
    assert_eq!(change(&[(34, 1)]), by(0x02, &[0, 0xff, 0]), "window");
    assert_eq!(change(&[(33, 0x30), (39, 5)]), by(0x01, &[5]), "urgent pointer");
    assert_eq!(change(&[(33, 0x18)]), by(0x10, &[]), "push");
    assert_eq!(change(&[(33, 0xd0)]), by(0x80, &[0x0c]), "CWR and ECE");
    assert_eq!(change(&[(5, 9)]), by(0x20, &[2]), "identification");
    for flags in [0x11, 0x12, 0x14, 0x00, 0x08] {
        assert_eq!(change(&[(33, flags)]), None, "flags {flags:#x}");
    }
    assert_eq!(change(&[(27, 0x63)]), None, "a retransmission");
    assert_eq!(change(&[(39, 5)]), None, "an urgent pointer without its flag");
    let special = [(27, 0x65), (34, 1), (33, 0x30), (39, 5)];
    assert_eq!(change(&special), None, "a combination that means another");
}

/// RFC 2507 §7.12.1: ACK is inferred to be 1, RST, SYN and FIN to be 0.
#[test]
fn flags_are_inferred_and_not_those_of_the_context() {
    for flags in [0x11, 0x12, 0x14, 0x3f, 0x00] {
        let (mut old, mut new) = (tcp4(), tcp4());
        (old[33], new[5], new[27]) = (flags, 8, 0x65);
        assert_eq!(there_and_back(&old, &new, 0), Some(vec![3, 8, 0xaa, 0xaa, 1]), "{flags:#x}");
    }
}

#[test]
fn whole_segments() {
    let (old, chain) = (tcp4(), chain(&tcp4()));
    let mut new = [&old[..], &[1; 4]].concat();
    new[32] = 0x60;
    let mut out = Compressed::new();
    write_nodelta(&Chain::walk(&new).unwrap(), &new, ContextId(3), &mut out);
    assert_eq!(out.len(), 1 + 2 + 20, "CID, identification, TCP without ports");
    let mut header = room(&old);
    let longer = Chain::walk(&new).unwrap();
    assert_eq!(read_nodelta(&chain, &mut header, &out[1..]), Ok((longer, &[][..])));
    assert_eq!(header[..44], new);
    for cut in 1..out.len() {
        assert!(read_nodelta(&chain, &mut header, &out[1..cut]).is_err());
    }
}

#[test]
fn losses_that_a_checksum_does_not_show() {
    let (old, chain) = (tcp4(), chain(&tcp4()));
    let hidden = |changes: &[(usize, u8)]| {
        let mut new = old.clone();
        changes.iter().for_each(|(place, octet)| new[*place] = *octet);
        loss_is_hidden(&chain, &old, &new, false)
    };
    assert!(!hidden(&[]), "nothing is lost by it");
    assert!(hidden(&[(5, 8)]), "an identification alone");
    assert!(!hidden(&[(5, 8), (27, 0x65)]), "with a sequence number");
    assert!(hidden(&[(31, 0xc9), (34, 1), (35, 0xff)]), "acknowledgment and window");
    assert!(hidden(&[(31, 0xc9), (34, 1), (35, 0xff), (27, 0x65)]), "even beside another");
}

#[test]
fn checksums_behind_a_routing_header() {
    let mut bytes = tcp6();
    let mut routing = vec![6, 2, 0, 1, 0, 0, 0, 0];
    routing.extend([0x20; 16]);
    bytes.splice(40..48, routing);
    bytes[6] = 43;
    let chain = chain(&bytes);
    let source = std::net::Ipv6Addr::from(crate::octets::array::<16>(&bytes, 8..24));
    let pseudo_header =
        crate::checksum::PseudoHeader::V6 { source, destination: [0x20; 16].into() };
    let at = chain.transport_offset();
    let mut segment = crate::tcp::Segment::new_checked(&mut bytes[at..]).unwrap();
    segment.fill_checksum(&pseudo_header);
    let (header, payload) = bytes.split_at(chain.length());
    assert!(chain.tcp_checksum_is_right(header, payload));
    let mut arrived = header.to_vec();
    arrived[43] = 0;
    assert!(!chain.tcp_checksum_is_right(&arrived, payload), "no segment is left");
}

proptest! {
    #[test]
    fn no_octets_panic(
        bytes in prop_oneof![
            hostile(udp4()), hostile(tcp6()), hostile(tcp4()),
            hostile(kinds::options4()), hostile(kinds::extensions6()), hostile(kinds::fragment6()),
        ],
        compressed in vec(any::<u8>(), 0..100),
        data: u16,
    ) {
        let Some(chain) = Chain::walk(&bytes) else { return Ok(()) };
        prop_assert!(chain.length() <= bytes.len().min(MAX_HEADER));
        let mut header = bytes[..chain.length()].to_vec();
        chain.restore_lengths(&mut header, bytes.len()).unwrap();
        chain.infer(&mut header, bytes.len()).unwrap();
        prop_assert!(chain.can_be_inferred(&header, bytes.len()));
        if let Ok(context) = full::read(&chain, &bytes) {
            let mut written = bytes.clone();
            if full::write(&chain, &mut written, context).is_ok() {
                prop_assert_eq!(full::read(&chain, &written), Ok(context));
            }
        }
        let mut out = Compressed::new();
        chain.write_random(&header, true, &mut out);
        prop_assert_eq!(chain.sent_length(&header), out.len());
        let mut place = room(&header);
        let read = non_tcp::read_random(&chain, &mut place, &out);
        prop_assert_eq!(read, Ok((chain, &[][..])));
        prop_assert_eq!(&place[..header.len()], &header[..]);
        if let Ok((_, rest)) = non_tcp::read(&compressed)
            && let Ok((other, _)) = non_tcp::read_random(&chain, &mut place, rest)
        {
            prop_assert_eq!(Chain::within(&place[..other.length()], other.length()), Some(other));
        }
        place = room(&header);
        if let Ok((delta, other, _)) = Delta::read(&chain, &mut place, data, false, &compressed) {
            delta.apply(&other, &mut place[..other.length()]);
        }
        read_nodelta(&chain, &mut room(&header), &compressed).ok();
        chain.tcp_checksum_is_right(&header, &compressed);
    }

    #[test]
    fn any_two_segments(numbers in any::<[u32; 2]>(), fields in any::<[u16; 4]>(), flags: u8) {
        let (old, mut new) = (tcp4(), tcp4());
        new[4..6].copy_from_slice(&fields[0].to_be_bytes());
        new[24..28].copy_from_slice(&(100 + (numbers[0] & 0x1ffff)).to_be_bytes());
        new[28..32].copy_from_slice(&(200 + (numbers[1] & 0x1ffff)).to_be_bytes());
        new[33] = flags & 0xe8 | 0x10;
        new[34..36].copy_from_slice(&fields[1].to_be_bytes());
        new[36..38].copy_from_slice(&fields[2].to_be_bytes());
        new[38..40].copy_from_slice(&fields[3].to_be_bytes());
        there_and_back(&old, &new, fields[3]);
    }
}
