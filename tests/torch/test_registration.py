"""Registration of pools, and the path that operations take."""

import gc
import os
import tempfile

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from reference import assert_bits, reduced, values

import symccl

CPU = torch.device("cpu")


def paths(kind, group=None):
    counters = symccl.stats(group)["operations"].get(kind, {})
    return {name: counters.get(name, 0) for name in ("inlined", "eager", "zero_copy", "staged")}


def registration(rank):
    backend = dist.group.WORLD._get_backend(CPU)
    pool = symccl.MemPool(backend.mem_allocator)
    with symccl.use_mem_pool(pool):
        before = values(100000, torch.float32, rank)
    assert not symccl.is_symmetric(before)

    with pytest.raises(RuntimeError, match="only symm=True"):
        backend.register_mem_pool(pool)
    with pytest.raises(RuntimeError, match="Trying to unregister a pool that was not previously registered"):
        backend.deregister_mem_pool(pool)
    backend.register_mem_pool(pool, symm=True)
    backend.register_mem_pool(pool, symm=True)
    with symccl.use_mem_pool(pool):
        after = values(3 << 20, torch.float32, rank)  # a segment of its own, which comes after the registration
    outside = values(100000, torch.float32, rank)
    assert symccl.is_symmetric(before) and symccl.is_symmetric(after[5:]) and not symccl.is_symmetric(outside)
    stats = symccl.stats()
    assert stats["registered_segments"] == 2 and stats["registered_bytes"] == (2 << 20) + (12 << 20)

    for x, path in ((before, "zero_copy"), (after, "zero_copy"), (outside, "staged")):
        count = paths("all_reduce")
        expected = reduced([values(x.numel(), torch.float32, other) for other in range(2)], "SUM")
        dist.all_reduce(x)
        assert_bits(x, expected, path)
        assert paths("all_reduce") == {**count, path: count[path] + 1}

    # A segment that goes is no longer registered; one that comes is.
    del after
    gc.collect()
    pool.trim()
    assert symccl.stats()["registered_segments"] == 1

    backend.deregister_mem_pool(pool)
    assert not symccl.is_symmetric(before) and symccl.stats()["registered_segments"] == 0
    count = paths("all_reduce")
    dist.all_reduce(before)
    assert paths("all_reduce")["staged"] == count["staged"] + 1
    with pytest.raises(RuntimeError, match="not previously registered"):
        backend.deregister_mem_pool(pool)


def test_registration():
    run_ranks(2, registration)


def mixed(rank):
    """Registered on one rank only: staged, with the same bits."""
    pool = symccl.MemPool()
    if rank == 0:
        symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        x = values(50000, torch.float32, rank)
    dist.all_reduce(x)
    assert_bits(x, reduced([values(50000, torch.float32, other) for other in range(2)], "SUM"), "mixed")
    stats = symccl.stats()
    assert paths("all_reduce") == {"inlined": 0, "eager": 0, "zero_copy": 0, "staged": 1}
    assert stats["staged_send_private"] + stats["staged_recv_private"] >= 1


def test_mixed():
    run_ranks(2, mixed)


def every_operation_in_place(rank):
    """The four operations of the RFC, and the others, touch no staging when every tensor is registered."""
    size = dist.get_world_size()
    pool = symccl.MemPool()
    symccl.register_mem_pool(None, pool)
    count = 60000
    with symccl.use_mem_pool(pool):
        x, whole, other_whole = torch.ones(count), torch.ones(count * size), torch.empty(count * size)
        parts, received = [torch.ones(count) for _ in range(size)], [torch.empty(count) for _ in range(size)]
    dist.all_reduce(x)
    dist.reduce(x, 1)
    dist.broadcast(x, 0)
    dist.all_gather_single(whole, x)
    dist.reduce_scatter_single(x, whole)
    dist.all_to_all_single(other_whole, whole)
    dist.all_gather(received, x)
    dist.reduce_scatter(x, parts)
    dist.all_to_all(received, parts)
    dist.gather(x, received if rank == 0 else None)
    dist.scatter(x, parts if rank == 0 else None)
    for kind, counters in symccl.stats()["operations"].items():
        assert counters["staged"] == 0, kind
    assert sum(counters["zero_copy"] for counters in symccl.stats()["operations"].values()) == 11


def test_every_operation_in_place():
    # Staging that cannot be touched proves it.
    run_ranks(3, every_operation_in_place, environment={"SYMCCL_TEST_STAGING": "inaccessible"})


def several_groups(rank):
    """Registration is of (group, pool): one pool may serve some groups and not others."""
    pool = symccl.MemPool()
    with symccl.use_mem_pool(pool):
        x = torch.full((50000,), float(rank))
    group = dist.new_group([0, 1])
    symccl.register_mem_pool(group, pool)
    assert symccl.is_symmetric(x, group) and not symccl.is_symmetric(x)
    dist.all_reduce(x, group=group)
    dist.all_reduce(x)
    assert paths("all_reduce", group)["zero_copy"] == 1 and paths("all_reduce")["zero_copy"] == 0
    dist.destroy_process_group(group)
    assert x[0].item() == 2
    with pytest.raises(Exception, match="destroyed|group"):
        symccl.is_symmetric(x, group)


def test_several_groups():
    run_ranks(2, several_groups)


def without_a_launcher(rank, pool_first):
    """Nobody says which device is whose: the rank does, unless a pool has made the heap before."""
    pool = symccl.MemPool() if pool_first else None
    path = os.environ["RENDEZVOUS"]
    dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=2)
    assert symccl.stats()["symmetric"] or pool_first
    pool = pool or symccl.MemPool()
    symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        x = values(50000, torch.float32, rank)
    dist.all_reduce(x)
    assert_bits(x, reduced([values(50000, torch.float32, other) for other in range(2)], "SUM"), "without a launcher")
    assert paths("all_reduce")["zero_copy"] == 1


@pytest.mark.parametrize("pool_first", [False, True], ids=["group first", "pool first"])
def test_without_a_launcher(tmp_path, pool_first):
    none = dict.fromkeys(["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"])
    environment = {**none, "RENDEZVOUS": str(tmp_path / "store")}
    run_ranks(2, without_a_launcher, pool_first, init=False, environment=environment)


def verify(rank):
    pool = symccl.MemPool()
    with symccl.use_mem_pool(pool):
        x = torch.empty(100)
    symccl.verify_pool(None, pool)
    with symccl.use_mem_pool(pool):
        y = torch.empty((20 if rank == 2 else 15) << 20, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=r"rank 0 has 2 segments of \[2097152, 16777216\].*rank 2 has .*20971520"):
        symccl.verify_pool(None, pool)
    dist.barrier()  # the group stays usable
    del x, y


def test_verify_pool():
    run_ranks(3, verify)


def not_ours(rank):
    pool = symccl.MemPool()
    gloo = dist.new_group([0, 1], backend="gloo")
    with pytest.raises(TypeError, match="not 'symccl'"):
        symccl.register_mem_pool(gloo, pool)
    with pytest.raises(TypeError, match="member"):
        symccl.stats("group")
    single = dist.new_group([1])
    if rank == 0:
        with pytest.raises(TypeError, match="member"):
            symccl.stats(single)
    with pytest.raises(TypeError):
        dist.group.WORLD._get_backend(CPU).register_mem_pool(object(), symm=True)
    dist.barrier()  # gloo does not bear that a rank goes while another still connects


def test_not_ours():
    run_ranks(2, not_ours)


def detail(rank):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps the backend; the package's functions look inside."""
    backend = dist.group.WORLD._get_backend(CPU)
    assert not hasattr(backend, "register_mem_pool")
    pool = symccl.MemPool(backend.mem_allocator)
    symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        x = torch.full((50000,), rank + 1.0)
    dist.all_reduce(x)
    assert x[0].item() == 3
    assert paths("all_reduce")["zero_copy"] >= 1
    symccl.deregister_mem_pool(None, pool)


def test_debug_detail():
    def body(rank):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        path = os.environ["RENDEZVOUS"]
        dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=2)
        detail(rank)

    with tempfile.TemporaryDirectory() as directory:
        run_ranks(2, body, init=False, environment={"RENDEZVOUS": directory + "/store"})
