//! Causes (§8.2.1).

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)+) => {
        /// What a response says about its request (§8.2.1).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct Cause(pub u8);

        impl Cause {
            $($(#[$doc])* pub const $name: Self = Self($number);)+

            /// The cause in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.0 { $($number => $text,)+ _ => "another cause" }
            }
        }
    };
}

causes! {
    /// Request accepted.
    ACCEPTED = 1, "request accepted";
    /// There are more usage reports to send.
    MORE_USAGE_REPORT = 2, "more usage reports to send";
    /// A part was done; the response says which part was not.
    PARTIALLY_ACCEPTED = 3, "request partially accepted";
    /// No reason is given.
    REJECTED = 64, "request rejected, reason not specified";
    /// No session has this SEID.
    SESSION_NOT_FOUND = 65, "session context not found";
    /// A mandatory element is missing.
    MANDATORY_IE_MISSING = 66, "mandatory IE missing";
    /// An element that the circumstances require is missing.
    CONDITIONAL_IE_MISSING = 67, "conditional IE missing";
    /// An element has an impossible length.
    INVALID_LENGTH = 68, "invalid length";
    /// A mandatory element has an impossible value.
    MANDATORY_IE_INCORRECT = 69, "mandatory IE incorrect";
    /// The forwarding policy is not configured.
    INVALID_FORWARDING_POLICY = 70, "invalid forwarding policy";
    /// F-TEIDs are allocated by the other side.
    INVALID_FTEID_ALLOCATION = 71, "invalid F-TEID allocation option";
    /// The peers have no association.
    NO_ASSOCIATION = 72, "no established PFCP association";
    /// A rule could not be created or changed.
    RULE_FAILURE = 73, "rule creation or modification failure";
    /// The node has too many requests to answer.
    CONGESTION = 74, "PFCP entity in congestion";
    /// A resource is exhausted.
    NO_RESOURCES = 75, "no resources available";
    /// What the request asks for is not supported.
    NOT_SUPPORTED = 76, "service not supported";
    /// The node failed.
    SYSTEM_FAILURE = 77, "system failure";
    /// The user plane was asked to redirect, and cannot.
    REDIRECTION_REQUESTED = 78, "redirection requested";
    /// All dynamic addresses of the pool are in use.
    ADDRESSES_OCCUPIED = 79, "all dynamic addresses are occupied";
    /// A predefined rule is not configured.
    UNKNOWN_PREDEFINED_RULE = 80, "unknown predefined rule";
    /// An application is not configured.
    UNKNOWN_APPLICATION = 81, "unknown application ID";
}

impl Cause {
    /// Whether the request was done, at least in part (§8.2.1: values 1 to 63).
    #[must_use]
    pub const fn accepted(self) -> bool {
        matches!(self.0, 1..=63)
    }
}

impl Default for Cause {
    fn default() -> Self {
        Self::ACCEPTED
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
