//! Explicit congestion notification through tunnels (RFC 6040), in normal mode: a
//! packet that enters one shows its field outside as well.

use weft_function::{Headers as _, IpMut, Packet};
use weft_wire::Ecn;
use weft_wire::checksum::Change;
use weft_wire::ip::traffic_class;

/// The field of a packet that leaves a tunnel (RFC 6040 §4.2); none for one that met
/// congestion and cannot tell of it.
#[inline]
pub fn after_tunnel(outer: Ecn, inner: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (_, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

/// Gives an IP packet this field.
#[inline]
pub fn mark(packet: &mut Packet, ecn: Ecn) {
    match packet.ip_mut() {
        Some(IpMut::V4(mut ip)) if ip.ecn() != ecn => {
            let [old, new] = [ip.ecn(), ecn].map(|ecn| traffic_class(ip.dscp(), ecn).into());
            ip.set_ecn(ecn);
            ip.update_checksum(Change::NONE.field16(old, new));
        }
        Some(IpMut::V6(mut ip)) if ip.ecn() != ecn => ip.set_ecn(ecn),
        _ => {}
    }
}
