//! Every packet of a trial: when it was sent, when it came to the user and when what
//! the user returned came back, and whether anything came twice or in another order.

use std::fmt;

/// One packet; times are cycles of the time-stamp counter, 0 where it has not been.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passage {
    /// Whose it is.
    pub user: u32,
    /// When the host sent it.
    pub sent: u64,
    /// When it came to the user, who returned it at once.
    pub at_user: u64,
    /// When it was back at the host.
    pub at_host: u64,
    /// The station that it came to the user by: 0 or 1.
    pub station: u8,
}

/// What may not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Packets that did not come to the user, or not back to the host.
    pub lost: u64,
    /// Packets that came to one of them twice.
    pub duplicated: u64,
    /// Packets that came to one of them behind a later one of their user (RFC 4737 §3.3).
    pub reordered: u64,
    /// Packets that no user has sent.
    pub foreign: u64,
}

impl Faults {
    /// These, and others.
    pub fn and(self, others: Faults) -> Faults {
        Faults {
            lost: self.lost + others.lost,
            duplicated: self.duplicated + others.duplicated,
            reordered: self.reordered + others.reordered,
            foreign: self.foreign + others.foreign,
        }
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Faults::default()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults { lost, duplicated, reordered, foreign } = self;
        write!(f, "{lost} packets lost, {duplicated} doubled, {reordered} out of order")?;
        if *foreign > 0 { write!(f, ", {foreign} of no user") } else { Ok(()) }
    }
}

/// Where packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// At the user, by this station.
    User(u8),
    /// At the host.
    Host,
}

/// All packets of a trial, by number; those of a user are numbered in order.
#[derive(Debug)]
pub struct Journal {
    packets: Vec<Passage>,
    /// Of each user, the number behind that of its last arrival at user and host.
    behind: [Vec<u32>; 2],
    faults: Faults,
    /// Arrivals at the host.
    returned: usize,
}

impl Journal {
    /// A journal of so many users, with room for so many packets.
    pub fn new(users: u32, packets: usize) -> Journal {
        let none = vec![0; users as usize];
        Journal {
            packets: Vec::with_capacity(packets),
            behind: [none.clone(), none],
            faults: Faults::default(),
            returned: 0,
        }
    }

    /// Notes a packet that is sent; its number.
    pub fn send(&mut self, user: u32, sent: u64) -> u32 {
        self.packets.push(Passage { user, sent, ..Passage::default() });
        self.packets.len() as u32 - 1
    }

    /// Notes that a packet of this user and number has come; whether it is known.
    pub fn arrive(&mut self, place: Arrived, user: u32, number: u32, now: u64) -> bool {
        let packet = self.packets.get_mut(number as usize).filter(|packet| packet.user == user);
        let Some(packet) = packet else {
            self.faults.foreign += 1;
            return false;
        };
        let (at, behind) = match place {
            Arrived::User(station) => {
                packet.station = station;
                (&mut packet.at_user, &mut self.behind[0][user as usize])
            }
            Arrived::Host => (&mut packet.at_host, &mut self.behind[1][user as usize]),
        };
        if *at != 0 {
            self.faults.duplicated += 1;
            return false;
        }
        *at = now;
        self.faults.reordered += u64::from(number < *behind);
        *behind = (*behind).max(number + 1);
        self.returned += usize::from(place == Arrived::Host);
        true
    }

    /// Whether all packets are back.
    pub fn is_whole(&self) -> bool {
        self.returned == self.packets.len()
    }

    /// All packets, by number.
    pub fn packets(&self) -> &[Passage] {
        &self.packets
    }

    /// What should not have happened. What has not come by now counts as lost.
    pub fn faults(&self) -> Faults {
        let lost = self.packets.iter().filter(|packet| packet.at_host == 0).count() as u64;
        Faults { lost, ..self.faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_not_happen_is_seen() {
        let mut journal = Journal::new(2, 8);
        for (user, sent) in [(0, 10), (1, 11), (0, 12), (0, 13)] {
            journal.send(user, sent);
        }
        for number in [0, 3, 2] {
            assert!(journal.arrive(Arrived::User(0), 0, number, 20));
        }
        assert!(!journal.arrive(Arrived::User(1), 0, 3, 21));
        assert!(journal.arrive(Arrived::Host, 0, 0, 22));
        assert!(!journal.arrive(Arrived::Host, 0, 1, 22), "the packet is user 1's");
        assert!(!journal.arrive(Arrived::Host, 0, 9, 22));
        let faults = Faults { lost: 3, duplicated: 1, reordered: 1, foreign: 2 };
        assert_eq!(journal.faults(), faults);
        assert!(!journal.is_whole() && !faults.is_none());
        assert!(faults.to_string().starts_with("3 packets lost, 1 doubled, 1 out of order, 2"));
        assert_eq!(journal.packets()[0].at_host, 22);
    }

    #[test]
    fn users_do_not_overtake_each_other() {
        let mut journal = Journal::new(2, 2);
        journal.send(0, 1);
        journal.send(1, 1);
        for (user, number) in [(1, 1), (0, 0)] {
            journal.arrive(Arrived::User(0), user, number, 2);
            journal.arrive(Arrived::Host, user, number, 3);
        }
        assert!(journal.is_whole() && journal.faults().is_none());
    }
}
