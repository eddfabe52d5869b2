//! A security association of `esp-encrypt`: its counters, and how it seals a packet.

use weft_dpdk::crypto::{Session, TAG};
use weft_function::{ContextError, Fields, Metadata, Packet, Reason, Tunnel as _};
use weft_wire::esp::{Repr, Spi};

use super::{DEVICE, Inside, NO_ROOM};
use crate::ipsec::esp::key::Key;
use crate::ipsec::esp::outer::{Ends, Outside};
use crate::ipsec::esp::recorded::Recorded;
use crate::ipsec::esp::{
    ALIGNMENT, FRONT, ICV, NO_ASSOCIATION, TRAILER, Usage, associated, check_spi, nonce,
};

#[derive(Debug)]
pub(super) struct Association {
    pub(super) spi: u32,
    pub(super) ends: Ends,
    pub(super) extended: bool,
    pub(super) pad_to: u16,
    pub(super) salt: [u8; 4],
    /// None where there was no room for it.
    pub(super) session: Option<Session>,
    /// Of the last packet.
    pub(super) sequence: u64,
    /// Of the next packet.
    pub(super) iv: u64,
    pub(super) usage: Usage,
    pub(super) key: Key,
    pub(super) recorded: Recorded,
}

/// Packets that may have been sent since the last checkpoint of a node that has died. A receiver
/// takes a number so far ahead for one of the same subspace (RFC 4303 appendix A2).
const SKIPPED: u64 = 1 << 24;
/// The same of an association that has no more than 2^32 numbers.
const SKIPPED_OF_32_BITS: u64 = 1 << 20;

impl Association {
    /// What may have been sent since a checkpoint is not sent again; `now` is nanoseconds
    /// since 1970.
    pub(super) fn skip(&mut self, now: u64) {
        let (skipped, last) = match self.extended {
            true => (SKIPPED, u64::MAX),
            false => (SKIPPED_OF_32_BITS, u32::MAX.into()),
        };
        self.sequence = self.sequence.saturating_add(skipped).min(last);
        self.iv = self.iv.saturating_add(SKIPPED).max(now);
    }

    /// Sequence number and initialization vector of the next packet; none where all
    /// numbers are used (RFC 4303 §3.3.3).
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        let last = if self.extended { u64::MAX } else { u32::MAX.into() };
        if self.sequence >= last {
            return None;
        }
        let iv = self.iv;
        self.iv = iv.checked_add(1)?;
        self.sequence += 1;
        Some((self.sequence, iv))
    }

    /// Puts the packet into the tunnel, filled up to so many octets.
    #[inline]
    pub(super) fn seal(
        &self,
        packet: &mut Packet,
        inside: &Inside,
        filled: usize,
        (sequence, iv): (u64, u64),
        outside: Outside,
    ) -> Result<(), Reason> {
        let network = usize::from(packet.metadata().network_offset);
        let text = (filled + TRAILER).next_multiple_of(ALIGNMENT);
        let padding = text - TRAILER - filled;
        packet.truncate(network + inside.length);
        let tail = packet.append(text - inside.length + ICV).ok_or(NO_ROOM)?;
        tail[..filled - inside.length].fill(0);
        // Numbered octets (RFC 4303 §2.4), how many they are, and what is inside.
        let trailer = &mut tail[filled - inside.length..];
        for (place, number) in trailer[..padding].iter_mut().zip(1..) {
            *place = number;
        }
        (trailer[padding], trailer[padding + 1]) = (padding as u8, inside.next_header.0);

        let header = self.ends.header_length();
        let total = u16::try_from(header + FRONT + text + ICV).map_err(|_| NO_ROOM)?;
        let ether_type = self.ends.ether_type();
        let bytes = packet.wrap(network, header + FRONT, ether_type).ok_or(NO_ROOM)?;
        self.ends.write(bytes, total, outside).ok_or(NO_ROOM)?;
        let (front, bytes) = bytes[header..].split_at_mut(FRONT);
        let iv = iv.to_be_bytes();
        let repr = Repr { spi: Spi(self.spi), sequence_number: sequence as u32 };
        repr.emit(front).map_err(|_| NO_ROOM)?;
        front[FRONT - iv.len()..].copy_from_slice(&iv);
        let (text, tag) = bytes.split_last_chunk_mut::<TAG>().ok_or(NO_ROOM)?;
        let (data, length) = associated(self.spi, sequence, self.extended);
        let session = self.session.as_ref().ok_or(NO_ASSOCIATION)?;
        if !session.seal(&nonce(self.salt, iv), &data[..length], text, tag) {
            return Err(DEVICE);
        }
        self.ends.annotate(packet.metadata_mut(), total);
        Ok(())
    }

    pub(super) fn export(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.spi.to_le_bytes());
        self.key.export(out);
        self.ends.export(out);
        out.push(self.extended.into());
        out.extend_from_slice(&self.pad_to.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.iv.to_le_bytes());
        self.usage.export(out);
    }

    /// Reads what [`export`](Self::export) wrote; the session comes then.
    pub(super) fn import(fields: &mut Fields<'_>) -> Result<Association, ContextError> {
        let spi = fields.u32()?;
        check_spi(spi).map_err(|_| ContextError::Damaged)?;
        let key = Key::import(fields)?;
        let ends = Ends::import(fields)?;
        let extended = match fields.u8()? {
            0 => false,
            1 => true,
            _ => return Err(ContextError::Damaged),
        };
        let (pad_to, sequence, iv) = (fields.u16()?, fields.u64()?, fields.u64()?);
        if !extended && sequence > u32::MAX.into() {
            return Err(ContextError::Damaged);
        }
        let usage = Usage::import(fields)?;
        Ok(Association {
            spi,
            ends,
            extended,
            pad_to,
            salt: key.salt(),
            session: None,
            sequence,
            iv,
            usage,
            key,
            recorded: Recorded::Yes,
        })
    }
}
