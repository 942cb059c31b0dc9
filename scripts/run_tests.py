#!/usr/bin/env python3
"""Runs every check and test of the project; `make test` calls it after the set-up.

    run_tests.py                 all suites
    run_tests.py format units    only these

All suites run, also when one fails, each for so many minutes at most. Ends with what the failed ones said of their
failures, one line a suite and the sum; the exit code tells whether everything passed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
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
    Suite("npu", 14, [pytest("tests/torch/npu")]),  # `tests/torch` leaves it out: it renames a device for its process
    Suite("upstream", 10, [pytest("tests/torch/distributed_test")]),
]


class Output(threading.Thread):
    """Shows what a process writes, and keeps it."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self._pipe = pipe
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        for line in self._pipe:
            sys.stdout.write(line)
            sys.stdout.flush()
            self.lines.append(line)


CTEST_RESULT = re.compile(r"\s*\d+/\d+ Test +#\d+: ")


def failures(lines: list[str]) -> str:
    """The parts of a suite's output that tell what failed: ctest's blocks of the failed tests, or else the end."""
    told, block = [], 0
    for line in lines:
        if CTEST_RESULT.match(line):
            block = 60 if "***" in line else 0
        elif line.startswith("      Start "):
            continue
        if block > 0:
            told.append(line)
            block -= 1
    return "".join((told or lines)[-200 if told else -40 :])


def run(suite: Suite) -> tuple[bool, float, str, str]:
    """Returns whether the suite passed, its seconds, a remark, and what it said of its failures."""
    began = time.monotonic()
    ends = began + suite.minutes * 60
    environment = os.environ | suite.environment
    environment["PATH"] = f"{Path(PYTHON).parent}{os.pathsep}{environment['PATH']}"
    if shutil.which("ccache"):
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    for command in suite.commands:
        shown = [f"{name}={value}" for name, value in suite.environment.items()] + command
        print("$", *shown, flush=True)
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            errors="replace",
            text=True,
            start_new_session=True,
        ) as process:
            output = Output(process.stdout)
            try:
                code = process.wait(timeout=max(0, ends - time.monotonic()))
                remark = f"exit code {code}" if code else ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                remark = f"not finished after {suite.minutes} minutes"
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            output.join(timeout=10)
        if remark:
            return False, time.monotonic() - began, remark, failures(output.lines)
    return True, time.monotonic() - began, "", ""


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

    for suite, passed, _, _, said in results:
        if not passed:
            print(f"\n=== failures of {suite.name}\n{said}")
    print("\n=== summary")
    for suite, passed, seconds, remark, _ in results:
        print(f"{'passed' if passed else 'FAILED'} {seconds:6.0f} s  {suite.name}  {remark}".rstrip())
    failed = sum(not result[1] for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
