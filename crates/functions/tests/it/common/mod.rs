//! What the tests of all kinds share: each function's page, and the example on
//! it, which they all run.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../src/testing.rs"]
pub mod testing;

use std::path::Path;

use serde_json::Value;
use weft_compose::Kind;

use testing::Rig;

/// A page of the documentation.
pub fn page(path: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path);
    std::fs::read_to_string(&docs).unwrap_or_else(|error| panic!("{}: {error}", docs.display()))
}

/// The lines between the fences of all blocks of `language`.
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find(&fence) {
        rest = &rest[start + fence.len()..];
        let end = rest.find("```").expect("a block ends");
        blocks.push(rest[..end].to_owned());
        rest = &rest[end + 3..];
    }
    blocks
}

/// The headings of a function's page.
pub fn headings(page: &str) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with("## ")).collect()
}

/// How the page of a function shows it in use.
#[derive(Clone, Debug)]
pub struct Example {
    pub kind: Kind,
    pub config: Value,
    /// The settings of one of its users or groups; none for a function without.
    pub settings: Option<Value>,
}

impl Example {
    /// Of a function.
    pub fn of(kind: &Kind) -> Example {
        Example::on(&page(&format!("functions/{}.md", kind.name)), kind)
    }

    /// On a page of a function.
    pub fn on(page: &str, kind: &Kind) -> Example {
        let blocks = blocks(page, "yaml");
        let [block] = &blocks[..] else { panic!("{}: one example is wanted", kind.name) };
        let node: Value = serde_yaml_ng::from_str(block).expect("the example is YAML");
        let functions = node["functions"].as_object().expect("functions by name");
        let (instance, function) = functions
            .iter()
            .find(|(_, function)| function["function"] == kind.name)
            .unwrap_or_else(|| panic!("{}: the example has none", kind.name));
        let users = node["users"].as_array().into_iter().flatten();
        let groups = node["groups"].as_object().into_iter().flat_map(|groups| groups.values());
        let settings = users.chain(groups).find_map(|one| one["functions"].get(instance)).cloned();
        let mut config = function["config"].clone();
        if kind.name == "nat" {
            // Two instances choose the same ports.
            config["portSeed"] = 7.into();
        }
        Example { kind: *kind, config, settings }
    }

    /// An instance; slot 1 has the settings.
    pub fn rig(&self) -> Rig {
        let mut rig = Rig::new(&self.kind, self.config.clone()).expect("the example works");
        self.settle(&mut rig);
        rig
    }

    /// Gives the context at slot 1 the settings.
    pub fn settle(&self, rig: &mut Rig) {
        if let Some(settings) = &self.settings {
            // Some settings are for one user only: those with a key.
            if rig.configure(1, settings.clone(), 3, 8).is_err() {
                rig.configure(1, settings.clone(), 0, 1).expect("the settings work");
            }
        }
    }
}
