"""Gradients travel while backward computes: the time of a training step with and without that, and a picture of it.

    python -m symccl.npu examples/overlap.py --trace overlap.json

Each layer's gradient is all-reduced: either all of them after backward, or each as soon as it is there, on the device's
communication stream. The trace, for chrome://tracing or https://ui.perfetto.dev, has two rows for each rank: what it
computed, and which all-reduces were under way. Reported are medians over the steps, of the slowest rank. Where ranks
have no CPU of their own, copies compete with computation, and what overlap gains is the time that ranks spend waiting.
"""

import argparse
import json
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401
from torch import nn

STEPS = 12
BATCH = 64


class Recorder:
    """Bars of a Chrome trace, in microseconds of the host's clock, which the ranks share."""

    def __init__(self, rank: int):
        self.rank = rank
        self.bars = []

    def bar(self, row: str, name: str, begin: float, end: float) -> None:
        self.bars.append(
            {"ph": "X", "pid": self.rank, "tid": row, "name": name, "ts": begin * 1e6, "dur": (end - begin) * 1e6}
        )

    def overlap(self) -> float:
        """The part of the time of communication in which this rank computed."""
        spans = {
            row: [(bar["ts"], bar["ts"] + bar["dur"]) for bar in self.bars if bar["tid"] == row]
            for row in ("computation", "communication")
        }
        covered = merged(spans["communication"])
        both = sum(
            max(0.0, min(end, last) - max(begin, first))
            for begin, end in covered
            for first, last in merged(spans["computation"])
        )
        total = sum(end - begin for begin, end in covered)
        return both / total if total else 0.0


def merged(spans: list) -> list:
    """The spans as a set of times: those that touch are one."""
    result = []
    for begin, end in sorted(spans):
        if result and begin <= result[-1][1]:
            result[-1][1] = max(end, result[-1][1])
        else:
            result.append([begin, end])
    return result


class Trainer:
    """A stack of equal layers whose gradients are all-reduced, in backward (`overlapped`) or behind it."""

    def __init__(self, rank: int, width: int, layers: int, overlapped: bool):
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers))).npu()
        self.overlapped = overlapped
        self.recorder = Recorder(rank)
        self.input = torch.randn(BATCH, width, device="npu", requires_grad=True)  # hooks of the first layer need it
        self.size = dist.get_world_size()
        self.works = []
        for number, layer in enumerate(self.model):
            layer.register_full_backward_pre_hook(lambda module, _: setattr(module, "begun", time.perf_counter()))
            layer.weight.register_post_accumulate_grad_hook(
                lambda weight, layer=layer, number=number: self.gradient_ready(layer, number, weight.grad)
            )

    def gradient_ready(self, layer: nn.Module, number: int, gradient: torch.Tensor) -> None:
        self.recorder.bar("computation", f"backward of layer {number}", layer.begun, time.perf_counter())
        if self.overlapped:
            self.all_reduce(number, gradient)

    def all_reduce(self, number: int, gradient: torch.Tensor) -> None:
        begun = time.perf_counter()
        work = dist.all_reduce(gradient, async_op=True)
        name = f"all-reduce of layer {number}"
        ended = work.get_future().then(lambda _: self.recorder.bar("communication", name, begun, time.perf_counter()))
        self.works.append((work, ended))

    def step(self) -> float:
        """One training step; returns its seconds."""
        self.model.zero_grad()
        dist.barrier()
        begun = time.perf_counter()
        loss = self.model(self.input).square().mean()
        self.recorder.bar("computation", "forward", begun, time.perf_counter())
        loss.backward()
        if not self.overlapped:
            for number in reversed(range(len(self.model))):
                self.all_reduce(number, self.model[number].weight.grad)
        torch.npu.synchronize()
        with torch.no_grad():
            for layer in self.model:
                layer.weight -= 1e-3 / self.size * layer.weight.grad
        seconds = time.perf_counter() - begun
        for _, ended in self.works:
            ended.wait()
        self.works.clear()
        return seconds


def time_to_return() -> float:
    """Seconds until an asynchronous all-reduce of 64 MiB returns to its caller; the median of some."""
    gradient = torch.ones(16 << 20, device="npu")
    seconds = []
    for _ in range(9):
        torch.npu.synchronize()
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(gradient, op=dist.ReduceOp.MAX, async_op=True)
        seconds.append(time.perf_counter() - begun)
    torch.npu.synchronize()
    return statistics.median(seconds)


def slowest(seconds: float) -> float:
    value = torch.tensor(seconds, dtype=torch.float64, device="npu")
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def work(rank: int, size: int, rendezvous: str, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=rendezvous, rank=rank, world_size=size)
    trainers = {
        name: Trainer(rank, options.width, options.layers, name == "overlapped") for name in ("behind", "overlapped")
    }
    times = {name: [] for name in trainers}
    for step in range(options.steps + 2):
        for name in sorted(trainers, reverse=step % 2 == 1):  # each goes first in turn
            seconds = slowest(trainers[name].step())
            if step >= 2:
                times[name].append(seconds)
    for one, other in zip(trainers["behind"].model, trainers["overlapped"].model, strict=True):
        assert torch.equal(one.weight, other.weight), "overlap changed the result"

    returned = slowest(time_to_return())
    mine = trainers["overlapped"].recorder
    shares = [None] * size
    dist.all_gather_object(shares, (mine.overlap(), mine.bars))
    if rank == 0:
        middle = {name: statistics.median(each) * 1e3 for name, each in times.items()}
        print(f"all-reduces behind backward: {middle['behind']:8.2f} ms a step")
        print(f"all-reduces inside backward: {middle['overlapped']:8.2f} ms a step")
        print(f"ratio: {middle['behind'] / middle['overlapped']:.2f}")
        print(f"an asynchronous all-reduce of 64 MiB returns after {returned * 1e6:.0f} us")
        print(f"communication beside computation: {min(share for share, _ in shares):.0%} of its time or more")
        with open(options.trace, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [bar for _, bars in shares for bar in bars]}, file)
        print(f"trace: {options.trace}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--trace", default="overlap.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(options.ranks, f"file://{folder}/rendezvous", options), nprocs=options.ranks)


if __name__ == "__main__":
    main()
