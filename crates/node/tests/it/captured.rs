//! What this release and earlier ones have written, as it is kept in the tree
//! (`tests/golden/releases`): a file for each subject, of octets as text.
//!
//! A test reads all of them, and writes what the newest release writes anew: what differs while
//! its version is the same would be misread by another release. `WEFT_CAPTURE=RELEASE` writes the
//! files of a release.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_state::{Change, Kind, Owner, Store};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/releases")
}

/// The release whose captures are to be written now, if any are.
fn wanted() -> Option<String> {
    std::env::var("WEFT_CAPTURE").ok()
}

/// What each release has captured of a subject, the newest last. `now` is written first, if that
/// is wanted.
pub fn captures<T: Serialize + DeserializeOwned>(subject: &str, now: &T) -> Vec<(String, T)> {
    let file = format!("{subject}.json");
    if let Some(release) = wanted() {
        let folder = folder().join(release);
        fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string_pretty(now).unwrap();
        fs::write(folder.join(&file), text + "\n").unwrap();
    }
    let mut releases: Vec<_> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap()).collect();
    releases.sort_by_key(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.split('.').map(|part| part.parse::<u32>().unwrap()).collect::<Vec<_>>()
    });
    let read = releases.into_iter().filter_map(|release| {
        let text = fs::read_to_string(release.path().join(&file)).ok()?;
        let capture = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
        Some((release.file_name().into_string().unwrap(), capture))
    });
    let all: Vec<_> = read.collect();
    assert!(!all.is_empty(), "no release has captured {subject}: set WEFT_CAPTURE");
    all
}

pub fn to_text(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

pub fn to_octets(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A record of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub kind: u16,
    pub key: String,
    pub version: u8,
    pub octets: String,
}

/// Records of a store and what a node that goes on with them has.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    pub records: Vec<Record>,
    pub shown: serde_json::Value,
}

/// All records of these kinds.
pub fn records(folder: &Path, owner: &Owner, kinds: &[u16]) -> Vec<Record> {
    let store = Store::open(folder, owner).unwrap();
    let mut all = Vec::new();
    for kind in kinds {
        let each = |key: &[u8], version, octets: &[u8]| {
            let (key, octets) = (to_text(key), to_text(octets));
            all.push(Record { kind: *kind, key, version, octets });
            Ok(())
        };
        store.each(Kind(*kind), each).unwrap();
    }
    all
}

/// A store that has these records.
pub fn store_of(records: &[Record], folder: &Path, owner: &Owner) -> Store {
    let mut store = Store::open(folder, owner).unwrap();
    let changes = records.iter().map(|one| {
        let (key, octets) = (to_octets(&one.key), to_octets(&one.octets));
        Change::put(Kind(one.kind), &key, one.version, &octets)
    });
    store.write(&changes.collect::<Vec<_>>()).unwrap();
    store
}

/// Records are written as the newest release has written them, or as another version.
pub fn written_alike(newest: &(String, Kept), now: &Kept) {
    let (release, before) = newest;
    let keys = |kept: &Kept| -> Vec<_> {
        kept.records.iter().map(|one| (one.kind, one.key.clone())).collect()
    };
    assert_eq!(keys(before), keys(now), "release {release}");
    for (before, now) in before.records.iter().zip(&now.records) {
        assert!(
            before == now || before.version < now.version,
            "a record is written otherwise than in release {release}, as the same version: raise \
             its version, read the version before as well, and capture (WEFT_CAPTURE)\n\
             {before:?}\n{now:?}"
        );
        assert_eq!(before.version, now.version, "captures of {release} are to be renewed");
    }
}
