//! What functions ask for beyond a verdict: packets that they send, keep and
//! release, and timers.

use weft_compose::{Burst, Positions};
use weft_dpdk::{Batch, Packet};
use weft_function::{Emission, EmissionKind, Metadata, PacketMetadata, Position, Scope};

use super::Configure;
use super::{Element, VisitContext, one};
use crate::counters::DropReason;
use crate::offload::states::StateGroups;
use crate::service_path::mark_emitted;

impl Element {
    /// Calls the timer of a function's context; what it emits is put into
    /// `burst`, to be resumed behind that function.
    pub fn timer(
        &mut self,
        burst: &mut Burst,
        function: u16,
        slot: u32,
        around: &mut VisitContext<'_>,
    ) {
        self.clear();
        let Some(at) = self.plan.functions.get_mut(usize::from(function)) else { return };
        self.outcome.clear();
        at.instance.timer(slot, burst.now, &burst.pool, &mut self.outcome);
        self.note_failures(function, around);
        self.emit_timer(burst, function, slot, around);
    }

    /// Does what the timer of a function's context asked for.
    pub(crate) fn emit_timer(
        &mut self,
        burst: &mut Burst,
        function: u16,
        slot: u32,
        around: &mut VisitContext<'_>,
    ) {
        for emission in std::mem::take(&mut self.outcome.emissions) {
            match emission.what {
                EmissionKind::Send(mut packet, _) => {
                    around.counters.emitted.add(1);
                    self.mark_emitted(&mut packet);
                    self.append(burst, packet, None, around);
                }
                EmissionKind::Release(count) => {
                    let mut left = count;
                    while left > 0
                        && let Some(packet) = around.queues.take(function, slot)
                    {
                        self.append(burst, packet, None, around);
                        left -= 1;
                    }
                }
                EmissionKind::Answer(packet) => answer(packet, around),
                EmissionKind::WakeAt(time) => around.queues.wake_at(time, function, slot),
                EmissionKind::Report(code) => around.queues.report(function, slot, code),
                EmissionKind::Keep => {}
            }
        }
    }

    /// Puts the End Markers of tunnels that a context will not have with its next
    /// settings into `burst`, to be resumed behind its function.
    pub fn end_tunnels(
        &mut self,
        burst: &mut Burst,
        next: &Configure,
        like: &[PacketMetadata; 2],
        around: &mut VisitContext<'_>,
    ) {
        self.clear();
        let Configure { function, slot, settings, nth } = next;
        let Some(at) = self.plan.functions.get_mut(usize::from(*function)) else { return };
        self.outcome.clear();
        at.instance.end_tunnels(*slot, (settings, *nth), like, &burst.pool, &mut self.outcome);
        self.note_failures(*function, around);
        for emission in std::mem::take(&mut self.outcome.emissions) {
            if let EmissionKind::Send(packet, _) = emission.what {
                around.counters.emitted.add(1);
                self.append(burst, packet, None, around);
            }
        }
    }

    /// Does what a function asked for during a visit, in the order it asked.
    /// Packets that it emitted or released join the group of their parent.
    #[cold]
    pub(super) fn emit(
        &mut self,
        burst: &mut Burst,
        function: u16,
        group: &mut StateGroups,
        around: &mut VisitContext<'_>,
    ) {
        let mut sent_after = [0; Batch::CAPACITY];
        for Emission { parent, what } in std::mem::take(&mut self.outcome.emissions) {
            let slot = self.slot(function, &burst.packets[parent]);
            let mut joining = Positions::NONE;
            match what {
                EmissionKind::Keep => {
                    if !around.queues.keep(function, slot, parent) {
                        self.outcome.kept.remove(parent);
                        self.outcome.dropped.insert(parent);
                        self.drop(burst, one(parent), DropReason::KeptFull, around);
                    }
                }
                EmissionKind::Send(mut packet, Position::Before) => {
                    around.counters.emitted.add(1);
                    self.mark_emitted(&mut packet);
                    let at = self.order_of(burst, parent);
                    joining = self.append(burst, packet, Some(at), around);
                }
                EmissionKind::Send(mut packet, Position::After) => {
                    around.counters.emitted.add(1);
                    self.mark_emitted(&mut packet);
                    sent_after[parent] += 1;
                    let at = self.order_of(burst, parent) + sent_after[parent];
                    joining = self.append(burst, packet, Some(at), around);
                }
                EmissionKind::Release(count) => {
                    let mut left = count;
                    // Before those of this burst, too, which are newer.
                    let first = around.queues.first_of_burst(function, slot).unwrap_or(parent);
                    while left > 0
                        && let Some(packet) = around.queues.take(function, slot)
                    {
                        let at = self.order_of(burst, first);
                        joining = joining.or(self.append(burst, packet, Some(at), around));
                        left -= 1;
                    }
                    while left > 0
                        && let Some(position) = around.queues.take_from_burst(function, slot)
                    {
                        self.outcome.kept.remove(position);
                        joining.insert(position);
                        left -= 1;
                    }
                }
                EmissionKind::Answer(packet) => answer(packet, around),
                EmissionKind::WakeAt(time) => around.queues.wake_at(time, function, slot),
                EmissionKind::Report(code) => around.queues.report(function, slot, code),
            }
            join(group, parent, joining);
        }
    }

    #[inline]
    fn mark_emitted(&self, packet: &mut Packet) {
        if self.on_paths {
            mark_emitted(packet);
        }
    }

    /// Where the packet at `position` stands in the order of leaving.
    fn order_of(&mut self, burst: &Burst, position: usize) -> usize {
        if self.order.is_empty() {
            self.order.extend((0..burst.packets.len()).map(|position| position as u8));
        }
        let same = |&one: &u8| usize::from(one) == position;
        self.order.iter().position(same).unwrap_or(self.order.len())
    }

    /// Whose context `function` keeps for a packet.
    fn slot(&self, function: u16, packet: &Packet) -> u32 {
        let metadata = packet.metadata();
        match self.plan.functions[usize::from(function)].instance.scope() {
            Scope::Bearer => metadata.bearer,
            Scope::User => metadata.user,
            Scope::Group => metadata.group,
        }
    }

    /// Adds a packet to the burst, to leave at that place of the order.
    fn append(
        &mut self,
        burst: &mut Burst,
        packet: Packet,
        order: Option<usize>,
        around: &mut VisitContext<'_>,
    ) -> Positions {
        let (position, length) = (burst.packets.len(), packet.len() as u16);
        if burst.packets.push(packet).is_err() {
            around.counters.dropped(DropReason::BurstFull, 1);
            return Positions::NONE;
        }
        self.lengths[position] = length;
        self.total += u64::from(length);
        if let Some(order) = order {
            self.order.insert(order, position as u8);
        }
        one(position)
    }
}

/// Leaves an answer to be carried when this burst is done.
fn answer(packet: Packet, around: &mut VisitContext<'_>) {
    around.counters.emitted.add(1);
    if !around.queues.answer(packet) {
        around.counters.dropped(DropReason::BurstFull, 1);
    }
}

/// Lets `joining` go on with the packet at `parent`, but for those that go on
/// by themselves.
fn join(group: &mut StateGroups, parent: usize, joining: Positions) {
    let there = group.iter().fold(Positions::NONE, |all, (_, positions)| all.or(*positions));
    if let Some((_, positions)) = group.iter_mut().find(|(_, set)| set.contains(parent)) {
        *positions = positions.or(joining.without(there));
    }
}
