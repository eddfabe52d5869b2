//! Gates: where packets wait during a move, within bounds for each user and for
//! the node.

use std::collections::VecDeque;

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Packets.
    pub packets: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Bounds {
    fn have_room(&self, used: Bounds, bytes: usize) -> bool {
        used.packets < self.packets && used.bytes + bytes <= self.bytes
    }
}

/// Which packet gives way when a gate is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The one that comes: what was held is whole up to the gap.
    #[default]
    DropNewest,
    /// The oldest of the same gate: what is held is the newest.
    DropOldest,
}

/// The account of a node: what waits in all of its gates.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    bounds: Bounds,
    used: Bounds,
}

impl Room {
    /// Nothing waits yet.
    pub fn new(bounds: Bounds) -> Room {
        Room { bounds, used: Bounds { packets: 0, bytes: 0 } }
    }

    /// Packets and bytes that wait.
    pub fn used(&self) -> Bounds {
        self.used
    }

    fn take(&mut self, bytes: usize) {
        self.used.packets += 1;
        self.used.bytes += bytes;
    }

    fn give_back(&mut self, bytes: usize) {
        self.used.packets -= 1;
        self.used.bytes -= bytes;
    }
}

/// A gate of one user.
#[derive(Clone, Debug)]
pub struct Gate<P> {
    held: VecDeque<(P, usize)>,
    bytes: usize,
}

impl<P> Default for Gate<P> {
    fn default() -> Gate<P> {
        Gate { held: VecDeque::new(), bytes: 0 }
    }
}

/// What became of a packet at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held<P> {
    /// It waits; it is the first to.
    First,
    /// It waits behind others.
    Behind,
    /// The gate is full: this packet is dropped, the one that came or an older
    /// one, as the policy says.
    Full(P),
}

impl<P> Gate<P> {
    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Keeps a packet of so many bytes if `bounds` of the user and `room` of the
    /// node allow it.
    pub fn hold(
        &mut self,
        packet: P,
        bytes: usize,
        bounds: Bounds,
        room: &mut Room,
        policy: Policy,
    ) -> Held<P> {
        let used = Bounds { packets: self.held.len(), bytes: self.bytes };
        if bounds.have_room(used, bytes) && room.bounds.have_room(room.used, bytes) {
            self.push(packet, bytes, room);
            return if self.held.len() == 1 { Held::First } else { Held::Behind };
        }
        // One out, one in: only where the one that leaves makes room enough.
        let fits = |oldest: usize| {
            let bound = |bounds: Bounds, used: Bounds| {
                used.packets <= bounds.packets && used.bytes - oldest + bytes <= bounds.bytes
            };
            bound(bounds, used) && bound(room.bounds, room.used)
        };
        match (policy, self.held.front()) {
            (Policy::DropOldest, Some((_, oldest))) if fits(*oldest) => {
                let Some(oldest) = self.release(room) else { return Held::Full(packet) };
                self.push(packet, bytes, room);
                Held::Full(oldest)
            }
            _ => Held::Full(packet),
        }
    }

    fn push(&mut self, packet: P, bytes: usize, room: &mut Room) {
        room.take(bytes);
        self.bytes += bytes;
        self.held.push_back((packet, bytes));
    }

    /// Takes the oldest packet out.
    pub fn release(&mut self, room: &mut Room) -> Option<P> {
        let (packet, bytes) = self.held.pop_front()?;
        room.give_back(bytes);
        self.bytes -= bytes;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { packets: 3, bytes: 100 };

    #[test]
    fn the_newest_gives_way() {
        let (mut gate, mut room) = (Gate::default(), Room::new(Bounds { packets: 9, bytes: 900 }));
        let mut hold =
            |packet, bytes| gate.hold(packet, bytes, BOUNDS, &mut room, Policy::DropNewest);
        assert_eq!(hold(1, 50), Held::First);
        assert_eq!(hold(2, 60), Held::Full(2));
        assert_eq!(hold(3, 50), Held::Behind);
        assert_eq!(hold(4, 0), Held::Behind);
        assert_eq!(hold(5, 0), Held::Full(5));
        let left: Vec<i32> = std::iter::from_fn(|| gate.release(&mut room)).collect();
        assert_eq!((left, room.used()), (vec![1, 3, 4], Bounds { packets: 0, bytes: 0 }));
    }

    #[test]
    fn the_oldest_gives_way_where_that_makes_room() {
        let (mut gate, mut room) = (Gate::default(), Room::new(Bounds { packets: 2, bytes: 900 }));
        let mut hold =
            |packet, bytes| gate.hold(packet, bytes, BOUNDS, &mut room, Policy::DropOldest);
        assert_eq!((hold(1, 10), hold(2, 80)), (Held::First, Held::Behind));
        assert_eq!(hold(3, 20), Held::Full(1));
        assert_eq!(hold(4, 101), Held::Full(4));
        let left: Vec<i32> = std::iter::from_fn(|| gate.release(&mut room)).collect();
        assert_eq!((left, room.used()), (vec![2, 3], Bounds { packets: 0, bytes: 0 }));
    }

    #[test]
    fn gates_of_a_node_share_its_room() {
        let mut room = Room::new(Bounds { packets: 2, bytes: 900 });
        let mut gates = [Gate::default(), Gate::default(), Gate::default()];
        let [one, two, three] = &mut gates;
        assert_eq!(one.hold(1, 1, BOUNDS, &mut room, Policy::DropNewest), Held::First);
        assert_eq!(two.hold(2, 1, BOUNDS, &mut room, Policy::DropNewest), Held::First);
        assert_eq!(three.hold(3, 1, BOUNDS, &mut room, Policy::DropOldest), Held::Full(3));
        assert_eq!(one.release(&mut room), Some(1));
        assert_eq!(three.hold(3, 1, BOUNDS, &mut room, Policy::DropNewest), Held::First);
    }
}
