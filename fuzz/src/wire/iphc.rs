//! Compressed headers: the input is headers of a context, their length, and a
//! compressed packet for them.

use std::hint::black_box;

use weft_wire::iphc::{Chain, MAX_HEADER, full, non_tcp, state, tcp};
use weft_wire::pppoe;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    black_box(pppoe::Frame::new_checked(bytes).map(|frame| frame.payload().len()).ok());
    black_box(state::requested(bytes).ok());
    let Some((&length, bytes)) = bytes.split_first() else { return };
    let Some((context, compressed)) = bytes.split_at_checked(length.into()) else { return };
    let Some(chain) = Chain::walk(context) else { return };
    let headers = &context[..chain.length()];
    assert_eq!(Chain::within(headers, headers.len()), Some(chain));
    black_box((full::read(&chain, headers).ok(), chain.is_shortened(headers, 8)));
    assert!(chain.is_of(headers, context));
    black_box((chain.flow(headers), chain.unchanged(headers, compressed)));
    if let Ok((_, rest)) = non_tcp::read(compressed) {
        let mut header = room(headers);
        if let Ok((form, payload)) = non_tcp::read_random(&chain, &mut header, rest) {
            let header = &mut header[..form.length()];
            let total = form.length() + payload.len();
            if form.restore_lengths(header, total).is_ok() && form.infer(header, total).is_ok() {
                assert!(form.can_be_inferred(header, total));
            }
        }
    }
    for numbered in [false, true] {
        let mut header = room(headers);
        let read = tcp::Delta::read(&chain, &mut header, 1, numbered, compressed);
        if let Ok((delta, form, payload)) = read {
            let header = &mut header[..form.length()];
            delta.apply(&form, header);
            black_box(form.tcp_checksum_is_right(header, payload));
            black_box(tcp::loss_is_hidden(&form, headers, header, numbered));
        }
    }
    let mut header = room(headers);
    if let Ok((form, _)) = tcp::read_nodelta(&chain, &mut header, compressed) {
        assert_eq!(Chain::within(&header[..form.length()], form.length()), Some(form));
    }
}

/// Headers where a decompressor has them.
fn room(headers: &[u8]) -> [u8; MAX_HEADER] {
    let mut room = [0; MAX_HEADER];
    room[..headers.len()].copy_from_slice(headers);
    room
}
