"""Runs tests of PyTorch's own DistributedTest and reports each as a line of JSON.

    runner.py --pass symccl --world-size 2 [test ...]

Passes:
    symccl  the backend under its own name
    gloo    the backend under gloo's name (see masquerade.py)
    stock   gloo itself with nothing changed, to find what passes on this machine

One process runs one pass at one world size, because upstream reads BACKEND and WORLD_SIZE when it is imported. The
ranks of a test are forked from it, which takes a tenth of the time that upstream's spawn takes. The lines go to the
standard output: first the names of all tests, then one line per test, at last an end mark. What the ranks print goes to
the standard error, and where that is a file, into a failed test's line.
"""

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import signal
import stat
import sys
import tempfile
import time
import types
import unittest

UPSTREAM_POLL = 0.1  # seconds between two looks at the files of the barrier around each test, and at the ranks' ends
POLL = 0.01
PR_SET_PDEATHSIG = 1
MAX_OUTPUT = 8000  # bytes of the ranks' output that go into the report of a failed test
# Upstream runs these on MPI alone. Nothing in them needs MPI.
MPI_ONLY = ("Only MPI supports CPU all_to_all_single", "Only MPI supports all_to_all")
# Below 8 ranks upstream skips the tests of a subgroup. Its members are the ranks 1 and 2.
SUBGROUP_WORLD_SIZE = 3


def decide_skips_early(common_utils, common_distributed):
    """Replaces upstream's skip decorators, before the tests are imported.

    Those that end a rank with a skip's exit code skip the test before its ranks are forked. Two gates that do not
    concern us are open: MPI_ONLY, and the world size of the subgroup tests.
    """

    def keep(function):
        return function

    def skip(name):
        def mark(function):
            if not hasattr(function, "__unittest_skip__"):
                function.__unittest_skip__ = True
                function.__unittest_skip_why__ = common_distributed.TEST_SKIPS[name].message
            return function

        return mark

    def skip_if_lt_x_gpu(count, *, allow_cpu=False):
        return keep if allow_cpu else skip(f"multi-gpu-{count}")

    skip_if = common_utils.skip_but_pass_in_sandcastle_if

    def skip_if_unless_mpi_only(condition, reason):
        return keep if reason in MPI_ONLY else skip_if(condition, reason)

    small = int(os.environ["WORLD_SIZE"]) < SUBGROUP_WORLD_SIZE
    common_distributed.skip_if_no_gpu = skip("no_cuda")
    common_distributed.skip_if_lt_x_gpu = skip_if_lt_x_gpu
    common_distributed.skip_if_small_worldsize = skip("small_worldsize") if small else keep
    common_utils.skip_but_pass_in_sandcastle_if = skip_if_unless_mpi_only


def poll_faster(module):
    """Gives a module of upstream a `time` that polls more often."""
    sleep = time.sleep
    fast = types.ModuleType("time")
    fast.__dict__.update(time.__dict__)
    fast.sleep = lambda seconds: sleep(POLL if seconds == UPSTREAM_POLL else seconds)
    module.time = fast


def make_test_class(distributed_test):
    import torch.multiprocessing

    class TestDistributed(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            super().tearDown()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file_name)  # the rendezvous file, which upstream leaves behind

        @classmethod
        def _run(cls, *args, **kwargs):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            super()._run(*args, **kwargs)

        def _check_return_codes(self, fn, elapsed_time):
            super()._check_return_codes(fn, elapsed_time)  # looks at the exit code of rank 0 only
            if fn not in self.skip_return_code_checks:
                codes = [process.exitcode for process in self.processes]
                self.assertEqual(codes, [0] * len(codes), "exit codes of the ranks")

    return TestDistributed


def load(run_pass, world_size, directory):
    """Sets the pass up and returns upstream's test class, ready to run."""
    os.environ.update(
        BACKEND="symccl" if run_pass == "symccl" else "gloo",
        WORLD_SIZE=str(world_size),
        TEMP_DIR=directory,
        OMP_NUM_THREADS="1",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60",
    )
    common_utils = importlib.import_module("torch.testing._internal.common_utils")
    common_distributed = importlib.import_module("torch.testing._internal.common_distributed")
    if run_pass != "stock":
        # Without a file, upstream skips the test that makes the default group a second time.
        os.environ["INIT_METHOD"] = f"file://{directory}/rendezvous"
        import masquerade

        import symccl  # noqa: F401  (registers the backend)

        decide_skips_early(common_utils, common_distributed)
        for supporting_backends in common_distributed.DistTestCases.backend_feature.values():
            supporting_backends.add("symccl")
        if run_pass == "gloo":
            masquerade.install()
    distributed_test = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    if run_pass != "stock":
        poll_faster(common_distributed)
        poll_faster(distributed_test)
        distributed_test.PROFILING_SUPPORTED_BACKENDS.append("symccl")
        distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.append("symccl")
        if run_pass == "gloo":
            masquerade.title_events_as_gloo(distributed_test)
    return make_test_class(distributed_test)


class Reporter(unittest.TestResult):
    """Writes one line per test: its name, outcome (passed, skipped, failed), the reason or error, and the seconds."""

    def __init__(self, results):
        super().__init__()
        self.results = results
        self.output_is_kept = stat.S_ISREG(os.fstat(2).st_mode)

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        self.outcome = ("passed", "")
        if self.output_is_kept:
            os.ftruncate(2, 0)

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason)

    def addFailure(self, test, error):
        self.outcome = ("failed", self._exc_info_to_string(error, test) + self.output())

    addError = addFailure

    def output(self):
        sys.stdout.flush()
        sys.stderr.flush()
        if not self.output_is_kept:
            return ""
        with open("/proc/self/fd/2", "rb") as file:
            file.seek(max(0, os.fstat(2).st_size - MAX_OUTPUT))
            return "\n--- output of the ranks\n" + file.read().decode(errors="replace")

    def stopTest(self, test):
        outcome, text = self.outcome
        seconds = round(time.monotonic() - self.started, 2)
        self.report(test=test._testMethodName, outcome=outcome, text=text, seconds=seconds)
        super().stopTest(test)

    def report(self, **line):
        os.write(self.results, (json.dumps(line) + "\n").encode())


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pass", dest="run_pass", choices=("symccl", "gloo", "stock"), required=True)
    arguments.add_argument("--world-size", type=int, required=True)
    arguments.add_argument("tests", nargs="*", help="names of test methods; default: all")
    chosen = arguments.parse_args()

    results = os.dup(1)
    os.dup2(2, 1)
    reporter = Reporter(results)
    with tempfile.TemporaryDirectory(prefix="symccl-upstream-") as directory:
        test_class = load(chosen.run_pass, chosen.world_size, directory)
        names = unittest.TestLoader().getTestCaseNames(test_class)
        reporter.report(upstream_tests=names)
        for name in chosen.tests or names:
            unittest.TestSuite([test_class(name)]).run(reporter)
    reporter.report(end=True)


if __name__ == "__main__":
    main()
