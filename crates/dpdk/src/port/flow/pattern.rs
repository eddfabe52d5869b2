//! What a flow rule matches, as DPDK takes it (`rte_flow_item`): headers from the outermost in, each
//! with values and masks of its fields.

use std::ptr::{from_ref, null};

use weft_dpdk_sys as sys;

/// A field of a packet that flow rules compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowField {
    /// TEID of GTP-U in IPv4 (TS 29.281 §5.1).
    TeidInIpv4,
    /// TEID of GTP-U in IPv6.
    TeidInIpv6,
    /// Source address of the outer header, in IPv4.
    SourceIpv4,
    /// Destination address of the outer header, in IPv4.
    DestinationIpv4,
    /// Source address of the outer header, in IPv6.
    SourceIpv6,
    /// Destination address of the outer header, in IPv6.
    DestinationIpv6,
}

impl FlowField {
    /// All of them.
    pub const ALL: [FlowField; 6] = [
        FlowField::TeidInIpv4,
        FlowField::TeidInIpv6,
        FlowField::SourceIpv4,
        FlowField::DestinationIpv4,
        FlowField::SourceIpv6,
        FlowField::DestinationIpv6,
    ];

    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            FlowField::TeidInIpv4 => "TEID in IPv4",
            FlowField::TeidInIpv6 => "TEID in IPv6",
            FlowField::SourceIpv4 => "source in IPv4",
            FlowField::DestinationIpv4 => "destination in IPv4",
            FlowField::SourceIpv6 => "source in IPv6",
            FlowField::DestinationIpv6 => "destination in IPv6",
        }
    }

    /// All of its bits.
    pub fn whole(self) -> u128 {
        match self {
            FlowField::SourceIpv6 | FlowField::DestinationIpv6 => u128::MAX,
            _ => u128::from(u32::MAX),
        }
    }

    pub(super) fn is_teid(self) -> bool {
        matches!(self, FlowField::TeidInIpv4 | FlowField::TeidInIpv6)
    }

    pub(super) fn is_in_ipv6(self) -> bool {
        matches!(self, FlowField::TeidInIpv6 | FlowField::SourceIpv6 | FlowField::DestinationIpv6)
    }
}

/// Packets with these bits in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowMatch {
    /// The field.
    pub field: FlowField,
    /// The bits, in the host's order; those outside of the mask are 0.
    pub value: u128,
    /// The bits that count.
    pub mask: u128,
}

impl FlowMatch {
    /// Packets whose field is just that.
    pub fn exactly(field: FlowField, value: u128) -> FlowMatch {
        FlowMatch { field, value, mask: field.whole() }
    }
}

/// By which item a driver knows the header of GTP-U: some know one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TunnelItem {
    Gtpu,
    Gtp,
}

impl TunnelItem {
    fn number(self) -> sys::rte_flow_item_type {
        match self {
            TunnelItem::Gtpu => sys::RTE_FLOW_ITEM_TYPE_GTPU,
            TunnelItem::Gtp => sys::RTE_FLOW_ITEM_TYPE_GTP,
        }
    }
}

/// Items of a pattern at most: Ethernet, IP, UDP, GTP-U, and the end.
const ITEMS: usize = 5;

/// Calls `give` with the pattern of a match; the items live as long as the call.
pub(super) fn with_pattern<T>(
    of: &FlowMatch,
    tunnel: TunnelItem,
    give: impl FnOnce(&[sys::rte_flow_item; ITEMS]) -> T,
) -> T {
    let mut ipv4 = [sys::rte_flow_item_ipv4::default(); 2];
    let mut ipv6 = [sys::rte_flow_item_ipv6::default(); 2];
    let mut gtp = [sys::rte_flow_item_gtp::default(); 2];
    for (at, bits) in [of.value, of.mask].into_iter().enumerate() {
        let narrow = (bits as u32).to_be();
        match of.field {
            FlowField::TeidInIpv4 | FlowField::TeidInIpv6 => gtp[at].teid = narrow,
            FlowField::SourceIpv4 => ipv4[at].hdr.src_addr = narrow,
            FlowField::DestinationIpv4 => ipv4[at].hdr.dst_addr = narrow,
            FlowField::SourceIpv6 => ipv6[at].hdr.src_addr = bits.to_be_bytes(),
            FlowField::DestinationIpv6 => ipv6[at].hdr.dst_addr = bits.to_be_bytes(),
        }
    }
    let mut items = [sys::rte_flow_item::default(); ITEMS];
    // Drivers look at no item behind the end, whose number is 0.
    items[0].type_ = sys::RTE_FLOW_ITEM_TYPE_ETH;
    items[1] = match (of.field.is_in_ipv6(), of.field.is_teid()) {
        (true, false) => compared(sys::RTE_FLOW_ITEM_TYPE_IPV6, &ipv6),
        (false, false) => compared(sys::RTE_FLOW_ITEM_TYPE_IPV4, &ipv4),
        (true, true) => any(sys::RTE_FLOW_ITEM_TYPE_IPV6),
        (false, true) => any(sys::RTE_FLOW_ITEM_TYPE_IPV4),
    };
    if of.field.is_teid() {
        items[2] = any(sys::RTE_FLOW_ITEM_TYPE_UDP);
        items[3] = compared(tunnel.number(), &gtp);
    }
    give(&items)
}

/// A header whatever its fields.
fn any(number: sys::rte_flow_item_type) -> sys::rte_flow_item {
    sys::rte_flow_item { type_: number, spec: null(), last: null(), mask: null() }
}

/// A header with these values and masks.
fn compared<T>(number: sys::rte_flow_item_type, [spec, mask]: &[T; 2]) -> sys::rte_flow_item {
    let (spec, mask) = (from_ref(spec).cast(), from_ref(mask).cast());
    sys::rte_flow_item { type_: number, spec, last: null(), mask }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a pattern's items up to its end, and the octets of value and mask of the
    /// one that compares, each `length` long.
    fn octets(of: &FlowMatch, length: usize) -> (Vec<u32>, Vec<u8>, Vec<u8>) {
        with_pattern(of, TunnelItem::Gtpu, |items| {
            let end = items.iter().position(|item| item.type_ == sys::RTE_FLOW_ITEM_TYPE_END);
            let items = &items[..end.expect("a pattern ends")];
            let with: Vec<_> = items.iter().filter(|item| !item.spec.is_null()).collect();
            let [one] = with[..] else { panic!("one item compares") };
            assert!(one.last.is_null() && !one.mask.is_null());
            // SAFETY: the item's structure is at least that long.
            let read = |from: *const std::ffi::c_void| unsafe {
                std::slice::from_raw_parts(from.cast::<u8>(), length).to_vec()
            };
            (items.iter().map(|item| item.type_).collect(), read(one.spec), read(one.mask))
        })
    }

    const ETH: u32 = sys::RTE_FLOW_ITEM_TYPE_ETH;
    const IPV4: u32 = sys::RTE_FLOW_ITEM_TYPE_IPV4;
    const IPV6: u32 = sys::RTE_FLOW_ITEM_TYPE_IPV6;
    const UDP: u32 = sys::RTE_FLOW_ITEM_TYPE_UDP;

    #[test]
    fn addresses_lie_where_headers_have_them() {
        // RFC 791 §3.1: source from octet 12, destination from octet 16.
        for (field, at) in [(FlowField::SourceIpv4, 12), (FlowField::DestinationIpv4, 16)] {
            let of = FlowMatch { field, value: 0x0a01_0203, mask: 0xffff_ff03 };
            let (items, spec, mask) = octets(&of, 20);
            assert_eq!(items, [ETH, IPV4]);
            let mut expected = [[0; 20]; 2];
            expected[0][at..at + 4].copy_from_slice(&[10, 1, 2, 3]);
            expected[1][at..at + 4].copy_from_slice(&[255, 255, 255, 3]);
            assert_eq!([spec, mask], expected.map(Vec::from), "{field:?}");
        }
        // RFC 8200 §3: source from octet 8, destination from octet 24. Behind them DPDK has bits
        // for extension headers, none of which counts.
        for (field, at) in [(FlowField::SourceIpv6, 8), (FlowField::DestinationIpv6, 24)] {
            let value = 0x2001_0db8_0000_0007_u128 << 64;
            let of = FlowMatch { field, value, mask: u128::from(u64::MAX) << 64 };
            let (items, spec, mask) = octets(&of, 44);
            assert_eq!(items, [ETH, IPV6]);
            let mut expected = [[0; 44]; 2];
            expected[0][at..at + 8].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 7]);
            expected[1][at..at + 8].copy_from_slice(&[255; 8]);
            assert_eq!([spec, mask], expected.map(Vec::from), "{field:?}");
        }
    }

    #[test]
    fn a_teid_lies_behind_any_ip_and_udp_header() {
        for (field, ip) in [(FlowField::TeidInIpv4, IPV4), (FlowField::TeidInIpv6, IPV6)] {
            let (items, spec, mask) = octets(&FlowMatch::exactly(field, 0x0102_0304), 8);
            assert_eq!(items, [ETH, ip, UDP, sys::RTE_FLOW_ITEM_TYPE_GTPU]);
            // TS 29.281 §5.1: from octet 4 on; neither flags nor type nor length count.
            assert_eq!(spec, [0, 0, 0, 0, 1, 2, 3, 4]);
            assert_eq!(mask, [0, 0, 0, 0, 255, 255, 255, 255]);
            let other = with_pattern(&FlowMatch::exactly(field, 1), TunnelItem::Gtp, |items| {
                items.map(|item| item.type_)
            });
            assert_eq!(other[3], sys::RTE_FLOW_ITEM_TYPE_GTP);
        }
    }
}
