"""The collectives that move data: every type, even and uneven, in place, both paths."""

import contextlib

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from reference import MOVED, assert_bits, values

import symccl

COUNTS = [0, 1, 5, 13, 128, 1025, 65537]


@contextlib.contextmanager
def memory(registered):
    if not registered:
        yield
        return
    pool = symccl.MemPool()
    symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        yield
    symccl.deregister_mem_pool(None, pool)


both_paths = pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])


def every_type(rank, registered):
    size = dist.get_world_size()
    with memory(registered):
        for dtype in MOVED:
            move_everything(rank, size, 531, dtype)


@both_paths
def test_every_type(registered):
    run_ranks(3, every_type, registered)


def every_count(rank, registered):
    with memory(registered):
        for count in COUNTS:
            move_everything(rank, dist.get_world_size(), count, torch.int32)


@both_paths
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_count(size, registered):
    run_ranks(size, every_count, registered)


def move_everything(rank, size, count, dtype):
    what = f"{dtype} {count}"
    mine = values(count, dtype, rank)
    everyones = torch.cat([values(count, dtype, other).view(torch.uint8) for other in range(size)]).view(dtype)

    for root in range(size):
        x = mine.clone()
        dist.broadcast(x, root)
        assert_bits(x, values(count, dtype, root), f"broadcast from {root} {what}")

    outputs = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_gather(outputs, mine)
    for other in range(size):
        assert_bits(outputs[other], values(count, dtype, other), f"all_gather {what}")

    output = torch.empty(count * size, dtype=dtype)
    dist.all_gather_single(output, mine)
    assert_bits(output, everyones, f"all_gather_single {what}")
    # In place: the input is this rank's part of the output.
    output = torch.zeros(count * size, dtype=torch.uint8).repeat(dtype.itemsize).view(dtype)
    output[rank * count : (rank + 1) * count] = mine
    dist.all_gather_single(output, output[rank * count : (rank + 1) * count])
    assert_bits(output, everyones, f"all_gather_single in place {what}")

    for root in range(size):
        outputs = [torch.empty(count, dtype=dtype) for _ in range(size)] if rank == root else None
        dist.gather(mine, outputs, dst=root)
        for other, part in enumerate(outputs or []):
            assert_bits(part, values(count, dtype, other), f"gather to {root} {what}")

        x = torch.empty(count, dtype=dtype)
        parts = [values(count, dtype, to, seed=root) for to in range(size)]
        dist.scatter(x, parts if rank == root else None, src=root)
        assert_bits(x, parts[rank], f"scatter from {root} {what}")

    sent = [values(count, dtype, rank, seed=to) for to in range(size)]
    received = [torch.empty(count, dtype=dtype) for _ in range(size)]
    dist.all_to_all(received, sent)
    for other in range(size):
        assert_bits(received[other], values(count, dtype, other, seed=rank), f"all_to_all {what}")

    whole = torch.cat([part.view(torch.uint8) for part in sent]).view(dtype)
    expected = torch.cat([values(count, dtype, other, seed=rank).view(torch.uint8) for other in range(size)]).view(
        dtype
    )
    output = torch.empty(count * size, dtype=dtype)
    dist.all_to_all_single(output, whole)
    assert_bits(output, expected, f"all_to_all_single {what}")
    dist.all_to_all_single(whole, whole)
    assert_bits(whole, expected, f"all_to_all_single in place {what}")


def uneven(rank, registered):
    size = dist.get_world_size()
    dtype = torch.float32

    def part(source, to):
        return values((source + 1) * 7 * (to + 2) if (source + to) % 3 else 0, dtype, source, seed=to)

    with memory(registered):
        for scale in (1, 501):
            counts = [scale * (other + 1) for other in range(size)]
            outputs = [torch.empty(count, dtype=dtype) for count in counts]
            dist.all_gather(outputs, values(counts[rank], dtype, rank))
            for other in range(size):
                assert_bits(outputs[other], values(counts[other], dtype, other), f"uneven all_gather {counts}")

        sent = [part(rank, to) for to in range(size)]
        received = [torch.empty_like(part(source, rank)) for source in range(size)]
        dist.all_to_all(received, sent)
        for source in range(size):
            assert_bits(received[source], part(source, rank), f"uneven all_to_all from {source}")

        output = torch.empty(sum(tensor.numel() for tensor in received), dtype=dtype)
        dist.all_to_all_single(output, torch.cat(sent), [t.numel() for t in received], [t.numel() for t in sent])
        assert_bits(output, torch.cat([part(source, rank) for source in range(size)]), "uneven all_to_all_single")

        # Rows: splits count along dimension 0.
        rows = values((rank + size) * size * 6, dtype, rank).view(-1, 2, 3)
        output = torch.empty(sum(other + size for other in range(size)), 2, 3)
        dist.all_to_all_single(output, rows, [other + size for other in range(size)], [rank + size] * size)
        pieces = [values((other + size) * size * 6, dtype, other).view(size, -1, 2, 3)[rank] for other in range(size)]
        assert_bits(output, torch.cat(pieces), "uneven rows of all_to_all_single")


@both_paths
@pytest.mark.parametrize("size", [2, 3])
def test_uneven(size, registered):
    run_ranks(size, uneven, registered)


def splits_given_by_some(rank):
    """A rank may leave out splits that are even."""
    whole = values(8, torch.int64, rank)
    output = torch.empty(8, dtype=torch.int64)
    splits = [4, 4] if rank == 0 else None
    dist.all_to_all_single(output, whole, splits, splits)
    halves = [values(8, torch.int64, other)[4 * rank : 4 * rank + 4] for other in range(2)]
    assert_bits(output, torch.cat(halves), "all_to_all_single with splits on one rank")


def test_splits_given_by_some():
    run_ranks(2, splits_given_by_some)


def not_contiguous(rank, registered):
    size = dist.get_world_size()
    with memory(registered):
        pattern = [values(60, torch.float64, other).view(6, 10) for other in range(size)]
        turned = pattern[rank].t().contiguous().t()
        outputs = [torch.zeros(10, 6, dtype=torch.float64).t() for _ in range(size)]
        dist.all_gather(outputs, turned)
        for other in range(size):
            assert_bits(outputs[other].contiguous(), pattern[other], "all_gather of transposed tensors")

        every_second = torch.full((size * 6, 20), -1.0, dtype=torch.float64)[:, ::2]
        dist.all_gather_single(every_second, turned)
        assert_bits(every_second.contiguous(), torch.cat(pattern), "all_gather_single into columns")

        x = pattern[rank].t().contiguous().t()
        work = dist.broadcast(x, 1, async_op=True)
        work.wait()
        assert_bits(x.contiguous(), pattern[1], "broadcast of transposed tensors")

        # A sender's elements may share memory.
        x = torch.full((1,), float(rank)).expand(9) if rank == 0 else torch.empty(9)
        dist.broadcast(x, 0)
        assert_bits(x.contiguous(), torch.zeros(9), "broadcast of an expanded tensor")

        for source, target in ((0, 1), (1, 0)):
            if rank == source:
                dist.send(pattern[rank].t(), target)
            elif rank == target:
                x = torch.zeros(6, 10, dtype=torch.float64).t()
                dist.recv(x, source)
                assert_bits(x.contiguous(), pattern[source].t().contiguous(), "receive of a transposed tensor")

        # An input that lies in the output, but not in its own place.
        backing = torch.zeros(size * 8)
        first = values(8, torch.float32, rank)
        backing[4:12] = first
        dist.all_gather_single(backing, backing[4:12])
        expected = torch.cat([values(8, torch.float32, other) for other in range(size)])
        assert_bits(backing, expected, "all_gather_single from an overlapping input")


@both_paths
def test_not_contiguous(registered):
    run_ranks(2, not_contiguous, registered)


def coalesced(rank):
    size = dist.get_world_size()
    for asynchronous in (False, True):
        inputs = [values(10 * (i + 1), torch.float32, rank, seed=i) for i in range(3)]
        outputs = [torch.empty(size * 10 * (i + 1)) for i in range(3)]
        with dist.distributed_c10d._coalescing_manager(async_ops=asynchronous) as manager:
            for output, tensor in zip(outputs, inputs, strict=True):
                dist.all_gather_single(output, tensor)
        if asynchronous:
            manager.wait()
        for i, output in enumerate(outputs):
            parts = [values(10 * (i + 1), torch.float32, other, seed=i) for other in range(size)]
            assert_bits(output, torch.cat(parts), f"coalesced all_gather {i}")

    lists = [[torch.empty(7), torch.empty(3, 5)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [values(7, torch.float32, rank), values(15, torch.float32, rank).view(3, 5)])
    for other in range(size):
        assert_bits(lists[other][0], values(7, torch.float32, other), "all_gather_coalesced")
        assert_bits(lists[other][1], values(15, torch.float32, other).view(3, 5), "all_gather_coalesced")


def test_coalesced():
    run_ranks(3, coalesced)


def unusual_types(rank):
    """Types without a name in SymCCL are moved as bytes."""
    x = torch.arange(16, dtype=torch.uint8).add(rank).view(torch.float8_e8m0fnu)
    dist.broadcast(x, 1)
    assert_bits(x.view(torch.uint8), torch.arange(16, dtype=torch.uint8).add(1), "broadcast of float8_e8m0fnu")


def test_unusual_types():
    run_ranks(2, unusual_types)
