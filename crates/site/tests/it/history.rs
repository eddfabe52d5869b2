//! Revisions in a store.

use weft_site::document::DocumentKind;
use weft_site::history::{History, Phase, REMEMBERED};
use weft_site::set::Kept;
use weft_state::{Owner, Role, Store};

fn documents(text: &str) -> Vec<Kept> {
    vec![Kept { kind: DocumentKind::Node, name: "a".to_owned(), text: text.to_owned() }]
}

fn store(folder: &std::path::Path) -> Store {
    let owner = Owner { role: Role::Controller, name: String::new() };
    Store::open(folder, &owner).unwrap()
}

#[test]
fn history_is_there_again_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = History::default();
    {
        let mut store = store(folder.path());
        assert_eq!(History::read(&store).unwrap(), history);
        // Far longer than a record.
        for nth in 0..REMEMBERED as u64 + 9 {
            let text = format!("{nth} {}", "x".repeat(5000 + nth as usize));
            let note = format!("apply {nth}");
            let (number, changes) =
                history.add(1000 + nth, note, documents(&text), Phase::Rolling, String::new());
            assert_eq!(number, nth + 1);
            store.write(&changes).unwrap();
            if nth == 2 {
                store.write(&[history.advance(Phase::Complete, String::new()).unwrap()]).unwrap();
            }
        }
        assert!(history.advance(Phase::Rolling, String::new()).is_none(), "nothing is new");
        let undone = history.advance(Phase::RollingBack, "it drops".to_owned()).unwrap();
        store.write(&[undone]).unwrap();
    }
    let again = History::read(&store(folder.path())).unwrap();
    assert_eq!(again, history);
    assert_eq!(again.revisions().count(), REMEMBERED);
    assert_eq!(again.progress.good, 3);
    assert!(again.get(3).is_some(), "what nodes may go back to stays");
    assert_eq!(again.newest().unwrap().number, REMEMBERED as u64 + 9);
}

#[test]
fn damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    let mut history = History::default();
    let text = "x".repeat(5000);
    let (_, changes) =
        history.add(1, String::new(), documents(&text), Phase::Rolling, String::new());
    // One part is missing.
    store.write(&changes[1..]).unwrap();
    assert!(History::read(&store).unwrap_err().to_string().contains("not whole"));
}
