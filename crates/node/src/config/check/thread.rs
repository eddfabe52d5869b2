//! Threads that functions stand on beside the workers.

use super::within;
use crate::config::blueprint::{Composition, StagePlan};
use crate::config::locate::Source;
use crate::config::values::Entries;
use crate::config::yaml::{self, ThreadFile};
use crate::isolated::LANES;

/// The thread that a function stands on, if that is not its worker's.
pub(super) fn plan(
    name: &str,
    function: &yaml::Function,
    composition: Composition,
    source: &mut Source<'_>,
) -> Option<StagePlan> {
    let path = format!("functions.{name}.thread");
    if composition != Composition::Thread {
        if function.thread.is_some() {
            let mistake = source.wrong_key(&path, "the function stands on its worker's thread");
            mistake.hint("write `composition: thread`");
        }
        return None;
    }
    let default = ThreadFile::default();
    let file = function.thread.as_ref().unwrap_or(&default);
    if let Some(core) = file.core {
        within(source, &format!("{path}.core"), core.into(), 0, u64::from(super::frame::CORES - 1));
    }
    if let Some(stage) = &file.stage {
        super::names::written(stage, &format!("{path}.stage"), source);
    }
    Some(stage(file.stage.as_deref(), file.core))
}

/// The thread of that name and core. Without a name there is one for each core, and one
/// for functions that give no core.
pub(crate) fn stage(name: Option<&str>, core: Option<u32>) -> StagePlan {
    let name = match (name, core) {
        (Some(name), _) => name.to_owned(),
        (None, Some(core)) => format!("core-{core}"),
        (None, None) => "thread".to_owned(),
    };
    StagePlan { name, core: core.map(|core| core as usize) }
}

/// A thread is on one core, and there are not too many.
pub(super) fn agree<'a>(
    functions: &Entries<yaml::Function>,
    made: impl Iterator<Item = (&'a str, &'a Option<StagePlan>, bool)>,
    source: &mut Source<'_>,
) {
    let mut known: Vec<(&str, &StagePlan)> = Vec::new();
    let mut others = 0;
    for (name, stage, is_elsewhere) in made {
        others += usize::from(is_elsewhere);
        let Some(stage) = stage else { continue };
        let Some((first, same)) = known.iter().find(|(_, one)| one.name == stage.name) else {
            known.push((name, stage));
            continue;
        };
        if same.core != stage.core {
            let has_core = |one: &yaml::Function| {
                one.thread.as_ref().is_some_and(|thread| thread.core.is_some())
            };
            let key = match functions.0.iter().find(|(one, _)| one == name) {
                Some((_, function)) if has_core(function) => ".core",
                _ => "",
            };
            let message = match same.core {
                Some(core) => format!("`{first}` has the thread `{}` on core {core}", stage.name),
                None => format!("`{first}` has the thread `{}` on no core", stage.name),
            };
            let mistake = source.wrong(&format!("functions.{name}.thread{key}"), message);
            mistake.hint("give each function of a thread the same core");
        }
    }
    if others + known.len() > LANES {
        let message =
            format!("{} processes, threads and other nodes for functions", others + known.len());
        source.wrong("functions", message).hint(format!("at most {LANES}"));
    }
}
