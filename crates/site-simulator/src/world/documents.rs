//! Documents of the site, and what nodes say of how they run and what they carry.

use weft_mobility_controller::engine::Engine;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{Event as Arrived, Load, Report};
use weft_site::history::Phase;
use weft_site::rollout::NodeProgress;

use super::{Event, Promise, SECOND, World};
use crate::scenario::Mutation;

/// What a station receives in a second, at least, and for each of its users.
const PACKETS: [u64; 2] = [1000, 100];
/// Share of a core that all users take together, in ten-thousandths.
const BUSY: usize = 9000;
/// By how much loads of stations may differ, in percent, and users that move at a time.
const TOLERANCE: usize = 20;
const AT_A_TIME: usize = 4;
/// States of a node that has not refused its settings, and was not harmed by them.
const STATES: [&str; 5] = ["current", "changing", "waits", "away", "silent"];
/// For how long no users are spread before they are taken to stay where they are.
const QUIET: u64 = 60 * SECOND;

/// What is to be of the site, and what becomes of it.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// Revisions that operators have applied.
    applied: u64,
    /// When users were spread last, and how many have been since the last fault.
    spread: (u64, usize),
}

/// What the leader says of documents.
pub(super) struct Said {
    is_over: bool,
    /// Nodes that documents speak of.
    nodes: Vec<NodeProgress>,
}

impl Said {
    /// None while nodes are being changed.
    pub fn by(engine: &Engine) -> Said {
        let standing = engine.site_standing();
        let is_over = matches!(standing.progress.phase, Phase::Complete | Phase::RolledBack);
        Said { is_over: is_over || standing.revision == 0, nodes: standing.nodes }
    }
}

impl World {
    /// An operator applies another revision: all stations run by it, or one of them refuses it,
    /// or drops packets because of it. Returns its text.
    pub(super) fn next_revision(&mut self) -> String {
        self.documents.applied += 1;
        let nth = self.documents.applied;
        let stations: Vec<_> = self.nodes.values().filter(|node| node.is_station()).collect();
        let stations: Vec<_> = stations.iter().map(|node| node.number.0).collect();
        let one = self.random.pick(&stations).unwrap_or_default();
        let says = match self.random.between(0, 4) {
            _ if nth == 1 => String::new(),
            0 => format!("  # refused by n{one}\n"),
            1 => format!("  # harms n{one}\n"),
            _ => String::new(),
        };
        let nodes: String = stations.iter().map(|number| format!("  n{number}: {{}}\n")).collect();
        format!(
            "apiVersion: weft/v1\nkind: Site\nmetadata: {{name: simulated}}\n\
             rollout: {{watch: 2, answer: 10, drops: 1}}\n\
             rebalance: {{over: 10, tolerance: {TOLERANCE}, users: {AT_A_TIME}}}\n---\n\
             apiVersion: weft/v1\nkind: NodeTemplate\nmetadata: {{name: stations}}\n\
             nodes:\n{nodes}template: |\n  # revision {nth}\n{says}  apiVersion: weft/v1\n  \
             kind: Node\n  metadata: {{name: $(name)}}\n  ports:\n    \
             access: {{device: net_null0, direction: uplink}}\n    \
             core: {{device: net_null1, direction: downlink}}\n  rules: |\n    \
             from access -> core\n    from core -> access\n"
        )
    }

    /// A node is told how to run. It takes that at once, or refuses it.
    pub(super) fn settings(
        &mut self,
        number: NodeId,
        link: u64,
        (generation, text): (u64, String),
    ) {
        let is_false = self.scenario.mutation == Some(Mutation::FalseReports);
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.machine.is_none() || node.link.is_none_or(|own| own.1 != link) {
            return;
        }
        if text.contains(&format!("# refused by n{}\n", number.0)) {
            node.settings.refused = generation;
        } else {
            node.settings.harm = text.contains(&format!("# harms n{}\n", number.0));
            (node.settings.says, node.settings.refused) = (generation, 0);
            if !is_false {
                node.settings.runs = generation;
            }
        }
        self.note(|| format!("{number} is told to run by {generation:x}"));
    }

    /// Once a second nodes say how they run and what they carry.
    pub(super) fn say_all(&mut self) {
        self.after(SECOND, Event::Say);
        let is_false = self.scenario.mutation == Some(Mutation::FalseLoads);
        let all = self.scenario.users as usize;
        for number in self.nodes.keys().copied().collect::<Vec<_>>() {
            let users = self.history.count_of(number.0);
            let Some(node) = self.nodes.get_mut(&number).filter(|node| node.is_station()) else {
                continue;
            };
            let settings = &mut node.settings;
            settings.uptime += SECOND * 1000;
            let received = PACKETS[0] + PACKETS[1] * users as u64;
            settings.received += received;
            settings.dropped += if settings.harm { received / 2 } else { 0 };
            let share = if is_false { all - users.min(all) } else { users };
            let load = Load {
                uptime: settings.uptime,
                received: settings.received,
                dropped: settings.dropped,
                busy: Some((BUSY * share / all.max(1)) as u16),
            };
            let report = Report {
                generation: settings.says,
                refused: settings.refused,
                received: settings.received,
                dropped: settings.dropped,
                reason: "simulated".to_owned(),
            };
            self.send_up(number, Arrived::Reported(number, report));
            self.send_up(number, Arrived::Loaded(number, load));
        }
    }

    /// The leader has told that users are spread.
    pub(super) fn spread(&mut self, said: &str) {
        let users = said.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        if users > AT_A_TIME {
            let what = format!("{users} users are spread at a time, and {AT_A_TIME} at most");
            self.violated(Promise::Balanced, what);
        }
        let before = if self.calm.is_some() { self.documents.spread.1 } else { 0 };
        self.documents.spread = (self.time(), before + users);
        // Users cost the same all the while, so none has to move twice.
        let (moved, all) = (self.documents.spread.1, self.scenario.users as usize);
        if self.calm.is_some() && moved > all {
            let what = format!("{moved} users of {all} are spread after the last fault");
            self.violated(Promise::Balanced, what);
        }
    }

    /// Why nodes do not run as the leader's documents say, or loads are not level, if that is so.
    pub(super) fn why_undone(&self, said: &Said) -> Option<(Promise, String)> {
        if !said.is_over {
            return Some((Promise::RolledOut, "nodes are being changed".to_owned()));
        }
        for NodeProgress { node: name, wanted, state, .. } in &said.nodes {
            let node = self.nodes.values().find(|node| format!("n{}", node.number.0) == *name);
            let runs = node.map_or(0, |node| node.settings.runs);
            // One that was away meanwhile may refuse what others took: then the leader says so.
            let is_refused = !STATES.contains(&state.as_str());
            if runs != *wanted && !is_refused {
                let what = format!("{name} runs by {runs:x}, and is to run by {wanted:x}");
                return Some((Promise::RolledOut, what));
            }
        }
        self.why_uneven(said).map(|what| (Promise::Balanced, what))
    }

    fn why_uneven(&self, said: &Said) -> Option<String> {
        // Users stay where they are without documents.
        said.nodes.first()?;
        let stations = self.nodes.values().filter(|node| node.is_station());
        let counts: Vec<_> = stations.map(|node| self.history.count_of(node.number.0)).collect();
        let (least, most) = (counts.iter().min()?, counts.iter().max()?);
        // In whole users, and one more for those that half of a difference is.
        let tolerated = self.scenario.users as usize * TOLERANCE * 100 / BUSY + 2;
        if most - least > tolerated {
            return Some(format!("stations have {counts:?} users"));
        }
        let quiet = self.time() - self.documents.spread.0;
        (quiet < QUIET).then(|| "users are being spread".to_owned())
    }
}
