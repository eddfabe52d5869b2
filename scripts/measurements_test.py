#!/usr/bin/env python3
"""Checks `scripts/measurements` with small trees: good ones, and one for each fault."""

import importlib.machinery
import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
script = str(Path(__file__).resolve().with_name("measurements"))
loader = importlib.machinery.SourceFileLoader("measurements", script)
measurements = importlib.util.module_from_spec(importlib.util.spec_from_loader("measurements", loader))
loader.exec_module(measurements)

KIND = "toy-2-cores"
FIGURES = (
    "| what | {{kinds}} | target |\n"
    "|---|---|---|\n"
    "| a packet | {{users cycles_1m}} | 100 |\n"
    "| in time | {{users delay_us / 1000}} ms | – |\n"
    '| at ten | {{users "weft, delay" at 10 p99}}; {{users "weft, delay" at 10}} µs | – |\n'
)
EXPERIMENTS = (
    "| experiment | names |\n|---|---|\n"
    "| `users` | `cycles_{1k,1m}`, `delay_us` (and more), with `_late` of late ones |\n"
)
TREE = {
    "README.md": "# Toy\n\n<!-- results: figures -->\nold\n<!-- end of results -->\n",
    "docs/experiments.md": EXPERIMENTS,
    "experiments/users.yaml": "",
    "results/README.md": "",
    "results/pages/figures.md": FIGURES,
}


def results(**changes):
    """Results of `users`, with some of their fields changed."""
    machine = {"kind": KIND, "cpu": "Toy(R) CPU @ 1 GHz", "generation": "family 1, model 2", "cores": 2, "pages": "4 KB pages"}
    machine |= {"build": "release", "commit": "0123456789ab", "kernel": "6.1", "dpdk": "22.11", "virtual_machine": True}
    whole = {
        "schema": "weft/results/v1",
        "experiment": "users",
        "command": "weft bench users --full",
        "began": "2026-11-27T10:00:00Z",
        "complete": True,
        "machine": machine | changes.pop("machine", {}),
        "parameters": {"effort": "full"} | changes.pop("parameters", {}),
        "series": [{"name": "weft, delay", "points": [{"x": 10.0, "mean": 3.5, "ci95": None, "percentiles": {"p99": 7.25}}]}],
        "derived": {"cycles_1m": 123.456, "delay_us": 4321.0},
        "derived_ci95": {"cycles_1m": [120.1, 126.9]},
        "from": "Toy et al., fig. 1",
        "shape": {"paper": "It falls.", "ours": "it fell", "holds": True},
        "trials": {"trials": 40, "disturbed": 2},
    }
    return whole | changes


class Measurements(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in TREE.items():
            self.write(name, text)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")

    def measured(self, kind=KIND, **changes):
        self.write(f"results/{kind}/users/results.json", results(**changes))

    def page(self):
        return {page.name: text for page, _, text in measurements.generate(self.root)}["README.md"]

    def fault(self, expected):
        with self.assertRaisesRegex(measurements.Fault, expected):
            self.page()

    def typed(self, text):
        self.write("docs/page.md", text)
        return [line.split(": ", 1)[0] for line in measurements.hand_typed(self.root)]

    def test_figures_stand_with_their_intervals(self):
        self.measured()
        page = self.page()
        self.assertIn("| what | Toy (family 1, model 2), 2 cores, 4 KB pages | target |\n", page)
        self.assertIn("| a packet | 123 [120 … 127] | 100 |\n", page)
        self.assertIn("| in time | 4.32 ms | – |\n", page)
        self.assertIn("| at ten | 7.25; 3.50 µs | – |\n", page)
        self.assertNotIn("old", page)

    def test_kinds_stand_side_by_side_and_nothing_is_invented(self):
        self.measured()
        self.measured("toy-4-cores", machine={"kind": "toy-4-cores", "cores": 4}, derived={}, series=[])
        page = self.page()
        self.assertIn("\n| --- | --- | --- | --- |\n", page)
        self.assertIn("| a packet | 123 [120 … 127] | not measured | 100 |\n", page)
        self.assertIn("| at ten | 7.25; 3.50 µs | not measured | – |\n", page)

    def test_without_results_nothing_was_measured(self):
        self.assertIn("| in time | not measured | – |\n", self.page())

    def test_part_of_a_cell_that_was_not_measured_is_a_dash(self):
        self.measured(series=[{"name": "weft, delay", "points": [{"x": 10.0, "mean": 3.5, "ci95": None}]}])
        self.assertIn("| at ten | –; 3.50 µs | – |\n", self.page())

    def test_an_interrupted_run_counts_nowhere_and_a_quick_one_is_marked(self):
        self.measured(complete=False)
        self.assertIn("| a packet | not measured | 100 |\n", self.page())
        self.measured(parameters={"effort": "quick"})
        self.assertIn("| a packet | 123 [120 … 127] (quick) | 100 |\n", self.page())

    def test_a_point_whose_load_was_not_reached_counts_nowhere(self):
        self.measured(series=[{"name": "weft, delay", "points": [{"x": 10.0, "mean": 3.5, "ci95": None, "short": True}]}])
        self.assertIn("| at ten | not measured | – |\n", self.page())

    def test_tables_of_machines_experiments_and_shapes(self):
        self.write("results/pages/figures.md", "{{machines}}\n\n{{experiments}}\n\n{{shapes}}\n")
        self.assertIn("No results are committed yet.", self.page())
        self.write("experiments/vf.yaml", "")
        self.measured()
        page = self.page()
        self.assertIn("| processor | Toy |", page)
        self.assertIn("| `users` | full, 2026-11-27, `0123456789ab`, 2 of 40 trials disturbed |", page)
        self.assertIn("| `vf` | not measured |", page)
        self.assertIn("| `users` | Toy et al., fig. 1 | It falls. | it fell: holds |", page)

    def test_results_that_say_nothing_of_the_kind_are_refused(self):
        for changes, expected in [
            ({"machine": {"build": "debug"}}, "debug build"),
            ({"machine": {"kind": "toy-4-cores"}}, "of a machine of the kind toy-4-cores"),
            ({"machine": {"commit": "0123456789ab-dirty"}}, "which is no commit"),
            ({"command": "weft bench users --full --file my.yaml"}, "parameters of its own"),
            ({"experiment": "vf"}, "of the experiment vf"),
            ({"schema": "weft/results/v9"}, "its schema is not"),
        ]:
            self.measured(**changes)
            self.fault(expected)

    def test_a_reference_that_no_result_can_have_is_a_fault(self):
        for reference, expected in [
            ("users cycles_2k", "no derived number cycles_2k"),
            ("user cycles_1k", "there is no experiment user"),
            ("users cycles_1k +", "what is this reference"),
        ]:
            self.write("results/pages/figures.md", FIGURES + "| x | {{" + reference + "}} | – |\n")
            self.fault(expected)
        self.write("results/pages/figures.md", "Of {{users cycles_1m}} cycles.\n")
        self.fault("references stand in the column")
        self.write("results/pages/figures.md", FIGURES + "| x | {{users cycles_1k_late_undisturbed}} | – |\n")
        self.page()

    def test_templates_and_pages_belong_together(self):
        self.write("results/pages/other.md", "")
        self.fault("no page has `<!-- results: other -->`")
        self.write("docs/page.md", "<!-- results: third -->\n<!-- end of results -->\n")
        self.fault("there is no template")

    def test_a_measured_figure_that_was_typed_is_found(self):
        self.assertEqual(self.typed("# P\n\nA packet takes 81 cycles.\n"), ["docs/page.md:3"])
        self.assertEqual(self.typed("On a quiet machine it took\n0.5 s.\n"), ["docs/page.md:1"])
        self.assertEqual(self.typed("| load | Mpps |\n|---|---|\n| all | 37.4 |\n"), ["docs/page.md:1"])
        self.assertEqual(self.typed("On an AMD EPYC:\n\n| x | y |\n|---|---|\n| all | 3 ms |\n"), ["docs/page.md:3"])

    def test_other_figures_may_be_typed(self):
        for text in [
            "It waits for 3 s, and for 100 ms at most.\n",
            "```\ncount  28.9 cycles\n```\n",
            "## Measured once\n\nIt took 81 cycles.\n\n### Then\n\nIt took 82 cycles.\n",
            "# P\n\n<!-- not from results: settings -->\n\nUp to 10 cycles.\n",
            "<!-- results: figures -->\n81 cycles\n<!-- end of results -->\n",
        ]:
            self.assertEqual(self.typed(text), [], text)
        behind = "## Measured once\n\n81 cycles\n\n## Now\n\n82 cycles\n"
        self.assertEqual(self.typed(behind), ["docs/page.md:7"])
        without_reason = "<!-- not from results: -->\n\n81 cycles\n"
        self.assertEqual(self.typed(without_reason), ["docs/page.md:3"])

    def test_many_figures_of_a_cell_have_no_intervals(self):
        self.measured()
        many = "; ".join(["{{users cycles_1m}}"] * 3)
        self.write("results/pages/figures.md", FIGURES + f"| x | {many} | – |\n")
        self.assertIn("| x | 123; 123; 123 | – |\n", self.page())

    def test_numbers(self):
        for value, interval, expected in [
            (0.0, None, "0"),
            (79.0, None, "79"),
            (81.44, [81.43, 81.44], "81.4"),
            (2.126, [2.05, 2.2], "2.13 [2.05 … 2.20]"),
            (70912.0, [70000.0, 71800.0], "70,910 [70,000 … 71,800]"),
            (0.000123, None, "0.000123"),
            (-3.21, [-4.0, -2.0], "-3.21 [-4.00 … -2.00]"),
            (3.21, [-4.0, 1.0], "≈3.21"),
        ]:
            self.assertEqual(measurements.shown_value(value, interval), expected)


if __name__ == "__main__":
    unittest.main()
