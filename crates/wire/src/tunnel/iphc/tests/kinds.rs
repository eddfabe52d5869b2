//! Which octets are sent, inferred or fixed, section by section of RFC 2507 §7.

use super::*;

/// IPv4 with options (record route) and UDP.
pub fn options4() -> Vec<u8> {
    hex("47 00 0024 1234 4000 40 11 aaaa 0a000001 c0000201 0707 04 0a000009 00 \
         03e8 07d0 0008 abcd")
}

/// IPv6 with hop-by-hop options (padding, router alert), destination options (an
/// unknown one), an authentication header, and UDP.
pub fn extensions6() -> Vec<u8> {
    hex("60000000 0030 00 40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         3c 00 0502 1234 0100 \
         33 00 1e03 556677 00 \
         11 04 0000 00000abc 00000001 111111112222222233333333 \
         03e8 07d0 0008 abcd")
}

/// IPv6, a fragment header, and what might be UDP.
pub fn fragment6() -> Vec<u8> {
    hex("60000000 0010 2c 40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         11 00 0009 12345678 03e8 07d0 0008 abcd")
}

/// Which octets of the headers may differ without another context.
fn may_differ(bytes: &[u8]) -> Vec<usize> {
    let form = chain(bytes);
    let differs = |at: &usize| {
        let mut other = bytes.to_vec();
        other[*at] ^= 1;
        form.unchanged(bytes, &other) && form.is_of(&bytes[..form.length()], &other)
    };
    (0..form.length()).filter(differs).collect()
}

/// The RANDOM octets of the headers.
fn sent(bytes: &[u8]) -> Vec<u8> {
    let mut out = Compressed::new();
    chain(bytes).write_random(bytes, true, &mut out);
    assert_eq!(out.len(), chain(bytes).sent_length(bytes));
    out.to_vec()
}

fn places(ranges: &[std::ops::Range<usize>]) -> Vec<usize> {
    ranges.iter().cloned().flatten().collect()
}

/// §7.13 b: a header with options is sent whole, and does not end the chain.
#[test]
fn ipv4_with_options_is_sent_whole() {
    let (bytes, form) = (options4(), chain(&options4()));
    assert_eq!((form.length(), form.transport()), (36, Transport::Udp));
    assert_eq!(sent(&bytes), [&bytes[..28], &hex("abcd")].concat());
    assert!(form.is_shortened(&bytes, 0) && !form.is_shortened(&bytes, 8));
    let mut inferred = bytes.clone();
    form.infer(&mut inferred, 40).unwrap();
    assert_eq!(inferred[..28], bytes[..28], "its length and checksum stay as they are sent");
    assert_eq!(inferred[32..34], [0, 12], "UDP's length is inferred");
    form.restore_lengths(&mut inferred, 40).unwrap();
    assert_eq!(inferred[2..4], [0, 40], "but full headers have a context in its length");
    // All of it may change but what makes another form of it, and UDP's own fields.
    let fixed = places(&[0..1, 6..8, 9..10]);
    assert!(may_differ(&bytes).iter().all(|at| !fixed.contains(at)));
    assert_eq!(may_differ(&bytes).iter().filter(|at| **at < 28).count(), 28 - 4);
}

/// §7.13 b: the size of the options tells no flow, so a header of the context may
/// come with others.
#[test]
fn options_of_another_length_are_followed() {
    let (bytes, form) = (options4(), chain(&options4()));
    let longer =
        hex("48 00 0028 1235 4000 3f 11 bbbb 0a000001 c0000201 0707 04 0a000009 00 01010101 1111");
    let mut header = room(&bytes);
    let (other, rest) = non_tcp::read_random(&form, &mut header, &longer).unwrap();
    assert!(rest.is_empty());
    assert_eq!((other.length(), other.transport_offset()), (40, 32));
    let wanted = [&longer[..32], &hex("03e8 07d0 0008 1111")].concat();
    assert_eq!(header[..40], wanted);
    // One without options is of another form, as is a fragment, and one cut off.
    let plain = [&hex("45")[..], &longer[1..]].concat();
    let mut fragment = longer.clone();
    fragment[6] = 0x20;
    for octets in [&plain[..], &fragment, &longer[..33], &longer[..30], &[]] {
        let read = non_tcp::read_random(&form, &mut room(&bytes), octets);
        assert_eq!(read, Err(Error::BadCompressedHeader));
    }
}

/// §7.13 b: a fragment is sent whole and ends the chain; in a tunnel the outer
/// header is compressed.
#[test]
fn fragments_of_ipv4_end_the_chain() {
    for place in [(6, 0x20), (7, 1)] {
        let mut fragment = udp4();
        fragment[place.0] |= place.1;
        let form = chain(&fragment);
        assert_eq!((form.length(), form.transport()), (20, Transport::Other));
        assert_eq!(sent(&fragment), fragment[..20]);
        assert_ne!(form.flow(&fragment), chain(&udp4()).flow(&udp4()), "never with packets");
        let mut tunnelled = hex("60000000 0020 04 40 20010db8000000000000000000000001 \
                                 20010db8000000000000000000000002");
        tunnelled.extend(&fragment);
        assert_eq!(chain(&tunnelled).length(), 60);
        assert_eq!(sent(&tunnelled), fragment[..20]);
        let other = [&fragment[..9], &[6], &fragment[10..]].concat();
        assert_eq!(form.flow(&fragment), chain(&other).flow(&other), "whatever it is of");
    }
}

/// §7.3, §7.4, §7.7, §7.9: data of options but padding, and of the authentication
/// header.
#[test]
fn extension_headers_have_random_octets() {
    let (bytes, form) = (extensions6(), chain(&extensions6()));
    assert_eq!((form.length(), form.transport()), (88, Transport::Udp));
    assert_eq!(sent(&bytes), hex("1234 556677 00000001 111111112222222233333333 abcd"));
    // With the length fields of IPv6 and UDP.
    let volatile = places(&[4..6, 44..46, 52..55, 64..80, 84..88]);
    assert_eq!(may_differ(&bytes), volatile);
    let mut header = room(&bytes);
    places(&[44..46, 52..55, 64..80, 86..88]).iter().for_each(|at| header[*at] = 0xee);
    let (other, _) = non_tcp::read_random(&form, &mut header, &sent(&bytes)).unwrap();
    assert_eq!((other, &header[..88]), (form, &bytes[..]));
    // The SPI is a field that defines the flow (§7.9).
    let mut spi = bytes.clone();
    spi[63] ^= 1;
    assert_ne!(form.flow(&bytes), chain(&spi).flow(&spi));
    // A jumbo payload is left alone (§7.4), as are options that do not fit.
    let mut jumbo = bytes.clone();
    jumbo[42..48].copy_from_slice(&hex("c204 00010000"));
    assert_eq!(Chain::walk(&jumbo), None);
    jumbo[42..44].copy_from_slice(&hex("0505"));
    assert_eq!(Chain::walk(&jumbo), None);
}

/// §7.6: the fragment header ends the chain and takes six octets.
#[test]
fn fragments_of_ipv6_end_the_chain() {
    let (bytes, form) = (fragment6(), chain(&fragment6()));
    assert_eq!((form.length(), form.transport()), (48, Transport::Other));
    assert_eq!(sent(&bytes), hex("0009 12345678"));
    assert_eq!(may_differ(&bytes), places(&[4..6, 42..48]));
}

/// §7.10: the chain ends with the SPI of a security payload.
#[test]
fn security_payloads_end_the_chain() {
    for front in [
        "45 00 0030 1234 4000 40 32 0000 0a000001 c0000201",
        "60000000 001c 32 40 20010db8000000000000000000000001 20010db8000000000000000000000002",
    ] {
        let bytes = [hex(front), hex("00000abc 00000001 11223344 11")].concat();
        let form = chain(&bytes);
        let length = bytes.len() - 13 + 4;
        assert_eq!((form.length(), form.transport()), (length, Transport::Other));
        assert!(may_differ(&bytes).iter().all(|at| *at < length - 4), "the SPI is NOCHANGE");
        let mut spi = bytes.clone();
        spi[length - 1] ^= 1;
        assert_ne!(form.flow(&bytes), chain(&spi).flow(&spi));
        assert_eq!(Chain::walk(&bytes[..length - 1]), None);
    }
}

/// §6 a, §7.13: with an authentication header in between, IPv4 is no unit with TCP:
/// its identification is RANDOM, and the R octet has nothing of it.
#[test]
fn ipv4_that_tcp_does_not_follow_immediately() {
    let old = hex("45 00 0040 0007 4000 40 33 0000 0a000001 c0000201 \
                   06 04 0000 00000abc 00000001 111111112222222233333333 \
                   9c40 01bb 00000064 000000c8 50 10 0200 aaaa 0000");
    assert_eq!(chain(&old).identification(), None);
    let mut new = old.clone();
    new[5] = 9;
    new[31] = 2;
    new[43] = 0x44;
    new[51] = 0x65;
    new[57] = 0xd0;
    let compressed = there_and_back(&old, &new, 0);
    let wanted = "03 88 aaaa 0009 00000002 111111112222222233333344 0c 01";
    assert_eq!(compressed, Some(hex(wanted)));
    new[1] = 1;
    assert!(!chain(&new).unchanged(&old, &new), "a congestion mark is another context");
    // Nor may the I flag be set there.
    let octets = hex("28 aaaa 0009 00000002 111111112222222233333344 01 05");
    let read = Delta::read(&chain(&old), &mut room(&old), 0, false, &octets);
    assert_eq!(read.unwrap_err(), Error::BadCompressedHeader);
}

/// §7.13 b and §6 a: so is a header with options in front of TCP, which goes whole.
#[test]
fn ipv4_with_options_in_front_of_tcp() {
    let old = hex("46 00 002c 0007 4000 40 06 1111 0a000001 c0000201 94040000 \
                   9c40 01bb 00000064 000000c8 50 10 0200 aaaa 0000");
    let mut new = old.clone();
    (new[1], new[5], new[11], new[31]) = (1, 200, 0x22, 0x65);
    let compressed = there_and_back(&old, &new, 0);
    assert_eq!(compressed, Some([&hex("03 08 aaaa")[..], &new[..24], &[1]].concat()));
    let mut out = Compressed::new();
    write_nodelta(&chain(&new), &new, ContextId(3), &mut out);
    assert_eq!(out[..], [&[3][..], &new[..24], &new[28..]].concat());
    let mut header = room(&old);
    assert_eq!(read_nodelta(&chain(&old), &mut header, &out[1..]), Ok((chain(&new), &[][..])));
    assert_eq!(header[..new.len()], new);
}

/// §5.2: the longest sequence of whole headers within MAX_HEADER octets.
#[test]
fn contexts_are_bounded() {
    let bytes = extensions6();
    for (most, length) in [(88, 88), (87, 80), (80, 80), (79, 56), (60, 56), (47, 40), (40, 40)] {
        let form = Chain::within(&bytes, most).unwrap();
        let transport = if length == 88 { Transport::Udp } else { Transport::Other };
        assert_eq!((form.length(), form.transport()), (length, transport), "{most}");
        assert_eq!(Chain::within(&bytes[..length], length), Some(form), "{most}");
    }
    assert_eq!(Chain::within(&bytes, 39), None);
    // Three headers at most, and no minimal encapsulation (§7.14).
    let mut minimal = udp4();
    minimal[9] = 55;
    assert_eq!(Chain::walk(&minimal), None);
}

#[test]
fn the_longest_compressed_header_fits() {
    let mut bytes = hex(
        "60000000 0000 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002",
    );
    bytes.extend([&[6, 15, 9, 124][..], &[7; 124]].concat());
    assert_eq!(bytes.len(), MAX_HEADER);
    let form = Chain::within(&bytes, MAX_HEADER).unwrap();
    let mut out = Compressed::new();
    non_tcp::write(
        &form,
        &bytes,
        non_tcp::Repr { id: ContextId(256), generation: Generation::new(1) },
        &mut out,
    );
    assert_eq!(out.len(), 3 + 124);
    // Three fragments in one another would be more; a chain has one, of 60 octets.
    let mut options = hex("4f 00 00a8 0007 4000 40 04 0000 0a000001 c0000201");
    options.extend([1; 40]);
    let mut twice = [&options[..], &options].concat();
    twice[60 + 9] = 6;
    twice.extend(&tcp4()[20..]);
    let (old, mut new) = (twice.clone(), twice);
    new[old.len() - 20 + 7] = 0x65;
    let compressed = there_and_back(&old, &new, 0).unwrap();
    assert_eq!(compressed.len(), 4 + 120 + 1);
}
