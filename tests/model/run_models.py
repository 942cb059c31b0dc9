#!/usr/bin/env python3
"""Searches the SPIN models of docs/protocol.md: the right ones must hold, the broken variants must be caught.

    run_models.py                 every configuration; needs 2 GiB of memory and some minutes
    run_models.py --quick         the small ones and all broken variants
    run_models.py --quick coll    ... of one model

Needs `spin` and a C compiler. A search is exhaustive: no bit-state hashing, depth and memory suffice, else it fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

OK = "errors: 0"
ASSERTION = "assertion violated"
HANG = "invalid end state"


@dataclass(frozen=True)
class Configuration:
    """One search: `expect` must appear in its output, and `states` is how many it stores (None: stops early)."""

    model: str
    macros: str
    expect: str = OK
    states: int | None = None
    large: bool = False

    @property
    def name(self) -> str:
        return f"{self.model} {self.macros}".rstrip()


CONFIGURATIONS = [
    # Collectives: every sequence of six kinds; each rank exits after its last call.
    Configuration("coll", "RANKS=2", states=168_013),
    Configuration("coll", "RANKS=3", states=3_685_537),
    # ... with aborts, timeouts and crashes at every wait and every touch.
    Configuration("coll", "RANKS=2 FAULTS=2", states=2_851_489),
    Configuration("coll", "RANKS=3 OPERATIONS=2 FAULTS=1", states=13_342_765, large=True),
    Configuration("coll", "RANKS=3 OPERATIONS=2 FAULTS=2", states=27_502_687, large=True),
    # ... and calls that differ.
    Configuration("coll", "RANKS=2 OPERATIONS=2 DIFFER=1 FAULTS=1", states=9_695_017),
    Configuration("coll", "RANKS=3 OPERATIONS=1 DIFFER=1 FAULTS=1", states=34_763_125, large=True),
    # Broken: one generation; rooted kinds that wait only for whom they need, with two and with three generations.
    Configuration("coll", "RANKS=2 GENERATIONS=1", ASSERTION),
    Configuration("coll", "RANKS=2 OPERATIONS=4 WAIT_FOR_ALL=0", ASSERTION),
    Configuration("coll", "RANKS=3 OPERATIONS=4 WAIT_FOR_ALL=0 GENERATIONS=3", ASSERTION),
    # Broken: any death fails every wait; leaving at once after an error; touching without a look at the error words.
    Configuration("coll", "RANKS=3 ANY_DEATH_FAILS=1", ASSERTION),
    Configuration("coll", "RANKS=2 FAULTS=1 QUIET_BEFORE_LEAVE=0", ASSERTION),
    Configuration("coll", "RANKS=2 FAULTS=1 LOOK_BEFORE_TOUCH=0", ASSERTION),
    # Leaving after an error, under store buffers.
    Configuration("fail", "MODE=BOTH_FENCE FAULTS=1", states=349_283),
    Configuration("fail", "MODE=MEMBARRIER FAULTS=1", states=326_709),
    Configuration("fail", "MODE=MEMBARRIER FAULTS=2", states=515_748),
    Configuration("fail", "MODE=NO_BARRIER FAULTS=1", ASSERTION),
    # Sleep and wake-up, under store buffers.
    Configuration("sleep", "MODE=EARLY_FENCE", states=53_676),
    Configuration("sleep", "MODE=LATE_FENCE", states=160_087),
    Configuration("sleep", "MODE=MEMBARRIER", states=339_632),
    Configuration("sleep", "MODE=TIMED", states=477_961),
    Configuration("sleep", "MODE=EARLY_LOOK", states=289_366),
    Configuration("sleep", "MODE=MEMBARRIER RANKS=3 ROUNDS=1", states=1_457_837),
    Configuration("sleep", "MODE=NO_FENCE", HANG),
    Configuration("sleep", "MODE=EARLY_FENCE SLEEPER_FENCE=0", HANG),
    Configuration("sleep", "MODE=LATE_FENCE SLEEPER_FENCE=0", HANG),
    # Staged slices.
    Configuration("staged", "", states=140_487),
    Configuration("staged", "INPUT_SLOTS=1", ASSERTION),
    # Turns of the message form; broken: no wait for takers, takers forgotten, no wait at the end.
    Configuration("exchange", "RANKS=2 TURNS=5 FIRST_COPY_EARLY=1", states=2_252_655),
    Configuration("exchange", "RANKS=3 FIRST_COPY_EARLY=1", states=11_232_940, large=True),
    Configuration("exchange", "RANKS=2 AWAIT_READERS=0", ASSERTION),
    Configuration("exchange", "RANKS=2 TURNS=5 KEEP_READERS=0", ASSERTION),
    Configuration("exchange", "RANKS=2 FIRST_COPY_EARLY=1 FINISH=0", ASSERTION),
    # Point-to-point.
    Configuration("p2p", "RING=2 MESSAGES=2 EAGER_SLOTS=0", states=96_434),
    Configuration("p2p", "MESSAGES=2 ONE_BY_ONE=0", states=309_310),
    Configuration("p2p", "RING=1", states=11_251_887, large=True),
    Configuration("p2p", "RING=2", states=7_365_201, large=True),
    Configuration("p2p", "UNEXPECTED_LIMIT=1", HANG),
    Configuration("p2p", "BLOCKING_PUT=1", HANG),
    Configuration("p2p", "SHARED_POOL=1", HANG),
]

COMPILE = ["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=4096", "-o", "pan", "pan.c"]


def search(configuration: Configuration, timeout: float) -> str | None:
    """Runs one search; returns what is wrong with it, or None."""
    defines = [f"-D{macro}" for macro in configuration.macros.split()]
    with tempfile.TemporaryDirectory(prefix="symccl-model-") as folder:

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, timeout=timeout, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{command[0]} exits {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
            return done.stdout

        try:
            run("spin", "-a", *defines, str(HERE / f"{configuration.model}.pml"))
            run(os.environ.get("CC", "cc"), *COMPILE)
            output = run("./pan", "-m200000", f"-w{26 if configuration.large else 22}")
        except FileNotFoundError as missing:
            return f"{missing.filename} is not installed; `make setup` installs it"
        except subprocess.TimeoutExpired:
            return f"not finished after {timeout:.0f} s"
        except RuntimeError as refused:
            return str(refused)

    if configuration.expect not in output:
        return f"'{configuration.expect}' does not appear in:\n{output}"
    if configuration.expect != OK:
        return None
    if "Search not completed" in output or "max search depth too small" in output:
        return f"the search is not complete:\n{output}"
    stored = re.search(r"(\d+) states, stored", output)
    if configuration.states is not None and (not stored or int(stored[1]) != configuration.states):
        return f"{stored[1] if stored else 'no'} states stored, {configuration.states} expected: the model has changed"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="models to search (default: all)")
    parser.add_argument("--quick", action="store_true", help="leave out the large configurations")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one search (default: %(default)s)")
    arguments = parser.parse_args()
    unknown = set(arguments.models) - {configuration.model for configuration in CONFIGURATIONS}
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")

    chosen = [
        configuration
        for configuration in CONFIGURATIONS
        if (not arguments.models or configuration.model in arguments.models)
        and not (arguments.quick and configuration.large)
    ]
    failed = 0
    for configuration in chosen:
        began = time.monotonic()
        wrong = search(configuration, arguments.timeout)
        verdict = "FAILED" if wrong else "holds" if configuration.expect == OK else "caught"
        print(f"{verdict:7} {time.monotonic() - began:6.1f} s  {configuration.name}", flush=True)
        if wrong:
            failed += 1
            print(wrong, flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
