"""A rank of a peer that runs in torch.distributed; symccl-bench starts it and tells it what to measure.

Arguments: socket, rank, ranks, a file for the ranks to meet in, backend ("gloo", "symccl", "hccl" on npu tensors, or
"fake", which does nothing and so has no right data), registration (0 to 2).
"""

import socket
import sys
import time

import torch
import torch.distributed as dist
from ddp_task import MODELS, Training
from torch_task import Task

NAME, RANK, SIZE, MEETING, BACKEND, REGISTRATION = sys.argv[1:7]
RANK, SIZE = int(RANK), int(SIZE)
HEAD_START_NS = 400_000  # between agreeing on a common start and starting
LAST_SPIN_NS = 150_000  # more than a timer is late


def allocate(count, dtype):
    if POOL is None:
        return torch.ones(count, device=DEVICE).to(dtype)
    with MEMORY.use_mem_pool(POOL):
        return torch.empty(count, dtype=dtype, device=DEVICE).zero_()


def start_together():
    """A common moment: a barrier of the library would let ranks go one after the other."""
    moment = torch.tensor([time.monotonic_ns() + HEAD_START_NS], device=DEVICE)
    dist.all_reduce(moment, dist.ReduceOp.MAX)
    moment = int(moment)
    # Asleep, then awake: who yields again and again is taken for somebody who wants no CPU, and interrupted afterwards.
    while (left := moment - time.monotonic_ns()) > 0:
        if left > LAST_SPIN_NS:
            time.sleep((left - LAST_SPIN_NS) / 1e9)


def run(task, warmup, iterations, first, check, reuse):
    times, wrong = [], 0
    check = check and BACKEND != "fake"
    for i in range(warmup + iterations):
        if i == 0 or not reuse:
            task.write(first + i)
        start_together()
        began = time.monotonic_ns()
        task.call()
        elapsed = time.monotonic_ns() - began
        task.settle()
        if i >= warmup:
            times.append(elapsed)
        if check and not reuse:
            wrong += task.wrong(first + i)
        elif not reuse:
            task.recv.max() if task.recv.numel() else None
    if check and reuse:
        start_together()
        task.write(first)
        start_together()
        task.call()
        task.settle()
        wrong += task.wrong(first)
    return {"": times}, wrong


class Computing:
    """Matrix products that take about as long as was asked for, on the calling thread."""

    def __init__(self, nanoseconds):
        self.matrix = torch.full((96, 96), 1 / 96)
        self.products = 1
        self.products = max(1, round(nanoseconds / min(self.run() for _ in range(20))))

    def run(self):
        began = time.monotonic_ns()
        for _ in range(self.products):
            self.matrix = self.matrix @ self.matrix
        return time.monotonic_ns() - began


def started(task, iteration):
    """The Work of a call, and when it was made and returned."""
    task.write(iteration)
    start_together()
    began = time.monotonic_ns()
    work = task.call(wait=False)
    return work, began, time.monotonic_ns()


def run_async(task, warmup, iterations, first, check):
    """Each iteration: the call alone; then again with computing between call and wait, and as much computing alone.

    What the second takes longer than the computing alone is exposed.
    """
    issue, whole, exposed, wrong, computing = [], [], [], 0, None
    for i in range(warmup + iterations):
        work, began, returned = started(task, first + i)
        work.wait()
        ended = time.monotonic_ns()
        if check and BACKEND != "fake":
            wrong += task.wrong(first + i)
        if i == 0 or i == warmup:
            computing = Computing(ended - began)
        work, began_both, _ = started(task, first + i)
        computing.run()
        work.wait()
        both = time.monotonic_ns() - began_both
        start_together()
        alone = computing.run()
        if i >= warmup:
            issue.append(returned - began)
            whole.append(ended - began)
            exposed.append(max(0, both - alone))
    return {"": whole, "issue": issue, "exposed": exposed}, wrong


def train(training, warmup, iterations, first, check):
    steps, exposed, communication, wrong = [], [], [], 0
    for i in range(warmup + iterations):
        start_together()
        alone = training.compute(first + i)
        start_together()
        whole = training.step(first + i)
        start_together()
        moved = training.communicate()
        if i >= warmup:
            steps.append(whole)
            exposed.append(max(0, whole - alone))
            communication.append(moved)
    if check:
        wrong = training.wrong(first + warmup + iterations - 1) + training.spread()
    return {"": steps, "exposed": exposed, "communication": communication}, wrong


def measure(op, key, warmup, iterations, first, check, reuse, is_async):
    global CURRENT
    if CURRENT[0] != key:
        CURRENT = (None, None)
        made = Training(op, RANK, SIZE) if op in MODELS else Task(op, *key[1:], RANK, SIZE, DEVICE, allocate)
        CURRENT = (key, made)
    task = CURRENT[1]
    if op in MODELS:
        return train(task, warmup, iterations, first, check)
    if is_async:
        return run_async(task, warmup, iterations, first, check)
    return run(task, warmup, iterations, first, check, reuse)


def answer(words):
    op, dtype, reduction = words[:3]
    root, count, warmup, iterations, first, check, reuse, in_place, is_async = map(int, words[3:])
    key = (op, dtype, reduction, root, count, bool(in_place))
    try:
        series, wrong = measure(op, key, warmup, iterations, first, check, reuse, is_async)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return "absent " + (str(error).splitlines() or ["no reason"])[0]
    parts = [part for name, times in series.items() for part in ([name] if name else []) + times]
    return f"times {wrong} " + " ".join(map(str, parts))


torch.set_num_threads(1)
POOL = None
CURRENT = (None, None)
DEVICE = "npu" if BACKEND == "hccl" else "cpu"
MEMORY = None  # whose pools
if BACKEND == "symccl":
    import symccl as MEMORY
elif BACKEND == "hccl":
    import symccl.npu as MEMORY

    MEMORY.set_device(RANK % MEMORY.device_count())
if BACKEND == "fake":
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=RANK, world_size=SIZE)
else:
    dist.init_process_group(BACKEND, init_method="file://" + MEETING, rank=RANK, world_size=SIZE)
if MEMORY and REGISTRATION != "0":
    GROUP = dist.group.WORLD._get_backend(torch.device(DEVICE))
    POOL = MEMORY.MemPool(GROUP.mem_allocator)
    GROUP.register_mem_pool(POOL, symm=True)

control = socket.socket(socket.AF_UNIX)
control.connect("\0" + NAME)
lines = control.makefile("rw")
lines.write(f"hello {RANK} torch {torch.__version__} {BACKEND}\n")
lines.flush()
for line in lines:
    words = line.split()
    if words[0] != "block":
        break
    lines.write(answer(words[1:]) + "\n")
    lines.flush()
dist.destroy_process_group()
