//! Exported contexts, read field by field.

use crate::error::ContextError;

/// The bytes that an [`import`](crate::UserPlaneFunction::import) is given.
/// Numbers are little endian, as [`to_le_bytes`](u64::to_le_bytes) writes them.
///
/// ```
/// use weft_function::{ContextError, Fields};
///
/// let mut fields = Fields::new(&[7, 0, 0, 0, 1]);
/// assert_eq!(fields.u32(), Ok(7));
/// assert_eq!(fields.u8(), Ok(1));
/// assert_eq!(fields.u8(), Err(ContextError::Damaged));
/// assert_eq!(fields.end(), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// From the first byte on.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`ContextError::Damaged`] when there are fewer, as for all fields.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ContextError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(ContextError::Damaged)?;
        self.0 = rest;
        Ok(*field)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], ContextError> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(ContextError::Damaged)?;
        self.0 = rest;
        Ok(field)
    }

    /// A number of one byte.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ContextError> {
        self.array().map(u8::from_le_bytes)
    }

    /// A number of two bytes.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    #[inline]
    pub fn u16(&mut self) -> Result<u16, ContextError> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    #[inline]
    pub fn u32(&mut self) -> Result<u32, ContextError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    ///
    /// # Errors
    /// As for [`array`](Self::array).
    #[inline]
    pub fn u64(&mut self) -> Result<u64, ContextError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Nothing must follow.
    ///
    /// # Errors
    /// [`ContextError::Damaged`] when something does.
    #[inline]
    pub fn end(self) -> Result<(), ContextError> {
        if self.0.is_empty() { Ok(()) } else { Err(ContextError::Damaged) }
    }
}
