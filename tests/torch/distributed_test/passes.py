"""The pinned outcome of every upstream test, and a pass of them that runs in the background (see runner.py)."""

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
WORLD_SIZES = (2, 4)
RESULT_SECONDS = 180  # upstream itself ends a test after 60 s

# The states of a test in the tables expected_<world size>.txt
OWN = "own"  # passes under our own name
AS_GLOO = "as-gloo"  # upstream skips it for our name, for the pinned reason; passes under gloo's name
FAILS = "fails"  # fails under both names with the pinned text, as it must for every plugin
SKIPPED = "skip"  # skipped under both names; the pinned reason is the one given under gloo's name


@dataclasses.dataclass
class Expected:
    test: str
    gloo: str  # what gloo itself does on this machine: "pass" or "skip"
    state: str
    reason: str


def table_path(world_size):
    return HERE / f"expected_{world_size}.txt"


def read_table(world_size):
    """The rows of the table of a world size: `test  gloo  state  reason`, columns separated by blanks."""
    lines = (line.split(maxsplit=3) for line in table_path(world_size).read_text().splitlines())
    return [Expected(*fields[:3], (fields[3:] or [""])[0]) for fields in lines if fields and fields[0] != "#"]


class Pass:
    """One running pass. Results arrive in the order of `tests`; result(test) waits for that of a test.

    run_pass: "symccl", "gloo" or "stock", as in runner.py. No tests given: all of them.
    """

    def __init__(self, run_pass, world_size, tests=()):
        self.results = {}
        self._upstream_tests = None
        self.ended = False
        self._text = b""
        self._log = tempfile.TemporaryFile(mode="a+b")
        command = [sys.executable, HERE / "runner.py", "--pass", run_pass, "--world-size", str(world_size), *tests]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def result(self, test):
        """The line of `test` as a dictionary; an error when the runner ends or stalls before it."""
        deadline = time.monotonic() + RESULT_SECONDS
        while test not in self.results:
            if self.ended:
                raise AssertionError(f"the runner did not run {test}")
            self._read(deadline, test)
        return self.results[test]

    def upstream_tests(self):
        """The names of all tests that upstream has."""
        deadline = time.monotonic() + RESULT_SECONDS
        while self._upstream_tests is None:
            self._read(deadline, "the list of tests")
        return self._upstream_tests

    def wait(self):
        """Waits until all tests have run, and returns the results by name."""
        while not self.ended:
            self._read(time.monotonic() + RESULT_SECONDS, "the next test")
        return self.results

    def _read(self, deadline, awaited):
        if not self._selector.select(max(0.0, deadline - time.monotonic())):
            self.close()
            raise AssertionError(f"no result of {awaited} within {RESULT_SECONDS} s\n{self._output()}")
        chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        if not chunk:
            self.close()
            raise AssertionError(f"the runner ended with {self._process.returncode} before {awaited}\n{self._output()}")
        *lines, self._text = (self._text + chunk).split(b"\n")
        for line in map(json.loads, lines):
            self.ended = self.ended or "end" in line
            self._upstream_tests = line.get("upstream_tests", self._upstream_tests)
            if "test" in line:
                self.results[line["test"]] = line

    def _output(self):
        return os.pread(self._log.fileno(), 8000, 0).decode(errors="replace")

    def close(self):
        """Ends the runner and its ranks, if they still run."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
