"""Groups of the backend `hccl`: several at once, split off others, beside a CPU backend, wrapped, and failing."""

import datetime
import re
import tempfile

import pytest
import torch
import torch.distributed as dist
from npu_ranks import backend_of, counts, here, npu_ranks, run_npu
from ranks import mark
from torch.distributed.device_mesh import init_device_mesh

import symccl
from symccl.npu._hccl import ProcessGroupHCCL


def total(x, group=None):
    dist.all_reduce(x, group=group)
    here(x)
    return x[-1].item()


def one(rank, count=70_001):
    return torch.full((count,), rank + 1.0, device="npu")


def several(rank):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    odd = dist.new_group([1, 3])
    mine = halves[rank // 2]
    assert total(one(rank), mine) == (3 if rank < 2 else 7)
    if rank % 2:
        assert total(one(rank), odd) == 6
    assert total(one(rank)) == 10
    work = [dist.all_reduce(one(rank), group=group, async_op=True) for group in (mine, dist.group.WORLD)]
    torch.npu.synchronize()
    assert all(each.is_completed() for each in work)
    names = {backend_of(group).get_hccl_comm_name(rank) for group in (mine, dist.group.WORLD)}
    assert len(names) == 2 and all(len(name) < 128 for name in names)
    assert backend_of()._get_stream_id() != backend_of(mine)._get_stream_id()
    dist.destroy_process_group(mine)
    assert total(one(rank)) == 10


def test_several_groups():
    run_npu(4, several)


def nested(rank, device_id):
    mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("outer", "inner"))
    for name, expected in (("inner", 3 if rank < 2 else 7), ("outer", 4 if rank % 2 == 0 else 6)):
        group = mesh.get_group(name)
        assert group.size() == 2 and total(one(rank), group) == expected
        assert isinstance(backend_of(group), ProcessGroupHCCL)
    flat = mesh._flatten("all").get_group()
    assert total(one(rank), flat) == 10
    deeper = dist.split_group(split_ranks=[[0, 1, 2], [3]]) if device_id else None
    if deeper is not None:
        assert total(one(rank), deeper) == (6 if rank < 3 else 4)
        assert dist.get_process_group_ranks(deeper) == ([0, 1, 2] if rank < 3 else [3])


@pytest.mark.parametrize("device_id", [False, True], ids=["", "device_id"])
def test_mesh(device_id):
    run_npu(4, nested, device_id, device_id=device_id)


def kept_options(rank):
    given = ProcessGroupHCCL.Options()
    given.hccl_config = {"hccl_buffer_size": 11}
    parts = dist.split_group(split_ranks=[[0, 1]], pg_options=given, timeout=datetime.timedelta(seconds=33))
    assert backend_of(parts).options.hccl_config == {"hccl_buffer_size": 11}
    assert backend_of(parts).options._timeout == datetime.timedelta(seconds=33)
    plain = dist.split_group(split_ranks=[[0, 1]])
    assert backend_of(plain).options.hccl_config == {"hccl_buffer_size": 5}  # the parent's
    assert total(one(rank), parts) == total(one(rank), plain) == 3


def test_split_keeps_options():
    given = ProcessGroupHCCL.Options()
    given.hccl_config = {"hccl_buffer_size": 5}
    run_npu(2, kept_options, device_id=True, init_options={"pg_options": given})


def beside(rank):
    assert total(one(rank)) == 3
    cpu = torch.full((70_001,), rank + 1.0)
    dist.all_reduce(cpu)
    assert cpu.device.type == "cpu" and cpu[-1].item() == 3
    assert isinstance(backend_of(), ProcessGroupHCCL)


@pytest.mark.parametrize("cpu", ["symccl", "gloo"])
def test_beside_a_cpu_backend(cpu):
    run_npu(2, beside, backend=f"cpu:{cpu},npu:hccl")


def default_backend(rank):
    assert isinstance(backend_of(), ProcessGroupHCCL) and total(one(rank)) == 3


def test_default_backend_of_npu():
    run_npu(2, default_backend, backend=None)


def cpu_tensor(rank):
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(3))
    assert total(one(rank)) == 3 and symccl.stats()["size"] == 2


def test_cpu_tensor():
    run_npu(2, cpu_tensor)


def detail(rank):
    assert "ProcessGroupWrapper" in type(backend_of()).__name__
    assert total(one(rank)) == 3
    out = torch.empty(2 * 70_001, device="npu")
    dist.all_gather_single(out, one(rank))
    assert out[-1].item() == 2
    pool = torch.npu.MemPool(backend_of().wrapped_pg.mem_allocator)
    symccl.register_mem_pool(None, pool)
    with torch.npu.use_mem_pool(pool):
        x = one(rank)
    assert total(x) == 3 and symccl.stats()["operations"]["all_reduce"]["zero_copy"] >= 1


def test_detail():
    run_npu(2, detail, detail_level=True)


def sequence(rank):
    backend = backend_of()
    backend._set_sequence_number_for_group()
    before = backend._get_sequence_number_for_group()
    for _ in range(3):
        total(one(rank))
    dist.all_reduce(one(rank), async_op=True).wait()
    assert backend._get_sequence_number_for_group() == before + 4


def test_sequence_numbers():
    run_npu(2, sequence)


def names(rank):
    backend = backend_of()
    name = backend.get_hccl_comm_name(rank)
    assert name == backend.get_hccl_comm_name(rank, init_comm=False)
    with pytest.raises(RuntimeError, match="length of the name must be between 1 and 127"):
        backend._set_hccl_comm_name("n" * 128)
    backend._set_hccl_comm_name("mine")
    backend._set_hccl_comm_name("mine")
    assert backend.get_hccl_comm_name(rank) == "mine"
    with pytest.raises(RuntimeError, match="already set the name .*hcclCommName:other, current hcclCommName:mine"):
        backend._set_hccl_comm_name("other")
    return name


def test_comm_name():
    first, second = run_npu(2, names)
    assert first == second


def direct(rank):
    """As serving engines do: a backend of their own on a store of their own."""
    store = dist.PrefixStore("own", dist.distributed_c10d._get_default_store())
    backend = ProcessGroupHCCL(store, rank, 2, ProcessGroupHCCL.Options())
    x = one(rank)
    backend.allreduce([x]).wait()
    assert x[-1].item() == 3
    timed = ProcessGroupHCCL(dist.PrefixStore("timed", store), rank, 2, timeout=datetime.timedelta(seconds=21))
    assert timed.options._timeout == datetime.timedelta(seconds=21)


def test_direct_construction():
    run_npu(2, direct)


def late(rank):
    backend_of()._set_default_timeout(datetime.timedelta(milliseconds=300))
    if rank == 1:
        mark("there")
        dist.distributed_c10d._get_default_store().wait(["seen"])
        return
    with pytest.raises(dist.DistBackendError, match=r"Timed out waiting 300ms.*rank 1"):
        total(one(rank))
    work = dist.all_reduce(one(rank), async_op=True)
    with pytest.raises(dist.DistBackendError):
        work.wait()
    dist.distributed_c10d._get_default_store().set("seen", "1")


def test_timeout_names_the_missing_rank():
    run_npu(2, late)


def dying(rank):
    total(one(rank))
    mark("ready")
    if rank == 2:
        dist.distributed_c10d._get_default_store().wait(["never"])
    work = dist.all_reduce(one(rank), async_op=True)
    torch.npu.synchronize()
    with pytest.raises(dist.DistBackendError) as caught:
        work.wait()
    x = torch.arange(5.0, device="npu")  # the process and its device live
    assert (x * 2).sum().item() == 20
    return str(caught.value)


def test_dead_rank_is_named():
    with tempfile.TemporaryDirectory() as folder, npu_ranks(folder, 3, dying) as ranks:
        for rank in range(3):
            ranks.wait_for(rank, "ready")
        ranks.kill(2)
        outcomes = ranks.join([0, 1])
    for outcome in outcomes:
        assert outcome.returned, outcome
        assert re.search(r"rank 2\b", outcome.value), outcome.value


def zero_copy_stats(rank):
    """The counters are found through the group, as for symccl."""
    total(one(rank))
    assert symccl.stats()["operations"]["all_reduce"]["staged"] == counts("all_reduce")["staged"] == 1


def test_stats():
    run_npu(2, zero_copy_stats)
