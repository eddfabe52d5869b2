//! Compressed headers: the input is headers of a context, their length, and a
//! compressed packet for them.
#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use weft_wire::iphc::{Chain, MAX_HEADER, full, non_tcp, state, tcp};
use weft_wire::pppoe;

fuzz_target!(|bytes: &[u8]| {
    black_box(pppoe::Frame::new_checked(bytes).map(|frame| frame.payload().len()).ok());
    black_box(state::requested(bytes).ok());
    let Some((&length, bytes)) = bytes.split_first() else { return };
    let Some((context, compressed)) = bytes.split_at_checked(length.into()) else { return };
    let Some(chain) = Chain::walk(context) else { return };
    let mut header = context[..chain.length()].to_vec();
    black_box(full::read(&chain, &header).ok());
    assert!(chain.is_of(&header, context));
    black_box((chain.flow(&header), chain.unchanged(&header, compressed)));
    if let Ok((_, rest)) = non_tcp::read(compressed)
        && let Ok(payload) = non_tcp::read_random(&chain, &mut header, rest)
    {
        let total = header.len() + payload.len();
        if chain.infer(&mut header, total).is_ok() {
            assert!(chain.can_be_inferred(&header, total));
        }
    }
    if let Ok((delta, payload)) = tcp::Delta::read(&chain, &mut header, 1, compressed) {
        delta.apply(&chain, &mut header);
        black_box(chain.tcp_checksum_is_right(&header, payload));
    }
    let mut room = [0; MAX_HEADER];
    room[..header.len()].copy_from_slice(&header);
    if let Ok((length, _)) = tcp::read_nodelta(&chain, &mut room, compressed) {
        black_box(Chain::walk(&room[..length]));
    }
});
