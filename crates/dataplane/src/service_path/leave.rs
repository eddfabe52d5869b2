//! What leaves at a path: in the header that it came with, brought up to date, or in a fresh
//! one; and notices of packets that do not leave.

use weft_compose::{Burst, Positions};
use weft_dpdk::{Packet, Pool};
use weft_function::{Metadata as _, PacketMetadata, StepValue};
use weft_wire::nsh::{self, Metadata, NextProtocol, ServicePathId};

use super::encapsulate::{Encapsulation, prepend};
use super::header_cache::{EMITTED, number_of};
use super::record::{self, Record, RecordKind};
use super::{NOTHING, Path, PathTarget, Service, is_bare};
use crate::counters::DropReason;
use crate::offload::FunctionDrop;

impl Service {
    /// Puts a packet that leaves at the path of `port` into its header, or a fresh one,
    /// and that into what goes to the next hop.
    ///
    /// # Errors
    /// The reason for which it cannot leave.
    #[inline]
    pub fn wrap(&self, packet: &mut Packet, port: u16, pool: &Pool) -> Result<(), DropReason> {
        let path = self.path(port);
        let number = *number_of(packet.metadata_mut());
        let mut octets = [0; nsh::MIN_HEADER_LENGTH + nsh::MAX_CONTEXT_LENGTH];
        let header = match self.headers.get(number) {
            Some(header) => {
                let emitted = number & EMITTED != 0;
                let room = &mut octets[..header.len()];
                room.copy_from_slice(header);
                self.renew(room, packet, emitted, path)?;
                room
            }
            None => fresh(&mut octets, path),
        };
        if !prepend(packet, header.len(), pool) {
            return Err(DropReason::PoolExhausted);
        }
        packet.data_mut()[..header.len()].copy_from_slice(header);
        self.address(packet, port, pool)
    }

    /// Brings a header that a packet came with up to date: one hop and one function
    /// further, and with what functions have changed.
    fn renew(
        &self,
        octets: &mut [u8],
        packet: &mut Packet,
        emitted: bool,
        path: &Path,
    ) -> Result<(), DropReason> {
        let header = nsh::Packet::new_checked(&*octets);
        let header = header.map_err(|_| DropReason::NshMalformed)?;
        let record = record::record_in(&header);
        let tags = record::tags_in(&header, self.names);
        let bare = is_bare(octets);
        if let Some(at) = record {
            let place = &mut octets[at..at + record::LENGTH];
            if let Some(mut record) = Record::read(place) {
                if emitted {
                    record.what = RecordKind::Emitted;
                }
                if !record.place(packet.metadata()) {
                    return Err(DropReason::FunctionTooLong);
                }
                place.copy_from_slice(&record.octets());
            }
        }
        if let Some((at, length)) = tags {
            let known = &packet.metadata().tags[..self.tags.min(length / 4)];
            record::put_tags(known, &mut octets[at..at + length]);
        }
        let mut header = nsh::Packet::new_checked(&mut *octets);
        if let Ok(header) = &mut header {
            header.decrement_time_to_live();
            header.set_index(path.next);
        }
        if bare {
            strip(octets, packet)?;
        }
        Ok(())
    }

    /// Puts a frame that begins with a service header into what goes to the next hop of
    /// the path of `port`.
    ///
    /// # Errors
    /// The reason for which it cannot leave.
    pub fn address(&self, packet: &mut Packet, port: u16, pool: &Pool) -> Result<(), DropReason> {
        address(&self.path(port).way, packet, pool)
    }

    /// What leads to the next hop of the path of `port`.
    pub fn way(&self, port: u16) -> &Encapsulation {
        &self.path(port).way
    }

    /// What tells the node that waits for a packet that it was dropped, if one
    /// does; and the port of its path.
    pub fn notice(&self, metadata: &mut PacketMetadata, pool: &Pool) -> Option<(Packet, u16)> {
        let number = *number_of(metadata);
        let header = self.headers.get(number).filter(|_| number & EMITTED == 0)?;
        let header = nsh::Packet::new_checked(header).ok()?;
        let at = record::record_in(&header)?;
        let Some(PathTarget::Port(port)) = self.target(header.path().value(), header.index())
        else {
            return None;
        };
        let octets = header.into_inner();
        let mut packet = pool.allocate()?;
        *packet.metadata_mut() = PacketMetadata::default();
        packet.append(octets.len())?.copy_from_slice(octets);
        packet.append(NOTHING.len())?.copy_from_slice(&NOTHING);
        let place = &mut packet.data_mut()[at..at + record::LENGTH];
        let mut record = Record::read(place)?;
        record.what = RecordKind::Dropped;
        (record.reason, record.function) = match metadata.step.get() {
            FunctionDrop::Dropped { reason, function } => (reason, function),
            FunctionDrop::None => (u8::MAX, 0),
        };
        place.copy_from_slice(&record.octets());
        let mut header = nsh::Packet::new_checked(packet.data_mut()).ok()?;
        header.decrement_time_to_live();
        header.set_index(self.path(port).next);
        header.set_oam();
        header.set_next_protocol(NextProtocol::ETHERNET);
        Some((packet, port))
    }
}

/// Puts what leads to a next hop in front of a frame that begins with a service header.
pub fn address(way: &Encapsulation, packet: &mut Packet, pool: &Pool) -> Result<(), DropReason> {
    if !prepend(packet, way.length(), pool) {
        return Err(DropReason::PoolExhausted);
    }
    let (frame, metadata) = packet.parts_mut();
    way.write(frame, metadata);
    Ok(())
}

/// Notes in all packets that no function has dropped them.
pub fn note_none(burst: &mut Burst, positions: Positions) {
    for position in positions {
        burst.packets[position].metadata_mut().step = StepValue::NONE;
    }
}

/// Takes off the link header, which others on the path do not expect.
fn strip(octets: &mut [u8], packet: &mut Packet) -> Result<(), DropReason> {
    let metadata = packet.metadata();
    let start = match metadata.outer_offset {
        0 => metadata.network_offset,
        outer => outer,
    };
    packet.trim_front(usize::from(start));
    let next = match packet.data().first().map(|first| first >> 4) {
        Some(4) => NextProtocol::IPV4,
        Some(6) => NextProtocol::IPV6,
        _ => return Err(DropReason::NshPayloadUnknown),
    };
    octets[3] = next.0;
    Ok(())
}

/// The header of a packet that comes onto the path here.
fn fresh<'a>(octets: &'a mut [u8], path: &Path) -> &'a mut [u8] {
    let repr = nsh::Repr {
        oam: false,
        time_to_live: nsh::DEFAULT_TTL,
        next_protocol: NextProtocol::ETHERNET,
        path: ServicePathId::new(path.id).unwrap_or_default(),
        index: path.next,
        metadata: Metadata::Variable { length: 0 },
    };
    // There is room for the longest.
    let emitted = repr.emit(octets);
    debug_assert!(emitted.is_ok());
    &mut octets[..repr.header_length()]
}
