"""What the profiler shows of operations."""

import json

import torch
import torch.distributed as dist
from ranks import run_ranks
from torch.profiler import ProfilerActivity, profile

TITLES = "broadcast all_reduce reduce all_gather gather scatter all_to_all all_gather_into_tensor reduce_scatter_tensor"


def profiled(rank, path):
    size = dist.get_world_size()
    x, whole = torch.ones(10), torch.ones(10 * size)
    parts = [torch.ones(10) for _ in range(size)]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.broadcast(x, 0)
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.reduce(x, 0)
        dist.all_gather(parts, x)
        dist.gather(x, parts if rank == 0 else None)
        dist.scatter(x, parts if rank == 0 else None)
        dist.all_to_all_single(whole, whole.clone())
        dist.all_gather_single(whole, x)
        dist.reduce_scatter_single(x, whole)
        dist.barrier()
        if rank == 0:
            dist.send(x, 1)
            dist.recv(x, 1)
        else:
            dist.recv(x)
            dist.send(x, 0)
    names = [event.name for event in profiler.events()]
    for title in [*TITLES.split(), "barrier", "send", "recv" if rank == 0 else "recvAnySource"]:
        assert f"symccl:{title}" in names, (title, sorted(set(names)))
    assert names.count("symccl:all_reduce") == 2
    reduced = [event for event in profiler.events() if event.name == "symccl:all_reduce"]
    assert all(event.input_shapes == [[10]] for event in reduced), [event.input_shapes for event in reduced]

    profiler.export_chrome_trace(f"{path}.{rank}")
    with open(f"{path}.{rank}") as file:
        trace = json.load(file)
    calls = [event["args"] for event in trace["traceEvents"] if event.get("name") == "record_param_comms"]
    assert len(calls) >= 13
    first = next(call for call in calls if call["Collective name"] == "broadcast")
    assert first["In msg nelems"] == 10 and first["Out msg nelems"] == 10 and first["Group size"] == size
    assert first["dtype"] == "Float" and first["Process Group Name"] == dist.group.WORLD.group_name
    sequences = [call["Seq"] for call in calls if call.get("Seq", -1) >= 0]
    assert sequences[:3] == [1, 2, 3]


def test_profiler(tmp_path):
    run_ranks(2, profiled, str(tmp_path / "trace"))
