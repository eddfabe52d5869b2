//! What it costs that packets of different chains share bursts.
//!
//! A function is visited once for a burst, whichever chains its packets take, so the visit costs
//! each of them less the more of them there are. At the limit bursts are full. Chains that name
//! a function mean the same instance: a function that stands twice in one chain is two.

/// Packets of a full burst.
const BURST: i32 = 32;

/// Packets of one size that take one chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Its name, for people.
    pub name: String,
    /// Its share of all packets; shares need not add up to one.
    pub share: f64,
    /// Bytes of each frame with its checksum.
    pub size: f64,
    /// The functions of its chain, in order.
    pub functions: Vec<String>,
}

/// The chains of some traffic, and which part of all packets takes each.
#[derive(Debug)]
pub(crate) struct Mixture<'t>(Vec<(&'t [String], f64)>);

impl<'t> Mixture<'t> {
    /// The chains of this traffic, whatever the sizes of their packets.
    pub fn of(traffic: &'t [Traffic]) -> Mixture<'t> {
        let sum: f64 = traffic.iter().map(|one| one.share).sum();
        let mut chains: Vec<(&[String], f64)> = Vec::new();
        for one in traffic {
            let part = if sum > 0.0 { one.share / sum } else { 0.0 };
            match chains.iter_mut().find(|(chain, _)| *chain == one.functions) {
                Some((_, share)) => *share += part,
                None => chains.push((&one.functions, part)),
            }
        }
        Mixture(chains)
    }

    /// The part of all packets that takes another chain than this.
    pub fn others(&self, chain: &[String]) -> f64 {
        let own = self.0.iter().find(|(one, _)| *one == chain).map_or(0.0, |(_, share)| *share);
        1.0 - own
    }

    /// How many times as much the visit of the function at `index` of a chain costs each packet
    /// as it would if all packets of a burst went there.
    pub fn dilution(&self, chain: &[String], index: usize) -> f64 {
        let Some(name) = chain.get(index) else { return 1.0 };
        let times = |chain: &[String]| chain.iter().filter(|one| *one == name).count();
        let nth = times(&chain[..=index]);
        let there = self.0.iter().filter(|(chain, _)| times(chain) >= nth);
        dilution(there.map(|(_, share)| share).sum())
    }
}

/// Visits of bursts for each packet, in units of those of full bursts, where a packet goes to a
/// function with this probability.
pub fn dilution(share: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    match share > 0.0 {
        true => (1.0 - (1.0 - share).powi(BURST)) / share,
        false => f64::from(BURST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(share: f64, functions: &[&str]) -> Traffic {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        Traffic { name: String::new(), share, size: 64.0, functions }
    }

    #[test]
    fn one_chain_fills_its_bursts_whatever_the_sizes() {
        let all = [traffic(1.0, &["a", "b"]), traffic(3.0, &["a", "b"])];
        let mixture = Mixture::of(&all);
        assert_eq!(mixture.others(&all[0].functions), 0.0);
        assert_eq!(mixture.dilution(&all[0].functions, 1), 1.0);
    }

    #[test]
    fn what_chains_share_is_visited_once_and_the_rest_by_fewer() {
        let all = [traffic(1.0, &["a", "b", "a"]), traffic(3.0, &["a"])];
        let mixture = Mixture::of(&all);
        let long = &all[0].functions;
        assert_eq!(mixture.others(long), 0.75);
        assert_eq!(mixture.dilution(long, 0), 1.0);
        for index in [1, 2] {
            let dilution = mixture.dilution(long, index);
            assert!((dilution - 4.0).abs() < 1e-3, "{dilution}");
        }
    }

    #[test]
    fn a_rare_chain_visits_with_each_packet() {
        assert!((dilution(1e-6) - 32.0).abs() < 0.01);
        assert_eq!(dilution(0.0), 32.0);
    }
}
