//! Tags that the functions of sessions share.

use weft_function::{Tag, Values};

/// The packet detection rule that a packet matched. A packet that goes on by another
/// forwarding action than the rule's own, as a quota is used up, has 65,536 times the place of
/// that action among the session's, from 1, more.
pub const PDR: Tag = Tag { name: "pdr", values: Values::Number };

/// The destination interface of the forwarding action (3GPP TS 29.244 §8.2.24); `none` before
/// a packet has met a rule.
pub const DESTINATION: Tag = Tag {
    name: "interface",
    values: Values::Named(&[
        "none",
        "access",
        "core",
        "sgi-lan",
        "cp-function",
        "li-function",
        "vn-internal",
    ]),
};
