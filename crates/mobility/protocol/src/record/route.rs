//! What an anchor that keeps its state must know of a user when it starts again.

use crate::identity::{Epoch, Incarnation, Leg, NodeId};

/// The only route to a user, while nothing of it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The move that has led to it, or that was given up.
    pub epoch: Epoch,
    /// That move was given up.
    pub is_aborted: bool,
    /// The way; none where no station has the user.
    pub leg: Option<Leg>,
}

impl Route {
    /// Version of its octets.
    pub const VERSION: u8 = 1;

    /// Its octets, in network byte order.
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = self.epoch.0.to_be_bytes().to_vec();
        octets.push(self.is_aborted.into());
        if let Some(Leg { node, incarnation, epoch }) = self.leg {
            octets.extend(node.0.to_be_bytes());
            octets.extend(incarnation.0.to_be_bytes());
            octets.extend(epoch.0.to_be_bytes());
        }
        octets
    }

    /// Reads its octets; none where they mean nothing.
    pub fn read(version: u8, octets: &[u8]) -> Option<Route> {
        let (epoch, rest) = octets.split_first_chunk()?;
        let (is_aborted, leg) = rest.split_first()?;
        let route = Route {
            epoch: Epoch(u64::from_be_bytes(*epoch)),
            is_aborted: *is_aborted == 1,
            leg: if leg.is_empty() { None } else { Some(read_leg(leg)?) },
        };
        let has_meaning = *is_aborted <= 1 && route.epoch > Epoch(0);
        (version == Route::VERSION && has_meaning).then_some(route)
    }
}

fn read_leg(octets: &[u8]) -> Option<Leg> {
    let (node, rest) = octets.split_first_chunk()?;
    let (incarnation, epoch) = rest.split_first_chunk()?;
    Some(Leg {
        node: NodeId(u32::from_be_bytes(*node)),
        incarnation: Incarnation(u32::from_be_bytes(*incarnation)),
        epoch: Epoch(u64::from_be_bytes(epoch.try_into().ok()?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_that_mean_nothing_are_refused() {
        let leg = Leg { node: NodeId(2), incarnation: Incarnation(7), epoch: Epoch(1 << 40) };
        let route = Route { epoch: Epoch(1 << 41), is_aborted: true, leg: Some(leg) };
        let octets = route.octets();
        assert_eq!(Route::read(1, &octets), Some(route));
        let none = Route { leg: None, is_aborted: false, ..route };
        assert_eq!(Route::read(1, &none.octets()), Some(none));
        assert_eq!((Route::read(0, &octets), Route::read(2, &octets)), (None, None));
        for length in (0..octets.len()).filter(|length| *length != 9) {
            assert_eq!(Route::read(1, &octets[..length]), None, "{length} octets");
        }
        assert_eq!(Route::read(1, &[&octets[..], &[0]].concat()), None);
        assert_eq!(Route::read(1, &Route { epoch: Epoch(0), ..route }.octets()), None);
        let mut wrong = octets;
        wrong[8] = 2;
        assert_eq!(Route::read(1, &wrong), None);
    }
}
