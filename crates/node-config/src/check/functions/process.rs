//! How functions are run that have a process of their own.

use std::path::PathBuf;
use std::time::Duration;

use weft_dataplane::offload::Policy;
use weft_offload::process::{ResourceLimits, Restart};

use crate::blueprint::{Composition, ProcessPlan, VfPlan};
use crate::check::ranges::Ranges;
use crate::locate::Source;
use crate::yaml::{
    self, OnFailure, ProcessFile, ProcessLimitsFile, RestartFile, StartedBy, TagsBy,
};

/// Octets of a path that a UNIX socket can have (unix(7)), less those that are put
/// behind it.
const SOCKET_PATH: usize = 107 - ".control".len();

/// How the process of a function is run, if it has one. One that is written for a function
/// of this node's threads is prepared: the function may be moved there.
pub(super) fn plan(
    name: &str,
    function: &yaml::Function,
    composition: Composition,
    vf: Option<VfPlan>,
    source: &mut Source<'_>,
) -> Option<ProcessPlan> {
    let path = format!("functions.{name}.process");
    let is_at_work = matches!(composition, Composition::Process | Composition::Vf);
    if function.process.is_none() && !is_at_work {
        return None;
    }
    if composition == Composition::Remote {
        let mistake = source.wrong_key(&path, "the function is at another node");
        mistake.hint("write `composition: process`");
        return None;
    }
    let default = ProcessFile::default();
    let file = function.process.as_ref().unwrap_or(&default);
    let ranges = Ranges::of::<ProcessFile>();
    ranges.check(source, &path, "hold", file.hold.into());
    ranges.check(source, &path, "heartbeat", file.heartbeat.into());
    ranges.check(source, &path, "checkpoint", file.checkpoint.into());
    if let Some(user) = file.user {
        ranges.check(source, &path, "user", user.into());
    }
    if file.tags == TagsBy::None && file.start == StartedBy::Node {
        let mistake =
            source.wrong(&format!("{path}.tags"), "the node starts only functions that know NSH");
        mistake.hint("write `start: elsewhere`, too");
    }
    if file.tags == TagsBy::None && !is_at_work {
        let message = "a function without tags does not move";
        source.wrong(&format!("{path}.tags"), message).hint("write `composition: process`");
    }
    if file.tags == TagsBy::None && composition == Composition::Vf {
        source.wrong(&format!("{path}.tags"), "behind a NIC, packets need their header");
    }
    socket(file, &path, source);
    let limits = limits(file, &path, source);
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    Some(ProcessPlan {
        policy: match file.on_failure {
            OnFailure::Drop => Policy::Drop,
            OnFailure::Bypass => Policy::Bypass,
            OnFailure::Hold => Policy::Hold(file.hold),
        },
        heartbeat: milliseconds(file.heartbeat),
        checkpoint: (file.checkpoint > 0).then(|| milliseconds(file.checkpoint)),
        socket: file.socket.as_ref().map(PathBuf::from),
        started: file.start == StartedBy::Node,
        plain: file.tags == TagsBy::None,
        user: file.user,
        limits,
        restart: restart(file, &path, source),
        vf,
    })
}

/// When it is started again.
fn restart(file: &ProcessFile, path: &str, source: &mut Source<'_>) -> Restart {
    let path = format!("{path}.restart");
    let RestartFile { first, longest } = file.restart;
    let ranges = Ranges::of::<RestartFile>();
    ranges.check(source, &path, "first", first.into());
    ranges.check(source, &path, "longest", longest.into());
    if first > longest {
        let message = format!("{first} ms are more than the longest pause, {longest} ms");
        source.wrong(&format!("{path}.first"), message);
    }
    if file.start == StartedBy::Elsewhere && file.restart != RestartFile::default() {
        source.wrong_key(&path, "the node starts again only what it has started");
    }
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    Restart { first: milliseconds(first), longest: milliseconds(longest) }
}

/// What its process may use.
fn limits(file: &ProcessFile, path: &str, source: &mut Source<'_>) -> ResourceLimits {
    let path = format!("{path}.limits");
    let ProcessLimitsFile { megabytes, cpu, tasks } = file.limits;
    let ranges = Ranges::of::<ProcessLimitsFile>();
    for (key, number) in [("megabytes", megabytes), ("cpu", cpu), ("tasks", tasks)] {
        if let Some(number) = number {
            ranges.check(source, &path, key, number.into());
        }
    }
    let limits = ResourceLimits { megabytes, cpu_percent: cpu, tasks };
    if file.start == StartedBy::Elsewhere && limits != ResourceLimits::default() {
        source.wrong_key(&path, "the node limits only processes that it starts itself");
    }
    limits
}

fn socket(file: &ProcessFile, path: &str, source: &mut Source<'_>) {
    match &file.socket {
        None if file.start == StartedBy::Elsewhere => {
            let mistake =
                source.wrong_key(path, "the configuration does not say where the ring is");
            mistake.hint("say it with `socket`");
        }
        None => {}
        Some(socket) => {
            let path = format!("{path}.socket");
            if !socket.starts_with('/') || socket.contains([',', '\0']) {
                let message = format!("{socket:?} is not the absolute path of a socket");
                source.wrong(&path, message);
            } else if socket.len() > SOCKET_PATH {
                let message =
                    format!("{} octets are too many for the path of a socket", socket.len());
                source.wrong(&path, message).hint(format!("at most {SOCKET_PATH}"));
            }
        }
    }
}
