#!/usr/bin/env python3
"""Our multiple loss ratio search beside FD.io's MLRsearch, on the same simulated systems.

Both look for NDR and PDR with the same goals. Their conditional throughputs must agree
within the sum of both widths: each may end anywhere within its own.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

PACKAGE = "MLRsearch==1.2.1"
SYSTEMS = 40
WIDTH = 0.005
NAMES = ["NDR", "PDR"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
EXAMPLE = TARGET / "debug" / "examples" / "simulated-search"
VENV = TARGET / "mlrsearch"


def close(passed, failed, skipped):
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


def skip(why):
    print(f"skip MLRsearch: {why}")
    close(0, 0, 1)


def build():
    """Our simulated systems as a program."""
    if not shutil.which("cargo"):
        skip("cargo is not installed")
    # What the unit tests have built already.
    command = ["cargo", "test", "-q", "--no-run", "--workspace", "--locked"]
    built = subprocess.run([*command, "--example", "simulated-search"], cwd=ROOT)
    if built.returncode:
        print("fail MLRsearch: the simulated systems do not compile")
        close(0, 1, 0)


def enter_venv():
    """Goes on in an environment that has the package; makes it the first time."""
    python = VENV / "bin" / "python"
    if Path(sys.prefix) == VENV:
        return
    has = [python, "-c", "import MLRsearch"]
    if not python.exists() or subprocess.run(has, capture_output=True).returncode:
        try:
            venv.create(VENV, with_pip=True, clear=True)
        except (OSError, subprocess.CalledProcessError) as error:
            skip(f"no virtual environment can be made (apt install python3-venv): {error}")
        install = [python, "-m", "pip", "install", "-q", "--no-deps", "--timeout", "20", PACKAGE]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            skip(f"{PACKAGE} cannot be installed: {reason}")
    sys.stdout.flush()
    os.execv(python, [str(python), str(Path(__file__).resolve())])


def theirs(seed):
    """What MLRsearch finds on the system of that seed."""
    from MLRsearch import (
        AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal,
    )

    command = [EXAMPLE, "serve", str(seed)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as system:

        class Measurer(AbstractMeasurer):
            def measure(self, intended_duration, intended_load):
                system.stdin.write(f"{intended_load} {intended_duration}\n")
                system.stdin.flush()
                sent, unsent, lost = map(int, system.stdout.readline().split())
                return MeasurementResult(
                    intended_duration=intended_duration, intended_load=intended_load,
                    offered_count=sent, loss_count=lost, intended_count=sent + unsent,
                )

        goals = [
            SearchGoal(
                loss_ratio=loss_ratio, exceed_ratio=0.5, relative_width=WIDTH,
                initial_trial_duration=1.0, final_trial_duration=1.0, duration_sum=21.0,
            )
            for loss_ratio in (0.0, 0.005)
        ]
        config = Config()
        config.goals = goals
        config.min_load, config.max_load = 1e4, 2e7
        config.search_duration_max, config.warmup_duration = 600.0, None
        found = MultipleLossRatioSearch(config=config).search(Measurer(), debug=lambda _: None)
        throughputs = [float(found[goal].conditional_throughput) for goal in goals]
        system.stdin.close()
    return throughputs


def main():
    if Path(sys.prefix) != VENV:
        build()
    enter_venv()
    find = [EXAMPLE, "find", "0", str(SYSTEMS)]
    ours = subprocess.run(find, capture_output=True, text=True, check=True).stdout
    apart = [[] for _ in NAMES]
    for line in ours.splitlines():
        ours = json.loads(line)
        for goal, (a, b) in enumerate(zip(ours["found"], theirs(ours["seed"]))):
            apart[goal].append(abs(a - b) / max(a, b))
    passed = failed = 0
    for name, differences in zip(NAMES, apart):
        within = sum(difference <= 2 * WIDTH for difference in differences)
        text = f"{within} of {SYSTEMS} systems within {2 * WIDTH:.1%}, most {max(differences):.2%}"
        if len(differences) == SYSTEMS and within >= 0.95 * SYSTEMS:
            passed += 1
            print(f"pass {name} as MLRsearch finds it: {text}")
        else:
            failed += 1
            print(f"fail {name} as MLRsearch finds it: {text}")
    close(passed, failed, 0)


if __name__ == "__main__":
    main()
