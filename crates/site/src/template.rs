//! Texts with gaps: `$(key)` is what a node has for `key`.

use std::collections::BTreeMap;

use weft_yaml::mistake::Position;

/// The text with its gaps filled in; otherwise the key for which there is no value, or the gap
/// that does not end, with its octets before.
pub fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String, (usize, String)> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find("$(") {
        let at = text.len() - rest.len() + start;
        let behind = &rest[start + 2..];
        let end = behind.find([')', '\n']).filter(|end| behind[*end..].starts_with(')'));
        let Some(end) = end else { return Err((at, "`$(` has no `)` behind it".to_owned())) };
        let key = &behind[..end];
        let Some(value) = values.get(key) else {
            let what = key.split_once('/').map_or_else(
                || format!("there is no value for `$({key})`"),
                |(kind, name)| format!("there is no {kind} `{name}`"),
            );
            return Err((at, what));
        };
        out.push_str(&rest[..start]);
        out.push_str(value);
        rest = &behind[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Where so many octets of a text end.
pub fn position(text: &str, octets: usize) -> Position {
    let before = &text[..octets];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    Position { line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> BTreeMap<String, String> {
        [("name", "a"), ("address", "10.1.0.1")].map(|(k, v)| (k.into(), v.into())).into()
    }

    #[test]
    fn gaps_are_filled() {
        let filled = fill("$(name): [$(address)/24, $(address)]\n$5 ($)", &values());
        assert_eq!(filled.unwrap(), "a: [10.1.0.1/24, 10.1.0.1]\n$5 ($)");
    }

    #[test]
    fn gaps_that_cannot_be_filled_are_told() {
        assert_eq!(fill("x\n$(nme)", &values()).unwrap_err().0, 2);
        assert_eq!(fill("$(name)$(name\n)", &values()).unwrap_err().0, 7);
        assert_eq!(fill("$(", &values()).unwrap_err().0, 0);
    }
}
