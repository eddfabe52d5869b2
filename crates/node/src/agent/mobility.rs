//! The node's part in moving users: how the rest of the agent carries it out.

use weft_dpdk::Pool;
use weft_mobility_protocol::Incarnation;
use weft_node_config::Blueprint;

use super::Agent;
use crate::bearer::{Steered, User};
use crate::migration::transfer::{Asked, TransferError};
use crate::mobility::{Done, HandoverView, Host, Mail, Mobility, NoHandover, Radio, RadioError};
use crate::plan::Trials;
use crate::subscribers::{Member, NoRoom};
use crate::workers::Workers;

impl Agent {
    /// Begins to take part in handovers, in an incarnation that the node has never had
    /// before, and says hello. Messages come and go by the channels that are returned. From
    /// `secret`, which only the nodes have, they all derive the TEIDs of users that move.
    ///
    /// # Errors
    /// [`NoHandover`].
    pub fn join_handover(
        &mut self,
        incarnation: Incarnation,
        secret: &[u8],
    ) -> Result<Mail, NoHandover> {
        let plan = self.blueprint.handover.clone().filter(|_| self.mobility.is_none());
        let plan = plan.ok_or(NoHandover)?;
        let (mut mobility, out, mail) =
            Mobility::new(plan, (incarnation, secret), self.waker.clone());
        mobility.take(self, out);
        self.mobility = Some(Box::new(mobility));
        Ok(mail)
    }

    /// What the node has to do with users that move.
    pub fn handover_view(&self) -> Option<HandoverView> {
        let waited = self.workers.iter().map(|link| link.counters.waited.get()).sum();
        self.mobility.as_ref().map(|mobility| mobility.view(waited))
    }

    pub(super) fn note_done(&mut self, done: Done) {
        if let Some(mobility) = &mut self.mobility {
            mobility.note(done);
        }
    }

    fn with_mobility(&mut self, work: impl FnOnce(&mut Mobility, &mut Agent)) {
        if let Some(mut mobility) = self.mobility.take() {
            work(&mut mobility, self);
            self.mobility = Some(mobility);
        }
    }

    /// Sees to users that move; whether there was anything to do.
    pub(super) fn look_after_handover(&mut self) -> bool {
        let mut busy = false;
        self.with_mobility(|mobility, agent| busy = mobility.work(agent));
        busy
    }

    /// Tells a station what has become of users' radios: of all of them, or of none.
    ///
    /// # Errors
    /// [`RadioError`].
    pub fn note_radios(&mut self, radio: Radio, users: &[User]) -> Result<(), RadioError> {
        let mobility = self.mobility.as_ref().ok_or(RadioError::NoStation)?;
        mobility.check_radios(users)?;
        users.iter().for_each(|user| self.note_radio(radio, *user));
        Ok(())
    }

    /// A user's radio has left this station: nothing comes from it any more that the
    /// ports have not received.
    pub fn radio_left(&mut self, user: User) {
        self.note_radio(Radio::Left, user);
    }

    /// A user's radio is at this station.
    pub fn radio_arrived(&mut self, user: User) {
        self.note_radio(Radio::Arrived, user);
    }

    fn note_radio(&mut self, radio: Radio, user: User) {
        self.with_mobility(|mobility, agent| mobility.note_radio(agent, radio, user));
    }
}

impl Host for Agent {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    fn trials(&self) -> &Trials {
        &self.trials
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn workers(&mut self) -> &mut Workers {
        &mut self.workers
    }

    fn configured_member(&self, plan: &str, nth: u32) -> Option<Member> {
        self.subscribers.users.member_of(plan, nth)
    }

    fn member_of(&self, plan: &str, nth: u32) -> Option<Member> {
        self.members().nth_of(plan, nth)
    }

    fn hold_dynamic_user(&mut self, user: User, like: &str, number: u32) -> Result<u32, NoRoom> {
        let (slot, changes) = self.subscribers.hold_dynamic_user(user, like, number)?;
        self.workers.change_users(self.workers.owner(slot), changes);
        Ok(slot)
    }

    fn release_dynamic_user(&mut self, user: User) {
        if let Some((slot, changes)) = self.subscribers.release_dynamic_user(user) {
            self.workers.change_users(self.workers.owner(slot), changes);
        }
    }

    fn remove_added(&mut self, member: &Member) {
        Agent::remove_added(self, member);
    }

    fn begin_export(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        Agent::begin_export(self, asked, member, without);
    }

    fn begin_import(
        &mut self,
        asked: Asked,
        octets: &[u8],
        without: Option<u16>,
        steered: &[Steered],
    ) -> Result<(), TransferError> {
        Agent::begin_import(self, asked, octets, without, steered)
    }

    fn begin_resume(
        &mut self,
        asked: Asked,
        octets: &[u8],
        rolled_back: bool,
        without: Option<u16>,
    ) -> Result<(), TransferError> {
        Agent::begin_resume(self, asked, octets, rolled_back, without)
    }

    fn begin_fresh(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        Agent::begin_fresh(self, asked, member, without);
    }
}
