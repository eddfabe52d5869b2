//! Takes out what nothing looks at.

use std::collections::HashSet;

use weft_function::lower::{HeaderField, Operation};

/// Without values that nothing is made of.
pub(super) fn without_unused(operations: Vec<Operation>) -> Vec<Operation> {
    let mut used = HashSet::new();
    let mut kept = Vec::with_capacity(operations.len());
    for operation in operations.into_iter().rev() {
        let defined = operation.defines();
        let is_needed = match operation {
            Operation::Locate { otherwise: Some(_), .. } => true,
            _ => defined.is_none_or(|value| used.contains(&value)),
        };
        if is_needed {
            let _ = operation.renamed(
                |value| {
                    if Some(value) != defined {
                        used.insert(value);
                    }
                    value
                },
                |label| label,
            );
            kept.push(operation);
        }
    }
    kept.reverse();
    kept
}

/// Without stores into the packet that another one overwrites before anything looks.
pub(super) fn without_overwritten(operations: Vec<Operation>) -> Vec<Operation> {
    // What will be overwritten behind the operation at hand.
    let mut overwritten: Vec<HeaderField> = Vec::new();
    let mut kept = Vec::with_capacity(operations.len());
    for operation in operations.into_iter().rev() {
        match operation {
            Operation::StorePacket { place, .. } => {
                if overwritten.contains(&place) {
                    continue;
                }
                overwritten.push(place);
            }
            Operation::LoadPacket { place, .. } => {
                overwritten.retain(|other| are_apart(*other, place));
            }
            Operation::Repair { checksum, .. } => {
                overwritten.retain(|other| are_apart(*other, checksum.place()));
            }
            Operation::Front { .. } | Operation::Truncate { .. } | Operation::Label { .. } => {
                overwritten.clear();
            }
            _ if operation.ends() || operation.jumps_to().is_some() => overwritten.clear(),
            _ => {}
        }
        kept.push(operation);
    }
    kept.reverse();
    kept
}

/// Whether two places have no octet in common, whatever the packet.
fn are_apart(one: HeaderField, other: HeaderField) -> bool {
    let end = |place: HeaderField| u32::from(place.offset) + u32::from(place.octets);
    one.base == other.base && (end(one) <= other.offset.into() || end(other) <= one.offset.into())
}

#[cfg(test)]
mod tests {
    use weft_function::lower::{Base, Label, Value};

    use super::*;

    fn store(offset: u16, value: u32) -> Operation {
        let place = HeaderField { base: Base::Network, offset, octets: 4 };
        Operation::StorePacket { place, value: Value(value) }
    }

    fn load(offset: u16) -> Operation {
        let place = HeaderField { base: Base::Network, offset, octets: 2 };
        Operation::LoadPacket { to: Value(9), place }
    }

    #[test]
    fn a_store_that_is_overwritten_unseen_is_left_out() {
        let kept = without_overwritten(vec![store(12, 1), store(16, 2), store(12, 3)]);
        assert_eq!(kept, [store(16, 2), store(12, 3)]);
        let kept = without_overwritten(vec![store(12, 1), load(16), store(12, 3)]);
        assert_eq!(kept, [load(16), store(12, 3)]);
    }

    #[test]
    fn what_may_be_seen_is_kept() {
        let label = Label(1);
        for seen in [
            load(14),
            Operation::Branch { when: Value(7), to: label },
            Operation::Label { label },
            Operation::Truncate { octets: Value(7) },
        ] {
            let all = vec![store(12, 1), seen, store(12, 3)];
            assert_eq!(without_overwritten(all.clone()), all);
        }
    }
}
