"""TORCH_DISTRIBUTED_DEBUG=DETAIL: PyTorch wraps the backend and checks each call with a second group, of gloo's."""

import pytest
import torch
import torch.distributed as dist
from against_gloo import EXACT
from ranks import run_ranks
from test_ddp import plain
from test_fsdp import fp32

import symccl


def under_detail(rank, path, size, fn, args):
    # The variable is read when torch is loaded, which was long ago.
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=size)
    assert "ProcessGroupWrapper" in type(backend()).__name__
    return fn(rank, *args)


def run_under_detail(path, size, fn, *args):
    return run_ranks(size, under_detail, str(path / "rendezvous"), size, fn, args, init=False)


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("train", [plain, fp32], ids=["ddp", "fsdp"])
def test_training(tmp_path, size, train):
    checked, unchecked = run_under_detail(tmp_path, size, train, {}), run_ranks(size, train, {})
    torch.testing.assert_close(checked, unchecked, **EXACT)


def collectives(rank, size):
    x = torch.arange(5.0) + 10 * rank
    total = sum(torch.arange(5.0) + 10 * other for other in range(size))
    reduced, parts = x.clone(), [torch.zeros(5) for _ in range(size)]
    dist.all_reduce(reduced)
    assert torch.equal(reduced, total)
    dist.all_gather(parts, x)
    assert all(torch.equal(part, torch.arange(5.0) + 10 * other) for other, part in enumerate(parts))
    exchanged = torch.zeros(size)
    dist.all_to_all_single(exchanged, torch.arange(float(size)) + 100 * rank)
    assert torch.equal(exchanged, torch.arange(float(size)) * 100 + rank)
    received = torch.zeros(5)
    works = [dist.isend(x, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert torch.equal(received, torch.arange(5.0) + 10 * ((rank - 1) % size))
    objects = [None] * size
    dist.all_gather_object(objects, f"rank {rank}")
    assert objects == [f"rank {other}" for other in range(size)]
    group = dist.new_group([0, 1])
    if rank < 2:
        y = x.clone()
        dist.all_reduce(y, group=group)
        assert torch.equal(y, 2 * torch.arange(5.0) + 10)
    dist.barrier()


@pytest.mark.parametrize("size", [2, 4])
def test_collectives(tmp_path, size):
    run_under_detail(tmp_path, size, collectives, size)


def with_pool(rank):
    """The wrapper hides the backend's own functions; symccl's, which take the group, find it."""
    pool = symccl.MemPool(backend().mem_allocator)
    symccl.register_mem_pool(dist.group.WORLD, pool)
    with symccl.use_mem_pool(pool):
        x = torch.arange(100_000.0) + rank
    assert symccl.is_symmetric(x, dist.group.WORLD)
    dist.all_reduce(x)
    assert torch.equal(x, 2 * torch.arange(100_000.0) + 1)
    counts = symccl.stats(dist.group.WORLD)["operations"]["all_reduce"]
    symccl.deregister_mem_pool(dist.group.WORLD, pool)
    return counts["zero_copy"], counts["staged"]


def test_pool(tmp_path):
    assert run_under_detail(tmp_path, 2, with_pool) == [(1, 0), (1, 0)]


def mismatch(rank):
    with pytest.raises(RuntimeError, match="[Dd]etected mismatch") as caught:
        dist.all_reduce(torch.ones(3 + rank))
    return str(caught.value)


def test_mismatch_is_found(tmp_path):
    for text in run_under_detail(tmp_path, 2, mismatch):
        assert "ALLREDUCE" in text
