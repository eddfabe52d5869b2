//! ARP for IPv4 over Ethernet (RFC 826).

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use crate::octets::{array, header, put, put_u16, u16_at};
use crate::{Error, EtherType, MacAddress};

/// Octets of a packet.
pub const PACKET_LENGTH: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const FORMAT: [u8; 6] = {
    let [high, low] = EtherType::IPV4.0.to_be_bytes();
    [0, 1, high, low, 6, 4]
};

/// What a packet wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has the target's address?
    pub const REQUEST: Self = Self(1);
    /// The sender has it.
    pub const REPLY: Self = Self(2);
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::REQUEST => f.pad("request"),
            Self::REPLY => f.pad("reply"),
            Self(value) => write!(f, "operation {value}"),
        }
    }
}

mod field {
    use super::Range;

    pub const FORMAT: Range<usize> = 0..6;
    pub const OPERATION: Range<usize> = 6..8;
    pub const SENDER_MAC: Range<usize> = 8..14;
    pub const SENDER_IP: Range<usize> = 14..18;
    pub const TARGET_MAC: Range<usize> = 18..24;
    pub const TARGET_IP: Range<usize> = 24..28;
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the packet is there and speaks of IPv4 over Ethernet.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`PACKET_LENGTH`] octets, or
    /// [`Error::UnsupportedArp`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let octets = bytes.as_ref();
        if octets.len() < PACKET_LENGTH {
            return Err(Error::Truncated);
        }
        if octets[field::FORMAT] != FORMAT {
            return Err(Error::UnsupportedArp);
        }
        Ok(Self { bytes })
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// What the packet wants.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation(u16_at(self.bytes.as_ref(), field::OPERATION))
    }

    /// MAC address of the sender.
    #[inline]
    pub fn sender_mac(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), field::SENDER_MAC))
    }

    /// IPv4 address of the sender.
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes.as_ref(), field::SENDER_IP))
    }

    /// MAC address of the target; without meaning in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddress {
        MacAddress(array(self.bytes.as_ref(), field::TARGET_MAC))
    }

    /// IPv4 address of the target.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes.as_ref(), field::TARGET_IP))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets what the packet wants.
    #[inline]
    pub fn set_operation(&mut self, operation: Operation) {
        put_u16(self.bytes.as_mut(), field::OPERATION, operation.0);
    }

    /// Sets the MAC address of the sender.
    #[inline]
    pub fn set_sender_mac(&mut self, address: MacAddress) {
        put(self.bytes.as_mut(), field::SENDER_MAC, &address.0);
    }

    /// Sets the IPv4 address of the sender.
    #[inline]
    pub fn set_sender_ip(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), field::SENDER_IP, &address.octets());
    }

    /// Sets the MAC address of the target.
    #[inline]
    pub fn set_target_mac(&mut self, address: MacAddress) {
        put(self.bytes.as_mut(), field::TARGET_MAC, &address.0);
    }

    /// Sets the IPv4 address of the target.
    #[inline]
    pub fn set_target_ip(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), field::TARGET_IP, &address.octets());
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A packet as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// What the packet wants.
    pub operation: Operation,
    /// MAC address of the sender.
    pub sender_mac: MacAddress,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target; all zeros in a request.
    pub target_mac: MacAddress,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// The packet as a value.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        }
    }

    /// The reply of a station with the MAC address `mac` to this request.
    #[inline]
    pub const fn reply(&self, mac: MacAddress) -> Self {
        Self {
            operation: Operation::REPLY,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        PACKET_LENGTH
    }

    /// Writes the packet to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        put(bytes, field::FORMAT, &FORMAT);
        let mut packet = Packet { bytes };
        packet.set_operation(self.operation);
        packet.set_sender_mac(self.sender_mac);
        packet.set_sender_ip(self.sender_ip);
        packet.set_target_mac(self.target_mac);
        packet.set_target_ip(self.target_ip);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, sender_mac, sender_ip, target_mac, target_ip } = self;
        write!(f, "arp {operation} {sender_ip} ({sender_mac}) > {target_ip} ({target_mac})")
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    fn request() -> Vec<u8> {
        hex("0001 0800 06 04 0001 020000000001 c0000201 000000000000 c0000202")
    }

    const REQUEST: Repr = Repr {
        operation: Operation::REQUEST,
        sender_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(192, 0, 2, 1),
        target_mac: MacAddress::UNSPECIFIED,
        target_ip: Ipv4Addr::new(192, 0, 2, 2),
    };

    #[test]
    fn reads_a_request() {
        let packet = Packet::new_checked(request()).unwrap();
        assert_eq!(Repr::parse(&packet), REQUEST);
        let text = "arp request 192.0.2.1 (02:00:00:00:00:01) > 192.0.2.2 (00:00:00:00:00:00)";
        assert_eq!(packet.to_string(), text);
    }

    #[test]
    fn writes_a_request() {
        let mut bytes = [0xaa; 30];
        REQUEST.emit(&mut bytes).unwrap();
        assert_eq!(bytes[..28], request());
        assert_eq!(bytes[28..], [0xaa; 2]);
        assert_eq!(REQUEST.emit(&mut bytes[..27]), Err(Error::BufferTooShort));
    }

    #[test]
    fn a_reply_turns_the_request_round() {
        let mut bytes = [0; 28];
        REQUEST.reply(MacAddress([2, 0, 0, 0, 0, 2])).emit(&mut bytes).unwrap();
        let reply = hex("0001 0800 06 04 0002 020000000002 c0000202 020000000001 c0000201");
        assert_eq!(bytes[..], reply);
    }

    #[test]
    fn setters_make_the_same_reply() {
        let mac = MacAddress([2, 0, 0, 0, 0, 2]);
        let mut packet = Packet::new_checked(request()).unwrap();
        packet.set_operation(Operation::REPLY);
        packet.set_target_mac(REQUEST.sender_mac);
        packet.set_target_ip(REQUEST.sender_ip);
        packet.set_sender_mac(mac);
        packet.set_sender_ip(REQUEST.target_ip);
        assert_eq!(Repr::parse(&packet), REQUEST.reply(mac));
    }

    #[test]
    fn defects_are_named() {
        let mut bytes = request();
        assert_eq!(Packet::new_checked(&bytes[..27]).unwrap_err(), Error::Truncated);
        for at in 0..6 {
            bytes[at] ^= 0x40;
            assert_eq!(Packet::new_checked(&bytes).unwrap_err(), Error::UnsupportedArp);
            bytes[at] ^= 0x40;
        }
        // An operation that we do not know is the consumer's to judge.
        bytes[7] = 9;
        let packet = Packet::new_checked(bytes).unwrap();
        assert_eq!(packet.operation().to_string(), "operation 9");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(request())) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                black_box(packet.to_string());
                let mut copy = [0; PACKET_LENGTH];
                Repr::parse(&packet).emit(&mut copy).unwrap();
                prop_assert_eq!(&copy[..], &bytes[..PACKET_LENGTH]);
            }
        }

        #[test]
        fn parse_of_emit(operation: u16, macs: [[u8; 6]; 2], ips: [Ipv4Addr; 2]) {
            let repr = Repr {
                operation: Operation(operation),
                sender_mac: MacAddress(macs[0]),
                sender_ip: ips[0],
                target_mac: MacAddress(macs[1]),
                target_ip: ips[1],
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
