"""Every operation of the backend `hccl` on npu tensors: values against numpy, bit for bit; results on the device."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from npu_ranks import backend_of, here, run_npu
from reference import FLOATS, INTEGERS, OPS, kind_of, reduced, values

from symccl.npu import _hccl

SIZES = (2, 4)
COUNTS = (0, 1, 7, 1021, 70001)  # in the line, eager, staged


def npu(count, dtype, rank, seed=0):
    return values(count, dtype, rank, seed).npu()


def same(actual, expected):
    here(actual)
    assert torch.equal(actual.cpu().reshape(-1), expected.reshape(-1).to(actual.dtype)), (actual.cpu(), expected)


def every(size, count, dtype, seed=0):
    return [values(count, dtype, rank, seed) for rank in range(size)]


def reductions(rank, dtype):
    size = dist.get_world_size()
    for op in OPS[kind_of(dtype)]:
        for count in COUNTS:
            inputs, reduce_op = every(size, count, dtype), getattr(dist.ReduceOp, op)
            expected = reduced(inputs, op)
            x = inputs[rank].npu()
            dist.all_reduce(x, reduce_op)
            same(x, expected)
            x = inputs[rank].npu()
            dist.reduce(x, size - 1, reduce_op)
            if rank == size - 1:
                same(x, expected)
        wide = [values(size * 1021, dtype, each) for each in range(size)]
        expected = reduced(wide, op).chunk(size)[rank]
        out = torch.empty(1021, dtype=dtype, device="npu")
        dist.reduce_scatter_single(out, wide[rank].npu(), op=reduce_op)
        same(out, expected)
        out = torch.empty(1021, dtype=dtype, device="npu")
        dist.reduce_scatter(out, list(wide[rank].npu().chunk(size)), op=reduce_op)
        same(out, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64, torch.uint8, torch.bool], ids=str)
def test_reductions(size, dtype):
    run_npu(size, reductions, dtype)


def movement(rank):
    size = dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64, *INTEGERS[:2]):
        for count in COUNTS:
            inputs = every(size, count, dtype)
            mine = inputs[rank].npu()
            x = inputs[rank].npu()
            dist.broadcast(x, size - 1)
            same(x, inputs[size - 1])
            outs = [torch.empty(count, dtype=dtype, device="npu") for _ in range(size)]
            dist.all_gather(outs, mine)
            for out, expected in zip(outs, inputs, strict=True):
                same(out, expected)
            out = torch.empty(size * count, dtype=dtype, device="npu")
            dist.all_gather_single(out, mine)
            same(out, torch.cat(inputs))
            outs = [torch.empty(count, dtype=dtype, device="npu") for _ in range(size)] if rank == 1 else None
            dist.gather(mine, outs, dst=1)
            for out, expected in zip(outs or [], inputs, strict=rank == 1):
                same(out, expected)
            parts = every(size, count, dtype, seed=3)
            out = torch.empty(count, dtype=dtype, device="npu")
            dist.scatter(out, [part.npu() for part in parts] if rank == 0 else None, src=0)
            same(out, parts[rank])


@pytest.mark.parametrize("size", SIZES)
def test_movement(size):
    run_npu(size, movement)


def exchanged(rank):
    size = dist.get_world_size()
    for count in (1, 1021):
        sent = [[values(count, torch.float32, i, seed=j) for j in range(size)] for i in range(size)]
        expected = [sent[i][rank] for i in range(size)]
        outs = [torch.empty(count, device="npu") for _ in range(size)]
        dist.all_to_all(outs, [part.npu() for part in sent[rank]])
        for out, want in zip(outs, expected, strict=True):
            same(out, want)
        out = torch.empty(size * count, device="npu")
        dist.all_to_all_single(out, torch.cat(sent[rank]).npu())
        same(out, torch.cat(expected))

    counts = [[3 * i + 5 * j + (i != j) for j in range(size)] for i in range(size)]
    sent = [[values(counts[i][j], torch.float32, i, seed=j) for j in range(size)] for i in range(size)]
    expected = torch.cat([sent[i][rank] for i in range(size)])
    for matrix in (counts, sum(counts, []), torch.tensor(counts)):
        out = torch.empty(len(expected), device="npu")
        assert _hccl.all_to_all_vc(out, torch.cat(sent[rank]).npu(), matrix) is None
        same(out, expected)
    out = torch.empty(len(expected), device="npu")
    _hccl.all_to_all_vc(out, torch.cat(sent[rank]).npu(), counts, async_op=True).wait()
    same(out, expected)
    with pytest.raises(ValueError, match=f"has 3 entries, the group of {size} ranks needs {size * size}"):
        _hccl.all_to_all_vc(out, out, [1, 2, 3])


@pytest.mark.parametrize("size", SIZES)
def test_exchange(size):
    run_npu(size, exchanged)


def uneven(rank):
    size = dist.get_world_size()
    rows = [each * 7 % 5 for each in range(size)]
    inputs = [values(3 * rows[each], torch.float32, each).reshape(-1, 3) for each in range(size)]
    out = torch.empty(sum(rows), 3, device="npu")
    _hccl.all_gather_into_tensor_uneven(out, inputs[rank].npu(), rows)
    same(out, torch.cat(inputs))

    wide = [values(3 * sum(rows), torch.float32, each).reshape(-1, 3) for each in range(size)]
    expected = reduced(wide, "SUM").split(rows)[rank]
    out = torch.empty(rows[rank], 3, device="npu")
    work = _hccl.reduce_scatter_tensor_uneven(out, wide[rank].npu(), rows, async_op=True)
    work.wait()
    same(out, expected)
    even = torch.empty(size * 2, 3, device="npu")
    _hccl.all_gather_into_tensor_uneven(even, torch.full((2, 3), rank + 1.0, device="npu"))
    same(even, torch.arange(1.0, size + 1).repeat_interleave(6))
    with pytest.raises(RuntimeError, match="Split sizes doesn't match total dim 0 size"):
        _hccl.all_gather_into_tensor_uneven(even, out, [1] * (size - 1) + [50])
    with pytest.raises(RuntimeError, match="Number of tensor splits not equal to group size"):
        _hccl.all_gather_into_tensor_uneven(even, out, [1])


@pytest.mark.parametrize("size", SIZES)
def test_uneven(size):
    run_npu(size, uneven)


def messages(rank):
    size = dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (1, 1021, 300_001):
        mine, got = npu(count, torch.float32, rank), torch.empty(count, device="npu")
        if rank % 2 == 0:
            dist.send(mine, right, tag=5)
            dist.recv(got, left, tag=5)
        else:
            dist.recv(got, left, tag=5)
            dist.send(mine, right, tag=5)
        same(got, values(count, torch.float32, left))
        got = torch.empty(count, device="npu")
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got, left)])
        for work in works:
            work.wait()
        same(got, values(count, torch.float32, left))
    got = torch.empty(3, device="npu")
    if rank == 0:
        assert sorted(dist.recv(got) for _ in range(size - 1)) == list(range(1, size))
        here(got)
    else:
        dist.send(npu(3, torch.float32, rank), 0)


@pytest.mark.parametrize("size", SIZES)
def test_messages(size):
    run_npu(size, messages)


def batched(rank):
    size = dist.get_world_size()
    xs = [npu(count, torch.float32, rank, seed=count) for count in COUNTS]
    with dist._coalescing_manager(device=torch.device("npu", rank), async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    for x, count in zip(xs, COUNTS, strict=True):
        same(x, reduced(every(size, count, torch.float32, seed=count), "SUM"))
    backend = backend_of()
    backend._group_start()
    ys = [npu(count, torch.float32, rank) for count in COUNTS]
    outs = [torch.empty(size * count, device="npu") for count in COUNTS]
    for y, out in zip(ys, outs, strict=True):
        dist.all_gather_single(out, y)
    backend._group_end()
    torch.npu.synchronize()
    for out, count in zip(outs, COUNTS, strict=True):
        same(out, torch.cat(every(size, count, torch.float32)))


@pytest.mark.parametrize("size", SIZES)
def test_batches(size):
    run_npu(size, batched)


def objects(rank):
    size = dist.get_world_size()
    mine = {"rank": rank, "list": list(range(rank)), "tensor": torch.arange(3.0) * rank}
    gathered = [None] * size
    dist.all_gather_object(gathered, mine)
    assert [each["rank"] for each in gathered] == list(range(size)) and len(gathered[-1]["list"]) == size - 1
    sent = [mine, rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(sent, src=1, device=torch.device("npu", rank))
    assert sent[1] == 1 and sent[0]["rank"] == 1 and sent[0]["tensor"].tolist() == [0, 1, 2]
    out = [None]
    dist.scatter_object_list(out, [f"for {each}" for each in range(size)] if rank == 0 else None, src=0)
    assert out == [f"for {rank}"]


@pytest.mark.parametrize("size", SIZES)
def test_objects(size):
    run_npu(size, objects)


def functions(rank):
    size = dist.get_world_size()
    group = dist.group.WORLD
    inputs = every(size, 12, torch.float32)
    mine = inputs[rank].npu()
    same(functional.all_reduce(mine, "sum", group).wait(), reduced(inputs, "SUM"))
    same(functional.all_gather_tensor(mine, 0, group).wait(), torch.cat(inputs))
    same(functional.reduce_scatter_tensor(mine, "sum", 0, group).wait(), reduced(inputs, "SUM").chunk(size)[rank])
    same(functional.broadcast(mine, 1, group).wait(), inputs[1])
    swapped = functional.all_to_all_single(mine, None, None, group).wait()
    same(swapped, torch.cat([each.chunk(size)[rank] for each in inputs]))
    x = mine.clone().requires_grad_()
    functional.all_gather_tensor_autograd(x, 0, group).square().sum().backward()
    same(x.grad, 2 * size * inputs[rank])


@pytest.mark.parametrize("size", SIZES)
def test_functional(size):
    run_npu(size, functions)
