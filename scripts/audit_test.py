#!/usr/bin/env python3
"""scripts/audit finds what it is to find."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

FILE = Path(__file__).resolve().parent / "audit"
LOADER = importlib.machinery.SourceFileLoader("audit", str(FILE))
SPEC = importlib.util.spec_from_loader("audit", LOADER)
audit = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(audit)

RULES = {"licenses": {"allow": ["MIT", "Apache-2.0 WITH LLVM-exception"]}, "bans": {"deny": [{"name": "evil"}]}}


def package(name: str, licence: str | None, source: str | None = audit.REGISTRY) -> dict:
    return {"name": name, "version": "1", "id": name, "license": licence, "source": source}


class Audit(unittest.TestCase):
    def test_licences(self):
        allowed = {"MIT", "ISC", "Apache-2.0 WITH LLVM-exception"}
        for good in ("MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "MIT AND (ISC OR GPL-2.0)", "Apache-2.0 WITH LLVM-exception"):
            self.assertTrue(audit.is_allowed(good, allowed), good)
        for bad in ("", "GPL-3.0", "MIT AND GPL-3.0", "(MIT AND GPL-3.0) OR Apache-2.0", "Apache-2.0"):
            self.assertFalse(audit.is_allowed(bad, allowed), bad)

    def test_mistakes_are_named(self):
        packages = [
            package("good", "MIT"),
            package("own", "MIT", None),
            package("evil", "MIT"),
            package("copyleft", "GPL-3.0"),
            package("elsewhere", "MIT", "git+https://example.org/x"),
            package("unused", "GPL-3.0"),
        ]
        used = {one["id"] for one in packages} - {"unused"}
        found = audit.mistakes(packages, used, RULES)
        self.assertEqual([one.split()[0] for one in found], ["evil", "copyleft", "elsewhere"])


if __name__ == "__main__":
    unittest.main()
