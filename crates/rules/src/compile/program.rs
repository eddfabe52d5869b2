//! Compiled rules: what is left to decide per packet.

use crate::condition::Condition;
use crate::language::field::Facts;
use crate::language::vocabulary::{FunctionIndex, PortIndex};

/// Position of a state in [`Program::states`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateId(pub u32);

/// The ways of packets through a node.
///
/// States of one function are contiguous. Functions are in topological order where there is
/// one, so that a walk over the states in ascending order meets every packet's next function
/// behind the present one; within a cycle of functions the order is arbitrary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// What happens at and after each function, by [`StateId`].
    pub states: Vec<State>,
    /// The first hop of each entry that was compiled, in the order given.
    pub entries: Vec<Next>,
    /// The tag that [`NextHop::set_chain`] sets.
    pub chain_slot: Option<u8>,
}

/// A visit of a function, in the light of all that is known of the packets that come here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// The function that processes the packet.
    pub function: FunctionIndex,
    /// Where the packet goes after it.
    pub next: Next,
}

/// The choice of a packet's next hop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Always the same.
    Go(NextHop),
    /// The first arm that holds, or else the other target.
    Branch(Box<[Arm]>, NextHop),
}

/// One arm of a branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arm {
    /// When it is taken; neither always nor never true.
    pub when: Condition,
    /// Where it leads.
    pub then: NextHop,
}

/// A hop with all that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NextHop {
    /// Value to give to the tag `chain`; `None` where it is known to have the right one.
    pub set_chain: Option<u32>,
    /// The end of the hop.
    pub to: To,
}

/// The end of a hop in a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum To {
    /// The packet is processed in this state.
    State(StateId),
    /// The packet leaves at this port.
    Port(PortIndex),
    /// A rule drops the packet.
    Drop,
    /// No rule matches: the packet is dropped, with the reason `no_rule`.
    NoRule,
}

impl Next {
    /// The choice with nothing in it that makes no difference: neighbouring arms of one target
    /// are one arm, and arms that lead where all else leads are none.
    pub(crate) fn of(arms: impl IntoIterator<Item = Arm>, otherwise: NextHop) -> Self {
        let mut kept: Vec<Arm> = Vec::new();
        for arm in arms {
            match kept.last_mut() {
                Some(last) if last.then == arm.then => {
                    let when = std::mem::replace(&mut last.when, Condition::never());
                    last.when = Condition::any([when, arm.when]);
                }
                _ => kept.push(arm),
            }
        }
        while kept.last().is_some_and(|arm| arm.then == otherwise) {
            kept.pop();
        }
        match kept.iter().position(|arm| arm.when.is_always()) {
            None if kept.is_empty() => Next::Go(otherwise),
            None => Next::Branch(kept.into(), otherwise),
            Some(last) => {
                let otherwise = kept[last].then;
                kept.truncate(last);
                Next::of(kept, otherwise)
            }
        }
    }

    /// The choice with every target replaced.
    pub(crate) fn map(self, replace: impl Fn(NextHop) -> NextHop) -> Self {
        match self {
            Next::Go(target) => Next::Go(replace(target)),
            Next::Branch(arms, otherwise) => {
                let arms =
                    arms.into_iter().map(|Arm { when, then }| Arm { when, then: replace(then) });
                Next::of(arms, replace(otherwise))
            }
        }
    }

    /// The hop that a packet takes.
    #[inline]
    pub fn choose(&self, facts: &impl Facts) -> NextHop {
        self.hop(self.arm(facts))
    }

    /// Number of the arm that a packet takes: of the first that holds, or one behind the last.
    #[inline]
    pub fn arm(&self, facts: &impl Facts) -> usize {
        match self {
            Next::Go(_) => 0,
            Next::Branch(arms, _) => {
                arms.iter().position(|arm| arm.when.eval(facts)).unwrap_or(arms.len())
            }
        }
    }

    /// Where the choice hangs on one tag and one range of its values, which is by far the most
    /// usual: the tag's slot, and the least and the greatest value of those that take arm 0.
    #[inline]
    pub fn by_tag(&self) -> Option<(u8, u32, u32)> {
        match self {
            Next::Branch(arms, _) if arms.len() == 1 => arms[0].when.tag_range(),
            _ => None,
        }
    }

    /// The hop of packets that take this arm.
    #[inline]
    pub fn hop(&self, arm: usize) -> NextHop {
        match self {
            Next::Go(target) => *target,
            Next::Branch(arms, otherwise) => arms.get(arm).map_or(*otherwise, |arm| arm.then),
        }
    }

    /// All hops that may be chosen.
    pub fn targets(&self) -> impl Iterator<Item = NextHop> {
        let (arms, last) = match self {
            Next::Go(target) => (&[][..], *target),
            Next::Branch(arms, otherwise) => (&arms[..], *otherwise),
        };
        arms.iter().map(|arm| arm.then).chain([last])
    }
}
