//! Which flow rules send the packets of users to their workers, at one port.

use arrayvec::ArrayVec;
use weft_dpdk::{FlowField, FlowLevel, FlowMatch, FlowRule, FlowTaking};
use weft_dpdk::{Steering, SteeringKey, SteeringRun};
use weft_function::Direction;
use weft_node_config::{PortPlan, UserKey};

/// Rules that a port has at most. Users beyond are spread by the device's hash.
pub(crate) const MOST_RULES: usize = 1 << 16;

/// What a port is to users: how packets show them there, and where their workers are.
#[derive(Clone, Debug)]
pub(crate) struct RuleScheme {
    network: u32,
    fields: ArrayVec<FlowField, 4>,
    workers: usize,
    /// The worker that polls queue 0.
    first: usize,
    takes: [Option<FlowTaking>; FlowField::ALL.len()],
}

impl RuleScheme {
    /// Of a port whose device takes these rules.
    pub fn new(
        plan: &PortPlan,
        workers: usize,
        takes: impl Fn(FlowField) -> Option<FlowTaking>,
    ) -> RuleScheme {
        let (ipv4, ipv6) = match plan.direction {
            Direction::Uplink => (FlowField::SourceIpv4, FlowField::SourceIpv6),
            Direction::Downlink => (FlowField::DestinationIpv4, FlowField::DestinationIpv6),
        };
        // Tunnels end at an address of the port, or at none that is known.
        let ends = |is_ipv4: bool| {
            plan.addresses.is_empty()
                || plan.addresses.iter().any(|(address, _)| address.is_ipv4() == is_ipv4)
        };
        let mut fields = ArrayVec::from_iter([ipv4, ipv6]);
        fields.extend(ends(true).then_some(FlowField::TeidInIpv4));
        fields.extend(ends(false).then_some(FlowField::TeidInIpv6));
        RuleScheme {
            network: plan.network,
            fields,
            workers,
            first: plan.worker,
            takes: FlowField::ALL.map(takes),
        }
    }

    /// Rules for all users whose numbers say by themselves which worker they have.
    pub fn of_codes(&self) -> Vec<FlowRule> {
        let places = match self.workers.is_power_of_two() {
            true => (self.workers as u32).min(Steering::PLACES),
            false => Steering::PLACES,
        };
        let coded = self.fields.iter().filter(|field| self.is_coded(**field));
        let of_field = |field: &FlowField| {
            let field = *field;
            (0..places).map(move |place| {
                let worker = Steering::worker_of(place, self.workers);
                self.rule(part(field, place, places - 1), worker, FlowLevel::Rest)
            })
        };
        coded.flat_map(of_field).collect()
    }

    /// Rules for users of the configuration, up to [`MOST_RULES`], and how many users would need
    /// some beyond.
    pub fn of_runs(&self, runs: impl IntoIterator<Item = SteeringRun>) -> (Vec<FlowRule>, u64) {
        let (mut rules, mut beyond) = (Vec::new(), 0);
        for run in runs {
            for field in self.fields_of(run.key) {
                let before = rules.len();
                let covered = self.add_run(field, &run, MOST_RULES - before, &mut rules);
                beyond += u64::from(run.count) - u64::from(covered);
            }
        }
        (rules, beyond)
    }

    /// Adds the rules of one run, at most `room`; how many users those are for, and for how many
    /// there need be none.
    fn add_run(
        &self,
        field: FlowField,
        run: &SteeringRun,
        room: usize,
        rules: &mut Vec<FlowRule>,
    ) -> u32 {
        let prefix = field.whole() > u128::from(u32::MAX);
        let taking = self.taking(field).filter(|taking| taking.masks || !prefix);
        let Some(taking) = taking else { return run.count };
        let half = match run.key {
            SteeringKey::SourceIpv6(half) | SteeringKey::DestinationIpv6(half) => half,
            _ => 0,
        };
        let most = rules.len() + room;
        let (workers, in_blocks) = (self.workers as u32, self.workers.is_power_of_two());
        let worker = |number: u32| {
            let nth = (u64::from(number - run.first) % u64::from(workers)) as usize;
            (self.first + usize::from(run.queue) + nth) % self.workers
        };
        let coded = |number| {
            self.is_coded(field) && Steering::worker_of(number, self.workers) == worker(number)
        };
        if in_blocks && coded(run.first) {
            return run.count;
        }
        let (mut number, mut left) = (run.first, run.count);
        while left > 0 {
            let aligned = number.trailing_zeros().min(31).min(left.ilog2());
            let size = 1_u32 << aligned;
            let is_block = taking.masks && in_blocks && size >= workers;
            let (step, count) = if is_block { (size, workers) } else { (1, 1) };
            if !coded(number) {
                if rules.len() + count as usize > most {
                    break;
                }
                let mask = if is_block { !(size - 1) | (workers - 1) } else { u32::MAX };
                rules.extend((number..=number + (count - 1)).map(|number| {
                    let of = full(field, half, number, mask);
                    self.rule(of, worker(number), FlowLevel::First)
                }));
            }
            left -= step;
            number = number.wrapping_add(step);
        }
        run.count - left
    }

    /// What shows a user of a key here, with the rules for it; none that are needed where its
    /// numbers say by themselves that the worker is this one.
    pub fn of_key(&self, key: &UserKey, worker: usize) -> ArrayVec<FlowRule, 2> {
        let matches = self.matches(key);
        let needed = matches.into_iter().filter(|(of, number)| {
            self.taking(of.field).is_some_and(|taking| taking.masks || of.mask == of.field.whole())
                && !(self.is_coded(of.field)
                    && Steering::worker_of(*number, self.workers) == worker)
        });
        needed.map(|(of, _)| self.rule(of, worker, FlowLevel::First)).collect()
    }

    /// What shows a user of a key here, and the number that may say its worker.
    pub fn matches(&self, key: &UserKey) -> ArrayVec<(FlowMatch, u32), 2> {
        let mut matches = ArrayVec::new();
        let (key_field, value) = match *key {
            UserKey::Ipv4 { network, first } if network == self.network => {
                (SteeringKey::SourceIpv4, u128::from(first.to_bits()))
            }
            UserKey::Ipv6 { network, first, .. } if network == self.network => {
                (SteeringKey::SourceIpv6(0), first.to_bits())
            }
            UserKey::Teid { network, first } if network == self.network => {
                (SteeringKey::Teid, u128::from(first))
            }
            _ => return matches,
        };
        let Some(number) = key.number() else { return matches };
        for field in self.fields_of(key_field) {
            let of = match *key {
                UserKey::Ipv6 { prefix_len: 64, .. } => {
                    FlowMatch { field, value, mask: u128::MAX << 64 }
                }
                _ => FlowMatch::exactly(field, value),
            };
            matches.push((of, number));
        }
        matches
    }

    /// The fields of packets here that show such a key.
    fn fields_of(&self, key: SteeringKey) -> ArrayVec<FlowField, 2> {
        use FlowField::{DestinationIpv4, DestinationIpv6, SourceIpv4, SourceIpv6};
        let shows = |field: &FlowField| match key {
            SteeringKey::SourceIpv4 | SteeringKey::DestinationIpv4 => {
                matches!(field, SourceIpv4 | DestinationIpv4)
            }
            SteeringKey::SourceIpv6(_) | SteeringKey::DestinationIpv6(_) => {
                matches!(field, SourceIpv6 | DestinationIpv6)
            }
            SteeringKey::Teid => matches!(field, FlowField::TeidInIpv4 | FlowField::TeidInIpv6),
        };
        self.fields.iter().copied().filter(shows).collect()
    }

    fn taking(&self, field: FlowField) -> Option<FlowTaking> {
        self.takes[field as usize]
    }

    /// Whether the device sends by the bits that say a worker.
    fn is_coded(&self, field: FlowField) -> bool {
        self.taking(field).is_some_and(|taking| taking.masks && taking.levels)
    }

    fn rule(&self, of: FlowMatch, worker: usize, level: FlowLevel) -> FlowRule {
        let queue = (worker + self.workers - self.first % self.workers) % self.workers;
        FlowRule { of, queue: queue as u16, level }
    }
}

/// Packets with these bits in the number of a user: of IPv6, in the second half of its prefix.
fn part(field: FlowField, number: u32, mask: u32) -> FlowMatch {
    let shift = if field.whole() > u128::from(u32::MAX) { 64 } else { 0 };
    FlowMatch { field, value: u128::from(number & mask) << shift, mask: u128::from(mask) << shift }
}

/// The same below the first half of a prefix in IPv6, which is compared as well.
fn full(field: FlowField, half: u32, number: u32, mask: u32) -> FlowMatch {
    let mut of = part(field, number, mask);
    if field.whole() > u128::from(u32::MAX) {
        of.value |= u128::from(half) << 96;
        of.mask |= u128::from(u32::MAX) << 96;
    }
    of
}
