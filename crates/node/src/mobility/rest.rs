//! The node's part in moves while nothing moves: another process of the node goes on with it.
//!
//! That process has the incarnation of the one before, so nothing has happened for controller and
//! other nodes but that connections began anew. What they have said meanwhile, they say again.

use weft_mobility_protocol::{Kept, Route, User};

use super::*;

/// What a node's last life has kept of its part in moves.
pub(crate) type Remembered = (Vec<(User, Kept)>, Vec<(User, Route)>);

/// Why another process cannot go on with the node's part in moves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotGoneOn {
    #[error("what the other process says of users that move is of another release")]
    Foreign,
    #[error("{0} is here, and the configuration cannot have it: {1}")]
    Unknown(User, String),
}

impl Mobility {
    /// What the node's part is; none while a user moves or has just done so.
    pub fn at_rest(&self) -> Option<Vec<u8>> {
        let is_quiet = self.done.is_empty() && self.settled.is_empty() && self.drains.are_none();
        // A station that has not heard its controller asks for it, and has no users.
        let waits = self.timers.next().is_some() && !self.mobiles.is_empty();
        if !is_quiet || waits || !self.mobiles.values().all(Mobile::is_at_rest) {
            return None;
        }
        self.machine.at_rest()
    }

    /// Goes on with what another process was, before any packet comes. Workers are told how
    /// users are treated; they have to apply it before they carry packets.
    ///
    /// # Errors
    /// [`NotGoneOn`].
    pub fn taken_over(
        plan: HandoverPlan,
        (octets, secret): (&[u8], &[u8]),
        waker: Waker,
        host: &mut dyn Host,
    ) -> Result<Mobility, NotGoneOn> {
        let (node, settings, mut out) = (plan.node, plan.settings, Vec::new());
        let machine = match plan.role {
            HandoverRole::Station => {
                Station::go_on(node, settings, octets, &mut out).map(Machine::Station)
            }
            HandoverRole::Anchor => {
                Anchor::go_on(node, settings, octets, &mut out).map(Machine::Anchor)
            }
        };
        let machine = machine.ok_or(NotGoneOn::Foreign)?;
        let (mut mobility, mail) = Mobility::with(plan, (machine, secret), waker);
        mobility.unclaimed = Some(mail);
        for user in mobility.machine.users() {
            mobility
                .know(host, user)
                .map_err(|unknown| NotGoneOn::Unknown(user, unknown.to_string()))?;
            mobility.take_on(host, user);
        }
        // Nothing of these has to wait for a user's turn.
        out.into_iter().for_each(|output| mobility.carry_out(host, None, output));
        Ok(mobility)
    }

    /// Goes on with what the last life has kept: contexts of users that a station owned, and an
    /// anchor's routes to users.
    pub fn remember(&mut self, host: &mut dyn Host, (owned, routes): Remembered) {
        match &mut self.machine {
            Machine::Station(station) => {
                owned.into_iter().for_each(|(user, kept)| station.remember(user, kept));
            }
            Machine::Anchor(_) => {
                routes.into_iter().for_each(|(user, route)| self.go_on_by(host, user, route));
            }
        }
    }

    /// An anchor goes on by a route to a user.
    fn go_on_by(&mut self, host: &mut dyn Host, user: User, route: Route) {
        if let Err(unknown) = self.know(host, user) {
            tracing::warn!(%user, "{unknown}");
            return host.keep_route(user, None);
        }
        let mut out = Vec::new();
        if let Machine::Anchor(anchor) = &mut self.machine {
            anchor.remember(user, route, &mut out);
        }
        self.take(host, out);
    }

    /// A message leaves; an answer that lets a move go on, once what an anchor keeps is durable.
    pub(super) fn send(&self, host: &mut dyn Host, envelope: Envelope) {
        let waits =
            matches!(&envelope.message, Message::Handover { step, .. } if step.needs_kept());
        if waits {
            let post = self.post.clone();
            return host.behind_kept(Box::new(move || drop(post.send(envelope))));
        }
        // The thread that moves messages may have gone.
        drop(self.post.send(envelope));
    }

    /// A user is treated as it was in the process before.
    fn take_on(&mut self, host: &mut dyn Host, user: User) {
        let number = user.0 as u32;
        let Some(mobile) = self.mobiles.get_mut(&user) else { return };
        let (accepted, way, act) = match &self.machine {
            Machine::Station(station) => {
                let Some((anchor, posture)) = station.posture(user) else { return };
                (mobile.anchor, mobile.posture, mobile.had) = (Some(anchor), Some(posture), true);
                (Some(posture.epoch), Some((anchor, posture.epoch)), Act::Open)
            }
            Machine::Anchor(anchor) => {
                let Some(posture) = anchor.posture(user) else { return };
                mobile.legs = [posture.downlink, None];
                let way = posture.downlink.map(|leg| (leg.node, leg.epoch));
                let act = if way.is_some() { Act::Open } else { Act::Anchor(posture) };
                (posture.accept, way, act)
            }
        };
        let fresh = |epoch| self.teids.tunnel(Purpose::Fresh, number, epoch);
        let tunnels = accepted.into_iter().map(fresh).collect();
        let settings = way.map_or(Vec::new(), |(node, epoch)| {
            self.settings(host, user, (node, fresh(epoch).teid))
        });
        self.order(host, user, tunnels, settings, act);
    }

    /// The far ends of the channels of a part that goes on, for the one that asks first.
    pub fn claim(&mut self) -> Option<Mail> {
        self.unclaimed.take()
    }
}

impl Mobile {
    fn is_at_rest(&self) -> bool {
        self.outputs.is_empty() && self.pending == 0 && !self.gated
    }
}
