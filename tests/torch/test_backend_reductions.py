"""all_reduce, reduce and reduce_scatter: every type, every reduction, sizes around every limit, both paths."""

import contextlib

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from reference import OPS, REDUCIBLE, assert_bits, kind_of, reduced, values

import symccl

# Around the limits of the inline line (48 B), the eager slot (4 KiB), a page and a block of 512 B, for elements of 1,
# 2, 4, 8 and 16 bytes.
SIZES = [0, 1, 2, 3, 7, 11, 12, 13, 48, 49, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097]


@contextlib.contextmanager
def memory(registered):
    """Tensors made inside are private, or lie in a pool that is registered with WORLD."""
    if not registered:
        yield
        return
    pool = symccl.MemPool()
    symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        yield
    symccl.deregister_mem_pool(None, pool)


def operation(name):
    return getattr(dist.ReduceOp, name)


def all_types_and_ops(rank, registered):
    size = dist.get_world_size()
    with memory(registered):
        for dtype in REDUCIBLE:
            for op in OPS[kind_of(dtype)]:
                count = 1027
                inputs = [values(count, dtype, other) for other in range(size)]
                expected = reduced(inputs, op)
                what = f"{dtype} {op}"

                # The backend object takes complex types as they are; dist.all_reduce would view them as real.
                x = inputs[rank].clone()
                options = dist.AllreduceOptions()
                options.reduceOp = operation(op)
                options.asyncOp = False
                dist.group.WORLD.allreduce([x], options).wait()
                assert_bits(x, expected, f"all_reduce {what}")

                for root in range(size):
                    x = inputs[rank].clone()
                    options = dist.ReduceOptions()
                    options.reduceOp = operation(op)
                    options.rootRank = root
                    options.asyncOp = False
                    dist.group.WORLD.reduce([x], options).wait()
                    assert_bits(x, expected if rank == root else inputs[rank], f"reduce to {root} {what}")

                inputs = [values(count * size, dtype, other) for other in range(size)]
                expected = reduced(inputs, op)[rank * count : (rank + 1) * count]
                whole, part = inputs[rank].clone(), torch.empty(count, dtype=dtype)
                dist.reduce_scatter_single(part, whole, operation(op))
                assert_bits(part, expected, f"reduce_scatter {what}")
                assert_bits(whole, inputs[rank], f"input of reduce_scatter {what}")


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
@pytest.mark.parametrize("size", [2, 3])
def test_every_type_and_reduction(size, registered):
    run_ranks(size, all_types_and_ops, registered)


def all_sizes(rank, registered):
    size = dist.get_world_size()
    with memory(registered):
        for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.complex128):
            for count in SIZES:
                inputs = [values(count, dtype, other, seed=count) for other in range(size)]
                expected = reduced(inputs, "SUM")
                what = f"{dtype} {count} elements"
                for asynchronous in (False, True):
                    x = inputs[rank].clone()
                    options = dist.AllreduceOptions()
                    options.asyncOp = asynchronous
                    dist.group.WORLD.allreduce([x], options).wait()
                    assert_bits(x, expected, f"all_reduce {what} async {asynchronous}")

                inputs = [values(count * size, dtype, other, seed=count) for other in range(size)]
                expected = reduced(inputs, "SUM")[rank * count : (rank + 1) * count]
                # In place: the output is this rank's part of the input.
                whole = inputs[rank].clone()
                dist.reduce_scatter_single(whole[rank * count : (rank + 1) * count], whole)
                assert_bits(whole[rank * count : (rank + 1) * count], expected, f"reduce_scatter in place {what}")
                # An output that overlaps the input elsewhere still gets the right values.
                if count > 1:
                    whole = inputs[rank].clone()
                    place = ((rank + 1) % size) * count
                    dist.reduce_scatter_single(whole[place : place + count], whole)
                    assert_bits(whole[place : place + count], expected, f"reduce_scatter overlapping {what}")


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_size(size, registered):
    run_ranks(size, all_sizes, registered)


def large_and_unaligned(rank, registered):
    size = dist.get_world_size()
    with memory(registered):
        for count in (262143, 262145, 1 << 20, 1048583):
            for offset in (0, 1, 3):
                inputs = [values(count, torch.float32, other, seed=offset) for other in range(size)]
                backing = torch.full((count + 8,), -7.0)
                x = backing[offset : offset + count]
                x.copy_(inputs[rank])
                dist.all_reduce(x)
                assert_bits(x, reduced(inputs, "SUM"), f"all_reduce {count} at {offset}")
                around = torch.cat([backing[:offset], backing[offset + count :]])
                assert bool((around == -7).all()), f"all_reduce {count} at {offset} wrote outside of its tensor"


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
@pytest.mark.parametrize("size", [2, 3])
def test_large_and_unaligned(size, registered):
    run_ranks(size, large_and_unaligned, registered)


def premultiplied(rank, registered):
    size = dist.get_world_size()
    factors = [0.3 + 0.7 * other for other in range(size)]
    with memory(registered):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for count in (1, 6, 100, 5001):
                inputs = [values(count, dtype, other) for other in range(size)]
                x = inputs[rank].clone()
                dist.all_reduce(x, torch._C._distributed_c10d._make_nccl_premul_sum(factors[rank]))
                assert_bits(x, reduced(inputs, "PREMUL_SUM", factors), f"premultiplied {dtype} {count}")
        # The factor as a tensor.
        inputs = [values(77, torch.float64, other) for other in range(size)]
        x = inputs[rank].clone()
        factor = torch.tensor([factors[rank]], dtype=torch.float64)
        dist.all_reduce(x, torch._C._distributed_c10d._make_nccl_premul_sum(factor))
        assert_bits(x, reduced(inputs, "PREMUL_SUM", factors), "premultiplied by a tensor")


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
def test_premultiplied_sum(registered):
    run_ranks(3, premultiplied, registered)


def special_values(rank):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan if rank == 0 else 1.0, inf if rank == 1 else -inf, -0.0 if rank == 0 else 0.0])
    low, high, total = x.clone(), x.clone(), x.clone()
    dist.all_reduce(low, dist.ReduceOp.MIN)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(total)
    assert torch.isnan(low[0]) and torch.isnan(high[0]) and torch.isnan(total[0]) and torch.isnan(total[1])
    assert low[1] == -inf and high[1] == inf
    assert str(low[2].item()) == "-0.0" and str(high[2].item()) == "0.0"


def test_nan_and_zeros():
    run_ranks(2, special_values)


def not_contiguous(rank, registered):
    size = dist.get_world_size()
    inputs = [values(12 * 34, torch.float32, other).view(12, 34) for other in range(size)]
    expected = reduced(inputs, "SUM")
    with memory(registered):
        for asynchronous in (False, True):
            rows = torch.full((24, 34), -1.0)
            rows[::2] = inputs[rank]
            work = dist.all_reduce(rows[::2], async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert_bits(rows[::2].contiguous(), expected, "all_reduce of every second row")
            assert bool((rows[1::2] == -1).all()), "all_reduce wrote between the rows"

            turned = inputs[rank].t().contiguous().t()
            assert not turned.is_contiguous()
            work = dist.all_reduce(turned, async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert_bits(turned.contiguous(), expected, "all_reduce of a transposed tensor")

        # Whole and transposed tensors meet in one operation: elements count, not memory.
        mixed = inputs[rank].clone() if rank == 0 else inputs[rank].t().contiguous().t()
        dist.all_reduce(mixed)
        assert_bits(mixed.contiguous(), expected, "all_reduce of different layouts")

        # A lazily conjugated tensor's memory does not hold its elements. (Through the process group PyTorch itself
        # passes a copy of it.)
        conjugated = torch.complex(inputs[rank], inputs[rank] + 1).conj()
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([conjugated]).wait()
        imaginary = reduced([other + 1 for other in inputs], "SUM")
        assert_bits(conjugated.resolve_conj(), torch.complex(expected, -imaginary), "all_reduce of a conjugated tensor")


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
def test_not_contiguous(registered):
    run_ranks(2, not_contiguous, registered)


def lists(rank, registered):
    """reduce_scatter with a list: parts of different sizes, some empty."""
    size = dist.get_world_size()
    with memory(registered):
        for scale in (1, 10, 3001):
            counts = [scale * (other + 1) if other != 1 else 0 for other in range(size)]
            inputs = [[values(counts[to], torch.int32, other, seed=to) for to in range(size)] for other in range(size)]
            output = torch.full((counts[rank],), -1, dtype=torch.int32)
            dist.reduce_scatter(output, [part.clone() for part in inputs[rank]])
            expected = reduced([inputs[other][rank] for other in range(size)], "SUM")
            assert_bits(output, expected, f"reduce_scatter list {counts}")

            # In place: the output is the input of this rank.
            mine = [part.clone() for part in inputs[rank]]
            dist.reduce_scatter(mine[rank], mine)
            assert_bits(mine[rank], expected, f"reduce_scatter list in place {counts}")


@pytest.mark.parametrize("registered", [False, True], ids=["private", "registered"])
@pytest.mark.parametrize("size", [2, 3])
def test_lists(size, registered):
    run_ranks(size, lists, registered)


def coalesced(rank):
    size = dist.get_world_size()
    shapes = [(3,), (0,), (1000, 3), (17, 2, 5)]
    inputs = [[values(torch.Size(s).numel(), torch.float32, r, seed=i).view(s) for i, s in enumerate(shapes)]
              for r in range(size)]  # fmt: skip
    for asynchronous in (False, True):
        tensors = [tensor.clone() for tensor in inputs[rank]]
        with dist.distributed_c10d._coalescing_manager(async_ops=asynchronous) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        if asynchronous:
            manager.wait()
        for i, tensor in enumerate(tensors):
            assert_bits(tensor, reduced([inputs[r][i] for r in range(size)], "SUM"), f"coalesced all_reduce {i}")

        whole = [values(size * 50 * (i + 1), torch.float32, rank, seed=i) for i in range(3)]
        parts = [torch.empty(50 * (i + 1)) for i in range(3)]
        with dist.distributed_c10d._coalescing_manager(async_ops=asynchronous) as manager:
            for part, tensor in zip(parts, whole, strict=True):
                dist.reduce_scatter_single(part, tensor)
        if asynchronous:
            manager.wait()
        for i, part in enumerate(parts):
            count = 50 * (i + 1)
            every = [values(size * count, torch.float32, r, seed=i) for r in range(size)]
            assert_bits(part, reduced(every, "SUM")[rank * count : (rank + 1) * count], f"coalesced reduce_scatter {i}")


def test_coalesced():
    run_ranks(3, coalesced)


def sparse(rank):
    size = dist.get_world_size()
    inputs = []
    for other in range(size):
        # Ranks overlap in some places, and rank 1 holds nothing.
        count = 0 if other == 1 else 4 + other
        indices = torch.stack([torch.arange(count) * 2 % 7, torch.arange(count) + other])
        inputs.append(
            torch.sparse_coo_tensor(indices, values(3 * count, torch.float32, other).view(count, 3), (7, 20, 3))
        )
    expected = sum((tensor.to_dense() for tensor in inputs), torch.zeros(7, 20, 3))
    for asynchronous in (False, True):
        x = inputs[rank].clone()
        work = dist.all_reduce(x, async_op=asynchronous)
        if asynchronous:
            work.wait()
        assert x.is_sparse
        assert_bits(x.to_dense(), expected, "sparse all_reduce")


@pytest.mark.parametrize("size", [1, 2, 4])
def test_sparse(size):
    run_ranks(size, sparse)
