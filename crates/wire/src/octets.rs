//! Big-endian fields in bytes. A field is a range of a header's field table;
//! its width is that of the type it is read as.

use std::ops::Range;

use crate::Error;

#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], field: Range<usize>) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[field]);
    value
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(bytes, field))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], field: Range<usize>) -> u32 {
    u32::from_be_bytes(array(bytes, field))
}

#[inline]
pub(crate) fn put(bytes: &mut [u8], field: Range<usize>, value: &[u8]) {
    bytes[field].copy_from_slice(value);
}

#[inline]
pub(crate) fn put_u16(bytes: &mut [u8], field: Range<usize>, value: u16) {
    put(bytes, field, &value.to_be_bytes());
}

#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], field: Range<usize>, value: u32) {
    put(bytes, field, &value.to_be_bytes());
}

/// The part of a buffer that `emit` writes.
#[inline]
pub(crate) fn header(buffer: &mut [u8], length: usize) -> Result<&mut [u8], Error> {
    buffer.get_mut(..length).ok_or(Error::BufferTooShort)
}
