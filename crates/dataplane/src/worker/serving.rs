//! Packets on service paths: the way of a packet once more, from out of its service
//! header back into it.

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::{Batch, Packet};
use weft_function::{Metadata, PacketMetadata, StepValue, Tunnel};

use super::{BurstState, Worker};
use crate::counters::DropReason;
use crate::parse::Parsed;
use crate::service_path::record::RecordKind;
use crate::service_path::{Opened, note_none, read};
use crate::trace::{Point, Taps};

/// A packet out of its service header: the port of its path, and the number of the
/// header.
type Inside = (Packet, u16, u32);

impl Worker {
    /// Carries the frames with service headers that came in.
    pub(super) fn serve(&mut self) {
        let mut inside: ArrayVec<Inside, { Batch::CAPACITY }> = ArrayVec::new();
        let Some(service) = &mut self.departure.service else { return };
        let mut frames = std::mem::take(&mut service.arrived);
        for mut packet in frames.drain() {
            let Some(service) = &mut self.departure.service else { return };
            match service.open(&mut packet) {
                // There is room for as many as a batch has.
                Opened::Inside(port, number) => inside.push((packet, port, number)),
                Opened::Along(port) => self.departure.send_along(port, packet),
                Opened::Back(remote) => self.take_returned(packet, remote),
                Opened::FromVf(vf) => self.take_from_vf(packet, vf),
                Opened::Refused(reason) => self.refuse_frame(packet, reason),
            }
        }
        while let Some((_, port, _)) = inside.first() {
            let port = *port;
            let mut numbers = [0; Batch::CAPACITY];
            let mut rest: ArrayVec<Inside, { Batch::CAPACITY }> = ArrayVec::new();
            for one in inside.drain(..) {
                let packets = &mut self.state.burst.packets;
                if one.1 == port {
                    numbers[packets.len()] = one.2;
                    // The burst before has left.
                    drop(packets.push(one.0));
                } else {
                    rest.push(one);
                }
            }
            inside = rest;
            self.carry_inside(port, &numbers);
        }
        self.departure.flush_touched();
    }

    /// The way of packets of one path.
    fn carry_inside(&mut self, port: u16, numbers: &[u32; Batch::CAPACITY]) {
        let transit = self.receive_inside(port, numbers);
        let tunnelled = self.tunnelled(transit);
        self.classify_at(port, transit, tunnelled);
        if let Some(service) = &self.departure.service {
            for position in transit {
                service.tag(&mut self.state.burst.packets[position], numbers[position]);
            }
        }
        note_none(&mut self.state.burst, transit.without(self.state.classified.elsewhere));
        self.forward_and_transmit();
    }

    /// Finds where headers are. What is malformed ends here.
    fn receive_inside(&mut self, port: u16, numbers: &[u32; Batch::CAPACITY]) -> Positions {
        let BurstState { burst, taps, doubtful, .. } = &mut self.state;
        burst.now = self.clock.now();
        *doubtful = Positions::NONE;
        let count = burst.packets.len();
        let bytes = burst.packets.iter().map(|packet| packet.len() as u64).sum();
        self.counters.bursts.note(count);
        self.counters.ports[usize::from(port)].received.add(count, bytes);
        if let Some(taps) = taps {
            taps.begin();
        }
        let mut transit = Positions::first(count);
        for position in transit {
            let packet = &mut burst.packets[position];
            let record =
                self.departure.service.as_ref().and_then(|one| one.record(numbers[position]));
            let Parsed::Malformed(reason) = read(packet, port, record) else { continue };
            transit.remove(position);
            let metadata = packet.metadata_mut();
            metadata.step = StepValue::new(reason);
            super::ending::drop_malformed(position, burst, &self.counters, taps);
            // The node that waits for it is told as the burst leaves.
            let metadata = burst.packets[position].metadata_mut();
            metadata.step = StepValue::NONE;
            *crate::service_path::header_cache::number_of(metadata) = numbers[position];
        }
        transit
    }

    /// Those in a tunnel whose TEID says whose they are; it is left in them.
    fn tunnelled(&mut self, transit: Positions) -> Positions {
        let mut tunnelled = Positions::NONE;
        for position in transit {
            let packet = &mut self.state.burst.packets[position];
            let PacketMetadata { flags, outer_offset, .. } = *packet.metadata();
            if flags & PacketMetadata::TUNNELLED == 0 || outer_offset == 0 {
                continue;
            }
            if let Some(teid) = packet.message().map(|message| message.teid()) {
                packet.metadata_mut().step = StepValue::new(teid);
                tunnelled.insert(position);
            }
        }
        tunnelled
    }

    /// Takes in a frame that came back from a function at another node.
    fn take_returned(&mut self, packet: Packet, remote: usize) {
        let Some(service) = &mut self.departure.service else { return };
        let Some((record, path)) = service.record_of(&packet) else {
            return self.remote_queues.reject(service.remote_paths[remote].remote_queue);
        };
        if usize::from(record.worker) != service.worker {
            let peer = self.departure.peers.get_mut(usize::from(record.worker));
            if let Some(Some(peer)) = peer {
                // A burst has no more packets than a batch has room.
                drop(peer.batch.push(packet));
            }
            return self.departure.hand_over();
        }
        if matches!(record.what, RecordKind::Probe | RecordKind::Dropped) {
            self.counters.local.add(1);
        }
        let remote = &mut service.remote_paths[remote];
        if !remote.endpoint.take(packet, record, path) {
            self.remote_queues.reject(remote.remote_queue);
        }
    }

    /// Takes in a frame that came back from a process behind a NIC.
    fn take_from_vf(&mut self, packet: Packet, vf: usize) {
        let Some(service) = &mut self.departure.service else { return };
        let vf = &mut service.vf_paths[vf];
        let worker = usize::from(vf.endpoint.worker_of(packet.data()));
        if worker != service.worker
            && let Some(Some(peer)) = self.departure.peers.get_mut(worker)
        {
            // A burst has no more packets than a batch has room.
            drop(peer.batch.push(packet));
            return self.departure.hand_over();
        }
        if !vf.endpoint.take(packet) {
            self.remote_queues.reject(vf.remote_queue);
        }
    }

    /// Sends what is on its way to processes behind a NIC.
    fn drive_vfs(&mut self) -> bool {
        let mut busy = false;
        let Some(service) = &mut self.departure.service else { return false };
        let mut paths = std::mem::take(&mut service.vf_paths);
        for vf in &mut paths {
            while let Some(packet) = vf.endpoint.next_leaving() {
                busy = true;
                self.departure.send_addressed(vf.port, packet);
            }
        }
        if let Some(service) = &mut self.departure.service {
            service.vf_paths = paths;
        }
        self.departure.flush_touched();
        busy
    }

    /// Sends what is on its way to functions at other nodes, and tries their paths.
    #[inline]
    pub(super) fn drive_remotes(&mut self) -> bool {
        match &self.departure.service {
            Some(service) if !service.vf_paths.is_empty() => self.drive_vfs() | self.drive(),
            Some(service) if !service.remote_paths.is_empty() => self.drive(),
            _ => false,
        }
    }

    fn drive(&mut self) -> bool {
        let (now, mut busy) = (self.clock.now(), false);
        let Some(mut service) = self.departure.service.take() else { return false };
        let mut paths = std::mem::take(&mut service.remote_paths);
        self.departure.service = Some(service);
        for remote in &mut paths {
            if remote.endpoint.is_due(now) {
                let probes = remote.endpoint.probes(now, &self.state.burst.pool);
                for (way, probe) in probes.into_iter().enumerate() {
                    let Some(probe) = probe else { continue };
                    self.counters.originated.add(1);
                    self.departure.send_by(&remote.ways[way], probe);
                }
            }
            while let Some((packet, way)) = remote.endpoint.next_leaving() {
                busy = true;
                self.departure.send_by(&remote.ways[way], packet);
            }
        }
        if let Some(service) = &mut self.departure.service {
            service.remote_paths = paths;
        }
        self.departure.flush_touched();
        busy
    }

    /// Counts a frame that does not go on.
    #[cold]
    fn refuse_frame(&mut self, packet: Packet, reason: DropReason) {
        let BurstState { burst, taps, .. } = &mut self.state;
        self.counters.dropped(reason, 1);
        if let Some(taps) = taps {
            show_dropped(burst, taps, packet, reason);
        }
    }
}

/// Shows a frame to those who watch.
fn show_dropped(
    burst: &mut weft_compose::Burst,
    taps: &mut Taps,
    packet: Packet,
    reason: DropReason,
) {
    taps.begin();
    // The burst is empty here.
    if burst.packets.push(packet).is_ok() {
        let only = Positions::first(1);
        taps.admit(only, burst);
        taps.at(Point::Dropped(reason), only, burst);
        burst.packets.clear();
    }
}
