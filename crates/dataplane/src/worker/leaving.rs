//! Packets of a burst that do not all leave by one port, in the order of their arrival.

use weft_dpdk::Batch;

use super::{BurstState, Worker};
use crate::transmit::LeftOver;

impl Worker {
    /// No packet leaves by a port: they go to functions elsewhere, or stay.
    pub(super) fn send_away(&mut self, left_over: &LeftOver) {
        let BurstState { burst, .. } = &mut self.state;
        for (position, packet) in burst.packets.drain().enumerate() {
            match self.element.away_at(position) {
                Some(leaving) => {
                    let original = self.departure.original_of(position, &packet);
                    let taken = self.remote_queues.take(leaving, packet, original, burst.now);
                    self.counters.note(taken);
                }
                None => self.departure.keep(left_over, position, packet, &mut self.queues),
            }
        }
    }

    /// Packets leave by several ports, or in another order than that of their arrival.
    pub(super) fn send_one_by_one(&mut self, left_over: &LeftOver) {
        let BurstState { burst, taps, .. } = &mut self.state;
        let (count, order) = (burst.packets.len(), self.element.order());
        let mut packets = [const { None }; Batch::CAPACITY];
        for (place, packet) in packets.iter_mut().zip(burst.packets.drain()) {
            *place = Some(packet);
        }
        for at in 0..count {
            let position = order.map_or(at, |order| usize::from(order[at]));
            let Some(packet) = packets[position].take() else { continue };
            if let Some(leaving) = self.element.away_at(position) {
                let original = self.departure.original_of(position, &packet);
                let taken = self.remote_queues.take(leaving, packet, original, burst.now);
                self.counters.note(taken);
                continue;
            }
            match self.element.port_of(position) {
                Some(port) => self.departure.send(port, position, packet, taps, burst.now),
                None => self.departure.keep(left_over, position, packet, &mut self.queues),
            }
        }
    }
}
