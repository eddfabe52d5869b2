//! Chains of which the model is asked, and which are measured.

use weft_model::Traffic;

use crate::experiments::model::components::{Component, shared};
use weft_rig::Setup;

/// Users that take chains, all with packets of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// Bytes of a frame with its checksum.
    pub size: u32,
    /// The chains; one, unless it is a mix.
    pub chains: Vec<Part>,
    /// Whether it is a chain of functions in turn.
    pub is_plain: bool,
}

/// A chain, and who takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Share of the users, in percent.
    pub percent: u32,
    /// Indices of its functions.
    pub functions: Vec<usize>,
}

impl Case {
    /// A chain of functions in turn.
    pub fn chain(size: u32, functions: Vec<usize>) -> Case {
        let name = format!("{} in turn, {size} B", functions.len());
        Case { name, size, chains: vec![Part { percent: 100, functions }], is_plain: true }
    }

    /// A chain of one function only.
    pub fn alike(size: u32, functions: Vec<usize>, function: &str) -> Case {
        let name = format!("{} × {function}, {size} B", functions.len());
        Case { name, size, chains: vec![Part { percent: 100, functions }], is_plain: false }
    }

    /// So many percent of the users take the long chain, the others the short one.
    pub fn mix(size: u32, long: Vec<usize>, short: Vec<usize>, percent: u32) -> Case {
        let name = format!("{percent} % in {}, others in {}, {size} B", long.len(), short.len());
        let chains = vec![
            Part { percent, functions: long },
            Part { percent: 100 - percent, functions: short },
        ];
        Case { name, size, chains, is_plain: false }
    }

    /// The node that is measured.
    pub fn setup(&self, users: u32, functions: &[Component]) -> Setup {
        let chains = self.chains.iter().map(|part| {
            (part.percent, part.functions.iter().map(|&function| &functions[function]).collect())
        });
        shared(users, &chains.collect::<Vec<_>>())
    }

    /// The traffic that the model is asked of.
    pub fn traffic(&self, functions: &[Component]) -> Vec<Traffic> {
        let traffic = self.chains.iter().map(|part| Traffic {
            name: self.name.clone(),
            share: f64::from(part.percent),
            size: f64::from(self.size),
            functions: part.functions.iter().map(|&nth| functions[nth].name.clone()).collect(),
        });
        traffic.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_all_users_and_both_chains() {
        let function = |name: &str| Component {
            name: name.to_owned(),
            function: name.to_owned(),
            config: serde_json::Map::new(),
        };
        let functions = [function("counter"), function("forward")];
        let case = Case::mix(64, vec![0, 1, 0], vec![1], 30);
        let setup = case.setup(1000, &functions);
        let counts: Vec<u32> = setup.users.iter().map(|block| block.count).collect();
        assert_eq!(counts, [300, 700]);
        // What both have is one instance.
        assert_eq!(setup.functions.len(), 3);
        assert_eq!(setup.chains[0].1.len(), 3);
        let traffic = case.traffic(&functions);
        assert_eq!(traffic[0].functions, ["counter", "forward", "counter"]);
        assert_eq!(traffic[1].share, 70.0);
    }
}
