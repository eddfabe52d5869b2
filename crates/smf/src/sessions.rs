//! The sessions that the control plane has, wants and gives up.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use crate::Kind;
use crate::profile::{Profile, Tunnels};

/// Sessions that are looked at before another kind of request takes its turn.
const TRIES: u32 = 16;
/// Of a session that is not there.
const NOWHERE: u32 = u32::MAX;

/// A tunnel's end.
pub type Tunnel = (u32, IpAddr);

/// What the control plane knows of one session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Session {
    /// The user plane's SEID.
    pub remote: u64,
    /// How often it was established: no two lives share the control plane's SEID.
    pub life: u32,
    /// Which station it is at.
    pub station: u16,
    /// Whether its downlink packets are buffered.
    pub idle: bool,
    /// Whether a request about it waits for its answer.
    pub busy: bool,
}

/// All sessions of a profile.
#[derive(Debug)]
pub struct Sessions {
    all: Vec<Session>,
    /// Those that are not there, the longest first.
    absent: VecDeque<u32>,
    /// Those that are there, in no order, and the place of each there.
    present: Vec<u32>,
    places: Vec<u32>,
    /// Of those that are there, the ones before it were not picked for deletion.
    unpicked: usize,
    /// The user plane's ends, so many for each session.
    tunnels: Vec<Option<Tunnel>>,
    tunnels_each: usize,
    /// Whether the user plane chooses them.
    chooses: bool,
    /// Ends that the user plane has chosen for one of them.
    taken: HashSet<Tunnel>,
    /// Number of the last usage report of each URR, so many for each session.
    reports: Vec<Option<u32>>,
    urrs_each: usize,
}

impl Sessions {
    /// Those of the profile, none of them there.
    pub fn new(profile: &Profile) -> Sessions {
        let (count, each) = (profile.sessions.count, profile.rules.tunnels());
        let given = |nth: u32| match profile.sessions.tunnels {
            Tunnels::Choose { .. } => None,
            Tunnels::Given { address, first_teid } => {
                let (session, tunnel) = (nth / each.max(1), nth % each.max(1));
                Some((first_teid + tunnel * count + session, address))
            }
        };
        let urrs_each = profile.rules.urrs.len();
        Sessions {
            all: vec![Session::default(); count as usize],
            absent: (0..count).collect(),
            present: Vec::with_capacity(count as usize),
            places: vec![NOWHERE; count as usize],
            unpicked: usize::MAX,
            tunnels: (0..count * each).map(given).collect(),
            tunnels_each: each as usize,
            chooses: matches!(profile.sessions.tunnels, Tunnels::Choose { .. }),
            taken: HashSet::new(),
            reports: vec![None; count as usize * urrs_each],
            urrs_each,
        }
    }

    /// How many are there.
    pub fn present(&self) -> usize {
        self.present.len()
    }

    /// Those that are there, in the order of their users.
    pub fn all_present(&self) -> impl Iterator<Item = u32> {
        (0..self.all.len() as u32).filter(|session| self.places[*session as usize] != NOWHERE)
    }

    /// One of them.
    pub fn get(&self, session: u32) -> Session {
        self.all[session as usize]
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, session: u32) -> &mut Session {
        &mut self.all[session as usize]
    }

    /// The user plane's ends of its tunnels.
    pub fn tunnels(&self, session: u32) -> &[Option<Tunnel>] {
        let from = session as usize * self.tunnels_each;
        &self.tunnels[from..from + self.tunnels_each]
    }

    /// The control plane's SEID.
    pub fn seid(&self, session: u32) -> u64 {
        u64::from(self.get(session).life) << 32 | u64::from(session + 1)
    }

    /// The session that has this SEID of the control plane.
    pub fn find(&self, seid: u64) -> Option<u32> {
        let session = (seid as u32).checked_sub(1)?;
        let known = (session as usize) < self.all.len() && self.seid(session) == seid;
        (known && self.places[session as usize] != NOWHERE).then_some(session)
    }

    /// One that this kind of request is possible for; it is busy from now on. `draw` gives
    /// numbers below the one that it is given.
    pub fn pick(&mut self, kind: Kind, mut draw: impl FnMut(u32) -> u32) -> Option<u32> {
        if kind == Kind::Establish {
            let session = self.absent.pop_front()?;
            let one = &mut self.all[session as usize];
            *one = Session { life: one.life.wrapping_add(1), busy: true, ..Session::default() };
            return Some(session);
        }
        for _ in 0..TRIES.min(self.present.len() as u32) {
            let session = self.present[draw(self.present.len() as u32) as usize];
            let one = &mut self.all[session as usize];
            let possible = match kind {
                Kind::Idle | Kind::Handover => !one.idle,
                Kind::ServiceRequest => one.idle,
                _ => true,
            };
            if possible && !one.busy {
                one.busy = true;
                return Some(session);
            }
        }
        None
    }

    /// Any that is there and not busy, for the deletion of all. Those that were picked before lie
    /// behind `unpicked`, and so does what takes their place as they go.
    pub fn pick_last(&mut self) -> Option<u32> {
        let before = self.unpicked.min(self.present.len());
        let free = |session: &u32| !self.all[*session as usize].busy;
        let Some(place) = self.present[..before].iter().rposition(free) else {
            // What was busy with something else may be free by now.
            self.unpicked = usize::MAX;
            return None;
        };
        self.unpicked = place;
        let session = self.present[place];
        self.all[session as usize].busy = true;
        Some(session)
    }

    /// It was established.
    pub fn enter(&mut self, session: u32, remote: u64) {
        let one = self.get_mut(session);
        (one.remote, one.busy) = (remote, false);
        self.places[session as usize] = self.present.len() as u32;
        self.present.push(session);
    }

    /// It was not established, or it is gone.
    pub fn leave(&mut self, session: u32) {
        self.get_mut(session).busy = false;
        let place = std::mem::replace(&mut self.places[session as usize], NOWHERE);
        if place != NOWHERE {
            self.present.swap_remove(place as usize);
            if let Some(moved) = self.present.get(place as usize) {
                self.places[*moved as usize] = place;
            }
        }
        let from = session as usize * self.tunnels_each;
        if self.chooses {
            for tunnel in &mut self.tunnels[from..from + self.tunnels_each] {
                tunnel.take().map(|tunnel| self.taken.remove(&tunnel));
            }
        }
        let from = session as usize * self.urrs_each;
        self.reports[from..from + self.urrs_each].fill(None);
        self.absent.push_back(session);
    }

    /// Takes the end that the user plane has chosen for its `nth` tunnel; false if another
    /// session has it.
    pub fn chosen(&mut self, session: u32, nth: u32, tunnel: Tunnel) -> bool {
        let free = self.taken.insert(tunnel);
        let place = session as usize * self.tunnels_each + nth as usize;
        self.tunnels[place] = free.then_some(tunnel);
        free
    }

    /// Takes the number of a report of the `nth` URR; false if it does not follow.
    pub fn report(&mut self, session: u32, nth: usize, number: u32) -> bool {
        let last = &mut self.reports[session as usize * self.urrs_each + nth];
        let follows = last.is_none_or(|last| number == last.wrapping_add(1));
        *last = Some(number);
        follows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Sessions {
        sessions(3)
    }

    fn sessions(count: u32) -> Sessions {
        let text = format!(
            "{{apiVersion: weft/v1, kind: ControlPlane, metadata: {{name: t}}, local: 127.0.0.2,
            userPlane: 127.0.0.1, sessions: {{count: {count}, ipv4: 10.0.0.1, stations: [10.1.0.1],
            tunnels: {{given: {{address: 10.2.0.1, firstTeid: 100}}}}}}}}"
        );
        Sessions::new(&Profile::read(&text, "t").unwrap())
    }

    #[test]
    fn all_are_picked_for_deletion_before_the_first_has_gone() {
        let mut all = sessions(1000);
        for _ in 0..1000 {
            let session = all.pick(Kind::Establish, |_| 0).unwrap();
            all.enter(session, 1);
        }
        let busy = all.pick(Kind::Query, |_| 500).unwrap();
        let picked: Vec<_> = std::iter::from_fn(|| all.pick_last()).collect();
        assert_eq!(picked.len(), 999);
        picked.iter().for_each(|session| all.leave(*session));
        assert_eq!((all.present(), all.pick_last()), (1, None));
        all.get_mut(busy).busy = false;
        assert_eq!(all.pick_last(), Some(busy), "it is not busy with something else any more");
    }

    #[test]
    fn sessions_come_and_go_with_a_seid_of_their_own_each_time() {
        let mut all = three();
        let first = all.pick(Kind::Establish, |_| 0).unwrap();
        assert_eq!(
            (first, all.tunnels(0)[0].unwrap().0, all.tunnels(2)[0].unwrap().0),
            (0, 100, 102)
        );
        let seid = all.seid(first);
        assert_eq!(all.find(seid), None, "it is not there yet");
        all.enter(first, 77);
        assert_eq!((all.find(seid), all.present(), all.get(first).remote), (Some(0), 1, 77));
        all.leave(first);
        assert_eq!((all.find(seid), all.present()), (None, 0));
        for session in [1, 2, 0] {
            assert_eq!(all.pick(Kind::Establish, |_| 0), Some(session), "the longest absent first");
            all.enter(session, 1);
        }
        assert_eq!(all.pick(Kind::Establish, |_| 0), None, "no more than the profile has");
        assert_ne!(all.seid(0), seid);
        all.leave(1);
        assert_eq!((all.find(all.seid(2)), all.find(all.seid(0))), (Some(2), Some(0)));
    }

    #[test]
    fn only_requests_that_are_possible_are_picked() {
        let mut all = three();
        let session = all.pick(Kind::Establish, |_| 0).unwrap();
        assert_eq!(all.pick(Kind::Query, |_| 0), None, "nothing is there");
        all.enter(session, 1);
        assert_eq!(all.pick(Kind::ServiceRequest, |_| 0), None, "it is active");
        assert_eq!(all.pick(Kind::Idle, |_| 0), Some(session));
        assert_eq!(all.pick(Kind::Query, |_| 0), None, "it is busy");
        *all.get_mut(session) = Session { idle: true, busy: false, ..all.get(session) };
        assert_eq!(all.pick(Kind::Handover, |_| 0), None, "it is idle");
        assert_eq!(all.pick(Kind::ServiceRequest, |_| 0), Some(session));
    }

    #[test]
    fn ends_and_numbers_of_reports_are_told_when_they_are_wrong() {
        let mut all = three();
        all.chooses = true;
        let tunnel = (9, "10.2.0.1".parse().unwrap());
        assert!(all.chosen(0, 0, tunnel));
        assert!(!all.chosen(1, 0, tunnel));
        all.leave(0);
        assert!(all.chosen(2, 0, tunnel), "its owner is gone");
        assert!(all.report(2, 0, 5) && all.report(2, 0, 6) && !all.report(2, 0, 8));
    }
}
