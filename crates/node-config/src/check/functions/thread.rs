//! Threads that functions stand on beside the workers.

use weft_dataplane::offload::REMOTE_QUEUES;

use crate::blueprint::{Composition, StagePlan};
use crate::check::names;
use crate::check::ranges::Ranges;
use crate::locate::Source;
use crate::values::Entries;
use crate::yaml::{self, ThreadFile, ThreadOf};

/// The thread that a function stands on, if that is not its worker's, and the one that it
/// may stand on or not, as the node chooses.
pub(super) fn plan(
    name: &str,
    function: &yaml::Function,
    composition: Composition,
    source: &mut Source<'_>,
) -> (Option<StagePlan>, Option<StagePlan>) {
    let path = format!("functions.{name}.thread");
    let is_auto = function.thread.as_ref().is_some_and(ThreadOf::is_auto);
    let may_be = match composition {
        Composition::Thread => true,
        // One that the whole file wants fused is not, as cycles are measured of what is called.
        Composition::Call | Composition::Fused => is_auto,
        _ => false,
    };
    if !may_be {
        if function.thread.is_some() {
            let mistake = source.wrong_key(&path, "the function stands on its worker's thread");
            mistake.hint("write `composition: thread`");
        }
        return (None, None);
    }
    if is_auto && function.composition == Some(Composition::Fused) {
        let mistake = source.wrong_key(&path, "what is fused cannot be measured by itself");
        mistake.hint("leave `composition` out");
    }
    let default = ThreadFile::default();
    let file = function.thread.as_ref().and_then(ThreadOf::file).unwrap_or(&default);
    if let Some(core) = file.core {
        Ranges::of::<ThreadFile>().check(source, &path, "core", core.into());
    }
    if let Some(stage) = &file.stage {
        names::written(stage, &format!("{path}.stage"), source);
    }
    let stage = stage(file.stage.as_deref(), file.core);
    let stands = composition == Composition::Thread;
    (stands.then(|| stage.clone()), is_auto.then_some(stage))
}

/// The node chooses for one thread.
pub(super) fn choose_for_one<'a>(
    mut autos: impl Iterator<Item = (&'a str, &'a StagePlan)>,
    source: &mut Source<'_>,
) {
    let Some((first, stage)) = autos.next() else { return };
    for (name, other) in autos.filter(|(_, other)| other.name != stage.name) {
        let message =
            format!("`{first}` may stand on the thread `{}`, not `{}`", stage.name, other.name);
        let mistake = source.wrong_key(&format!("functions.{name}.thread"), message);
        mistake.hint("the node chooses for one thread");
    }
}

/// The thread of that name and core. Without a name there is one for each core, and one
/// for functions that give no core.
pub fn stage(name: Option<&str>, core: Option<u32>) -> StagePlan {
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
    made: impl Iterator<Item = (&'a str, Option<&'a StagePlan>, bool)>,
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
                let file = one.thread.as_ref().and_then(ThreadOf::file);
                file.is_some_and(|thread| thread.core.is_some())
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
    if others + known.len() > REMOTE_QUEUES {
        let message =
            format!("{} processes, threads and other nodes for functions", others + known.len());
        source.wrong("functions", message).hint(format!("at most {REMOTE_QUEUES}"));
    }
}
