#!/usr/bin/env python3
"""Runs every check and test of the project; `make test` calls it after the set-up.

    run_tests.py                 all suites
    run_tests.py format units    only these

All suites run, also when one fails, each for so many minutes at most. Ends with one line a suite and the sum; the exit
code tells whether everything passed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
JOBS = str(os.cpu_count() or 2)


def ctest(*arguments: str) -> list[str]:
    return ["ctest", "--output-on-failure", "--no-tests=error", "-j", JOBS, *arguments]


def pytest(*arguments: str) -> list[str]:
    return [PYTHON, "-m", "pytest", "--timeout=300", *arguments]


def sanitizer(preset: str) -> list[list[str]]:
    return [
        ["cmake", "--preset", preset, "--log-level=WARNING"],
        ["cmake", "--build", "--preset", preset, "-j", JOBS, "--", "--quiet"],
        ctest("--preset", preset),
    ]


@dataclass(frozen=True)
class Suite:
    """Commands that run one after the other until one fails; `minutes` is the ceiling for all of them together."""

    name: str
    minutes: float
    commands: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)


SUITES = [
    Suite("format", 2, [["scripts/format.sh", "--check"]]),
    Suite("rules", 1, [[PYTHON, "scripts/check_rules.py"]]),
    Suite("models", 6, [ctest("--test-dir", "build", "-L", "model")]),
    Suite("units", 9, [ctest("--test-dir", "build", "-L", "cpp")]),
    Suite("fallback", 9, [ctest("--test-dir", "build", "-L", "cpp", "-LE", "slow")], {"SYMCCL_MEMBARRIER": "0"}),
    Suite("tsan", 14, sanitizer("tsan")),
    Suite("asan", 14, sanitizer("asan")),
    Suite("torch", 14, [pytest("tests/torch", "--ignore=tests/torch/distributed_test")]),
    Suite("upstream", 10, [pytest("tests/torch/distributed_test")]),
]


def run(suite: Suite) -> tuple[bool, float, str]:
    """Returns whether the suite passed, its seconds, and a remark."""
    began = time.monotonic()
    ends = began + suite.minutes * 60
    environment = os.environ | suite.environment
    environment["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{environment['PATH']}"
    if shutil.which("ccache"):
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    remark = ""
    for command in suite.commands:
        shown = [f"{name}={value}" for name, value in suite.environment.items()] + command
        print("$", *shown, flush=True)
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                code = process.wait(timeout=max(0, ends - time.monotonic()))
                remark = f"exit code {code}" if code else ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                remark = f"not finished after {suite.minutes} minutes"
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if remark:
            break
    return not remark, time.monotonic() - began, remark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(s.name for s in SUITES)}")
    names = parser.parse_args().suites
    unknown = set(names) - {suite.name for suite in SUITES}
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in SUITES)}")

    results = []
    for suite in SUITES:
        if names and suite.name not in names:
            continue
        print(f"\n=== {suite.name} (at most {suite.minutes} minutes)", flush=True)
        results.append((suite, *run(suite)))

    print("\n=== summary")
    for suite, passed, seconds, remark in results:
        print(f"{'passed' if passed else 'FAILED'} {seconds:6.0f} s  {suite.name}  {remark}".rstrip())
    failed = sum(not passed for _, passed, _, _ in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
