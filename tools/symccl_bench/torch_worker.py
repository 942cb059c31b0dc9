"""A rank of a peer that runs in torch.distributed; symccl-bench starts it and tells it what to measure.

Arguments: socket, rank, ranks, backend ("gloo" or "symccl"), a file for the ranks to meet in, registration (0 to 2).
"""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist

NAME, RANK, SIZE, BACKEND, MEETING, REGISTRATION = sys.argv[1:7]
RANK, SIZE = int(RANK), int(SIZE)
PERIOD = 4093  # elements after which the data repeats: a prime
HEAD_START_NS = 200_000  # between agreeing on a common start and starting

INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "average": dist.ReduceOp.AVG,
    "bitAnd": dist.ReduceOp.BAND,
    "bitOr": dist.ReduceOp.BOR,
    "bitXor": dist.ReduceOp.BXOR,
}
PER_RANK = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
REDUCES = ("all_reduce", "reduce", "reduce_scatter")


class Task:
    """One row: its buffers, the call, and the data that must come out."""

    def __init__(self, op, dtype, reduction, root, count, in_place):
        self.op, self.reduction, self.root, self.count = op, reduction, root, count
        self.dtype = getattr(torch, dtype)
        self.whole = count * SIZE
        if in_place and op not in ("all_reduce", "reduce"):
            raise NotImplementedError("torch.distributed has no such operation in place")
        sends = {"reduce_scatter": self.whole, "all_to_all": self.whole, "scatter": self.whole, "barrier": 0}
        receives = {"all_gather": self.whole, "all_to_all": self.whole, "gather": self.whole, "barrier": 0}
        self.recv = self.allocate(receives.get(op, count))
        self.send = self.recv if in_place or op == "broadcast" else self.allocate(sends.get(op, count))
        self.inputs = [self.table(source) for source in range(SIZE)]
        self.result = self.reduced() if op in REDUCES else None

    def allocate(self, count):
        if POOL is None:
            return torch.ones(count).to(self.dtype)
        with symccl.use_mem_pool(POOL):
            return torch.empty(count, dtype=self.dtype).zero_()

    def table(self, source):
        place = torch.arange(2 * PERIOD, dtype=torch.int64) % PERIOD
        mixed = (place * 2654435761 + source * 40503 + (place * place) % 8191 * 97) >> 3
        if self.op not in REDUCES or self.reduction not in ("sum", "average", "product"):
            values = mixed % 128
        elif self.reduction == "product":
            values = 1 + mixed % 2 if source < 6 else torch.ones_like(place)
        else:
            values = mixed % max(2, 121 // SIZE)
        return values

    def reduced(self):
        result = self.inputs[0].clone()
        for other in self.inputs[1:]:
            if self.reduction == "product":
                result *= other
            elif self.reduction == "min":
                result = torch.minimum(result, other)
            elif self.reduction == "max":
                result = torch.maximum(result, other)
            elif self.reduction.startswith("bit"):
                result = {"bitAnd": result & other, "bitOr": result | other, "bitXor": result ^ other}[self.reduction]
            else:
                result = result + other
        if self.reduction != "average":
            return result
        return result // SIZE if str(self.dtype)[6:] in INTEGERS else (result.float() / SIZE)

    def sequence(self, table, start, count, iteration):
        """`count` elements of a table's sequence, as one row of whole periods and a rest."""
        begin = (start + iteration * 97) % PERIOD
        period = table[begin : begin + PERIOD].to(self.dtype)
        return period, count // PERIOD, count % PERIOD

    def write(self, iteration):
        if self.op in ("broadcast", "scatter") and self.root != RANK:
            return
        period, whole, rest = self.sequence(self.inputs[RANK], 0, self.send.numel(), iteration)
        self.send[: whole * PERIOD].view(whole, PERIOD).copy_(period.expand(whole, PERIOD))
        self.send[whole * PERIOD :].copy_(period[:rest])

    def wrong(self, iteration):
        found = 0
        for at, table, start in self.outputs():
            period, whole, rest = self.sequence(table, start, self.count, iteration)
            part = self.recv[at : at + self.count]
            found += int((part[: whole * PERIOD].view(whole, PERIOD) != period).sum())
            found += int((part[whole * PERIOD :] != period[:rest]).sum())
        return found

    def outputs(self):
        mine, before = RANK * self.count, (RANK - 1) % SIZE
        if self.op == "barrier" or (self.op in ("reduce", "gather") and self.root != RANK):
            return []
        if self.op in ("all_gather", "gather", "all_to_all"):
            start = mine if self.op == "all_to_all" else 0
            return [(source * self.count, self.inputs[source], start) for source in range(SIZE)]
        return {
            "all_reduce": [(0, self.result, 0)],
            "reduce": [(0, self.result, 0)],
            "reduce_scatter": [(0, self.result, mine)],
            "broadcast": [(0, self.inputs[self.root], 0)],
            "scatter": [(0, self.inputs[self.root], mine)],
            "sendrecv": [(0, self.inputs[before], 0)],
        }[self.op]

    def call(self):
        """What is timed. torch reduces in place, so out of place has a copy in it."""
        op = REDUCTIONS[self.reduction]
        if self.op in ("all_reduce", "reduce"):
            if self.send is not self.recv:
                self.recv.copy_(self.send)
            if self.op == "all_reduce":
                dist.all_reduce(self.recv, op)
            else:
                dist.reduce(self.recv, self.root, op)
        elif self.op == "reduce_scatter":
            dist.reduce_scatter_tensor(self.recv, self.send, op)
        elif self.op == "all_gather":
            dist.all_gather_into_tensor(self.recv, self.send)
        elif self.op == "all_to_all":
            dist.all_to_all_single(self.recv, self.send)
        elif self.op == "broadcast":
            dist.broadcast(self.recv, self.root)
        elif self.op == "gather":
            dist.gather(self.send, list(self.recv.chunk(SIZE)) if self.root == RANK else None, self.root)
        elif self.op == "scatter":
            dist.scatter(self.recv, list(self.send.chunk(SIZE)) if self.root == RANK else None, self.root)
        elif self.op == "sendrecv":
            exchange = [
                dist.P2POp(dist.isend, self.send, (RANK + 1) % SIZE),
                dist.P2POp(dist.irecv, self.recv, (RANK - 1) % SIZE),
            ]
            for work in dist.batch_isend_irecv(exchange):
                work.wait()
        else:
            dist.barrier()


def start_together():
    """A common moment: a barrier of the library would let ranks go one after the other."""
    moment = torch.tensor([time.monotonic_ns() + HEAD_START_NS])
    dist.all_reduce(moment, dist.ReduceOp.MAX)
    moment = int(moment)
    while time.monotonic_ns() < moment:
        os.sched_yield()


def run(task, warmup, iterations, first, check, reuse):
    times, wrong = [], 0
    for i in range(warmup + iterations):
        if i == 0 or not reuse:
            task.write(first + i)
        start_together()
        began = time.monotonic_ns()
        task.call()
        elapsed = time.monotonic_ns() - began
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
        wrong += task.wrong(first)
    return times, wrong


def answer(words):
    op, dtype, reduction = words[:3]
    root, count, warmup, iterations, first, check, reuse, in_place = map(int, words[3:])
    global CURRENT
    key = (op, dtype, reduction, root, count, in_place)
    try:
        if CURRENT[0] != key:
            CURRENT = (None, None)
            CURRENT = (key, Task(op, dtype, reduction, root, count, bool(in_place)))
        times, wrong = run(CURRENT[1], warmup, iterations, first, check, reuse)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return "absent " + str(error).splitlines()[0]
    return f"times {wrong} " + " ".join(map(str, times))


torch.set_num_threads(1)
POOL = None
CURRENT = (None, None)
if BACKEND == "symccl":
    import symccl
dist.init_process_group(BACKEND, init_method="file://" + MEETING, rank=RANK, world_size=SIZE)
if BACKEND == "symccl" and REGISTRATION != "0":
    POOL = symccl.MemPool()
    symccl.register_mem_pool(dist.group.WORLD, POOL)

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
