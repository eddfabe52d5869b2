//! The figures of RFC 2507 §5.3, §6 and §10.2, octet by octet.

use super::*;

/// IPv6 over IPv4 and TCP: two length fields.
fn tunnelled_tcp() -> Vec<u8> {
    hex("45 00 0050 0001 4000 40 29 0000 0a000001 c0000201 \
         60000000 0014 06 40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         9c40 01bb 00000064 000000c8 50 10 0200 aaaa 0000")
}

fn written(header: &[u8], context: full::Context) -> Vec<u8> {
    let (mut header, form) = (header.to_vec(), chain(header));
    full::write(&form, &mut header, context).unwrap();
    assert_eq!(full::read(&form, &header), Ok(context));
    form.length_fields().flat_map(|at| header[at..at + 2].to_vec()).collect()
}

fn context(id: u16, generation: u8, number: u16) -> full::Context {
    full::Context { id: ContextId(id), generation: Generation::new(generation), number }
}

/// §5.3.1: the lower octet of the packet number and the CID, then the upper one
/// and 0 where there is a second length field.
#[test]
fn length_fields_of_full_tcp_headers() {
    assert_eq!(written(&tcp4(), context(0x2a, 0, 0)), hex("00 2a"));
    assert_eq!(written(&tcp4(), context(0x2a, 0, 0x7b)), hex("7b 2a"));
    assert_eq!(written(&tunnelled_tcp(), context(0x2a, 0, 0)), hex("00 2a 00 00"));
    assert_eq!(written(&tunnelled_tcp(), context(0x2a, 0, 0x1c7b)), hex("7b 2a 1c 00"));
    let mut short = tcp4();
    full::write(&chain(&short), &mut short[..], context(0x2a, 0, 0x1c7b)).unwrap();
    let read = full::read(&chain(&tcp4()), &short).unwrap();
    assert_eq!(read.number, 0x7b, "one field has the lower octet only");
    assert!(
        full::has_whole_number(&chain(&tunnelled_tcp()))
            && !full::has_whole_number(&chain(&tcp4()))
    );
}

/// §5.3.2: |0|D|generation| CID | and 0, or |1|D|generation| 0 | and the CID.
#[test]
fn length_fields_of_full_headers_other_than_tcp() {
    assert_eq!(written(&udp4(), context(0xfe, 0x3f, 0)), hex("3f fe 00 00"));
    assert_eq!(written(&udp4(), context(0xfedc, 0x3f, 0)), hex("bf 00 fe dc"));
    let mut other = udp4();
    other[9] = 1;
    assert_eq!(written(&other, context(0xfe, 9, 0)), hex("09 fe"), "one length field");
    let wide = full::write(&chain(&other), &mut other.clone(), context(256, 9, 0));
    assert_eq!(wide, Err(Error::BadCompressedHeader));
    // The D bit and the octet of data behind it are passed over.
    let mut header = udp4();
    header[2..4].copy_from_slice(&hex("7f fe"));
    header[24..26].copy_from_slice(&hex("00 99"));
    assert_eq!(full::read(&chain(&udp4()), &header), Ok(context(0xfe, 0x3f, 0)));
    header[2..4].copy_from_slice(&hex("ff 99"));
    header[24..26].copy_from_slice(&hex("fe dc"));
    assert_eq!(full::read(&chain(&udp4()), &header), Ok(context(0xfedc, 0x3f, 0)));
}

/// §6 a): every field is there, in its order.
#[test]
fn compressed_tcp_with_every_field() {
    let with = |changes: &str| hex(changes);
    let front = "45 00 0050 0001 4000 40 04 0000 0a000001 c0000201 ";
    let old = with(
        &[
            front,
            "4500 003c 0007 4000 40 06 0000 0a000001 c0000201 9c40 01bb \
                     00000064 000000c8 80 10 0200 aaaa 0000 0101080a 00000001 00000002",
        ]
        .concat(),
    );
    let front = "45 00 0050 3412 4000 40 04 0000 0a000001 c0000201 ";
    let new = with(
        &[
            front,
            "4502 003c 0107 4000 40 06 0000 0a000001 c0000201 9c40 01bb \
                     00000064 000001c9 89 78 0300 bbbb 0033 0101080a 00000009 00000002",
        ]
        .concat(),
    );
    let compressed = there_and_back(&old, &new, 0).unwrap();
    // CID, R O I P S A W U (no S), checksum, the outer identification as RANDOM, R octet (the
    // reserved bits 100101 and 10 of the class), urgent pointer, window, acknowledgment,
    // identification, options.
    let wanted = "03 f7 bbbb 3412 96 33 000100 000101 000100 0101080a0000000900000002";
    assert_eq!(compressed, with(wanted));
}

/// §11.2: the packet number is placed immediately behind the TCP checksum.
#[test]
fn compressed_tcp_with_a_packet_number() {
    let (old, mut new) = (tcp4(), tcp4());
    (new[5], new[27]) = (8, 0x65);
    let compressed = numbered_there_and_back(&old, &new, 0, Some(0x1c7b));
    assert_eq!(compressed, Some(hex("03 08 aaaa 1c7b 01")));
}

/// §6 b): CID, RANDOM fields, the identification being one, and TCP but its ports.
#[test]
fn compressed_tcp_nodelta() {
    let mut out = Compressed::new();
    write_nodelta(&chain(&tcp4()), &tcp4(), ContextId(3), &mut out);
    assert_eq!(out[..], hex("03 0007 00000064 000000c8 50 10 0200 aaaa 0000"));
}

/// §6 c) and d): CIDs of 8 and 16 bits, with and without an octet of data.
#[test]
fn compressed_non_tcp() {
    let repr = |id, generation| non_tcp::Repr {
        id: ContextId(id),
        generation: Generation::new(generation),
    };
    let write = |repr| {
        let mut out = Compressed::new();
        non_tcp::write(&chain(&udp4()), &udp4(), repr, &mut out);
        out.to_vec()
    };
    assert_eq!(write(repr(0xfe, 0x3f)), hex("fe 3f 1234 abcd"));
    assert_eq!(write(repr(0xfedc, 0x3f)), hex("fe bf dc 1234 abcd"));
    for (octets, wanted) in [
        ("fe 3f 1234", repr(0xfe, 0x3f)),
        ("fe 7f 99 1234", repr(0xfe, 0x3f)),
        ("fe bf dc 1234", repr(0xfedc, 0x3f)),
        ("fe ff dc 99 1234", repr(0xfedc, 0x3f)),
    ] {
        assert_eq!(non_tcp::read(&hex(octets)), Ok((wanted, &hex("1234")[..])), "{octets}");
    }
    for octets in ["", "fe", "fe 7f", "fe bf", "fe ff dc"] {
        assert_eq!(non_tcp::read(&hex(octets)), Err(Error::BadCompressedHeader), "{octets}");
    }
}

/// §10.2: type 3, count, CIDs.
#[test]
fn context_state() {
    let mut out = [0; 5];
    state::write_request(&[1, 2, 0xff], &mut out).unwrap();
    assert_eq!(out[..], hex("03 03 01 02 ff"));
}
