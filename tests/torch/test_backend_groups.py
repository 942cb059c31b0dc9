"""Sequence numbers, options, splits, and the life of groups up to the interpreter's exit."""

import copy
import datetime
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

import symccl

CPU = torch.device("cpu")


def backend_of(group=None):
    return (group or dist.group.WORLD)._get_backend(CPU)


def seconds(number):
    return datetime.timedelta(seconds=number)


def sequence_numbers(rank):
    backend = backend_of()
    assert backend._get_sequence_number_for_group() == 0
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    dist.all_reduce_coalesced([torch.ones(3), torch.ones(4)])
    dist.barrier()
    assert backend._get_sequence_number_for_group() == 4
    with pytest.raises(ValueError):
        dist.group.WORLD.allreduce([torch.ones(3), torch.ones(3)])
    assert backend._get_sequence_number_for_group() == 4, "a refused call used a number"
    backend._set_sequence_number_for_group()
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()


def test_sequence_numbers():
    run_ranks(2, sequence_numbers)


def options(rank):
    backend = backend_of()
    assert backend.options.global_ranks_in_group == list(range(dist.get_world_size()))
    assert backend.options.group_name == dist.group.WORLD.group_name
    assert backend.options._timeout == seconds(77)
    dist.group.WORLD.set_timeout(seconds(55))
    assert backend.options._timeout == seconds(55)
    backend._set_default_timeout(seconds(44))
    assert backend.options._timeout == seconds(44)
    with pytest.raises(ValueError, match="positive"):
        backend._set_default_timeout(seconds(0))
    twin = copy.deepcopy(backend.options)
    assert twin._timeout == seconds(44) and twin is not backend.options
    group = dist.new_group([1], timeout=seconds(33), pg_options=symccl.Options())
    if rank == 1:
        assert backend_of(group).options.global_ranks_in_group == [1]
        assert backend_of(group).options._timeout == seconds(33)
    assert backend.name() == "symccl" and backend.supports_coalescing and backend.supports_splitting
    assert backend.supports_tensor_alloc(CPU)
    assert backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    assert backend.pids()[rank] == os.getpid()


def test_options():
    run_ranks(2, options, group_timeout=77)


def splits(rank):
    child = dist.group.WORLD.split_group([2, 0], seconds(30), None, "child", None)
    assert (child is None) == (rank == 1)
    if child is not None:
        x = torch.full((3,), float(rank))
        child.allreduce([x]).wait()
        assert x[0].item() == 2
        assert backend_of(child).options.global_ranks_in_group == [0, 2]
    dist.barrier()


def test_split_group():
    run_ranks(3, splits)


def merges(rank, path):
    """Two groups of one rank each become one of two."""
    dist.init_process_group("symccl", init_method=f"file://{path}.{rank}", rank=0, world_size=1)
    store = dist.FileStore(f"{path}.both", 2)
    both = dist.group.WORLD.merge_remote_group(store, 2, seconds(30), "both", "both")
    x = torch.full((3,), float(rank + 1))
    both.allreduce([x]).wait()
    assert both.size() == 2 and x[0].item() == 3


def test_merge_remote_group(tmp_path):
    run_ranks(2, merges, str(tmp_path / "store"), init=False)


def completion_hook(rank):
    seen = []
    dist.group.WORLD._register_on_completion_hook(seen.append)
    assert dist.group.WORLD._has_hooks()
    dist.all_reduce(torch.ones(1000))
    dist.broadcast(torch.ones(1000), 0, async_op=True).wait()
    dist.barrier()
    dist.group.WORLD._wait_for_pending_works()
    # The thread that drives an operation tells of its end, so two ends may be told in either order.
    told = sorted((info.seq, info.op_type.name) for info in seen)
    assert told == [(1, "ALLREDUCE"), (2, "BROADCAST"), (3, "BARRIER")]
    assert all(info.time_finished >= info.time_started for info in seen)


def test_completion_hook():
    run_ranks(2, completion_hook)


def memory_stats(rank):
    pool = symccl.MemPool()
    symccl.register_mem_pool(None, pool)
    with symccl.use_mem_pool(pool):
        x = torch.ones(1 << 20)
    stats = backend_of().memory_stats
    stats = stats() if callable(stats) else stats
    assert stats["registered_bytes"] == sum(segment["total_size"] for segment in pool.snapshot())
    assert stats["heap_bytes"] > stats["heap_peak"] >= stats["heap_used"] >= stats["registered_bytes"]
    del x


def test_memory_stats():
    run_ranks(2, memory_stats)


def again_and_again(rank):
    """Groups come and go, WORLD too, in one process."""
    for i in range(3):
        for _ in range(5):
            group = dist.new_group([0, 1])
            x = torch.full((5,), float(rank + i))
            dist.all_reduce(x, group=group)
            assert x[0].item() == 2 * i + 1
            dist.destroy_process_group(group)
        dist.destroy_process_group()
        path = f"{os.environ['RENDEZVOUS']}.{i}"
        dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=2)


def test_again_and_again(tmp_path):
    run_ranks(2, again_and_again, environment={"RENDEZVOUS": str(tmp_path / "file")})


def allocates_tensors(rank):
    backend = backend_of()
    x = backend.allocate_tensor(1000, dtype=torch.float32, device=CPU)
    assert x.numel() == 1000 and symccl.is_symmetric(x)
    x.fill_(rank + 1)
    dist.all_reduce(x)
    assert x[0].item() == 3
    with pytest.raises(ValueError, match="cpu"):
        backend.allocate_tensor(10, dtype=torch.float32, device=torch.device("meta"))


def test_allocates_tensors():
    run_ranks(2, allocates_tensors)


EXIT_SCRIPT = """
import sys, torch, torch.distributed as dist, symccl
rank, path, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("symccl", init_method="file://" + path, rank=rank, world_size=2)
group = dist.new_group([0, 1])
pool = symccl.MemPool()
symccl.register_mem_pool(None, pool)
with symccl.use_mem_pool(pool):
    x = torch.ones(100000)
dist.all_reduce(x)
work = dist.all_reduce(x, async_op=True)
work.get_future().then(lambda future: None)
work.wait()
pending = dist.isend(torch.ones(10), 1 - rank)
if how == "destroy":
    dist.destroy_process_group()
elif how == "raise":
    raise SystemExit(3)
"""


@pytest.mark.parametrize("how, code", [("plain", 0), ("destroy", 0), ("raise", 3)])
def test_exit(tmp_path, how, code):
    """The interpreter ends by itself, with or without destroy_process_group, and prints nothing."""
    command = [sys.executable, "-c", EXIT_SCRIPT]
    processes = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), how], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == code, errors
            assert "Traceback" not in errors and "symccl" not in errors and "terminate" not in errors, errors
    finally:
        for process in processes:
            process.kill()
