//! How packets leave along service paths.

use weft_compose::{Burst, Positions};
use weft_dpdk::Packet;
use weft_function::PacketMetadata;
use weft_wire::ethernet;

use super::Departure;
use crate::command::Report;
use crate::counters::{DropReason, WorkerCounters};
use crate::service_path::address;
use crate::service_path::encapsulate::Encapsulation;
use crate::trace::{Point, Taps};
use crate::transmit::outlet::Fate;

impl Departure {
    /// Of frames with service headers, those for the node; drops the others. Those at
    /// `ethernet` came in Ethernet frames.
    #[cold]
    pub fn sort_frames(
        &mut self,
        burst: &mut Burst,
        frames: Positions,
        ethernet: Positions,
        counters: &WorkerCounters,
        taps: &mut Option<Box<Taps>>,
    ) -> Positions {
        let (mut foreign, mut unknown) = (Positions::NONE, Positions::NONE);
        for position in ethernet {
            match &self.service {
                None => unknown.insert(position),
                Some(service) if !service.is_for(&burst.packets[position]) => {
                    foreign.insert(position);
                }
                Some(_) => {}
            }
        }
        let refused = [(DropReason::NotForUs, foreign), (DropReason::EtherTypeUnknown, unknown)];
        for (reason, positions) in refused {
            counters.dropped(reason, positions.len());
            if let Some(taps) = taps {
                taps.admit(positions, burst);
                taps.at(Point::Dropped(reason), positions, burst);
            }
        }
        frames.without(foreign).without(unknown)
    }

    /// Sends what has gathered at a path to the next hops.
    pub(super) fn leave_along(&mut self, port: u16) {
        let mut batch = std::mem::take(self.outlets[usize::from(port)].batch_mut());
        let bytes = batch.iter().map(|packet| packet.len() as u64).sum();
        self.counters.ports[usize::from(port)].transmitted.add(batch.len(), bytes);
        for mut packet in batch.drain() {
            let Some(service) = &self.service else { return };
            match service.wrap(&mut packet, port, &self.pool) {
                Ok(()) => self.send_to_hop(port, packet),
                Err(reason) => self.counters.dropped(reason, 1),
            }
        }
        *self.outlets[usize::from(port)].batch_mut() = batch;
        self.flush_touched();
    }

    /// Sends a frame that begins with its service header along the path of `port`.
    pub fn send_along(&mut self, port: u16, mut packet: Packet) {
        let Some(service) = &self.service else { return };
        match service.address(&mut packet, port, &self.pool) {
            Ok(()) => self.send_to_hop(port, packet),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    fn send_to_hop(&mut self, port: u16, packet: Packet) {
        let Some(service) = &self.service else { return };
        let (device, is_ethernet) = (service.way(port).port, service.way(port).is_ethernet());
        self.send_frame(device, is_ethernet, packet);
    }

    /// Sends a frame that begins with its service header to a next hop.
    pub fn send_by(&mut self, way: &Encapsulation, mut packet: Packet) {
        match address(way, &mut packet, &self.pool) {
            Ok(()) => self.send_frame(way.port, way.is_ethernet(), packet),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    /// Sends a frame that has all its headers. It leaves with
    /// [`flush_touched`](Self::flush_touched).
    pub fn send_addressed(&mut self, device: u16, packet: Packet) {
        self.send_frame(device, true, packet);
    }

    /// Sends a frame that is ready but for its next hop. It leaves with
    /// [`flush_touched`](Self::flush_touched).
    fn send_frame(&mut self, device: u16, is_ethernet: bool, packet: Packet) {
        let outlet = &mut self.outlets[usize::from(device)];
        if packet.len() - ethernet::HEADER_LENGTH > usize::from(outlet.mtu()) {
            return self.counters.dropped(DropReason::PacketTooBig, 1);
        }
        if let Some(service) = &mut self.service {
            service.touched |= 1 << device;
        }
        if is_ethernet {
            return outlet.send_raw(packet, &self.counters);
        }
        let reports = &mut self.reports;
        let ask = |address| reports.push(Report::Resolve { port: device, address }).is_ok();
        if let Fate::Dropped(reason, _) = outlet.send_own(packet, &self.pool, &self.counters, ask) {
            // No sender is told of what is the node's own.
            self.counters.dropped(reason, 1);
        }
    }

    /// Hands what was sent along paths to the devices.
    pub fn flush_touched(&mut self) {
        let Some(service) = &mut self.service else { return };
        for device in Positions(std::mem::take(&mut service.touched)) {
            self.outlets[device].flush(&self.counters);
        }
    }

    /// Tells the node that waits for a packet that it was dropped.
    #[cold]
    pub fn give_notice(&mut self, metadata: &mut PacketMetadata) {
        let Some(service) = &self.service else { return };
        if let Some((packet, port)) = service.notice(metadata, &self.pool) {
            self.counters.originated.add(1);
            self.send_along(port, packet);
        }
    }

    /// Puts a packet for another worker back into the header that it came in, if it came
    /// in one; false when it is dropped.
    pub(super) fn back_into_header(&mut self, packet: &mut Packet) -> bool {
        let Some(service) = &self.service else { return true };
        let is_back = service.undo(packet, &self.pool);
        if !is_back {
            self.counters.dropped(DropReason::PoolExhausted, 1);
        }
        is_back
    }
}
