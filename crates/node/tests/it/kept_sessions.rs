//! PFCP sessions that outlive the node: it dies at any moment, and another one goes on with what
//! was on the disk.

mod records;
mod times;

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use weft_functions::session::rules::UrrId;
use weft_functions::session::usage::Usage;
use weft_node::bearer::session::{
    Keep, Kept, Query, SessionCommand, SessionError, SessionEvent, SessionId,
};
use weft_state::{Owner, Role, Store};

use crate::common::Rig;
use crate::sessions::{UPF, downlink, establish, read, uplink, usual};

/// What an uplink packet has as an IP packet.
const OCTETS: u64 = 30;

/// A node that keeps its PFCP sessions.
pub fn yaml() -> String {
    let kept = "metadata: {name: upf}
state: {directory: unused, checkpoints: {rate: 100000}}
pfcp:
  listen: [127.0.0.1]
  like: session
  interfaces:
    - {interface: access, addresses: [10.0.0.254]}
    - {interface: core}
";
    UPF.replace("metadata: {name: upf}\n", kept)
}

fn restored(folder: &Path) -> Rig {
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    let mut rig = Rig::resumed(&yaml(), Store::open(folder, &owner).unwrap()).unwrap();
    rig.load_all();
    rig
}

fn keep(rig: &mut Rig, keep: Vec<Keep>) {
    keep_reported(rig, keep, 0);
}

/// Keeps that usage is reported up to a number.
fn keep_reported(rig: &mut Rig, keep: Vec<Keep>, reported: u64) {
    let (told, tells) = channel();
    rig.node.agent().keep(keep, reported, Box::new(move |outcome| told.send(outcome).unwrap()));
    rig.settle();
    tells.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
}

/// What is on the disk at this moment: a node that is killed leaves that.
fn killed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join("state.redb"), copy.path().join("state.redb")).unwrap();
    copy
}

/// All contexts are looked at.
fn checkpoint(rig: &mut Rig) {
    for _ in 0..4 {
        let time = rig.time.load(std::sync::atomic::Ordering::Relaxed) + 20_000_000;
        rig.time.store(time, std::sync::atomic::Ordering::Relaxed);
        rig.settle();
    }
    keep(rig, Vec::new());
}

/// Gives a command; what rules have measured.
fn command(rig: &mut Rig, command: SessionCommand) -> Result<Vec<Usage>, SessionError> {
    told(rig, command).map(|(usage, _)| usage)
}

/// Gives a command; what rules have measured, and the number of that.
fn told(rig: &mut Rig, command: SessionCommand) -> Result<(Vec<Usage>, u64), SessionError> {
    let events = rig.node.agent().listen_to_sessions();
    let changed = rig.node.agent().change_sessions(&[command]);
    rig.settle();
    changed.results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut applied = events.try_iter().filter_map(|event| match event {
        SessionEvent::Applied { batch, usage, told } if batch == changed.batch => {
            Some((usage, told))
        }
        _ => None,
    });
    let (usage, told) = applied.next().unwrap();
    Ok((usage.into_iter().flat_map(|(_, usage)| usage).collect(), told))
}

/// Asks for the usage of a session as it is.
fn query(n: u8) -> SessionCommand {
    SessionCommand::Modify {
        id: SessionId(n.into()),
        rules: read(usual(n)),
        end_markers: Vec::new(),
        query: Query::All,
        drop_waiting: false,
    }
}

fn kept_as(id: u64) -> Keep {
    Keep::session(SessionId(id), "session", &read(usual(id as u8)), &[id as u8])
}

fn reported(id: u64, next: Option<u32>) -> Keep {
    let next = next.map(|next| (0, next));
    Keep::Reported { session: SessionId(id), urr: UrrId(1), next, end: 0 }
}

/// Whether packets of a session pass.
fn carries(rig: &mut Rig, n: u8) -> bool {
    rig.send(0, &[uplink(0x1000 + u32::from(n), [10, 45, 0, n], b"up")]);
    !rig.receive(1).is_empty()
}

#[test]
fn a_session_carries_before_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(folder.path());
    assert_eq!(rig.node.agent().kept(), Kept { keeps: true, ..Kept::default() });
    command(&mut rig, establish(1, usual(1))).unwrap();
    command(&mut rig, establish(2, usual(2))).unwrap();
    // The second was not answered for.
    keep(&mut rig, vec![kept_as(1), Keep::Note(b"key".to_vec(), Some(b"note".to_vec()))]);
    let left = killed(folder.path());
    drop(rig);
    let mut rig = restored(left.path());
    assert!(carries(&mut rig, 1) && !carries(&mut rig, 2));
    // The second's tunnel is not known, which its peer was told.
    assert_eq!(rig.receive(0).len(), 1);
    rig.send(1, &[downlink(1, b"down")]);
    assert_eq!(rig.receive(0).len(), 1);
    let kept = rig.node.agent().kept();
    assert_eq!(kept.notes, [(b"key".to_vec(), b"note".to_vec())]);
    assert_eq!((kept.sessions.len(), &kept.sessions[0].note), (1, &vec![1]));
    assert!(kept.sessions[0].is_there && kept.sessions[0].rules == read(usual(1)));
    assert!(rig.node.agent().kept().sessions.is_empty(), "they are told once");
    // Its keys are taken, and those of the other are free.
    let taken = command(&mut rig, establish(9, usual(1)));
    assert!(matches!(taken, Err(SessionError::KeyTaken(_))), "{taken:?}");
    command(&mut rig, establish(2, usual(2))).unwrap();
    // A configuration that cannot have it any more does not keep the node from starting.
    let left = killed(left.path());
    let other = yaml().replace("addresses: [10.0.0.254/24]", "addresses: [10.0.0.253/24]");
    let other = other.replace("[10.0.0.254]", "[10.0.0.253]");
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    let store = Store::open(left.path(), &owner).unwrap();
    let mut rig = Rig::restored(&other, store).unwrap();
    assert!(!rig.node.agent().kept().sessions[0].is_there);
}

#[test]
fn a_report_that_was_not_kept_before_the_node_died_was_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(folder.path());
    command(&mut rig, establish(1, usual(1))).unwrap();
    keep(&mut rig, vec![kept_as(1)]);
    assert!(carries(&mut rig, 1) && carries(&mut rig, 1));
    checkpoint(&mut rig);
    let said = |usage: &[Usage]| (usage[0].volume.uplink_octets, usage[0].sequence);
    let (usage, told) = told(&mut rig, query(1)).unwrap();
    assert_eq!(said(&usage), (2 * OCTETS, 0));
    assert!(carries(&mut rig, 1));
    // The context has not got these octets any more.
    checkpoint(&mut rig);
    let left = killed(folder.path());
    let mut next = restored(left.path());
    assert_eq!(
        said(&command(&mut next, query(1)).unwrap()),
        (2 * OCTETS, 0),
        "they are reported now"
    );
    // The node that lives keeps the report: what came behind it is all that there is to report.
    keep_reported(&mut rig, vec![reported(1, Some(1))], told);
    checkpoint(&mut rig);
    let left = killed(folder.path());
    let mut next = restored(left.path());
    assert_eq!(said(&command(&mut next, query(1)).unwrap()), (OCTETS, 1));
}

/// A session as it should be.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Packets that no report has told.
    measured: u64,
    /// Those of the last checkpoint, if it is behind the last report.
    saved: u64,
    /// Number of the next report.
    next: u32,
    /// A report that is not kept as such yet: the number of what was told.
    under_way: Option<u64>,
}

impl Model {
    /// The report that is under way is kept.
    fn settle(&mut self, rig: &mut Rig, id: u64) {
        if let Some(told) = self.under_way.take() {
            (self.saved, self.next) = (0, self.next + 1);
            keep_reported(rig, vec![reported(id, Some(self.next))], told);
        }
    }
}

/// The report of a session that is under way is kept, and with it, in order, all that were told
/// before: what is kept says up to which number that is.
fn settle(model: &mut [Option<Model>], n: usize, rig: &mut Rig) {
    let told = |one: &Option<Model>| one.as_ref().and_then(|one| one.under_way);
    let last = told(&model[n]);
    let sessions = model.iter().enumerate();
    let mut due: Vec<_> = sessions.filter_map(|(n, one)| Some((told(one)?, n))).collect();
    due.retain(|(told, _)| Some(*told) <= last);
    due.sort_unstable();
    for (_, n) in due {
        model[n].as_mut().unwrap().settle(rig, n as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Traffic, reports, checkpoints and deaths in any order: what is reported is what was
    /// measured, but for what came between the last checkpoint or report and a death; numbers of
    /// reports follow one another. A report that is not kept when the node dies was none.
    #[test]
    fn usage_is_counted_once(steps in proptest::collection::vec((0_u8..10, 1_u8..4), 1..28)) {
        let mut folder = tempfile::tempdir().unwrap();
        let mut rig = restored(folder.path());
        let mut model: [Option<Model>; 4] = Default::default();
        for (what, n) in steps {
            let id = u64::from(n);
            if let 4 | 5 | 8 | 9 = what {
                settle(&mut model, n.into(), &mut rig);
            }
            let slot = &mut model[usize::from(n)];
            match (what, &mut *slot) {
                (0 | 1, None) => {
                    command(&mut rig, establish(id, usual(n))).unwrap();
                    keep(&mut rig, vec![kept_as(id)]);
                    *slot = Some(Model::default());
                }
                (0..=3, Some(one)) => {
                    prop_assert!(carries(&mut rig, n));
                    one.measured += 1;
                }
                (4 | 8, Some(one)) => {
                    let (usage, told) = told(&mut rig, query(n)).unwrap();
                    prop_assert_eq!(usage.len(), 1);
                    prop_assert_eq!(usage[0].volume.uplink_octets, one.measured * OCTETS);
                    prop_assert_eq!(usage[0].sequence, one.next);
                    (one.measured, one.under_way) = (0, Some(told));
                    if what == 4 {
                        settle(&mut model, n.into(), &mut rig);
                    }
                }
                (5, Some(one)) => {
                    let remove = SessionCommand::Remove { id: SessionId(id) };
                    let usage = command(&mut rig, remove).unwrap();
                    prop_assert_eq!(usage[0].volume.uplink_octets, one.measured * OCTETS);
                    prop_assert_eq!(usage[0].sequence, one.next);
                    keep(&mut rig, vec![reported(id, None), Keep::Gone(SessionId(id))]);
                    *slot = None;
                }
                (6, _) => {
                    checkpoint(&mut rig);
                    let all = model.iter_mut().flatten();
                    all.filter(|one| one.under_way.is_none()).for_each(|one| one.saved = one.measured);
                }
                (7, _) => {
                    let left = killed(folder.path());
                    drop(rig);
                    folder = left;
                    rig = restored(folder.path());
                    let kept = rig.node.agent().kept().sessions;
                    prop_assert_eq!(kept.len(), model.iter().flatten().count());
                    for one in model.iter_mut().flatten() {
                        (one.measured, one.under_way) = (one.saved, None);
                    }
                }
                _ => {}
            }
        }
    }
}
