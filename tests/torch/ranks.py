"""Runs a function in several forked ranks and collects what each returned or raised.

    def body(rank):
        x = torch.full((4,), rank + 1.0)
        dist.all_reduce(x)
        return x

    def test_sum():
        assert run_ranks(2, body)[0][0] == 3

The ranks are forked from the test process, which has imported torch and symccl but must not have used symccl itself or
started threads: a test that needs no group runs in `run_ranks(1, body, init=False)`. Each rank gets the launcher
variables of torchrun, a rendezvous file in a directory of its own run, and one torch thread. A rank that raises fails
the test with its traceback; a run that does not end is killed after `timeout` seconds and the stacks of all ranks are
shown. `Ranks` is the same with hands on: ranks can be stopped, continued and killed while they run.
"""

import ctypes
import dataclasses
import datetime
import faulthandler
import os
import pickle
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

import symccl  # noqa: F401  (registers the backend before the fork)

torch.set_num_threads(1)  # a thread pool made by the parent would not survive the fork

_PR_SET_PDEATHSIG = 1
_to_parent = None


def mark(name):
    """In a rank: tells the test process that this rank has come to the point `name` (see Ranks.wait_for)."""
    _send(_to_parent, ("mark", name))


@dataclasses.dataclass(repr=False)
class Outcome:
    """How one rank ended: it returned `value`, raised (`error` is the traceback's text), or was ended by `signal`."""

    rank: int
    value: object = None
    error: str | None = None
    signal: int | None = None
    returned: bool = False

    def __repr__(self):
        if self.error is not None:
            return f"rank {self.rank} raised:\n{self.error}"
        if self.signal is not None:
            return f"rank {self.rank} was ended by {signal.Signals(self.signal).name}"
        return f"rank {self.rank} returned" if self.returned else f"rank {self.rank} ended without a result"


class Ranks:
    """`size` forked ranks that run fn(rank, *args). A context manager; leaving it kills what still runs.

    backend:     of init_process_group; None, or init=False, creates no process group.
    timeout:     seconds for the whole run.
    group_timeout: seconds, given to init_process_group; None leaves PyTorch's default.
    environment: variables to set in every rank (a value of None removes one).
    init_options: further keyword arguments of init_process_group.
    """

    def __init__(
        self,
        size,
        fn,
        *args,
        backend="symccl",
        timeout=60,
        group_timeout=None,
        init=True,
        environment=None,
        init_options=None,
    ):
        self.size = size
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.directory = tempfile.mkdtemp(prefix="symccl-ranks-")
        self.pids = []
        self.marks = [set() for _ in range(size)]
        self._pipes = []
        self._buffers = [b""] * size
        self._outcomes = [None] * size
        self._selector = selectors.DefaultSelector()
        options = dict(init_options or {})
        if group_timeout is not None:
            options["timeout"] = datetime.timedelta(seconds=group_timeout)
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(size):
            self._fork(rank, fn, args, backend if init else None, options, environment or {})

    def _fork(self, rank, fn, args, backend, options, environment):
        reader, writer = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                for pipe in self._pipes:
                    os.close(pipe)
                _run_rank(rank, self.size, fn, args, backend, options, environment, self.directory, writer, parent)
            finally:
                os._exit(3)
        os.close(writer)
        self.pids.append(pid)
        self._pipes.append(reader)
        self._selector.register(reader, selectors.EVENT_READ, rank)

    def kill(self, rank):
        """Ends a rank as the kernel would: SIGKILL."""
        os.kill(self.pids[rank], signal.SIGKILL)

    def stop(self, rank):
        os.kill(self.pids[rank], signal.SIGSTOP)

    def resume(self, rank):
        os.kill(self.pids[rank], signal.SIGCONT)

    def wait_for(self, rank, name):
        """Returns when `rank` has called mark(name)."""
        while name not in self.marks[rank]:
            if self._outcomes[rank] is not None:
                raise AssertionError(f"rank {rank} ended before {name!r}: {self._outcomes[rank]}")
            self._read()

    def join(self, ranks=None):
        """Waits for the given ranks (default: all) and returns their outcomes in order."""
        wanted = list(range(self.size)) if ranks is None else list(ranks)
        while any(self._outcomes[rank] is None for rank in wanted):
            self._read()
        return [self._outcomes[rank] for rank in wanted]

    def _read(self):
        events = self._selector.select(max(0.0, self.deadline - time.monotonic()))
        if not events:
            self._give_up()
        for key, _ in events:
            rank, chunk = key.data, os.read(key.fd, 1 << 16)
            if not chunk:
                self._selector.unregister(key.fd)
                self._reap(rank)
                continue
            self._buffers[rank] += chunk
            self._parse(rank)

    def _parse(self, rank):
        buffer = self._buffers[rank]
        while len(buffer) >= 8 and len(buffer) >= 8 + (length := int.from_bytes(buffer[:8], "little")):
            kind, payload = pickle.loads(buffer[8 : 8 + length])
            buffer = buffer[8 + length :]
            if kind == "mark":
                self.marks[rank].add(payload)
            elif kind == "value":
                self._outcomes[rank] = Outcome(rank, value=payload, returned=True)
            else:
                self._outcomes[rank] = Outcome(rank, error=payload)
        self._buffers[rank] = buffer

    def _reap(self, rank):
        _, status = os.waitpid(self.pids[rank], 0)
        self.pids[rank] = None
        if self._outcomes[rank] is None:
            self._outcomes[rank] = Outcome(rank, signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None)

    def _give_up(self):
        running = [rank for rank in range(self.size) if self._outcomes[rank] is None]
        for rank in running:
            os.kill(self.pids[rank], signal.SIGCONT)
            os.kill(self.pids[rank], signal.SIGUSR1)
        time.sleep(1)
        stacks = []
        for rank in running:
            with open(os.path.join(self.directory, f"stacks.{rank}")) as file:
                stacks.append(f"--- rank {rank}, stacks at the end of the time:\n{_own_frames(file)}")
        ended = [str(outcome) for outcome in self._outcomes if outcome is not None]
        self.close()
        raise AssertionError(f"ranks {running} did not end in {self.timeout} s\n" + "\n".join(ended + stacks))

    def close(self):
        """Kills what still runs and removes the run's directory."""
        for rank, pid in enumerate(self.pids):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.pids[rank] = None
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        self._selector.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def run_ranks(size, fn, *args, dies=(), **options):
    """Runs fn(rank, *args) in `size` ranks and returns the list of their results.

    A rank in `dies` is expected to end without a result; its entry is None. The options are those of Ranks.
    """
    with Ranks(size, fn, *args, **options) as ranks:
        outcomes = ranks.join()
    bad = [outcome for outcome in outcomes if outcome.returned == (outcome.rank in dies)]
    if bad:
        raise AssertionError("\n".join(str(outcome) for outcome in bad))
    return [outcome.value for outcome in outcomes]


def _own_frames(stacks):
    """Stacks as faulthandler writes them, without the frames of the test process that the rank was forked from."""
    lines, forked = [], False
    for line in stacks:
        forked = forked and line.startswith("  File")
        if not forked:
            lines.append(line)
        forked = forked or " in _run_rank" in line
    return "".join(lines)


def _send(pipe, message):
    data = pickle.dumps(message)
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(pipe, data) :]


def _run_rank(rank, size, fn, args, backend, options, environment, directory, pipe, parent):
    """The life of a rank, from the fork to the exit."""
    global _to_parent
    _to_parent = pipe
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(2)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    stacks = open(os.path.join(directory, f"stacks.{rank}"), "w")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    try:
        if backend is not None:
            rendezvous = "file://" + os.path.join(directory, "rendezvous")
            dist.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=size, **options)
        value = fn(rank, *args)
        if dist.is_initialized():
            dist.destroy_process_group()
        message = ("value", value)
    except BaseException:
        message = ("error", traceback.format_exc())
    try:
        _send(pipe, message)
    except Exception:
        _send(pipe, ("error", f"the result cannot be pickled:\n{traceback.format_exc()}"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
