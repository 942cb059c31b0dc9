"""Pools of the backend `hccl`: registered memory is used in place; what is refused, with torch_npu's words."""

import pytest
import torch
import torch.distributed as dist
from npu_ranks import backend_of, counts, here, run_npu
from reference import reduced, values

import symccl
from symccl.npu._hccl import ProcessGroupHCCL

COUNT = 70_001


def in_place(rank):
    size = dist.get_world_size()
    backend = backend_of()
    pool = torch.npu.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool, symm=True)
    backend.register_mem_pool(pool, symm=True)  # twice is once
    inputs = [values(COUNT, torch.float32, each) for each in range(size)]
    with torch.npu.use_mem_pool(pool, device=torch.device("npu", rank)):
        x = inputs[rank].npu()
        y = x * 2  # an operator's result
        wide = torch.empty(size * COUNT, device="npu")
        part = torch.empty(COUNT, device="npu")
    assert backend.is_symmetric(x) and backend.is_symmetric(y) and not backend.is_symmetric(torch.ones(3, device="npu"))
    assert symccl.is_symmetric(x) and symccl.stats()["registered_segments"] > 0

    dist.all_reduce(x)
    assert torch.equal(x.cpu(), reduced(inputs, "SUM"))
    dist.all_reduce(y, async_op=True)
    torch.npu.synchronize()
    assert torch.equal(y.cpu(), reduced([2 * each for each in inputs], "SUM"))
    assert (counts("all_reduce")["zero_copy"], counts("all_reduce")["staged"]) == (2, 0)

    dist.all_gather_single(wide, part.copy_(inputs[rank]))
    assert torch.equal(wide.cpu(), torch.cat(inputs)) and counts("all_gather")["zero_copy"] == 1
    dist.reduce_scatter_single(part, wide)
    assert torch.equal(part.cpu(), size * inputs[rank]) and counts("reduce_scatter")["zero_copy"] == 1
    dist.all_to_all_single(wide, torch.cat(inputs).npu())  # a private input
    assert torch.equal(wide.cpu(), inputs[rank].repeat(size))

    backend.deregister_mem_pool(pool)
    dist.all_reduce(x)
    assert counts("all_reduce")["zero_copy"] == 2 and not backend.is_symmetric(x)
    with pytest.raises(RuntimeError, match="Trying to unregister a pool that was not previously registered.*rank "):
        backend.deregister_mem_pool(pool)


@pytest.mark.parametrize("size", [2, 4])
def test_registered_memory_is_used_in_place(size):
    run_npu(size, in_place)


def grows(rank):
    """Segments that a pool takes after its registration are registered too."""
    backend = backend_of()
    pool = torch.npu.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool, symm=True)
    before = backend.stats()["registered_segments"]
    with torch.npu.use_mem_pool(pool):
        xs = [torch.full((3 << 20,), rank + 1.0, device="npu") for _ in range(3)]
    assert backend.stats()["registered_segments"] == before + 3
    for x in xs:
        dist.all_reduce(x)
        assert x[-1].item() == 3
    assert counts("all_reduce")["zero_copy"] == 3


def test_pool_grows():
    run_npu(2, grows)


def refusals(rank):
    backend = backend_of()
    pool = torch.npu.MemPool(backend.mem_allocator)
    with pytest.raises(RuntimeError, match=r"non-symmetric segment registration \(symmetric=false\) is not supported"):
        backend.register_mem_pool(pool)
    with pytest.raises(RuntimeError, match=rf"symmetric=true\. *\(rank {rank} of group '0'\)"):
        backend.register_mem_pool(pool, symm=False)
    with pytest.raises(RuntimeError, match=rf"was not previously registered \(rank {rank} of group '0'\)"):
        backend.deregister_mem_pool(pool)
    other = torch.device("npu", 1 - rank)
    with torch.npu.device(other):
        foreign = torch.npu.MemPool()
    with pytest.raises(ValueError, match="device"):
        backend.register_mem_pool(foreign, symm=True)
    with pytest.raises(TypeError):
        backend.register_mem_pool("pool", symm=True)
    with pytest.raises(TypeError, match="allocator"):
        torch.npu.MemPool("allocator")
    backend.shutdown()
    with pytest.raises(dist.DistBackendError, match="HCCL communicator has not been initialized before mem pool creat"):
        backend.register_mem_pool(pool, symm=True)
    with pytest.raises(dist.DistBackendError, match="has not been initialized before mem pool deregistration"):
        backend.deregister_mem_pool(pool)


def test_refusals():
    run_npu(2, refusals)


def limited(rank):
    backend = backend_of()
    pool = torch.npu.MemPool(backend.mem_allocator)
    with torch.npu.use_mem_pool(pool):
        big = torch.empty(700 << 20, dtype=torch.uint8, device="npu")
    backend.register_mem_pool(pool, symm=True)
    more = torch.npu.MemPool(backend.mem_allocator)
    with torch.npu.use_mem_pool(more):
        other = torch.empty(700 << 20, dtype=torch.uint8, device="npu")
    with pytest.raises(RuntimeError, match="the most is 1073741824 .*hccl_sym_win_max_mem_size_per_rank"):
        backend.register_mem_pool(more, symm=True)
    backend.register_mem_pool(pool, symm=True)  # again: nothing is added
    backend.deregister_mem_pool(pool)
    backend.register_mem_pool(more, symm=True)
    assert big.numel() == other.numel()


def test_most_that_may_be_registered():
    options = ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_sym_win_max_mem_size_per_rank": 1}
    run_npu(2, limited, init_options={"pg_options": options})


def window(rank):
    backend = backend_of()
    with pytest.raises(RuntimeError, match="window memory must be registered before get"):
        backend._get_window_mem()
    with pytest.raises(RuntimeError, match="Window memory must be greater than 0"):
        backend._window_register_and_exchange(0, [1 - rank])
    with pytest.raises(ValueError, match="peer rank 7 is not in the group of 2 ranks"):
        backend._window_register_and_exchange(64, [7])
    backend._window_register_and_exchange(100_003, [1 - rank])
    memory = backend._get_window_mem()
    here(memory)
    assert memory.dtype == torch.int8 and memory.shape == (100_003,) and backend.is_symmetric(memory)
    with pytest.raises(RuntimeError, match="Window memory cannot be registered repeatedly"):
        backend._window_register_and_exchange(64, [1 - rank])
    memory.copy_(values(100_003, torch.int8, rank))
    dist.all_reduce(memory, dist.ReduceOp.MAX)
    assert torch.equal(memory.cpu(), reduced([values(100_003, torch.int8, each) for each in range(2)], "MAX"))
    assert counts("all_reduce")["zero_copy"] == 1


def test_window():
    run_npu(2, window)


def from_group(rank):
    backend = backend_of()
    assert backend.supports_tensor_alloc(torch.device("npu", rank))
    x = backend.allocate_tensor(1000, dtype=torch.float32, device=torch.device("npu", rank))
    here(x)
    assert x.dtype == torch.float32 and backend.is_symmetric(x)
    with pytest.raises(ValueError, match="device is cpu"):
        backend.allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    assert not backend.is_symmetric(torch.empty(1000, device="npu"))


def test_memory_from_the_group():
    run_npu(2, from_group)
