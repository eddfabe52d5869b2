//! Changes of the configuration while traffic runs: checked first, then applied
//! whole or not at all.
//!
//! Nothing is sent to a worker before everything that can fail has succeeded.
//! Then each worker gets, in this order: the users that leave, rules and
//! functions in one piece, and the users that come or change. Packets of one
//! user are steered by the old or the new configuration, never by a mixture,
//! since a worker applies commands between bursts.

mod compose;
mod relocate;

use weft_compose::Instance;
use weft_dataplane::clock::Clock;
use weft_dataplane::command::{Part, Replacement};
use weft_dataplane::offload::REMOTE_QUEUES;
use weft_node_config::{Blueprint, FunctionPlan, PortPlan};

pub use self::compose::Wanted;
use super::configuration::{Configuration, NextConfiguration};
use super::state::Persistence;
use crate::bearer::Subscribers;
use crate::error::{BuildError, Refused};
use crate::functions::{self, FunctionEntry, Functions};
use crate::gtpu_peers::GtpuPeers;
use crate::migration::Migration;
use crate::plan;
use crate::subscribers::{Changes, Keys, Users};
use crate::workers::Workers;

/// What a change came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Functions that go on as they were.
    pub functions_kept: usize,
    /// Functions that are new, or have a new configuration.
    pub functions_new: usize,
    /// Users before.
    pub users_before: usize,
    /// Users now.
    pub users_now: usize,
}

/// The parts of a node that run by the configuration, and those that functions move with.
pub(crate) struct Reconfiguration<'a> {
    pub configuration: &'a mut Configuration,
    pub subscribers: &'a mut Subscribers,
    pub workers: &'a mut Workers,
    pub functions: &'a mut Functions,
    pub gtpu_peers: &'a mut GtpuPeers,
    pub migration: &'a mut Migration,
    pub persistence: &'a mut Persistence,
    pub clock: &'a Clock,
}

impl Reconfiguration<'_> {
    /// Lets the node run by `new` from now on.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn apply(&mut self, new: Blueprint) -> Result<Changed, Refused> {
        let changed = self.apply_composed(new)?;
        self.persistence.keep_configured(&self.configuration.blueprint);
        Ok(changed)
    }

    /// The same where a command says how functions are run.
    fn apply_composed(&mut self, mut new: Blueprint) -> Result<Changed, Refused> {
        if self.persistence.is_upgrading()
            || self.workers.is_changing()
            || self.migration.has_function()
        {
            return Err(Refused::Busy);
        }
        new.keep_overrules(&self.configuration.blueprint);
        self.check_fixed(&new)?;
        if let Some(moves) = moves_between(&self.configuration.blueprint, &new) {
            return Err(Refused::Composed(moves.to_owned()));
        }
        let new = self.as_chosen(new);
        self.change(new, None).map(|(changed, _)| changed)
    }

    /// Functions that stand where the node has chosen stay there.
    fn as_chosen(&self, mut new: Blueprint) -> Blueprint {
        for plan in new.functions.iter_mut().filter(|plan| plan.auto.is_some()) {
            let mut known = self.configuration.blueprint.functions.iter();
            let known = known.find(|old| old.name == plan.name && old.auto == plan.auto);
            if let Some(old) = known {
                (plan.composition, plan.stage) = (old.composition, old.stage.clone());
            }
        }
        new
    }

    /// The same for a configuration that has been looked at. A function that moves gets
    /// these instances, and workers are to be given the replacements once it is lifted.
    fn change(
        &mut self,
        new: Blueprint,
        moving: Option<(usize, &mut Vec<Box<dyn Instance>>)>,
    ) -> Result<(Changed, Vec<Replacement>), Refused> {
        let workers = self.workers.count();
        let next = self.configuration.next(new, self.workers.shift())?;
        let new = &next.blueprint;
        let functions = self.functions.entries_for(new, workers);
        let parts = (0..workers).map(|worker| self.parts(new, &functions, worker));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let remote_queues = functions::remote_queues_with(&self.functions.threads, new);
        if remote_queues > REMOTE_QUEUES {
            return Err(Refused::Queues(remote_queues));
        }
        let (users, changes) = self.next_users(&next)?;
        // From here on nothing fails.
        let mut replacements = next.replacements(parts, &mut self.functions.threads);
        let kept = replacements[0].parts.iter().filter(|part| part.instance.is_none()).count();
        let changed = Changed {
            functions_kept: kept,
            functions_new: new.functions.len() - kept,
            users_before: self.subscribers.users.count(),
            users_now: users.count(),
        };
        self.adopt(next, functions, users);
        let waits = moving.is_some();
        if let Some((function, instances)) = moving {
            for (replacement, instance) in replacements.iter_mut().zip(instances.drain(..)) {
                replacement.parts[function].instance = Some(instance);
            }
        }
        self.configure_new(&mut replacements);
        if !waits {
            self.workers.replace(replacements.drain(..), changes);
        }
        Ok((changed, replacements))
    }

    /// The users of another configuration, and what each worker is told of them. Bearers give
    /// way to their keys.
    fn next_users(&mut self, next: &NextConfiguration) -> Result<(Users, Changes), Refused> {
        let NextConfiguration { blueprint, class_numbers, profile_numbers, .. } = next;
        let old_functions = self.configuration.function_names();
        let mut users = self.subscribers.users.clone();
        let changes = users
            .become_those_of(blueprint, &old_functions, class_numbers, profile_numbers)
            .map_err(BuildError::from)?;
        let bearers = &mut self.subscribers.bearers;
        if let Some(id) = changes.iter().find_map(|changes| bearers.of_leaving(changes)) {
            return Err(Refused::HasBearer(id));
        }
        bearers.give_way_to(&changes[0])?;
        Ok((users, changes))
    }

    /// The agent's own records are those of another configuration.
    fn adopt(&mut self, next: NextConfiguration, functions: Vec<FunctionEntry>, users: Users) {
        let new = &next.blueprint;
        let paths = self.subscribers.paths_in_use(&self.configuration.trials);
        self.gtpu_peers.resume_stopped(self.workers);
        self.subscribers.users = users;
        self.subscribers.sessions.adopt(new);
        let old_functions = self.configuration.function_names();
        self.subscribers.bearers.renumber(|old| {
            let name = old_functions.get(usize::from(old))?;
            let number = new.functions.iter().position(|function| function.name == *name);
            number.map(|number| number as u16)
        });
        self.functions.replace(functions, new);
        self.gtpu_peers.paths.set_echo(new.gtpu.echo);
        self.configuration.adopt(next);
        let (peers, now) = (&mut self.gtpu_peers.paths, self.clock.now());
        self.subscribers.note_tunnels(&self.configuration.trials, peers, paths, now);
    }

    fn check_fixed(&self, new: &Blueprint) -> Result<(), Refused> {
        let old = &self.configuration.blueprint;
        let limits = |blueprint: &Blueprint| blueprint.limits.clone();
        let fixed = [
            ("the name of the node", old.name == new.name),
            ("workers", old.workers == new.workers),
            ("memory", old.memory == new.memory),
            ("classification", old.classification == new.classification),
            ("limits", limits(old) == limits(new)),
            ("state", old.state == new.state),
            ("standby", old.standby == new.standby),
            ("ports", same_ports(old, new)),
            ("ipfix", old.ipfix == new.ipfix),
            ("bgp", old.bgp == new.bgp),
            ("functions in processes of their own", same_processes(old, new)),
            ("handover, or users that move", same_moving(old, new)),
        ];
        if let Some((what, _)) = fixed.into_iter().find(|(_, same)| !same) {
            return Err(Refused::Fixed(what));
        }
        if old.groups.is_empty() && !new.groups.is_empty() && self.workers.count() > 1 {
            return Err(Refused::Fixed("whether there are groups, with several workers,"));
        }
        if !self.subscribers.keys.has_room_for(Keys::of(new), old, self.subscribers.room) {
            return Err(Refused::Keys);
        }
        Ok(())
    }

    fn parts(
        &self,
        new: &Blueprint,
        functions: &[FunctionEntry],
        worker: usize,
    ) -> Result<Vec<Part>, BuildError> {
        let unchanged = plan::unchanged(&self.configuration.blueprint, new);
        let mut parts = Vec::new();
        for (plan, entry) in new.functions.iter().zip(functions) {
            let contexts = self.subscribers.room.contexts();
            let instance = match unchanged.contains(&plan.name) {
                true => None,
                false => Some(
                    plan::instance(
                        plan,
                        new,
                        worker,
                        contexts,
                        self.workers.shift(),
                        self.functions.events.as_ref(),
                    )
                    .map_err(|error| BuildError::Function { function: plan.name.clone(), error })?,
                ),
            };
            let (name, counters) = (entry.name.clone(), entry.counters[worker].clone());
            parts.push(Part { name, instance, counters, remote_queue: None, stage: None });
        }
        Ok(parts)
    }

    /// Gives new instances the settings of users that were there before. An
    /// instance that takes over contexts from one before it gets theirs.
    fn configure_new(&self, replacements: &mut [Replacement]) {
        for (worker, replacement) in replacements.iter_mut().enumerate() {
            for (number, part) in replacement.parts.iter_mut().enumerate() {
                let Some(instance) = &mut part.instance else { continue };
                for one in self.subscribers.settings_of(number) {
                    if self.workers.owner(one.slot) == worker {
                        instance.configure(one.slot, &one.settings, one.nth);
                    }
                }
            }
        }
    }
}

/// A function that is at hand by one blueprint and not by the other.
fn moves_between<'a>(old: &'a Blueprint, new: &Blueprint) -> Option<&'a str> {
    let moves = |old: &&FunctionPlan| {
        let plan = new.functions.iter().find(|new| new.name == old.name);
        plan.is_some_and(|new| new.composition.is_at_hand() != old.composition.is_at_hand())
    };
    old.functions.iter().find(moves).map(|plan| &*plan.name)
}

/// Whether the functions that have a process are the same. A process knows the
/// slots of the node's tags, so those have to stay as well.
fn same_processes(old: &Blueprint, new: &Blueprint) -> bool {
    let isolated = |blueprint: &Blueprint| -> Vec<_> {
        let isolated = blueprint.functions.iter();
        let isolated = isolated.filter(|one| one.process.is_some() || one.remote.is_some());
        let key = |one: &FunctionPlan| {
            (
                one.name.clone(),
                one.kind.name,
                one.config.clone(),
                one.process.clone(),
                one.remote.clone(),
            )
        };
        isolated.map(key).collect()
    };
    let slots = |blueprint: &Blueprint| -> Vec<_> {
        blueprint.tags.iter().map(|(name, _)| name.to_owned()).collect()
    };
    let same_tags = slots(old) == slots(new);
    isolated(old) == isolated(new) && (same_tags || isolated(old).is_empty())
}

/// Whether the same users move in the same way.
fn same_moving(old: &Blueprint, new: &Blueprint) -> bool {
    let users = |blueprint: &Blueprint| -> Vec<_> {
        let plans = blueprint.handover.iter().flat_map(|handover| &handover.users);
        let plan = |name: &String| blueprint.users.iter().find(|plan| plan.name == *name);
        let plans = plans.filter_map(|moving| plan(&moving.plan));
        plans.map(|plan| (plan.name.clone(), plan.count, plan.keys.clone(), plan.group)).collect()
    };
    old.handover == new.handover && users(old) == users(new)
}

/// Whether the ports are the same but for what may change.
fn same_ports(old: &Blueprint, new: &Blueprint) -> bool {
    let network = |blueprint: &Blueprint, port: &PortPlan| {
        blueprint.networks.get(port.network as usize).cloned()
    };
    old.ports.len() == new.ports.len()
        && old.ports.iter().zip(&new.ports).all(|(a, b)| {
            let same_network = network(old, a) == network(new, b) && a.network == b.network;
            same_network && a == b
        })
}
