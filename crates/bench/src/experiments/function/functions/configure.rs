//! Configurations of functions with tables of so many entries.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::flows;
use weft_rig::Failure;

/// As many prefixes as there are entries, all of them with one next hop.
///
/// # Errors
/// When the file cannot be written.
pub fn route(scratch: &Path, entries: u32) -> Result<Value, Failure> {
    let file = written(scratch, &format!("routes-{entries}"), |text| {
        for number in 0..entries {
            let [a, b, c, _] = flows::prefix(number).to_be_bytes();
            let _ = writeln!(text, "{a}.{b}.{c}.0/24 dev out");
        }
    })?;
    let hops = [json!({"name": "out", "device": "out"})];
    Ok(json!({"nextHops": hops, "file": file, "follow": false}))
}

/// Room for so many mappings, in blocks of as many as a user has flows.
pub fn nat(entries: u32) -> Value {
    json!({
        "addresses": ["192.0.2.0/24"],
        "blockSize": flows::FLOWS_OF_A_USER,
        "mappings": entries,
    })
}

/// As many softwires as there are entries.
///
/// # Errors
/// When the file cannot be written.
pub fn lwaftr(scratch: &Path, entries: u32) -> Result<Value, Failure> {
    let file = written(scratch, &format!("softwires-{entries}.json"), |text| {
        text.push_str(r#"{"portSets": [{"addresses": "11.0.0.0/8", "psidLength": 6}], "#);
        text.push_str(r#""softwires": ["#);
        for number in 0..entries {
            let (ipv4, psid, b4) = flows::softwire(number);
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(text, r#"{comma}{{"ipv4":"{ipv4}","psid":{psid},"b4":"{b4}"}}"#);
        }
        text.push_str("]}");
    })?;
    Ok(json!({"address": flows::ADDRESS, "file": file, "follow": false}))
}

/// A file of this run, written when it is first asked for.
fn written(
    scratch: &Path,
    name: &str,
    write: impl FnOnce(&mut String),
) -> Result<PathBuf, Failure> {
    let path = scratch.join(name);
    if !path.exists() {
        let mut text = String::new();
        write(&mut text);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(path)
}
