"""What tests on emulated machines say."""


class Report:
    """One line per check, and a closing line."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, fits, otherwise=""):
        if fits:
            self.passed += 1
            print(f"pass {name}", flush=True)
        else:
            self.failed += 1
            print(f"fail {name}: {otherwise}", flush=True)
        return fits

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, 0 skipped")
        return 0 if self.failed == 0 else 1


def tail(text):
    return "\n".join(text.splitlines()[-12:]) or "it said nothing"
