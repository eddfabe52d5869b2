use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(200);

/// A node in a site without packets.
#[derive(Clone, Debug)]
struct Node {
    is_connected: bool,
    process: u64,
    incarnation: u32,
    users: usize,
    is_cordoned: bool,
    /// It ends its connection at what it does not know.
    is_old: bool,
    /// What it answers to orders: none for those that it carries out.
    refuses: Option<&'static str>,
    /// How often it refuses before it does not.
    times: usize,
    /// After it was told to change it does not come back.
    is_lost: bool,
    /// It starts anew where it should go over.
    restarts: bool,
    /// It comes back then.
    back: Option<Duration>,
}

const NODE: Node = Node {
    is_connected: true,
    process: 7,
    incarnation: 1,
    users: 3,
    is_cordoned: false,
    is_old: false,
    refuses: None,
    times: usize::MAX,
    is_lost: false,
    restarts: false,
    back: None,
};

struct Site {
    nodes: BTreeMap<String, Node>,
    under_way: usize,
    is_held: bool,
    now: Duration,
    upgrade: Upgrade,
    records: Records,
    upgraded: Vec<String>,
    over: Option<(Phase, String)>,
    told: usize,
}

impl View for Site {
    fn is_held(&self) -> bool {
        self.is_held
    }
    fn is_connected(&self, node: &str) -> bool {
        self.nodes[node].is_connected
    }
    fn has_expired(&self, node: &str) -> bool {
        !self.is_connected(node) && self.nodes[node].is_lost
    }
    fn incarnation(&self, node: &str) -> u32 {
        self.nodes[node].incarnation
    }
    fn users(&self, node: &str) -> [usize; 2] {
        [self.nodes[node].users, 0]
    }
    fn under_way(&self, _: &str, _: u64) -> usize {
        self.under_way
    }
}

impl Site {
    fn new(method: Method, nodes: &[(&str, Node)]) -> Site {
        let named = nodes.iter().map(|(name, node)| ((*name).to_owned(), node.clone()));
        let listed = nodes.iter().map(|(name, _)| ((*name).to_owned(), None)).collect();
        Site {
            nodes: named.collect(),
            under_way: 0,
            is_held: false,
            now: SECOND,
            upgrade: Upgrade::begin(1000, method, listed),
            records: Records::default(),
            upgraded: Vec::new(),
            over: None,
            told: 0,
        }
    }

    /// Until it is over, or so long has passed.
    fn run(&mut self, most: Duration) {
        let end = self.now + most;
        while self.over.is_none() && self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let mut back = Vec::new();
        for (name, node) in &mut self.nodes {
            if node.back.is_some_and(|at| at <= now) {
                (node.is_connected, node.back) = (true, None);
                back.push(name.clone());
            }
        }
        back.iter().for_each(|name| self.upgrade.connected(name));
        let mut upgrade = std::mem::take(&mut self.upgrade);
        let mut actions = upgrade.step(now, &*self);
        self.upgrade = upgrade;
        let changes = self.records.follow(&self.upgrade);
        assert_eq!(self.records.follow(&self.upgrade), [], "{changes:?}");
        while let Some(action) = (!actions.is_empty()).then(|| actions.remove(0)) {
            self.carry_out(action);
        }
        let busy = self.upgrade.nodes.iter().filter(|node| node.phase == NodePhase::InProgress);
        assert!(busy.count() <= 1, "{:?}", self.upgrade.nodes);
    }

    fn carry_out(&mut self, action: Action) {
        let all = &mut self.nodes;
        match action {
            Action::Tell { node: name, request } => {
                self.told += 1;
                let now = self.now;
                let node = all.get_mut(&name).unwrap();
                assert!(node.is_connected, "{name} is told something and is not there");
                if node.is_old {
                    (node.is_connected, node.back) = (false, Some(now + STEP));
                    return;
                }
                let own = node.process;
                let is_meant = request.is_some_and(|(_, process)| process == own);
                let refuses = node.refuses.filter(|_| is_meant && node.times > 0);
                let standing = match (is_meant, refuses) {
                    (false, _) => Standing::Runs,
                    (true, Some(_)) => Standing::Refused,
                    (true, None) => Standing::Begun,
                };
                if standing == Standing::Refused {
                    node.times -= 1;
                }
                if standing == Standing::Begun {
                    assert!(self.upgrade.method == Method::InPlace || node.users == 0, "{name}");
                    node.process += 1;
                    node.incarnation +=
                        u32::from(node.restarts || self.upgrade.method == Method::Drain);
                    node.is_connected = false;
                    node.back = (!node.is_lost).then_some(now + SECOND);
                }
                let answer = Answer {
                    request: request.map_or(0, |(number, _)| number),
                    process: own,
                    standing,
                    version: "0.1.0".to_owned(),
                    reason: refuses.unwrap_or_default().to_owned(),
                };
                self.upgrade.answered(&name, answer);
            }
            Action::Drain(name) => {
                let was_cordoned = all[&name].is_cordoned;
                let node = all.get_mut(&name).unwrap();
                (node.users, node.is_cordoned) = (0, true);
                self.upgrade.leaves(5, was_cordoned);
            }
            Action::Uncordon(name) => all.get_mut(&name).unwrap().is_cordoned = false,
            Action::Return(name) => all.get_mut(&name).unwrap().users = 3,
            Action::Upgraded(name) => self.upgraded.push(name),
            Action::Over(phase, reason) => self.over = Some((phase, reason)),
        }
    }

    fn ended(&self) -> (Phase, &str) {
        let (phase, reason) = self.over.as_ref().expect("an end");
        assert_eq!((*phase, reason), (self.upgrade.phase, &self.upgrade.reason));
        (*phase, reason)
    }

    /// The controller dies, and another one leads.
    fn another_leads(&mut self) {
        self.upgrade = self.records.upgrade();
        self.upgrade.number_from(2000 + self.now.as_secs());
    }
}

#[test]
fn nodes_go_over_one_after_another() {
    for method in [Method::InPlace, Method::Drain] {
        let mut site = Site::new(method, &[("a", NODE), ("b", NODE), ("c", NODE)]);
        site.run(100 * SECOND);
        assert_eq!(site.ended(), (Phase::Complete, ""), "{method:?}");
        assert_eq!(site.upgraded, ["a", "b", "c"]);
        for node in site.nodes.values() {
            assert_eq!((node.process, node.users, node.is_cordoned), (8, 3, false));
        }
        assert!(site.upgrade.nodes.iter().all(|node| node.after == "0.1.0"));
    }
}

#[test]
fn the_first_that_refuses_ends_it() {
    let wrong = Node { refuses: Some("functions.police: no such kind"), ..NODE };
    let mut site = Site::new(Method::InPlace, &[("a", NODE), ("b", wrong), ("c", NODE)]);
    site.run(100 * SECOND);
    assert_eq!(site.ended(), (Phase::Failed, "b: functions.police: no such kind"));
    assert_eq!(site.upgraded, ["a"]);
    let phases: Vec<_> = site.upgrade.nodes.iter().map(|node| node.phase).collect();
    assert_eq!(phases, [NodePhase::Done, NodePhase::Failed, NodePhase::Waiting]);
    assert_eq!(site.nodes["c"].process, 7);
}

#[test]
fn one_that_says_try_again_is_told_again_for_a_while() {
    let refuses = Some("users move; try again");
    let soon = Node { refuses, times: 5, ..NODE };
    let mut site = Site::new(Method::InPlace, &[("a", soon)]);
    site.run(100 * SECOND);
    assert_eq!(site.ended().0, Phase::Complete);
    let never = Node { refuses, ..NODE };
    let mut site = Site::new(Method::InPlace, &[("a", never)]);
    site.run(1000 * SECOND);
    assert_eq!(site.ended(), (Phase::Failed, "a: users move; try again"));
    assert!(site.now < TRYING + 10 * SECOND, "{:?}", site.now);
    assert!(site.told < 70, "{}", site.told);
}

#[test]
fn what_does_not_come_is_given_up() {
    let cases = [
        (Node { is_connected: false, ..NODE }, "it is not connected"),
        (Node { is_old: true, ..NODE }, "a release that cannot be upgraded by its site"),
        (Node { is_lost: true, ..NODE }, "no other process of it came in 180 s"),
        (Node { restarts: true, ..NODE }, "it has started anew in place of going over"),
    ];
    for (node, said) in cases {
        let mut site = Site::new(Method::InPlace, &[("a", node)]);
        site.run(1000 * SECOND);
        let (phase, reason) = site.ended();
        assert!(phase == Phase::Failed && reason.contains(said), "{reason}");
    }
}

#[test]
fn a_node_that_fails_behind_its_users_takes_users_again() {
    let lost = Node { is_lost: true, ..NODE };
    let cordoned = Node { is_cordoned: true, ..lost.clone() };
    for (node, is_cordoned) in [(lost, false), (cordoned, true)] {
        let mut site = Site::new(Method::Drain, &[("a", node)]);
        site.run(1000 * SECOND);
        assert_eq!(site.ended().0, Phase::Failed);
        assert_eq!(site.nodes["a"].is_cordoned, is_cordoned);
    }
}

#[test]
fn users_that_do_not_leave_are_not_lost() {
    let mut site = Site::new(Method::Drain, &[("a", NODE)]);
    site.under_way = 2;
    site.run(1000 * SECOND);
    assert_eq!(site.ended(), (Phase::Failed, "a: 2 users have not left it in time"));
    assert_eq!(site.nodes["a"].process, 7);
}

#[test]
fn it_waits_for_other_changes_and_can_be_ended() {
    let mut site = Site::new(Method::InPlace, &[("a", NODE), ("b", NODE)]);
    site.is_held = true;
    site.run(100 * SECOND);
    assert!(site.over.is_none() && site.told == 0);
    site.is_held = false;
    site.run(SECOND);
    assert!(site.upgrade.is_busy());
    site.upgrade.cancel();
    site.run(100 * SECOND);
    assert_eq!(site.ended(), (Phase::Cancelled, ""));
    assert_eq!(site.upgraded, ["a"]);
    assert_eq!(site.nodes["b"].process, 7);
    // One that waits for its node ends at once.
    let away = Node { is_connected: false, ..NODE };
    let mut site = Site::new(Method::InPlace, &[("a", away)]);
    site.run(SECOND);
    site.upgrade.cancel();
    site.run(SECOND);
    assert_eq!(site.ended().0, Phase::Cancelled);
}

#[test]
fn what_a_node_says_is_kept_short_and_in_one_line() {
    let long: &'static str = Box::leak("é\n".repeat(1 << 16).into_boxed_str());
    let mut site = Site::new(Method::InPlace, &[("a", Node { refuses: Some(long), ..NODE })]);
    site.run(100 * SECOND);
    let (phase, reason) = site.ended();
    assert!(phase == Phase::Failed && !reason.contains('\n') && reason.len() < 900);
}

proptest! {
    /// However often another controller goes on, each node changes its process once, and the
    /// upgrade ends.
    #[test]
    fn another_controller_goes_on(
        deaths in proptest::collection::vec(0_u64..60, 0..6),
        drains: bool,
        times in 0_usize..4,
    ) {
        let method = if drains { Method::Drain } else { Method::InPlace };
        let slow = Node { refuses: Some("users move; try again"), times, ..NODE };
        let mut site = Site::new(method, &[("a", NODE), ("b", slow), ("c", NODE)]);
        for step in 0..2000 {
            site.step();
            if deaths.contains(&step) {
                site.another_leads();
            }
            if site.over.is_some() {
                break;
            }
        }
        prop_assert_eq!(site.ended(), (Phase::Complete, ""));
        for node in site.nodes.values() {
            prop_assert_eq!((node.process, node.users, node.is_cordoned), (8, 3, false));
        }
        prop_assert_eq!(site.upgraded, ["a", "b", "c"]);
    }
}
