//! Which processor core does what.

use std::fs;

use thiserror::Error;

/// The cores of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where the system under test runs: the last, which has the least to do with
    /// the rest of the machine.
    pub system: usize,
    /// Where generator and receiver run; none on a machine with one core.
    pub traffic: Option<usize>,
    /// Where the switch of software VF runs; none on a machine with two cores, where it
    /// shares that of the functions behind it.
    pub switch: Option<usize>,
}

/// A core that is needed and not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "two processor cores are needed, one for traffic and one for the system under test, but this \
     process may use only core {only}: allow it another (taskset, cpuset)"
)]
pub struct MissingCore {
    only: usize,
}

impl Cores {
    /// Takes two of the cores that this process may use.
    pub fn choose() -> Cores {
        Cores::of(&usable())
    }

    /// All cores that this process may use but for that of the traffic, where it has one of its
    /// own: those of other processes in a trial.
    pub fn beside_traffic(&self) -> Vec<usize> {
        let mut others = usable();
        others.retain(|core| Some(*core) != self.traffic);
        others
    }

    fn of(allowed: &[usize]) -> Cores {
        match *allowed {
            [first, second, .., last] => {
                Cores { system: last, traffic: Some(first), switch: Some(second) }
            }
            [first, last] => Cores { system: last, traffic: Some(first), switch: None },
            [only] => Cores { system: only, traffic: None, switch: None },
            [] => Cores { system: 0, traffic: None, switch: None },
        }
    }

    /// The core for traffic, where one of its own is needed.
    ///
    /// # Errors
    /// When there is none.
    pub fn traffic(&self) -> Result<usize, MissingCore> {
        self.traffic.ok_or(MissingCore { only: self.system })
    }
}

/// The cores that this process may use, in order.
fn usable() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    allowed(list.unwrap_or("0"))
}

/// The numbers in a list such as `0-3,8`, in order.
fn allowed(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cores_is_read() {
        assert_eq!(allowed("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(allowed("5"), [5]);
        assert!(allowed("").is_empty());
    }

    #[test]
    fn traffic_and_system_never_share_a_core() {
        assert_eq!(Cores::of(&[0, 1, 2]), Cores { system: 2, traffic: Some(0), switch: Some(1) });
        assert_eq!(Cores::of(&[0, 1]), Cores { system: 1, traffic: Some(0), switch: None });
        let alone = Cores::of(&[4]);
        assert_eq!(alone.system, 4);
        let error = alone.traffic().unwrap_err().to_string();
        assert!(error.contains("only core 4") && !error.contains('\n'), "{error}");
    }
}
