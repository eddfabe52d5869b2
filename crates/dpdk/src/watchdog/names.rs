//! Names of functions as numbers, so that a thread says by one store which it runs. A number
//! means the same for as long as the process lives.

use std::sync::{Mutex, OnceLock};

use crate::lock;

/// Names that the process remembers. It forgets none, so there is a bound.
const NAMES: usize = 1024;

static NAMED: [OnceLock<&'static str>; NAMES] = [const { OnceLock::new() }; NAMES];
static NAMING: Mutex<()> = Mutex::new(());

/// The name of a function, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionName(u32);

impl FunctionName {
    /// Of a function without a name of its own.
    pub const UNNAMED: FunctionName = FunctionName(NAMES as u32 + 1);

    /// The number of a name. Beyond the first 1,024 names that a process meets, functions
    /// share one that stands for no name.
    pub fn of(name: &str) -> FunctionName {
        let _one_at_a_time = lock(&NAMING);
        for (at, known) in NAMED.iter().enumerate() {
            let known = known.get_or_init(|| Box::leak(name.into()));
            if *known == name {
                return FunctionName(at as u32 + 1);
            }
        }
        FunctionName::UNNAMED
    }

    /// The number; 0 is of no function.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// The name of a number; none for 0. A signal handler may ask.
pub(super) fn name(number: u32) -> Option<&'static str> {
    let at = (number as usize).checked_sub(1)?;
    Some(NAMED.get(at).and_then(|name| name.get()).copied().unwrap_or("without a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let [one, other] = ["police", "count"].map(FunctionName::of);
        assert_ne!(one, other);
        assert_eq!(FunctionName::of("police"), one);
        assert_eq!(name(one.number()), Some("police"));
        assert_eq!(name(0), None);
        assert_eq!(name(FunctionName::UNNAMED.number()), Some("without a name"));
    }
}
