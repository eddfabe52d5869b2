#!/usr/bin/env python3
"""Checks `scripts/layers` with small trees: a good one, and one for each fault."""

import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
script = str(Path(__file__).resolve().with_name("layers"))
loader = importlib.machinery.SourceFileLoader("layers", script)
layers = importlib.util.module_from_spec(importlib.util.spec_from_loader("layers", loader))
loader.exec_module(layers)

MANIFESTS = {
    "Cargo.toml": '[workspace]\nmembers = ["crates/low", "crates/high"]\n',
    "crates/low/Cargo.toml": '[package]\nname = "toy-low"\n[dependencies]\n',
    "crates/high/Cargo.toml": '[package]\nname = "toy-high"\n[dependencies]\ntoy-low.workspace = true\n',
}
GOOD = MANIFESTS | {
    "crates/low/src/lib.rs": "mod parse;\nmod tree;\npub use parse::parse;\npub use tree::Tree;\n",
    "crates/low/src/tree.rs": "pub struct Tree; // crate::parse::parse fills it\n",
    "crates/low/src/parse.rs": "mod tokens;\nuse crate::Tree;\npub fn parse() -> Tree { tokens::next() }\n",
    "crates/low/src/parse/tokens.rs": "use super::super::tree::{self, Tree};\npub fn next() -> Tree { tree::Tree }\n",
    "crates/high/src/lib.rs": "mod run;\n",
    "crates/high/src/run.rs": "pub fn run() { toy_low::parse(); }\n",
}


class Layers(unittest.TestCase):
    def faults(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in (GOOD | changes).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(layers.faults(root))

    def one_fault(self, changes):
        found = self.faults(changes)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_good_tree_has_no_fault(self):
        self.assertEqual(self.faults({}), [])

    def test_a_crate_that_uses_one_below_it_in_the_list(self):
        manifest = '[package]\nname = "toy-low"\n[dependencies]\ntoy-high.workspace = true\n'
        found = self.one_fault({"crates/low/Cargo.toml": manifest})
        self.assertRegex(found, r"^crates/low/Cargo.toml:4: toy-low depends on toy-high,")

    def test_dependencies_of_tests_point_the_same_way(self):
        manifest = '[package]\nname = "toy-low"\n[dev-dependencies]\ntoy-high = { workspace = true }\n'
        found = self.one_fault({"crates/low/Cargo.toml": manifest})
        self.assertRegex(found, r"^crates/low/Cargo.toml:4: toy-low depends on toy-high,")

    def test_a_cycle_of_files(self):
        found = self.one_fault({"crates/low/src/tree.rs": "\nuse crate::parse;\npub struct Tree;\n"})
        self.assertRegex(found, r"^crates/low/src/parse.rs:2: import cycle in `crate`: `parse` imports `tree`")
        self.assertIn("`tree` imports `parse` (crates/low/src/tree.rs:2)", found)

    def test_a_cycle_through_a_path_without_use(self):
        text = "pub struct Tree;\nfn f() { crate::parse::parse(); }\n"
        self.assertIn("(crates/low/src/tree.rs:2)", self.one_fault({"crates/low/src/tree.rs": text}))

    def test_a_cycle_through_a_re_export(self):
        text = "pub struct Tree;\nuse crate::{parse as read};\nfn f() { read(); }\n"
        self.assertIn("(crates/low/src/tree.rs:2)", self.one_fault({"crates/low/src/tree.rs": text}))

    def test_a_cycle_through_all_names_of_the_crate(self):
        text = "pub struct Tree;\nuse super::*;\nfn f() { let _ = parse::parse(); }\n"
        self.assertIn("(crates/low/src/tree.rs:3)", self.one_fault({"crates/low/src/tree.rs": text}))

    def test_a_cycle_within_a_folder(self):
        found = self.one_fault(
            {
                "crates/low/src/parse/tokens.rs": "use super::words::Word;\nuse crate::Tree;\npub fn next() -> Tree { Tree }\n",
                "crates/low/src/parse/words.rs": "use super::tokens;\npub struct Word;\n",
            }
        )
        self.assertRegex(found, r"^crates/low/src/parse/tokens.rs:1: import cycle in `crate::parse`:")

    def test_a_cycle_of_three_is_told_once(self):
        found = self.one_fault(
            {
                "crates/low/src/tree.rs": "use crate::leaf::Leaf;\npub struct Tree;\n",
                "crates/low/src/leaf.rs": "use crate::parse;\npub struct Leaf;\n",
            }
        )
        self.assertEqual(found.count(" imports "), 3, found)

    def test_what_only_tests_have_imports_what_it_likes(self):
        text = (
            "pub struct Tree;\n#[cfg(test)]\nmod tests {\n    use crate::parse::parse;\n    fn f() { let _ = '{'; }\n}\n"
            "#[cfg(test)]\nuse crate::parse;\n#[cfg(test)]\nmod checks;\n"
        )
        changes = {"crates/low/src/tree.rs": text, "crates/low/src/tree/checks.rs": "use crate::parse;\n"}
        self.assertEqual(self.faults(changes), [])

    def test_strings_and_comments_import_nothing(self):
        text = 'pub struct Tree;\nconst A: &str = "crate::parse";\n/* use crate::parse; */\n'
        self.assertEqual(self.faults({"crates/low/src/tree.rs": text}), [])

    def test_a_long_file(self):
        text = "pub struct Tree;\n" + "\n" * 500
        found = self.one_fault({"crates/low/src/tree.rs": text})
        self.assertEqual(found, "crates/low/src/tree.rs:501: 501 lines, more than 500; split the file")

    def test_a_full_folder(self):
        changes = {f"crates/low/src/parse/m{n}.rs": "" for n in range(14)}
        found = self.one_fault(changes)
        self.assertRegex(found, r"^crates/low/src/parse:1: 15 entries, more than 14;")

    def test_a_file_and_its_folder_are_one_entry(self):
        changes = {f"crates/low/src/parse/m{n}.rs": "" for n in range(13)}
        changes |= {f"crates/low/src/parse/m{n}/part.rs": "" for n in range(13)}
        self.assertEqual(self.faults(changes), [])


if __name__ == "__main__":
    unittest.main()
