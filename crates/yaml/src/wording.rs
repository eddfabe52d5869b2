//! What serde says of a value, in the words of someone who writes a
//! configuration.

use crate::mistake::Mistake;

/// What serde found wrong.
#[derive(Debug, PartialEq, Eq)]
pub enum Complaint {
    /// A key that is not known, and those that are.
    UnknownKey(String, Vec<String>),
    /// A key that must be given.
    MissingKey(String),
    /// A word that is not among the known ones.
    UnknownWord(String, Vec<String>),
    /// Anything else, reworded, with a hint.
    Other(String, Option<&'static str>),
}

impl Complaint {
    /// Reads a message of serde's.
    pub fn of(message: &str) -> Complaint {
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        let mut next = || quoted.next().unwrap_or_default();
        if message.starts_with("unknown field `") {
            Complaint::UnknownKey(next(), quoted.collect())
        } else if message.starts_with("unknown variant `") {
            Complaint::UnknownWord(next(), quoted.collect())
        } else if message.starts_with("missing field `") {
            Complaint::MissingKey(next())
        } else {
            expectation(message).unwrap_or_else(|| Complaint::Other(message.to_owned(), None))
        }
    }

    /// The message of it.
    pub fn message(&self) -> String {
        match self {
            Complaint::UnknownKey(key, _) => format!("the key `{key}` is not known here"),
            Complaint::MissingKey(key) => format!("the key `{key}` is missing"),
            Complaint::UnknownWord(word, _) => format!("`{word}` is not known here"),
            Complaint::Other(message, _) => message.clone(),
        }
    }

    /// Adds what there is to hint at.
    pub fn hint(&self, mistake: &mut Mistake) {
        match self {
            Complaint::UnknownKey(wrong, known) | Complaint::UnknownWord(wrong, known) => {
                mistake.suggest(wrong, known.iter().map(String::as_str));
            }
            Complaint::Other(_, Some(hint)) => mistake.hint(*hint),
            Complaint::MissingKey(_) | Complaint::Other(_, None) => {}
        }
    }
}

/// `invalid type: FOUND, expected WANTED`, and so on.
fn expectation(message: &str) -> Option<Complaint> {
    let rest = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let scalar = found.split_once('`').map(|(_, rest)| rest.trim_end_matches('`'));
    let hint = (scalar.is_some() && matches!(wanted, "a string" | "string"))
        .then_some("put it in quotes to make it text");
    let found = match found {
        "unit value" | "null" => "nothing",
        "sequence" => "a list",
        "map" => "a mapping",
        _ => scalar.unwrap_or(found.strip_prefix("string ").unwrap_or(found)),
    };
    let message = format!("{} is expected, not {found}", wanted_words(wanted));
    Some(Complaint::Other(message, hint))
}

/// What serde expects, without the names of Rust's types.
fn wanted_words(wanted: &str) -> String {
    let whole = |highest: u64| format!("a whole number from 0 to {highest}");
    match wanted {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        _ if wanted.starts_with("struct ") => "a mapping".to_owned(),
        _ => wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_is_reworded() {
        let said = |message: &str| Complaint::of(message).message();
        for (message, words) in [
            ("unknown field `a`, expected `b` or `c`", "the key `a` is not known here"),
            ("missing field `a`", "the key `a` is missing"),
            ("unknown variant `a`, expected `b`", "`a` is not known here"),
            (
                "invalid type: string \"a, expected b\", expected u16",
                "a whole number from 0 to 65535 is expected, not \"a, expected b\"",
            ),
            ("invalid type: integer `5`, expected a string", "text is expected, not 5"),
            (
                "invalid type: unit value, expected struct Port",
                "a mapping is expected, not nothing",
            ),
            ("`x` is not a MAC address", "`x` is not a MAC address"),
        ] {
            assert_eq!(said(message), words);
        }
    }

    #[test]
    fn known_names_are_found_in_what_serde_says() {
        let known = vec!["b".to_owned(), "c".to_owned()];
        let complaint = Complaint::of("unknown field `a`, expected one of `b`, `c`");
        assert_eq!(complaint, Complaint::UnknownKey("a".to_owned(), known));
    }
}
