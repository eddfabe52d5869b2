//! What a change of configuration changes in the settings of a context.

use weft_compose::Settings;
use weft_dataplane::command::{Configure, UserChange};
use weft_node_config::Blueprint;

/// Settings by the number of the function they are for.
type Written = [(usize, Settings)];

/// How settings that were written for the same users differ.
pub struct Delta<'a> {
    /// Functions that have settings no more.
    lost: Vec<u16>,
    /// Settings that are new, or others than they were.
    changed: Vec<&'a (usize, Settings)>,
}

impl<'a> Delta<'a> {
    /// What to change in a context that has the settings `old`, written for
    /// functions of these names, so that it has those of `new`.
    pub fn between(
        old: &Written,
        old_functions: &[String],
        new: &'a Written,
        blueprint: &Blueprint,
    ) -> Delta<'a> {
        let number = |old: usize| {
            let name = old_functions.get(old)?;
            blueprint.functions.iter().position(|function| function.name == *name)
        };
        let old: Vec<_> =
            old.iter().filter_map(|(at, settings)| Some((number(*at)?, settings))).collect();
        let has = |number: usize| new.iter().any(|(at, _)| *at == number);
        let is_new = |(at, settings): &&(usize, Settings)| !old.contains(&(*at, settings));
        Delta {
            lost: old.iter().filter(|(at, _)| !has(*at)).map(|(at, _)| *at as u16).collect(),
            changed: new.iter().filter(is_new).collect(),
        }
    }

    /// The changes for the context at `slot`, of the `nth` user.
    pub fn changes(&self, slot: u32, nth: u32) -> impl Iterator<Item = UserChange> + '_ {
        let lost = self.lost.iter().map(move |&function| UserChange::Reset { function, slot });
        let changed = self.changed.iter().map(move |one| configuration(one, slot, nth));
        lost.chain(changed.map(UserChange::Configure))
    }
}

/// The commands that give the context at `slot`, of the `nth` user, these
/// settings.
pub fn configure(settings: &Written, slot: u32, nth: u32) -> impl Iterator<Item = Configure> + '_ {
    settings.iter().map(move |one| configuration(one, slot, nth))
}

fn configuration((function, settings): &(usize, Settings), slot: u32, nth: u32) -> Configure {
    Configure { function: *function as u16, slot, settings: settings.clone(), nth }
}
