//! The file of an experiment: its parameters for each effort.

use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use super::Effort;

/// Parameters of an experiment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Experiment_{P}")]
pub struct File<P> {
    /// Version of this format.
    pub api_version: ApiVersion,
    /// What the file describes.
    pub kind: Kind,
    /// Which experiment it is for.
    pub metadata: Metadata,
    /// For `--quick`: about a minute.
    pub quick: P,
    /// For `--full`: enough repetitions for narrow intervals.
    pub full: P,
    /// For `--papers`: the durations of the papers.
    pub papers: P,
}

/// Versions of this format.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ApiVersion {
    /// The one there is.
    #[serde(rename = "weft/v1")]
    V1,
}

/// What a file describes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Kind {
    /// Parameters of an experiment.
    Experiment,
}

/// Which experiment a file is for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the experiment, as `weft bench list` shows it.
    pub name: String,
}

/// What is looked at first.
#[derive(Debug, Deserialize)]
struct Header {
    metadata: Metadata,
}

impl<P: DeserializeOwned> File<P> {
    /// Reads the file of the experiment `name`.
    ///
    /// # Errors
    /// [`Mistakes`], each as `FILE:LINE:COLUMN: …`.
    pub fn load(path: &Path, name: &str) -> Result<File<P>, Mistakes> {
        File::read(&weft_yaml::load(path)?, &path.display().to_string(), name)
    }

    /// Reads the text of such a file; mistakes call it `shown`.
    ///
    /// # Errors
    /// As [`File::load`].
    pub fn read(text: &str, shown: &str, name: &str) -> Result<File<P>, Mistakes> {
        let mut source = weft_yaml::parse(text, shown, "Experiment")?;
        // Of a file for something else, all other mistakes would come.
        let header: Option<Header> = shape::read(&mut source);
        if let Some(Header { metadata: Metadata { name: other } }) = header
            && other != name
        {
            source.wrong("metadata.name", format!("this is for {other}, not for {name}"));
            return Err(Mistakes::of(shown, source.mistakes));
        }
        shape::read(&mut source).ok_or_else(|| Mistakes::of(shown, source.mistakes))
    }

    /// The parameters for an effort.
    pub fn of(&self, effort: Effort) -> &P {
        match effort {
            Effort::Quick => &self.quick,
            Effort::Full => &self.full,
            Effort::Papers => &self.papers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        users: u32,
    }

    const TEXT: &str = "apiVersion: weft/v1\nkind: Experiment\nmetadata: {name: users}\n\
                        quick: {users: 1}\nfull: {users: 2}\npapers: {users: 3}\n";

    fn read(text: &str) -> Result<File<Parameters>, String> {
        File::read(text, "f.yaml", "users").map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn each_effort_has_its_parameters() {
        let file = read(TEXT).unwrap();
        let efforts = [Effort::Quick, Effort::Full, Effort::Papers];
        assert_eq!(efforts.map(|effort| file.of(effort).users), [1, 2, 3]);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let unknown = read(&TEXT.replace("full: {users", "full: {user")).unwrap_err();
        assert!(unknown.starts_with("f.yaml:5:8: ") && unknown.contains("user"), "{unknown}");
        let other = TEXT.replace("name: users", "name: other").replace("users: 1", "size: 1");
        let other = read(&other).unwrap_err();
        assert_eq!(other.trim_end(), "f.yaml:3:18: this is for other, not for users");
        assert!(read("").is_err());
    }
}
