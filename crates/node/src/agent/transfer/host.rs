//! How the node carries out what the handover protocol decides.

use weft_dpdk::Pool;
use weft_mobility_protocol::{Kept, Route};
use weft_node_config::Blueprint;

use super::UserTransfers;
use crate::bearer::{Steered, User};
use crate::migration::transfer::{Asked, TransferError};
use crate::mobility::Host;
use crate::plan::Trials;
use crate::subscribers::{Member, NoRoom};
use crate::workers::Workers;

impl Host for UserTransfers<'_> {
    fn now(&self) -> u64 {
        self.node.clock.now()
    }

    fn blueprint(&self) -> &Blueprint {
        self.node.blueprint
    }

    fn trials(&self) -> &Trials {
        self.node.trials
    }

    fn pool(&self) -> &Pool {
        self.pool
    }

    fn workers(&mut self) -> &mut Workers {
        self.node.workers
    }

    fn configured_member(&self, plan: &str, nth: u32) -> Option<Member> {
        self.node.subscribers.users.member_of(plan, nth)
    }

    fn member_of(&self, plan: &str, nth: u32) -> Option<Member> {
        self.node.members().nth_of(plan, nth)
    }

    fn hold_dynamic_user(&mut self, user: User, like: &str, number: u32) -> Result<u32, NoRoom> {
        let (slot, changes) = self.node.subscribers.hold_dynamic_user(user, like, number)?;
        self.node.workers.change_users(self.node.workers.owner(slot), changes);
        Ok(slot)
    }

    fn release_dynamic_user(&mut self, user: User) {
        if let Some((slot, changes)) = self.node.subscribers.release_dynamic_user(user) {
            self.node.workers.change_users(self.node.workers.owner(slot), changes);
        }
    }

    fn remove_added(&mut self, member: &Member) {
        UserTransfers::remove_added(self, member);
    }

    fn keep_owned(&mut self, user: User, kept: Option<Kept>) {
        self.node.persistence.keep_owned(user, kept);
    }

    fn keep_route(&mut self, user: User, route: Option<Route>) {
        self.node.persistence.keep_route(user, route);
    }

    fn behind_kept(&mut self, done: Box<dyn FnOnce() + Send>) {
        // A disk that refuses keeps no user from moving.
        self.node.persistence.when_durable(Box::new(move |_| done()));
    }

    fn begin_contexts_anew(&mut self, member: &Member) {
        let subjects = self.node.subscribers.users.subjects_of(member);
        self.node.persistence.begin_contexts_anew(subjects);
    }

    fn begin_kept(&mut self, asked: Asked, member: Member) {
        UserTransfers::begin_kept(self, asked, member);
    }

    fn begin_export(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        UserTransfers::begin_export(self, asked, member, without);
    }

    fn begin_import(
        &mut self,
        asked: Asked,
        octets: &[u8],
        without: Option<u16>,
        steered: &[Steered],
    ) -> Result<(), TransferError> {
        UserTransfers::begin_import(self, asked, octets, without, steered)
    }

    fn begin_resume(
        &mut self,
        asked: Asked,
        octets: &[u8],
        rolled_back: bool,
        without: Option<u16>,
    ) -> Result<(), TransferError> {
        UserTransfers::begin_resume(self, asked, octets, rolled_back, without)
    }

    fn begin_fresh(&mut self, asked: Asked, member: Member, without: Option<u16>) {
        UserTransfers::begin_fresh(self, asked, member, without);
    }
}
