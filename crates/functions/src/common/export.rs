//! What functions write of their contexts for another instance to read.

use std::net::IpAddr;

use weft_function::{ContextError, Fields};

/// The context of a function that keeps none, from the bytes that it exports.
pub fn nothing(version: u16, bytes: &[u8]) -> Result<(), ContextError> {
    match version {
        1 => Fields::new(bytes).end(),
        _ => Err(ContextError::Version(version)),
    }
}

/// Writes an address as bytes.
pub fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(6);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// Reads what [`write_address`] wrote.
///
/// # Errors
/// [`ContextError::Damaged`].
pub fn read_address(fields: &mut Fields<'_>) -> Result<IpAddr, ContextError> {
    match fields.u8()? {
        4 => Ok(fields.array::<4>()?.into()),
        6 => Ok(fields.array::<16>()?.into()),
        _ => Err(ContextError::Damaged),
    }
}

/// Writes what may be there or not.
pub fn write_option<T>(value: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        write(value, out);
    }
}

/// Reads what [`write_option`] wrote.
///
/// # Errors
/// [`ContextError::Damaged`], and whatever `read` says.
pub fn read_option<T>(
    fields: &mut Fields<'_>,
    read: impl FnOnce(&mut Fields<'_>) -> Result<T, ContextError>,
) -> Result<Option<T>, ContextError> {
    match fields.u8()? {
        0 => Ok(None),
        1 => read(fields).map(Some),
        _ => Err(ContextError::Damaged),
    }
}

/// Writes a list.
pub fn write_list<T>(list: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    out.extend_from_slice(&(list.len() as u32).to_le_bytes());
    list.iter().for_each(|one| write(one, out));
}

/// Reads what [`write_list`] wrote.
///
/// # Errors
/// [`ContextError::Damaged`], and whatever `read` says.
pub fn read_list<T>(
    fields: &mut Fields<'_>,
    mut read: impl FnMut(&mut Fields<'_>) -> Result<T, ContextError>,
) -> Result<Vec<T>, ContextError> {
    // Memory follows what is there, and not what is announced.
    let count = fields.u32()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(read(fields)?);
    }
    Ok(list)
}
