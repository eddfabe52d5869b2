//! The state machine of one connection (RFC 4271 section 8), without I/O and without a clock.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::message::{self, Family, HEADER, Message, Open, Path, TOGETHER, Wrong};

/// How long a router may take to answer an OPEN.
const OPENING: Duration = Duration::from_secs(30);

/// A network that is announced.
pub type Route = (IpAddr, u8);

/// What a session is begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Our AS number.
    pub own_as: u32,
    /// That of the router.
    pub peer_as: u32,
    /// Our BGP identifier.
    pub identifier: Ipv4Addr,
    /// Silence after which the session ends.
    pub hold: Duration,
    /// For how long routes are to stay when the connection is lost; none to let them go at once.
    pub restart: Option<Duration>,
    /// Where packets are to be sent, one address of a family at most.
    pub next_hops: Vec<IpAddr>,
    /// What is announced; those of a family without a next hop are not.
    pub routes: Vec<Route>,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// An OPEN was sent.
    OpenSent,
    /// Both have sent one.
    OpenConfirm,
    /// Networks are announced.
    Established,
}

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// By the router.
    #[error("the router ends the session: {} ({}/{})", .0.said(), .0.0, .0.1)]
    ByPeer(Wrong),
    /// By us; a NOTIFICATION says so.
    #[error("the session is ended: {} ({}/{})", .0.said(), .0.0, .0.1)]
    ByUs(Wrong),
    /// The router has another AS number than the configuration says.
    #[error("the router is of AS {0}, and the configuration says {1}")]
    OtherAs(u32, u32),
    /// Our AS number cannot be told.
    #[error("the router knows no AS numbers of four octets, and the node has one")]
    ShortNumbers,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    state: State,
    received: Vec<u8>,
    to_send: Vec<u8>,
    hold: Duration,
    /// When the router is given up.
    silent_at: Option<Instant>,
    /// When it is told that we are there.
    keepalive_at: Option<Instant>,
    families: Vec<Family>,
    has_four_octets: bool,
}

impl Session {
    /// A session on a connection that has just been made: sends OPEN. `has_restarted` says that
    /// this process has not had a session before.
    pub fn begin(settings: Settings, has_restarted: bool, now: Instant) -> Session {
        let families: Vec<Family> = Family::ALL
            .into_iter()
            .filter(|family| settings.next_hops.iter().any(|hop| Family::of(*hop) == *family))
            .collect();
        let open = Open {
            autonomous_system: settings.own_as,
            hold_time: u16::try_from(settings.hold.as_secs()).unwrap_or(u16::MAX),
            identifier: settings.identifier,
            families: families.clone(),
            has_four_octets: true,
            restart_time: settings.restart,
        };
        Session {
            to_send: message::open(&open, has_restarted),
            hold: settings.hold,
            settings,
            state: State::OpenSent,
            received: Vec::new(),
            silent_at: Some(now + OPENING),
            keepalive_at: None,
            families,
            has_four_octets: true,
        }
    }

    /// Where it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// Networks that the router was told of.
    pub fn announced(&self) -> usize {
        match self.state {
            State::Established => self.routes().count(),
            State::OpenSent | State::OpenConfirm => 0,
        }
    }

    /// What is to be sent; it is not given twice.
    pub fn take_to_send(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.to_send)
    }

    /// When there is something to do although nothing arrives.
    pub fn next(&self) -> Option<Instant> {
        self.silent_at.into_iter().chain(self.keepalive_at).min()
    }

    /// Octets have arrived.
    ///
    /// # Errors
    /// [`Ended`]; what is to be sent may hold a NOTIFICATION.
    pub fn received(&mut self, octets: &[u8], now: Instant) -> Result<(), Ended> {
        self.received.extend(octets);
        // Messages are taken as they come, so less than one remains.
        while self.received.len() >= HEADER {
            let parsed = message::parse(&self.received).map_err(|wrong| self.end(wrong))?;
            let Some((message, length)) = parsed else { break };
            self.received.drain(..length);
            self.take(message, now)?;
        }
        Ok(())
    }

    /// Time has passed.
    ///
    /// # Errors
    /// As [`received`](Self::received).
    pub fn elapsed(&mut self, now: Instant) -> Result<(), Ended> {
        if self.silent_at.is_some_and(|at| at <= now) {
            return Err(self.end(Wrong::HOLD_TIMER));
        }
        if self.keepalive_at.is_some_and(|at| at <= now) {
            self.keep_alive(now);
        }
        Ok(())
    }

    /// The session is to end, and what was announced with it.
    pub fn shut_down(&mut self) {
        self.to_send.extend(message::notification(Wrong::SHUTDOWN));
    }

    fn take(&mut self, message: Message, now: Instant) -> Result<(), Ended> {
        if let Message::Notification(wrong) = message {
            return Err(Ended::ByPeer(wrong));
        }
        match (self.state, message) {
            (State::OpenSent, Message::Open(open)) => self.opened(&open, now)?,
            (State::OpenConfirm, Message::Keepalive) => {
                self.state = State::Established;
                self.announce();
            }
            (State::Established, Message::Keepalive | Message::Other) => {}
            _ => return Err(self.end(Wrong::STATE)),
        }
        self.silent_at = Some(now + self.hold).filter(|_| !self.hold.is_zero());
        Ok(())
    }

    fn opened(&mut self, open: &Open, now: Instant) -> Result<(), Ended> {
        if open.autonomous_system != self.settings.peer_as {
            self.end(Wrong::PEER_AS);
            return Err(Ended::OtherAs(open.autonomous_system, self.settings.peer_as));
        }
        // Two speakers of one AS differ in this (RFC 6286).
        let is_internal = self.settings.own_as == self.settings.peer_as;
        if is_internal && open.identifier == self.settings.identifier {
            return Err(self.end(Wrong::IDENTIFIER));
        }
        if !open.has_four_octets && u16::try_from(self.settings.own_as).is_err() {
            self.end(Wrong::CAPABILITY);
            return Err(Ended::ShortNumbers);
        }
        self.families.retain(|family| open.families.contains(family));
        self.hold = self.hold.min(Duration::from_secs(open.hold_time.into()));
        self.has_four_octets = open.has_four_octets;
        self.state = State::OpenConfirm;
        self.keep_alive(now);
        Ok(())
    }

    fn keep_alive(&mut self, now: Instant) {
        self.to_send.extend(message::keepalive());
        self.keepalive_at = Some(now + self.hold / 3).filter(|_| !self.hold.is_zero());
    }

    /// Announces all networks, and says that these are all.
    fn announce(&mut self) {
        let is_internal = self.settings.own_as == self.settings.peer_as;
        let through = Some(self.settings.own_as).filter(|_| !is_internal);
        let mut out = Vec::new();
        for family in &self.families {
            let of_family = |hop: &&IpAddr| Family::of(**hop) == *family;
            let Some(next_hop) = self.settings.next_hops.iter().find(of_family) else { continue };
            let path = Path { through, has_four_octets: self.has_four_octets, next_hop: *next_hop };
            let routes: Vec<Route> =
                self.routes().filter(|(network, _)| Family::of(*network) == *family).collect();
            for together in routes.chunks(TOGETHER) {
                out.extend(message::announce(&path, together));
            }
            out.extend(message::end_of_announcements(*family));
        }
        self.to_send.extend(out);
    }

    /// Networks of families that both speak.
    fn routes(&self) -> impl Iterator<Item = Route> {
        let routes = self.settings.routes.iter().copied();
        routes.filter(|(network, _)| self.families.contains(&Family::of(*network)))
    }

    fn end(&mut self, wrong: Wrong) -> Ended {
        self.to_send.extend(message::notification(wrong));
        Ended::ByUs(wrong)
    }
}

#[cfg(test)]
mod tests;
