//! Paths to GTP-U peers (TS 29.281 §7.2, TS 23.007 §20): which are in use, whether
//! their peers answer, and when they are to be asked again. No input and output
//! here: the agent sends what [`Paths::ask`] says and tells of what comes.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_node_config::Echo;

use crate::ports::Loss;

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// It was not asked yet, or has not answered yet.
    Untested,
    /// It has answered the last Echo Request.
    Up,
    /// It has not answered so many Echo Requests as are sent in a row.
    Down,
}

/// Both ends of a path: an address of the node, and the peer's.
pub type Ends = (IpAddr, IpAddr);

/// One path.
#[derive(Clone, Debug)]
pub struct Path {
    /// The node's address.
    pub local: IpAddr,
    /// The peer's address.
    pub peer: IpAddr,
    /// Tunnels on it; those of a range of users count once.
    pub tunnels: u32,
    /// What is known of the peer.
    pub state: PathState,
    /// Echo Requests sent.
    pub requests: u64,
    /// Echo Responses that answered one of them.
    pub responses: u64,
    /// How often the peer has failed.
    pub failures: u64,
    /// When to act next, in nanoseconds.
    due: u64,
    /// Echo Requests of the round at hand; 0 between rounds.
    asked: u8,
    /// Their sequence number.
    sequence: u16,
    /// When the first of them was sent, in nanoseconds.
    began: u64,
}

/// What is to be done about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Send an Echo Request with this sequence number.
    Request(u16),
    /// Tell that the peer has failed.
    Failed,
}

/// All paths in use.
#[derive(Debug)]
pub struct Paths {
    echo: Echo,
    places: Vec<Path>,
    vacant: Vec<u32>,
    numbers: HashMap<Ends, u32, RandomState>,
    /// The one that was entered last: bearers mostly come in rows.
    last: Option<(Ends, u32)>,
    sequence: u16,
}

/// Requests that are sent at once; further ones are sent with the next look.
const AT_ONCE: usize = 64;

const SECOND: u64 = 1_000_000_000;

impl Paths {
    /// No path is in use.
    pub fn new(echo: Echo) -> Paths {
        Paths {
            echo,
            places: Vec::new(),
            vacant: Vec::new(),
            numbers: HashMap::default(),
            last: None,
            sequence: 0,
        }
    }

    /// Asks as `echo` says from now on.
    pub fn set_echo(&mut self, echo: Echo) {
        self.echo = echo;
    }

    /// How peers are asked.
    pub fn echo(&self) -> &Echo {
        &self.echo
    }

    /// One more tunnel is on the path. Returns the path's number, which it keeps as
    /// long as there is one.
    pub fn enter(&mut self, ends: Ends, now: u64) -> u32 {
        if let Some((last, number)) = self.last
            && last == ends
        {
            self.places[number as usize].tunnels += 1;
            return number;
        }
        let number = match self.numbers.get(&ends) {
            Some(number) => *number,
            None => self.open(ends, now),
        };
        self.places[number as usize].tunnels += 1;
        self.last = Some((ends, number));
        number
    }

    fn open(&mut self, (local, peer): Ends, now: u64) -> u32 {
        let path = Path {
            local,
            peer,
            tunnels: 0,
            state: PathState::Untested,
            requests: 0,
            responses: 0,
            failures: 0,
            due: now.saturating_add(self.interval()),
            asked: 0,
            sequence: 0,
            began: now,
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.places[number as usize] = path;
                number
            }
            None => {
                self.places.push(path);
                (self.places.len() - 1) as u32
            }
        };
        self.numbers.insert((local, peer), number);
        number
    }

    /// So many tunnels are no more on the path; without any it is forgotten. Returns
    /// the number it had.
    pub fn leave(&mut self, ends: Ends, tunnels: u32) -> Option<u32> {
        let number = self.number(ends)?;
        let path = &mut self.places[number as usize];
        path.tunnels = path.tunnels.saturating_sub(tunnels);
        if path.tunnels == 0 {
            self.numbers.remove(&ends);
            self.vacant.push(number);
            self.last = None;
        }
        Some(number)
    }

    /// The number of a path in use.
    pub fn number(&self, ends: Ends) -> Option<u32> {
        match self.last {
            Some((last, number)) if last == ends => Some(number),
            _ => self.numbers.get(&ends).copied(),
        }
    }

    /// The paths in use, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|path| path.tunnels > 0)
    }

    /// Paths whose peers do not answer.
    pub fn down(&self) -> usize {
        self.iter().filter(|path| path.state == PathState::Down).count()
    }

    /// Calls `act` with what is due at `now`. The same request is sent again every
    /// T3-RESPONSE, N3-REQUESTS times in all (TS 29.281 §4.3.1). A peer does not fail while
    /// its answers may have been lost: it is asked anew.
    pub(crate) fn ask(&mut self, now: u64, loss: &Loss, mut act: impl FnMut(&Path, Due)) {
        let (interval, response) = (self.interval(), u64::from(self.echo.t3_response) * SECOND);
        let mut sent = 0;
        let in_use = self.places.iter_mut().filter(|path| path.tunnels > 0);
        for path in in_use.filter(|path| path.due <= now) {
            if path.asked == 0 && self.echo.interval == 0 {
                continue;
            }
            if path.asked < self.echo.n3_requests {
                if sent == AT_ONCE {
                    break;
                }
                if path.asked == 0 {
                    self.sequence = self.sequence.wrapping_add(1);
                    path.sequence = self.sequence;
                    path.began = now;
                }
                sent += 1;
                path.asked += 1;
                path.requests += 1;
                path.due = now.saturating_add(response);
                act(path, Due::Request(path.sequence));
                continue;
            }
            path.asked = 0;
            if loss.is_since(path.began) {
                path.due = now;
                continue;
            }
            path.due = now.saturating_add(interval);
            if path.state != PathState::Down {
                path.state = PathState::Down;
                path.failures += 1;
                act(path, Due::Failed);
            }
        }
    }

    /// The peer has answered a request. Returns whether it had failed before; none
    /// for an answer to no request.
    pub fn answered(&mut self, ends: Ends, sequence: u16, now: u64) -> Option<bool> {
        let number = self.number(ends)?;
        let interval = self.interval();
        let path = &mut self.places[number as usize];
        if path.asked == 0 || path.sequence != sequence {
            return None;
        }
        path.asked = 0;
        path.responses += 1;
        path.due = now.saturating_add(interval);
        Some(std::mem::replace(&mut path.state, PathState::Up) == PathState::Down)
    }

    fn interval(&self) -> u64 {
        u64::from(self.echo.interval) * SECOND
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ENDS: Ends =
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

    fn paths() -> Paths {
        let mut paths = Paths::new(Echo { interval: 60, t3_response: 3, n3_requests: 3 });
        paths.enter(ENDS, 0);
        paths
    }

    fn due(paths: &mut Paths, second: u64) -> Vec<Due> {
        let mut all = Vec::new();
        paths.ask(second * SECOND, &Loss::default(), |_, due| all.push(due));
        all
    }

    fn state(paths: &Paths) -> PathState {
        paths.iter().next().unwrap().state
    }

    #[test]
    fn a_peer_that_answers_is_asked_once_an_interval() {
        let mut paths = paths();
        assert!(due(&mut paths, 59).is_empty());
        assert_eq!(due(&mut paths, 60), [Due::Request(1)]);
        assert!(due(&mut paths, 62).is_empty());
        assert_eq!(paths.answered(ENDS, 2, 62 * SECOND), None);
        assert_eq!(paths.answered(ENDS, 1, 62 * SECOND), Some(false));
        // A second answer to the same request is none.
        assert_eq!(paths.answered(ENDS, 1, 62 * SECOND), None);
        assert_eq!(state(&paths), PathState::Up);
        assert!(due(&mut paths, 121).is_empty());
        assert_eq!(due(&mut paths, 122), [Due::Request(2)]);
    }

    #[test]
    fn a_peer_fails_once_after_three_requests_and_returns() {
        let mut paths = paths();
        for second in [60, 63, 66] {
            assert_eq!(due(&mut paths, second), [Due::Request(1)]);
        }
        assert_eq!(due(&mut paths, 69), [Due::Failed]);
        assert_eq!((state(&paths), paths.down()), (PathState::Down, 1));
        for second in [129, 132, 135] {
            assert_eq!(due(&mut paths, second), [Due::Request(2)]);
        }
        // That it is still down is no news.
        assert!(due(&mut paths, 138).is_empty());
        assert_eq!(due(&mut paths, 198), [Due::Request(3)]);
        assert_eq!(paths.answered(ENDS, 3, 199 * SECOND), Some(true));
        assert_eq!(paths.down(), 0);
    }

    #[test]
    fn a_path_without_tunnels_is_forgotten() {
        let mut paths = paths();
        paths.enter(ENDS, 0);
        assert_eq!(paths.leave(ENDS, 1), Some(0));
        assert_eq!(due(&mut paths, 60).len(), 1);
        assert_eq!(paths.leave(ENDS, 1), Some(0));
        assert_eq!((paths.leave(ENDS, 1), paths.iter().count()), (None, 0));
        assert!(due(&mut paths, 600).is_empty());
        assert_eq!(paths.enter((ENDS.1, ENDS.0), 0), 0);
    }

    #[test]
    fn a_peer_does_not_fail_while_its_answers_may_be_lost() {
        let (mut paths, mut loss) = (paths(), Loss::default());
        let mut due = |second: u64, lost: u64| {
            let mut all = Vec::new();
            loss.note(lost, second * SECOND);
            paths.ask(second * SECOND, &loss, |_, due| all.push(due));
            all
        };
        for second in 60..200 {
            assert!(!due(second, second).contains(&Due::Failed), "second {second}");
        }
        let then: Vec<_> = (200..230).flat_map(|second| due(second, 199)).collect();
        assert_eq!(then.iter().filter(|due| **due == Due::Failed).count(), 1);
    }

    #[test]
    fn an_interval_of_0_asks_no_peer() {
        let mut paths = Paths::new(Echo { interval: 0, t3_response: 3, n3_requests: 3 });
        paths.enter(ENDS, 0);
        assert!(due(&mut paths, 1 << 20).is_empty());
    }
}
