//! Gates: where packets wait during a move, within bounds for each user and for
//! the node.

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

/// Where the packets of all gates of a node lie, and their account. All room is
/// made beforehand: a packet that waits allocates nothing.
#[derive(Debug)]
pub struct Room<P> {
    bounds: Bounds,
    used: Bounds,
    places: Vec<RoomSlot<P>>,
    /// The first place without a packet; [`NOWHERE`] when there is none.
    vacant: u32,
}

#[derive(Debug)]
struct RoomSlot<P> {
    packet: Option<(P, usize)>,
    /// The place behind this one, in its gate or among the vacant ones.
    next: u32,
}

const NOWHERE: u32 = u32::MAX;

impl<P> Room<P> {
    /// Nothing waits yet.
    pub fn new(bounds: Bounds) -> Room<P> {
        let packets = bounds.packets.min(NOWHERE as usize);
        let bounds = Bounds { packets, ..bounds };
        let used = Bounds { packets: 0, bytes: 0 };
        Room { bounds, used, places: Vec::with_capacity(packets), vacant: NOWHERE }
    }

    /// Packets and bytes that wait.
    pub fn used(&self) -> Bounds {
        self.used
    }

    /// Puts a packet down; there is room by the account.
    fn put(&mut self, packet: P, bytes: usize) -> u32 {
        self.used.packets += 1;
        self.used.bytes += bytes;
        let at = self.vacant;
        match self.places.get_mut(at as usize) {
            Some(place) => {
                place.packet = Some((packet, bytes));
                self.vacant = std::mem::replace(&mut place.next, NOWHERE);
                at
            }
            None => {
                self.places.push(RoomSlot { packet: Some((packet, bytes)), next: NOWHERE });
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Takes a packet up; says which one stands behind it.
    fn take(&mut self, at: u32) -> Option<(P, usize, u32)> {
        let place = self.places.get_mut(at as usize)?;
        let (packet, bytes) = place.packet.take()?;
        let next = std::mem::replace(&mut place.next, self.vacant);
        self.vacant = at;
        self.used.packets -= 1;
        self.used.bytes -= bytes;
        Some((packet, bytes, next))
    }

    fn look(&self, at: u32) -> Option<&(P, usize)> {
        self.places.get(at as usize)?.packet.as_ref()
    }
}

/// A gate of one user: a row of packets in the room of its node.
#[derive(Debug)]
pub struct Gate {
    first: u32,
    last: u32,
    used: Bounds,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { first: NOWHERE, last: NOWHERE, used: Bounds { packets: 0, bytes: 0 } }
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

impl Gate {
    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.used.packets
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.used.packets == 0
    }

    /// The oldest packet.
    pub fn oldest<'a, P>(&self, room: &'a Room<P>) -> Option<&'a P> {
        room.look(self.first).map(|(packet, _)| packet)
    }

    /// Keeps a packet of so many bytes if `bounds` of the user and `room` of the
    /// node allow it.
    pub fn hold<P>(
        &mut self,
        packet: P,
        bytes: usize,
        bounds: Bounds,
        room: &mut Room<P>,
        policy: Policy,
    ) -> Held<P> {
        if bounds.have_room(self.used, bytes) && room.bounds.have_room(room.used, bytes) {
            self.push(packet, bytes, room);
            return if self.used.packets == 1 { Held::First } else { Held::Behind };
        }
        // One out, one in: only where the one that leaves makes room enough.
        let fits = |oldest: usize| {
            let bound = |bounds: Bounds, used: Bounds| {
                used.packets <= bounds.packets && used.bytes - oldest + bytes <= bounds.bytes
            };
            bound(bounds, self.used) && bound(room.bounds, room.used)
        };
        match (policy, room.look(self.first).map(|(_, oldest)| *oldest)) {
            (Policy::DropOldest, Some(oldest)) if fits(oldest) => {
                let Some(oldest) = self.release(room) else { return Held::Full(packet) };
                self.push(packet, bytes, room);
                Held::Full(oldest)
            }
            _ => Held::Full(packet),
        }
    }

    fn push<P>(&mut self, packet: P, bytes: usize, room: &mut Room<P>) {
        let at = room.put(packet, bytes);
        match room.places.get_mut(self.last as usize) {
            Some(last) if self.used.packets > 0 => last.next = at,
            _ => self.first = at,
        }
        self.last = at;
        self.used.packets += 1;
        self.used.bytes += bytes;
    }

    /// Takes the oldest packet out.
    pub fn release<P>(&mut self, room: &mut Room<P>) -> Option<P> {
        if self.is_empty() {
            return None;
        }
        let (packet, bytes, next) = room.take(self.first)?;
        self.first = next;
        self.used.packets -= 1;
        self.used.bytes -= bytes;
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

    #[test]
    fn places_are_used_again_and_rows_do_not_mix() {
        let mut room = Room::new(Bounds { packets: 4, bytes: 900 });
        let capacity = room.places.capacity();
        let (mut one, mut two) = (Gate::default(), Gate::default());
        let (mut left, mut expected) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for packet in 0..40 {
            let at = usize::from(packet % 3 == 0);
            let gate = if at == 0 { &mut one } else { &mut two };
            if gate.len() == 2 {
                left[at].extend(gate.release(&mut room));
            }
            let bounds = Bounds { packets: 2, bytes: 100 };
            let held = gate.hold(packet, 1, bounds, &mut room, Policy::DropNewest);
            assert!(matches!(held, Held::First | Held::Behind), "{packet}: {held:?}");
            expected[at].push(packet);
        }
        left[0].extend(std::iter::from_fn(|| one.release(&mut room)));
        left[1].extend(std::iter::from_fn(|| two.release(&mut room)));
        assert_eq!(left, expected);
        assert_eq!((room.used().packets, room.places.len()), (0, 4));
        assert_eq!(room.places.capacity(), capacity, "no packet asks for memory");
    }
}
