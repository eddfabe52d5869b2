//! Names: their form, and that no two places have one.

use std::collections::HashMap;

use crate::locate::Source;
use crate::yaml::{NodeFile, Users};

/// Longest name.
const LENGTH: usize = 63;
/// What a name looks like.
const FORM: &str = "a letter, then letters, digits, `_`, and `-` between them; 63 at most";

/// Checks the names that the file gives to things.
pub(super) fn of_file(file: &NodeFile, source: &mut Source<'_>) {
    written(&file.metadata.name, "metadata.name", source);
    for (section, names) in [
        ("ports", file.ports.names().collect::<Vec<_>>()),
        ("paths", file.paths.names().collect()),
        ("functions", file.functions.names().collect()),
        ("groups", file.groups.names().collect()),
        ("tags", file.tags.names().collect()),
    ] {
        for name in names {
            let path = format!("{section}.{name}");
            if !key(name, &path, source) {
                continue;
            }
            if matches!(section, "ports" | "paths" | "functions") && name == "drop" {
                let mistake =
                    source.wrong_key(&path, "`drop` is what rules call the end of a packet");
                mistake.hint("choose another name");
            }
        }
    }
    for name in file.functions.names().filter(|name| file.ports.names().any(|port| port == *name)) {
        let message = format!("`{name}` is the name of a port and of a function");
        let mistake = source.wrong_key(&format!("functions.{name}"), message);
        mistake.hint("rules could not tell them apart: rename one");
    }
    for name in file.paths.names() {
        let other = if file.ports.names().any(|port| port == name) {
            "port"
        } else if file.functions.names().any(|function| function == name) {
            "function"
        } else {
            continue;
        };
        let message = format!("`{name}` is the name of a {other} and of a path");
        let mistake = source.wrong_key(&format!("paths.{name}"), message);
        mistake.hint("rules could not tell them apart: rename one");
    }
    users(file, source);
}

fn users(file: &NodeFile, source: &mut Source<'_>) {
    let mut entries: HashMap<&str, u32> = HashMap::new();
    for (index, user) in file.users.iter().enumerate() {
        let path = format!("users.{index}.name");
        written(&user.name, &path, source);
        if is_session(user) {
            let message = format!("`{}` is a name that the node gives to PFCP sessions", user.name);
            source.wrong(&path, message).hint("choose another name");
        }
        if entries.insert(&user.name, user.count).is_some() {
            source.wrong(&path, format!("there is another user `{}`", user.name));
        }
    }
    // A range `ue` of several users has a user `ue-1`, too.
    for (index, user) in file.users.iter().enumerate().filter(|(_, user)| user.count == 1) {
        let numbered = user.name.rsplit_once('-').and_then(|(range, number)| {
            let number: u32 = number.parse().ok()?;
            entries.get(range).filter(|count| **count > 1 && number < **count).map(|_| range)
        });
        if let Some(range) = numbered {
            let message = format!("the users `{range}` have a `{}` among them", user.name);
            source.wrong(&format!("users.{index}.name"), message);
        }
    }
}

/// Whether one of these users has a name as the node gives it to sessions: `session-` and 16
/// hexadecimal digits.
fn is_session(users: &Users) -> bool {
    let Some(digits) = users.name.strip_prefix("session-") else { return false };
    digits.len() == 16 && digits.bytes().all(|one| one.is_ascii_hexdigit())
}

/// Whether `name` can stand in a rule as one word.
fn is_name(name: &str) -> bool {
    name.len() <= LENGTH
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.split('-').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
}

/// Notes a name that cannot be one, where it is the key at `path`; whether it can.
pub(super) fn key(name: &str, path: &str, source: &mut Source<'_>) -> bool {
    if !is_name(name) {
        source.wrong_key(path, format!("{name:?} cannot be a name")).hint(FORM);
    }
    is_name(name)
}

/// Notes a name, written at `path`, that cannot be one.
pub(super) fn written(name: &str, path: &str, source: &mut Source<'_>) {
    if !is_name(name) {
        source.wrong(path, format!("{name:?} cannot be a name")).hint(FORM);
    }
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_words_of_the_rules() {
        for name in ["access", "rewrite-address", "n3_up", "A", "imsi-001010000000001"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "1a", "a.b", "a b", "é", "a:b", &"a".repeat(64)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
