//! What the machines' decisions are carried out by.

use weft_dpdk::Pool;
use weft_mobility_protocol::{Kept, Route, User};
use weft_node_config::Blueprint;

use crate::bearer::Steered;
use crate::migration::transfer::{Asked, TransferError};
use crate::plan::Trials;
use crate::subscribers::{Member, NoRoom};
use crate::workers::Workers;

/// What carries the decisions of the protocol out: the rest of the node.
pub(crate) trait Host {
    /// The time, in nanoseconds of the node's clock.
    fn now(&self) -> u64;
    /// The configuration at work.
    fn blueprint(&self) -> &Blueprint;
    /// Functions made on trial.
    fn trials(&self) -> &Trials;
    /// Where packets come from.
    fn pool(&self) -> &Pool;
    /// The workers.
    fn workers(&mut self) -> &mut Workers;
    /// The `nth` user of a plan of the configuration.
    fn configured_member(&self, plan: &str, nth: u32) -> Option<Member>;
    /// The same, or the user that was added like them.
    fn member_of(&self, plan: &str, nth: u32) -> Option<Member>;
    /// A slot for a user that is on its way here, or to another node from here.
    ///
    /// # Errors
    /// [`NoRoom`].
    fn hold_dynamic_user(&mut self, user: User, like: &str, number: u32) -> Result<u32, NoRoom>;
    /// The node has nothing to do with the user's moves any more.
    fn release_dynamic_user(&mut self, user: User);
    /// Removes what commands have added for a user.
    fn remove_added(&mut self, member: &Member);
    /// By what the node owns a user from now on, for its next life.
    fn keep_owned(&mut self, user: User, kept: Option<Kept>);
    /// The only route to a user, for the next life, or that there is none.
    fn keep_route(&mut self, user: User, route: Option<Route>);
    /// Calls `done` once all that is kept is durable.
    fn behind_kept(&mut self, done: Box<dyn FnOnce() + Send>);
    /// Other contexts are about to come in the place of a user's.
    fn begin_contexts_anew(&mut self, member: &Member);
    /// Leaves a user the contexts that the last life has kept.
    fn begin_kept(&mut self, asked: Asked, member: Member);
    /// Asks the worker of a user for its belongings.
    fn begin_export(&mut self, asked: Asked, member: Member, without: Option<u16>);
    /// Gives the worker of a user its belongings.
    ///
    /// # Errors
    /// [`TransferError`].
    fn begin_import(
        &mut self,
        asked: Asked,
        octets: &[u8],
        without: Option<u16>,
        steered: &[Steered],
    ) -> Result<(), TransferError>;
    /// Gives a user back what was taken out of this node.
    ///
    /// # Errors
    /// [`TransferError`].
    fn begin_resume(
        &mut self,
        asked: Asked,
        octets: &[u8],
        rolled_back: bool,
        without: Option<u16>,
    ) -> Result<(), TransferError>;
    /// Gives a user fresh contexts.
    fn begin_fresh(&mut self, asked: Asked, member: Member, without: Option<u16>);
}
