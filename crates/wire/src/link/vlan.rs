//! VLAN tags (IEEE 802.1Q §9, with 802.1ad's service tags).
//!
//! The Ethernet type before a tag says what kind of tag it is; the tag itself
//! is four octets: tag control information, and the next Ethernet type.

use std::fmt;
use std::ops::Range;

use crate::octets::{header, put_u16, u16_at};
use crate::{Error, EtherType};

/// Octets of a tag.
pub const TAG_LENGTH: usize = 4;
/// Tags of a frame that [`walk`] reads: a service provider's and a customer's.
pub const MAX_TAGS: usize = 2;

/// A VLAN identifier, 0 to 4095; 0 says that the tag carries a priority only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// No VLAN: the tag carries a priority only.
    pub const PRIORITY_ONLY: Self = Self(0);

    /// The identifier of a number; `None` above 4095.
    #[inline]
    pub const fn new(value: u16) -> Option<Self> {
        if value <= mask::VLAN_ID { Some(Self(value)) } else { None }
    }

    /// The number, 0 to 4095.
    #[inline]
    pub const fn value(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

mod field {
    use super::Range;

    pub const CONTROL: Range<usize> = 0..2;
    pub const ETHER_TYPE: Range<usize> = 2..4;
}

mod mask {
    pub const VLAN_ID: u16 = 0x0fff;
    pub const DROP_ELIGIBLE: u16 = 0x1000;
    pub const PRIORITY: u16 = 0xe000;
}

/// View of a tag and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Tag<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Tag<T> {
    /// Checks that the tag is there. The bytes begin behind the Ethernet type
    /// that announces it.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`TAG_LENGTH`] octets.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        if bytes.as_ref().len() < TAG_LENGTH {
            return Err(Error::Truncated);
        }
        Ok(Self { bytes })
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn control(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CONTROL)
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.control() >> 13) as u8
    }

    /// The frame may be dropped before others under congestion.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.control() & mask::DROP_ELIGIBLE != 0
    }

    /// VLAN that the frame belongs to.
    #[inline]
    pub fn vlan_id(&self) -> VlanId {
        VlanId(self.control() & mask::VLAN_ID)
    }

    /// What follows the tag; perhaps another tag.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(u16_at(self.bytes.as_ref(), field::ETHER_TYPE))
    }

    /// What follows the tag, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[TAG_LENGTH..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    #[inline]
    fn set_control(&mut self, mask: u16, value: u16) {
        let control = self.control() & !mask | value & mask;
        put_u16(self.bytes.as_mut(), field::CONTROL, control);
    }

    /// Sets the priority code point; the lower three bits count.
    #[inline]
    pub fn set_priority(&mut self, priority: u8) {
        self.set_control(mask::PRIORITY, u16::from(priority) << 13);
    }

    /// Sets whether the frame may be dropped before others.
    #[inline]
    pub fn set_drop_eligible(&mut self, eligible: bool) {
        self.set_control(mask::DROP_ELIGIBLE, if eligible { mask::DROP_ELIGIBLE } else { 0 });
    }

    /// Sets the VLAN that the frame belongs to.
    #[inline]
    pub fn set_vlan_id(&mut self, vlan_id: VlanId) {
        self.set_control(mask::VLAN_ID, vlan_id.0);
    }

    /// Sets what follows the tag.
    #[inline]
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put_u16(self.bytes.as_mut(), field::ETHER_TYPE, ether_type.0);
    }

    /// What follows the tag, padding included.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[TAG_LENGTH..]
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Tag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A tag as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point; the lower three bits are emitted.
    pub priority: u8,
    /// The frame may be dropped before others under congestion.
    pub drop_eligible: bool,
    /// VLAN that the frame belongs to.
    pub vlan_id: VlanId,
    /// What follows the tag.
    pub ether_type: EtherType,
}

impl Repr {
    /// The tag as a value.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>) -> Self {
        Self {
            priority: tag.priority(),
            drop_eligible: tag.drop_eligible(),
            vlan_id: tag.vlan_id(),
            ether_type: tag.ether_type(),
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        TAG_LENGTH
    }

    /// Writes the tag to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let mut tag = Tag { bytes: header(buffer, self.buffer_len())? };
        tag.set_priority(self.priority);
        tag.set_drop_eligible(self.drop_eligible);
        tag.set_vlan_id(self.vlan_id);
        tag.set_ether_type(self.ether_type);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let eligible = if self.drop_eligible { " drop-eligible" } else { "" };
        let Self { priority, vlan_id, ether_type, .. } = self;
        write!(f, "vlan {vlan_id} priority {priority}{eligible} {ether_type}")
    }
}

/// What lies behind the tags of a frame, and the tags' identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Identifiers, outermost first.
    pub vlan_ids: [Option<VlanId>; MAX_TAGS],
    /// What follows the last tag.
    pub ether_type: EtherType,
    /// Octets of tags.
    pub length: usize,
}

impl Stack {
    /// Identifier of the outermost tag; `None` in an untagged frame.
    #[inline]
    pub const fn outer(&self) -> Option<VlanId> {
        self.vlan_ids[0]
    }
}

/// Reads the tags of a frame, given its Ethernet type and what follows it. Most
/// frames have none.
///
/// # Errors
/// [`Error::Truncated`], or [`Error::TooManyTags`] above [`MAX_TAGS`].
#[inline]
pub fn walk(ether_type: EtherType, payload: &[u8]) -> Result<Stack, Error> {
    let mut stack = Stack { ether_type, ..Stack::default() };
    let mut place = 0;
    while stack.ether_type.is_vlan() {
        let tag = Tag::new_checked(&payload[stack.length..])?;
        *stack.vlan_ids.get_mut(place).ok_or(Error::TooManyTags)? = Some(tag.vlan_id());
        stack.ether_type = tag.ether_type();
        stack.length += TAG_LENGTH;
        place += 1;
    }
    Ok(stack)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    /// A service tag (behind its Ethernet type), a customer's, and IPv4.
    fn tags() -> Vec<u8> {
        hex("b064 8100 602a 0800 4500")
    }

    #[test]
    fn reads_a_tag() {
        let tag = Tag::new_checked(tags()).unwrap();
        let repr = Repr {
            priority: 5,
            drop_eligible: true,
            vlan_id: VlanId(100),
            ether_type: EtherType::VLAN,
        };
        assert_eq!(Repr::parse(&tag), repr);
        assert_eq!(tag.payload(), hex("602a 0800 4500"));
        assert_eq!(tag.to_string(), "vlan 100 priority 5 drop-eligible vlan");
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut tag = Tag::new_checked([0xff; 5]).unwrap();
        tag.set_priority(8 + 2);
        assert_eq!(tag.into_inner(), hex("5fff ffff ff")[..]);
        tag.set_vlan_id(VlanId(1));
        assert_eq!(tag.into_inner(), hex("5001 ffff ff")[..]);
        tag.set_drop_eligible(false);
        tag.set_ether_type(EtherType::IPV6);
        tag.payload_mut()[0] = 0;
        assert_eq!(tag.into_inner(), hex("4001 86dd 00")[..]);
    }

    #[test]
    fn walks_the_stack() {
        let stack = walk(EtherType::SERVICE_VLAN, &tags()).unwrap();
        let vlan_ids = [Some(VlanId(100)), Some(VlanId(42))];
        assert_eq!(stack, Stack { vlan_ids, ether_type: EtherType::IPV4, length: 8 });
        let stack = walk(EtherType::VLAN, &tags()[4..]).unwrap();
        assert_eq!(stack.outer(), Some(VlanId(42)));
        assert_eq!(stack.length, 4);
    }

    #[test]
    fn an_untagged_frame_has_no_stack() {
        let stack = walk(EtherType::ARP, &[]).unwrap();
        assert_eq!(stack, Stack { ether_type: EtherType::ARP, ..Stack::default() });
        assert_eq!(stack.outer(), None);
    }

    #[test]
    fn defects_are_named() {
        assert_eq!(Tag::new_checked([0; 3]).unwrap_err(), Error::Truncated);
        assert_eq!(walk(EtherType::VLAN, &tags()[..3]), Err(Error::Truncated));
        assert_eq!(walk(EtherType::VLAN, &tags()[..6]), Err(Error::Truncated));
        let three = hex("0001 8100 0002 8100 0003 0800");
        assert_eq!(walk(EtherType::VLAN, &three), Err(Error::TooManyTags));
        assert_eq!(VlanId::new(4096), None);
        assert_eq!(Repr::default().emit(&mut [0; 3]), Err(Error::BufferTooShort));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(service: bool, bytes in hostile(tags())) {
            let ether_type = if service { EtherType::SERVICE_VLAN } else { EtherType::VLAN };
            if let Ok(stack) = walk(ether_type, &bytes) {
                prop_assert!(stack.length <= bytes.len());
            }
            if let Ok(tag) = Tag::new_checked(&bytes[..]) {
                black_box((tag.payload(), tag.to_string()));
                let mut copy = [0; TAG_LENGTH];
                Repr::parse(&tag).emit(&mut copy).unwrap();
                prop_assert_eq!(&copy[..], &bytes[..TAG_LENGTH]);
            }
        }

        #[test]
        fn parse_of_emit(priority in 0..8_u8, drop_eligible: bool, vlan in 0..4096_u16, next: u16) {
            let vlan_id = VlanId::new(vlan).unwrap();
            let repr = Repr { priority, drop_eligible, vlan_id, ether_type: EtherType(next) };
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Tag::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
