//! Messages with random contents: bytes are drawn for each element until they are a value of it.

use proptest::prelude::*;

use crate::codec::{Frame, Header, Message, MessageType};

/// A generator of numbers (xorshift).
pub struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Octets of an element. Half of them are small, since many are lengths.
    pub(crate) fn octets(&mut self) -> Vec<u8> {
        let length = self.number() % 48;
        (0..length)
            .map(|_| {
                let number = self.number();
                if number & 0x100 == 0 { number as u8 & 0x07 } else { number as u8 }
            })
            .collect()
    }
}

pub(crate) fn header() -> impl Strategy<Value = Header> {
    let seid = prop::option::of(any::<u64>());
    (seid, 0_u32..1 << 24, prop::option::of(0_u8..16))
        .prop_map(|(seid, sequence, priority)| Header { seid, sequence, priority })
}

/// A message of any type. Its bytes live as long as the test program.
pub(crate) fn message() -> impl Strategy<Value = Message<'static>> {
    (prop::sample::select(MessageType::ALL), any::<u64>()).prop_map(|(kind, seed)| {
        let octets = Message::random(kind, &mut Draw::new(seed));
        let body = Box::leak(octets.into_boxed_slice());
        let frame = Frame { header: Header::default(), message: kind as u8, body };
        Message::parse(&frame).unwrap()
    })
}

/// What other programs would send in elements that are passed on as they are: a dissector reads
/// them.
pub(crate) fn passed_on(element: u16) -> &'static [u8] {
    use crate::codec::ie::*;
    match element {
        // An IPv4 address behind its flag.
        SOURCE_IP_ADDRESS
        | ALTERNATIVE_SMF_IP_ADDRESS
        | CP_PFCP_ENTITY_IP_ADDRESS
        | CP_IP_ADDRESS => &[0x02, 10, 0, 0, 7],
        USER_PLANE_IP_RESOURCE_INFORMATION => &[0x01, 10, 0, 0, 7],
        SMF_SET_ID => b"\0\x03smf\x03set",
        USER_ID => &[0x00],
        S_NSSAI => &[1, 0, 0, 1],
        // PLMN, trace number, one triggering event, depth, one interface, no address.
        TRACE_INFORMATION => &[0, 0xf1, 0x10, 0, 0, 1, 1, 0, 1, 1, 0, 0],
        FLOW_INFORMATION => b"\x01\0\x02ab",
        _ => b"group",
    }
}
