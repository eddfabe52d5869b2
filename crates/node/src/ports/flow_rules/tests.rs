use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use weft_dpdk::{FlowField, FlowLevel, FlowMatch, FlowRefusal, FlowRule, FlowTaking};
use weft_dpdk::{Steering, SteeringKey, SteeringRun};
use weft_function::Direction;
use weft_functions::KINDS;
use weft_node_config::{PortPlan, UserKey, read};

use super::scheme::RuleScheme;
use super::set::{RuleCounts, RuleSet, RuleTable};

/// A device with room for so many rules, which refuses each so manieth call to add or to remove.
#[derive(Default)]
struct Device {
    rules: RefCell<HashMap<u64, FlowRule>>,
    room: usize,
    refuses: Option<u32>,
    keeps: Option<u32>,
    calls: Cell<u32>,
    removals: Cell<u32>,
    kept: RefCell<Vec<FlowMatch>>,
}

impl Device {
    fn rules(&self) -> BTreeMap<FlowMatch, FlowRule> {
        self.rules.borrow().values().map(|rule| (rule.of, *rule)).collect()
    }
}

fn is_due(counter: &Cell<u32>, each: Option<u32>) -> bool {
    counter.set(counter.get() + 1);
    each.is_some_and(|each| counter.get().is_multiple_of(each))
}

fn refusal() -> FlowRefusal {
    FlowRefusal { number: 28, reason: "no room".to_owned() }
}

impl RuleTable for Device {
    type Id = u64;

    fn add(&self, rule: &FlowRule) -> Result<u64, FlowRefusal> {
        let mut rules = self.rules.borrow_mut();
        assert!(rules.values().all(|other| other.of != rule.of), "{rule:?} twice");
        if is_due(&self.calls, self.refuses) || rules.len() >= self.room {
            return Err(refusal());
        }
        let id = u64::from(self.calls.get());
        rules.insert(id, *rule);
        Ok(id)
    }

    fn remove(&self, id: u64) -> Result<(), FlowRefusal> {
        let mut rules = self.rules.borrow_mut();
        assert!(rules.contains_key(&id), "a rule that it does not have");
        if is_due(&self.removals, self.keeps) {
            self.kept.borrow_mut().push(rules[&id].of);
            return Err(refusal());
        }
        rules.remove(&id);
        Ok(())
    }
}

/// What may happen to the rules of a port.
#[derive(Clone, Debug)]
enum Step {
    Configure(Vec<(u32, u16)>),
    Add(u32, u16),
    Remove(u32),
    Work(usize),
    Close,
}

/// Users of the configuration have numbers below 100, others above.
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => vec((0..30_u32, 0..3_u16), 0..40).prop_map(Step::Configure),
        6 => (100..130_u32, 0..3_u16).prop_map(|(number, queue)| Step::Add(number, queue)),
        4 => (100..130_u32).prop_map(Step::Remove),
        6 => (1..20_usize).prop_map(Step::Work),
        1 => Just(Step::Close),
    ]
}

fn rule(number: u32, queue: u16) -> FlowRule {
    let of = FlowMatch::exactly(FlowField::SourceIpv4, number.into());
    let level = if number < 10 { FlowLevel::Rest } else { FlowLevel::First };
    FlowRule { of, queue, level }
}

/// Takes the steps, and works until nothing is to do; the rules that there should be then.
fn run(steps: &[Step], device: &Device, set: &mut RuleSet<u64>) -> BTreeMap<FlowMatch, FlowRule> {
    let (mut configured, mut added) = (BTreeMap::new(), BTreeMap::new());
    for step in steps {
        match step {
            Step::Configure(rules) => {
                let rules = rules.iter().map(|(number, queue)| rule(*number, *queue));
                configured = rules.map(|rule| (rule.of, rule)).collect();
                set.configure(configured.values().copied().collect(), 0);
            }
            Step::Add(number, queue) => {
                let rule = rule(*number, *queue);
                added.insert(rule.of, rule);
                set.add(&rule);
            }
            Step::Remove(number) => {
                let of = rule(*number, 0).of;
                added.remove(&of);
                set.remove(&of);
            }
            Step::Work(budget) => {
                let before = device.calls.get() + device.removals.get();
                set.work(device, *budget);
                let calls = device.calls.get() + device.removals.get() - before;
                assert!(calls as usize <= *budget, "{calls} calls");
            }
            Step::Close => {
                device.rules.borrow_mut().clear();
                device.kept.borrow_mut().clear();
                set.lose_all();
            }
        }
    }
    let mut turns = 0;
    while set.work(device, 7) {
        turns += 1;
        assert!(turns < 1000, "it does not come to an end");
    }
    configured.into_iter().chain(added).collect()
}

proptest! {
    #[test]
    fn a_device_comes_to_have_the_rules_that_it_should(steps in vec(step(), 0..60)) {
        let device = Device { room: 1000, ..Device::default() };
        let mut set = RuleSet::new();
        let wanted = run(&steps, &device, &mut set);
        prop_assert_eq!(device.rules(), wanted.clone());
        let present = wanted.len() as u64;
        prop_assert_eq!(set.counts(), RuleCounts { present, refused: 0 });
        prop_assert!(set.news().is_none());
    }

    #[test]
    fn a_table_that_is_full_has_as_many_as_it_holds(steps in vec(step(), 0..60), room in 0..40_usize) {
        let device = Device { room, ..Device::default() };
        let mut set = RuleSet::new();
        let wanted = run(&steps, &device, &mut set);
        let present = device.rules();
        prop_assert!(present.iter().all(|(of, rule)| wanted.get(of) == Some(rule)));
        prop_assert_eq!(present.len(), wanted.len().min(room));
        let (present, refused) = (present.len() as u64, (wanted.len() - present.len()) as u64);
        prop_assert_eq!(set.counts(), RuleCounts { present, refused });
        // It is told once.
        if refused > 0 {
            prop_assert!(set.news().is_some());
        }
        prop_assert!(set.news().is_none());
    }

    #[test]
    fn a_device_that_refuses_at_times_has_no_wrong_rule(
        steps in vec(step(), 0..60),
        refuses in 1..5_u32,
        keeps in 2..5_u32,
    ) {
        let device =
            Device { room: 1000, refuses: Some(refuses), keeps: Some(keeps), ..Device::default() };
        let mut set = RuleSet::new();
        let wanted = run(&steps, &device, &mut set);
        let (present, kept) = (device.rules(), device.kept.borrow());
        for (of, rule) in &present {
            prop_assert!(wanted.get(of) == Some(rule) || kept.contains(of), "{:?}", rule);
        }
        prop_assert_eq!(set.counts().present, present.len() as u64);
        let lacking = wanted.keys().filter(|of| !present.contains_key(of)).count();
        prop_assert_eq!(set.counts().refused, lacking as u64);
    }
}

/// A port of a node of so many workers, of which `first` polls queue 0.
fn port(direction: &str, workers: usize, first: usize) -> PortPlan {
    let text = format!(
        "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: n}}\nworkers: {{count: {workers}}}\n\
         ports:\n  a: {{device: 'ring:a', direction: {direction}, queues: {workers}, \
         worker: {first}}}\nrules: |\n  from a -> drop\n"
    );
    let blueprint = read(&text, "n.yaml", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    blueprint.ports[0].clone()
}

/// Where a device with these rules puts a packet with that value in a field; none where no rule
/// matches.
fn queue_of(rules: &[FlowRule], field: FlowField, value: u128) -> Option<u16> {
    let at = |level| {
        let matching = rules.iter().filter(move |rule| {
            rule.of.field == field && value & rule.of.mask == rule.of.value && rule.level == level
        });
        let mut queues: Vec<_> = matching.map(|rule| rule.queue).collect();
        queues.dedup();
        assert!(queues.len() < 2, "{value:#x} goes to {queues:?}");
        queues.first().copied()
    };
    at(FlowLevel::First).or_else(|| at(FlowLevel::Rest))
}

/// A run of users, by the kind of key, the number of the first, how many there are, and the queue
/// of the first.
fn run_of(kind: u32, first: u32, count: u32, queue: usize) -> SteeringRun {
    let key = match kind {
        0 => SteeringKey::Teid,
        1 => SteeringKey::SourceIpv4,
        _ => SteeringKey::SourceIpv6(0x2001_0db8),
    };
    SteeringRun { key, first, count, queue: queue as u16 }
}

fn fields(kind: u32, is_uplink: bool) -> Vec<FlowField> {
    use FlowField::{DestinationIpv4, DestinationIpv6, SourceIpv4, SourceIpv6};
    match (kind, is_uplink) {
        (0, _) => vec![FlowField::TeidInIpv4, FlowField::TeidInIpv6],
        (1, true) => vec![SourceIpv4],
        (1, false) => vec![DestinationIpv4],
        (_, true) => vec![SourceIpv6],
        (_, false) => vec![DestinationIpv6],
    }
}

fn key(kind: u32, number: u32) -> UserKey {
    match kind {
        0 => UserKey::Teid { network: 0, first: number },
        1 => UserKey::Ipv4 { network: 0, first: Ipv4Addr::from_bits(number) },
        _ => UserKey::Ipv6 { network: 0, first: prefix(number), prefix_len: 64 },
    }
}

fn prefix(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64)
}

/// What packets of a user show; behind the prefix there may be anything.
fn shown(kind: u32, number: u32) -> u128 {
    match kind {
        2 => prefix(number).to_bits() | 0x1234_5678_9abc_def0,
        _ => number.into(),
    }
}

proptest! {
    #[test]
    fn packets_of_users_come_to_the_queue_of_their_worker(
        (workers, first) in (2..9_usize).prop_flat_map(|workers| (Just(workers), 0..workers)),
        is_uplink: bool,
        (masks, levels) in (any::<bool>(), any::<bool>()),
        runs in vec((0..3_u32, 0..50_u32, 1..300_u32, 0..9_usize), 0..4),
        added in vec((0..3_u32, 0x8000_0000..u32::MAX, 0..9_usize), 0..20),
    ) {
        let plan = port(if is_uplink { "uplink" } else { "downlink" }, workers, first);
        let place = RuleScheme::new(&plan, workers, |_| Some(FlowTaking { masks, levels }));
        // Apart from each other.
        let runs: Vec<_> = runs.into_iter().enumerate().map(|(number, (kind, from, count, queue))| {
            (kind, run_of(kind, number as u32 * 1000 + from, count, queue % workers))
        }).collect();
        let mut rules = place.of_codes();
        let (of_runs, beyond) = place.of_runs(runs.iter().map(|(_, run)| run.clone()));
        prop_assert_eq!(beyond, 0);
        rules.extend(of_runs);
        let added: BTreeMap<_, _> =
            added.iter().map(|(kind, number, worker)| ((*kind, *number), worker % workers)).collect();
        for ((kind, number), worker) in &added {
            rules.extend(place.of_key(&key(*kind, *number), *worker));
        }
        let exact = |kind: u32| masks || kind != 2;
        for (kind, run) in runs.iter().filter(|(kind, _)| exact(*kind)) {
            for nth in 0..run.count {
                let queue = (usize::from(run.queue) + nth as usize) % workers;
                for field in fields(*kind, is_uplink) {
                    let found = queue_of(&rules, field, shown(*kind, run.first + nth));
                    prop_assert_eq!(found, Some(queue as u16));
                }
            }
        }
        for ((kind, number), worker) in added.iter().filter(|((kind, _), _)| exact(*kind)) {
            let queue = (worker + workers - first) % workers;
            for field in fields(*kind, is_uplink) {
                prop_assert_eq!(queue_of(&rules, field, shown(*kind, *number)), Some(queue as u16));
            }
        }
        if masks && levels {
            let numbers = added.iter().filter(|((kind, number), worker)| {
                Steering::worker_of(*number, workers) == **worker && *kind != 0
            });
            for ((kind, number), worker) in numbers {
                prop_assert!(place.of_key(&key(*kind, *number), *worker).is_empty());
            }
        }
    }
}

#[test]
fn a_million_users_in_a_row_take_few_rules_where_bits_can_be_compared() {
    let plan = port("uplink", 4, 1);
    let place = RuleScheme::new(&plan, 4, |_| Some(FlowTaking { masks: true, levels: false }));
    let run = run_of(1, 0x0a00_0001, 1_000_000, 2);
    let (rules, beyond) = place.of_runs([run.clone()]);
    assert_eq!(beyond, 0);
    assert!(rules.len() < 100, "{}", rules.len());
    // Devices that compare all bits take as many as there may be, and the others are counted.
    let place = RuleScheme::new(&plan, 4, |_| Some(FlowTaking { masks: false, levels: false }));
    let (rules, beyond) = place.of_runs([run]);
    assert_eq!(rules.len(), super::scheme::MOST_RULES);
    assert_eq!(rules.len() as u64 + beyond, 1_000_000);
}

#[test]
fn users_of_another_network_and_keys_that_packets_do_not_show_have_no_rules() {
    let plan = PortPlan { direction: Direction::Uplink, ..port("uplink", 2, 0) };
    let place = RuleScheme::new(&plan, 2, |_| Some(FlowTaking { masks: true, levels: false }));
    for key in [
        UserKey::Ipv4 { network: 1, first: Ipv4Addr::LOCALHOST },
        UserKey::Teid { network: 1, first: 7 },
        UserKey::Vlan { port: 0, first: 7 },
        UserKey::Route { network: 0, first: Ipv4Addr::UNSPECIFIED.into(), prefix_len: 8 },
    ] {
        assert!(place.matches(&key).is_empty() && place.of_key(&key, 1).is_empty(), "{key:?}");
    }
    let whole = UserKey::Ipv6 { network: 0, first: Ipv6Addr::LOCALHOST, prefix_len: 128 };
    let rules = place.of_key(&whole, 1);
    assert_eq!((rules[0].of.value, rules[0].of.mask, rules[0].queue), (1, u128::MAX, 1));
}
