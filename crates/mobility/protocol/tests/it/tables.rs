//! The tables in `docs/handover.md` and `docs/function-moves.md` are those of the code.

use weft_mobility_protocol::transition::{Role, markdown};

#[test]
fn the_page_has_the_tables() {
    let page = include_str!("../../../../../docs/handover.md");
    for role in [Role::Station, Role::Anchor, Role::Controller] {
        let table = markdown(role);
        assert!(page.contains(&table), "docs/handover.md lacks the table of {role:?}:\n{table}");
    }
}

#[test]
fn the_page_of_function_moves_has_the_tables() {
    let page = include_str!("../../../../../docs/function-moves.md");
    for role in [Role::Coordinator, Role::Participant] {
        let table = markdown(role);
        assert!(page.contains(&table), "docs/function-moves.md lacks that of {role:?}:\n{table}");
    }
}
