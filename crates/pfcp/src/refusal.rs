//! Why a request is refused.

use crate::codec::element::RuleId;
use crate::codec::{Cause, Error};

/// What a response says about a request that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause (§8.2.1).
    pub cause: Cause,
    /// The element that is to blame (§8.2.22).
    pub offending: Option<u16>,
    /// The rule that could not be created or changed (§8.2.80).
    pub rule: Option<RuleId>,
}

impl Refusal {
    /// A cause alone.
    #[must_use]
    pub const fn cause(cause: Cause) -> Self {
        Self { cause, offending: None, rule: None }
    }

    /// What the element asks for is not supported.
    #[must_use]
    pub const fn unsupported(element: u16) -> Self {
        Self { cause: Cause::NOT_SUPPORTED, offending: Some(element), rule: None }
    }

    /// The value of the element cannot be.
    #[must_use]
    pub const fn incorrect(element: u16) -> Self {
        Self { cause: Cause::MANDATORY_IE_INCORRECT, offending: Some(element), rule: None }
    }

    /// The element is missing where the circumstances require it.
    #[must_use]
    pub const fn missing(element: u16) -> Self {
        Self { cause: Cause::CONDITIONAL_IE_MISSING, offending: Some(element), rule: None }
    }

    /// The rule cannot be created or changed.
    #[must_use]
    pub const fn rule(rule: RuleId) -> Self {
        Self { cause: Cause::RULE_FAILURE, offending: None, rule: Some(rule) }
    }

    /// The same, and the rule in which it was found.
    #[must_use]
    pub fn of(self, rule: RuleId) -> Self {
        Self { rule: self.rule.or(Some(rule)), ..self }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { cause: error.cause(), offending: error.offending(), rule: None }
    }
}
