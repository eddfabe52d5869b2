//! What control planes call interfaces and network instances, and what they are at the node.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use weft_functions::session::rules::{Interface, LocalTunnel, Name};
use weft_node_config::{PfcpChainPlan, PfcpInterfacePlan, PfcpSide, UserKey};

use crate::codec::element::Text;

/// Draws numbers that nothing outside can predict.
pub type Entropy = Box<dyn FnMut() -> u64 + Send>;

/// Attempts at a TEID that no session has. With a million of four thousand million in use, one
/// fails in four thousand cases.
const ATTEMPTS: usize = 16;

/// Interfaces, and what is given out there.
pub(crate) struct Interfaces {
    entries: Vec<Entry>,
    networks: Vec<Name>,
    chains: Vec<Chain>,
    /// TEIDs in use: network and TEID.
    teids: HashSet<(u8, u32), RandomState>,
    /// Bound of TEIDs that are chosen.
    teids_below: u32,
}

struct Entry {
    side: PfcpSide,
    instance: Option<String>,
    network: u8,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    pools: Vec<Pool>,
}

/// Which packets take a chain.
struct Chain {
    when: PfcpChainPlan,
    chain: Name,
}

/// What the chain of a packet detection rule follows from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Traits {
    /// Its network instance.
    pub instance: Option<Name>,
    /// Its application.
    pub application: Option<Name>,
    /// Predefined rules that it activates.
    pub predefined: Vec<Name>,
}

/// An interface that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found(usize);

/// The sides of the configuration that serve an interface, the first that there is.
fn sides(interface: Interface) -> [PfcpSide; 2] {
    match interface {
        Interface::Access => [PfcpSide::Access; 2],
        Interface::Core => [PfcpSide::Core, PfcpSide::SgiLan],
        Interface::SgiLan | Interface::LiFunction | Interface::VnInternal => {
            [PfcpSide::SgiLan, PfcpSide::Core]
        }
        Interface::CpFunction => [PfcpSide::CpFunction, PfcpSide::Access],
    }
}

impl Interfaces {
    /// Those of the configuration. Chosen TEIDs lie below `teids_below`.
    pub fn new(
        plans: &[PfcpInterfacePlan],
        chains: &[PfcpChainPlan],
        teids_below: u32,
    ) -> Interfaces {
        let mut networks: Vec<Name> = Vec::new();
        let entries = plans.iter().map(|plan| {
            let known = networks.iter().position(|name| **name == *plan.network);
            let network = known.unwrap_or_else(|| {
                networks.push(Name::from(plan.network.as_str()));
                networks.len() - 1
            });
            let ipv4 = plan.addresses.iter().find_map(|address| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            });
            let ipv6 = plan.addresses.iter().find_map(|address| match address {
                IpAddr::V6(address) => Some(*address),
                IpAddr::V4(_) => None,
            });
            Entry {
                side: plan.side,
                instance: plan.network_instance.clone(),
                network: u8::try_from(network).unwrap_or(u8::MAX),
                ipv4,
                ipv6,
                pools: plan
                    .pools
                    .iter()
                    .map(|(address, length)| Pool::new(*address, *length))
                    .collect(),
            }
        });
        let entries = entries.collect();
        let chains = chains
            .iter()
            .map(|when| Chain { when: when.clone(), chain: Name::from(when.chain.as_str()) })
            .collect();
        Interfaces { entries, networks, chains, teids: HashSet::default(), teids_below }
    }

    /// The entry of a side and a network instance: the one that names the instance, or the
    /// one that names none. Where no instance is given, the only one of its side will do.
    pub fn find(&self, side: Interface, instance: Option<Text<'_>>) -> Option<Found> {
        sides(side).into_iter().find_map(|side| {
            let of_side =
                || self.entries.iter().enumerate().filter(move |(_, one)| one.side == side);
            let named = |name: Text<'_>| {
                of_side().find(|(_, one)| one.instance.as_ref().is_some_and(|own| name.is(own)))
            };
            let any = || of_side().find(|(_, one)| one.instance.is_none());
            let only = || {
                let mut all = of_side();
                all.next().filter(|_| instance.is_none() && all.next().is_none())
            };
            instance.and_then(named).or_else(any).or_else(only).map(|(at, _)| Found(at))
        })
    }

    /// The entry of a side that leads into this network of the node.
    pub fn of_network(&self, side: Interface, network: &Name) -> Option<Found> {
        sides(side).into_iter().find_map(|side| {
            let leads_there = |one: &Entry| {
                one.side == side && self.networks[usize::from(one.network)] == *network
            };
            self.entries.iter().position(leads_there).map(Found)
        })
    }

    /// The node's network of an entry.
    pub fn network(&self, found: Found) -> Name {
        self.networks[usize::from(self.entries[found.0].network)].clone()
    }

    /// The node's address there of the same family as a peer's.
    pub fn local_for(&self, found: Found, peer: IpAddr) -> Option<IpAddr> {
        let entry = &self.entries[found.0];
        match peer {
            IpAddr::V4(_) => entry.ipv4.map(Into::into),
            IpAddr::V6(_) => entry.ipv6.map(Into::into),
        }
    }

    /// A tunnel endpoint that no session has, with addresses of the families that are asked
    /// for and that the interface has. Its TEID says the worker that `number` says, which is of
    /// its user's address, so that packets come to that worker from either side.
    pub fn choose(
        &mut self,
        found: Found,
        (ipv4, ipv6): (bool, bool),
        number: Option<u32>,
        entropy: &mut Entropy,
    ) -> Option<LocalTunnel> {
        let entry = &self.entries[found.0];
        let (ipv4, ipv6) = (entry.ipv4.filter(|_| ipv4), entry.ipv6.filter(|_| ipv6));
        if ipv4.is_none() && ipv6.is_none() {
            return None;
        }
        let network = entry.network;
        let teid = (0..ATTEMPTS).find_map(|_| {
            let random = (entropy() % u64::from(self.teids_below)) as u32;
            let teid = number.map_or(random, |number| UserKey::teid_like(random, number));
            (teid != 0 && teid < self.teids_below && self.teids.insert((network, teid)))
                .then_some(teid)
        })?;
        Some(LocalTunnel { teid, ipv4, ipv6 })
    }

    /// Takes a tunnel endpoint that the control plane has chosen; false if the node has none of
    /// its addresses there, or another session has its TEID.
    pub fn take(&mut self, found: Found, tunnel: LocalTunnel) -> bool {
        let entry = &self.entries[found.0];
        let known = tunnel.ipv4.is_none_or(|address| entry.ipv4 == Some(address))
            && tunnel.ipv6.is_none_or(|address| entry.ipv6 == Some(address));
        known && self.teids.insert((entry.network, tunnel.teid))
    }

    /// A session of the node's last life has this tunnel endpoint.
    pub fn claim(&mut self, network: &Name, tunnel: LocalTunnel) {
        let known = self.networks.iter().position(|name| name == network);
        if let Some(network) = known.and_then(|at| u8::try_from(at).ok()) {
            self.teids.insert((network, tunnel.teid));
        }
    }

    /// Gives back a tunnel endpoint of a network.
    pub fn release(&mut self, network: Option<&Name>, tunnel: LocalTunnel) {
        let known = self.networks.iter().position(|name| Some(name) == network);
        let network = known.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX);
        self.teids.remove(&(network, tunnel.teid));
    }

    /// The pools of an entry, or, if it has none, those of the same instance, or any.
    fn pools(&mut self, found: Found, is_ipv4: bool) -> impl Iterator<Item = &mut Pool> {
        let has = |entry: &Entry| entry.pools.iter().any(|pool| pool.is_ipv4() == is_ipv4);
        let own = &self.entries[found.0];
        let instance = own.instance.clone();
        let at = if has(own) {
            Some(found.0)
        } else {
            let same = self.entries.iter().position(|one| one.instance == instance && has(one));
            same.or_else(|| self.entries.iter().position(has))
        };
        let pools = at.map(|at| self.entries[at].pools.iter_mut()).into_iter().flatten();
        pools.filter(move |pool| pool.is_ipv4() == is_ipv4)
    }

    /// An address of a pool that no session has.
    pub fn choose_ipv4(&mut self, found: Found) -> Option<Ipv4Addr> {
        self.pools(found, true).find_map(Pool::choose).and_then(|address| match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    /// A prefix of 64 bits of a pool that no session has.
    pub fn choose_ipv6(&mut self, found: Found) -> Option<Ipv6Addr> {
        self.pools(found, false).find_map(Pool::choose).and_then(|address| match address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        })
    }

    /// Notes that a session has an address that the control plane chose. False if it is of no
    /// pool, or noted already.
    pub fn note_address(&mut self, address: IpAddr) -> bool {
        self.entries.iter_mut().flat_map(|one| &mut one.pools).any(|pool| pool.note(address))
    }

    /// Gives back an address.
    pub fn release_address(&mut self, address: IpAddr) {
        let pools = self.entries.iter_mut().flat_map(|one| &mut one.pools);
        pools.for_each(|pool| pool.release(address));
    }

    /// The chain of packets, if it is another than that of the `users` entry.
    pub fn chain(&self, traits: &Traits, policy: Option<&Name>) -> Option<Name> {
        let is = |wanted: &Option<String>, given: Option<&Name>| {
            wanted.as_ref().is_none_or(|wanted| given.is_some_and(|given| **given == **wanted))
        };
        let found = self.chains.iter().find(|Chain { when, .. }| {
            is(&when.network_instance, traits.instance.as_ref())
                && is(&when.application, traits.application.as_ref())
                && is(&when.forwarding_policy, policy)
                && when
                    .predefined_rule
                    .as_ref()
                    .is_none_or(|wanted| traits.predefined.iter().any(|given| **given == **wanted))
        });
        found.map(|found| found.chain.clone())
    }

    /// Whether a forwarding policy is configured.
    pub fn has_policy(&self, name: &str) -> bool {
        self.chains.iter().any(|one| one.when.forwarding_policy.as_deref() == Some(name))
    }

    /// Whether a predefined rule is configured.
    pub fn has_predefined(&self, name: &str) -> bool {
        self.chains.iter().any(|one| one.when.predefined_rule.as_deref() == Some(name))
    }

    /// Whether an application is configured.
    pub fn has_application(&self, name: &str) -> bool {
        self.chains.iter().any(|one| one.when.application.as_deref() == Some(name))
    }

    /// Whether chains follow from more than the `users` entry.
    pub fn has_chains(&self) -> bool {
        !self.chains.is_empty()
    }

    /// Whether there are addresses to give out.
    pub fn has_pools(&self) -> bool {
        self.entries.iter().any(|entry| !entry.pools.is_empty())
    }

    /// Tunnel endpoints in use.
    #[cfg(test)]
    pub fn teids(&self) -> usize {
        self.teids.len()
    }
}

/// Addresses, or prefixes of 64 bits, that users get.
struct Pool {
    first: IpAddr,
    /// How many there are.
    size: u64,
    used: HashSet<u32, RandomState>,
    /// The first that was never given out.
    next: u64,
    /// What was given back.
    free: VecDeque<u32>,
}

impl Pool {
    /// The pool of a prefix. Of IPv4, the first and the last address are no user's.
    fn new(address: IpAddr, length: u8) -> Pool {
        let (first, size) = match address {
            IpAddr::V4(address) => {
                let bits = 32 - u32::from(length.min(32));
                let mask = u32::MAX.checked_shl(bits).unwrap_or(0);
                let first = address.to_bits() & mask;
                let size = 1_u64 << bits;
                let own = if size > 2 { (first + 1, size - 2) } else { (first, size) };
                (Ipv4Addr::from_bits(own.0).into(), own.1)
            }
            IpAddr::V6(address) => {
                let bits = 64 - u32::from(length.min(64));
                let mask = u128::MAX.checked_shl(64 + bits).unwrap_or(0);
                (Ipv6Addr::from_bits(address.to_bits() & mask).into(), 1_u64 << bits.min(32))
            }
        };
        Pool { first, size, used: HashSet::default(), next: 0, free: VecDeque::new() }
    }

    fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    fn address(&self, offset: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + offset).into(),
            IpAddr::V6(first) => {
                Ipv6Addr::from_bits(first.to_bits() + (u128::from(offset) << 64)).into()
            }
        }
    }

    fn offset(&self, address: IpAddr) -> Option<u32> {
        let offset = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                u64::from(address.to_bits().checked_sub(first.to_bits())?)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let distance = address.to_bits().checked_sub(first.to_bits())? >> 64;
                u64::try_from(distance).ok()?
            }
            _ => return None,
        };
        (offset < self.size).then_some(offset as u32)
    }

    fn choose(&mut self) -> Option<IpAddr> {
        while self.next < self.size {
            let offset = self.next as u32;
            self.next += 1;
            if self.used.insert(offset) {
                return Some(self.address(offset));
            }
        }
        while let Some(offset) = self.free.pop_front() {
            if self.used.insert(offset) {
                return Some(self.address(offset));
            }
        }
        None
    }

    fn note(&mut self, address: IpAddr) -> bool {
        self.offset(address).is_some_and(|offset| self.used.insert(offset))
    }

    fn release(&mut self, address: IpAddr) {
        if let Some(offset) = self.offset(address)
            && self.used.remove(&offset)
            && u64::from(offset) < self.next
        {
            self.free.push_back(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_39_pools_end() {
        let mut pool = Pool::new("10.45.0.0".parse().unwrap(), 30);
        let taken: Vec<_> = std::iter::from_fn(|| pool.choose()).collect();
        let expected: Vec<IpAddr> =
            ["10.45.0.1", "10.45.0.2"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(taken, expected);
        // What was given back is given out again; what the pool has not is ignored.
        pool.release("10.45.0.9".parse().unwrap());
        assert_eq!(pool.choose(), None);
        pool.release(expected[0]);
        pool.release(expected[0]);
        assert_eq!(pool.choose(), Some(expected[0]));
        assert_eq!(pool.choose(), None);
    }

    #[test]
    fn addresses_that_a_control_plane_chose_are_not_given_out() {
        let mut pool = Pool::new("10.45.0.0".parse().unwrap(), 29);
        pool.note("10.45.0.1".parse().unwrap());
        pool.note("10.45.0.3".parse().unwrap());
        let taken: Vec<_> = std::iter::from_fn(|| pool.choose()).collect();
        assert_eq!(taken.len(), 4);
        assert!(!taken.contains(&"10.45.0.3".parse().unwrap()));
        pool.release("10.45.0.3".parse().unwrap());
        assert_eq!(pool.choose(), Some("10.45.0.3".parse().unwrap()));
    }

    #[test]
    fn prefixes_of_ipv6_have_64_bits() {
        let mut pool = Pool::new("2001:db8:ff00::".parse().unwrap(), 62);
        let taken: Vec<_> = std::iter::from_fn(|| pool.choose()).collect();
        assert_eq!(taken[0], "2001:db8:ff00::".parse::<IpAddr>().unwrap());
        assert_eq!(taken[3], "2001:db8:ff00:3::".parse::<IpAddr>().unwrap());
        assert_eq!(taken.len(), 4);
    }
}
