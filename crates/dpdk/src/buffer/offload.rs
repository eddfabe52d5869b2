//! What a packet tells of the checksum that a device is to compute.

use weft_dpdk_sys as sys;

use super::packet::Packet;

impl Packet {
    /// Notes whether the UDP checksum of the tunnel around it is left out, to be computed as
    /// it leaves. Copies owe it, too.
    #[inline]
    pub fn owe_udp_checksum(&mut self, owes: bool) {
        let flags = &mut self.mbuf_mut().ol_flags;
        match owes {
            true => *flags |= sys::WEFT_MBUF_OWES_UDP_CKSUM,
            false => *flags &= !sys::WEFT_MBUF_OWES_UDP_CKSUM,
        }
    }

    /// Whether a UDP checksum was left out. The tunnel may be gone since.
    #[inline(always)]
    pub fn owes_udp_checksum(&self) -> bool {
        self.mbuf().ol_flags & sys::WEFT_MBUF_OWES_UDP_CKSUM != 0
    }

    /// Whether its UDP checksum is not in its bytes: it owes one, or a device will compute it.
    #[inline]
    pub fn lacks_udp_checksum(&self) -> bool {
        let asked = self.mbuf().ol_flags & sys::WEFT_MBUF_TX_L4_MASK;
        self.owes_udp_checksum() || asked == sys::WEFT_MBUF_TX_UDP_CKSUM
    }

    /// Asks the device that sends it for the UDP checksum, behind a link header and an IP
    /// header of so many bytes. It must leave at a queue that
    /// [sums](crate::TxQueue::sums_udp).
    #[inline]
    pub fn ask_for_udp_checksum(&mut self, link: u16, network: u16, is_ipv4: bool) {
        // SAFETY: the buffer is ours; only fields of its header are written.
        unsafe {
            sys::weft_mbuf_ask_for_udp_checksum(self.mbuf_mut(), link, network, is_ipv4.into())
        };
    }
}
