"""Whole programs on npu and hccl: the demo of the project's first document, started in every way; examples; exits."""

import concurrent.futures
import json
import pathlib
import re
import socket
import sys

import pytest
from launched import TORCHRUN, run, write

from symccl.npu import _activate

ROOT = pathlib.Path(__file__).resolve().parents[3]
NPU = [sys.executable, "-m", "symccl.npu"]
LINE = "AllReduce 校验通过，结果为 {}"

# The demo lies beside a clone where the project is developed; elsewhere these are its steps.
DOCUMENT = ROOT.parent / "shared" / "seeds" / "hccl_symm_pool_demo.py"
OWN_DEMO = """
    import os
    import torch, torch_npu
    import torch.distributed as dist

    device = torch.device("npu", int(os.environ["LOCAL_RANK"]))
    torch.npu.set_device(device)
    dist.init_process_group("hccl")
    dist.all_reduce(torch.ones(8, device=device))
    torch.npu.synchronize(device)

    hccl = dist.group.WORLD._get_backend(device)
    pool = torch_npu.npu.MemPool(hccl.mem_allocator)
    hccl.register_mem_pool(pool, symm=True)
    with torch_npu.npu.use_mem_pool(pool, device=device):
        x = torch.full((1024,), dist.get_rank() + 1.0, device=device)
    dist.all_reduce(x)
    torch.npu.synchronize(device)
    size = dist.get_world_size()
    assert torch.equal(x.cpu(), torch.full((1024,), size * (size + 1) / 2))
    if dist.get_rank() == 0:
        print(f"AllReduce 校验通过，结果为 {x[0].item()}")
    dist.barrier()
    torch.npu.synchronize(device)
    hccl.deregister_mem_pool(pool)
    del x, pool
    dist.destroy_process_group()
"""


def demo(folder):
    return str(DOCUMENT) if DOCUMENT.exists() else write(folder, OWN_DEMO, "demo.py")


def separately(size, script, **environment):
    """Starts every rank by itself, as a batch system does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)} | environment
    with concurrent.futures.ThreadPoolExecutor(size) as pool:
        started = [
            pool.submit(run, *NPU, script, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), **shared)
            for rank in range(size)
        ]
        return "".join(each.result().stdout + each.result().stderr for each in started)


def torchrun(size, script, **environment):
    result = run(*TORCHRUN, f"--nproc_per_node={size}", "-m", "symccl.npu", script, **environment)
    return result.stdout + result.stderr


def documents_command(size, script, **environment):
    command = [*TORCHRUN, f"--nproc_per_node={size}", script]
    result = run(*command, PYTHONPATH=str(_activate.SHIM), **environment)
    return result.stdout + result.stderr


def wrapped(size, script, **environment):
    command = [*NPU, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={size}", script]
    result = run(*command, **environment)
    return result.stdout + result.stderr


@pytest.mark.parametrize("form", [separately, torchrun, documents_command, wrapped])
@pytest.mark.parametrize("size", [2, 8])
def test_demo(size, form, tmp_path):
    """It prints the document's line, and its all-reduce in the pool was zero-copy on every rank."""
    out = form(size, demo(tmp_path), SYMCCL_DEBUG="trace")
    assert out.count(LINE.format(size * (size + 1) / 2)) == 1, out
    paths = re.findall(r"all_reduce \d+ type float32 count 1024 path (\S+)", out)
    assert paths == ["zero-copy"] * size, out


def test_demo_outside_of_torchrun(tmp_path):
    """One rank is a group too."""
    assert LINE.format(1.0) in separately(1, demo(tmp_path))


UNFINISHED = """
    import os
    import torch, torch_npu
    import torch.distributed as dist

    rank = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    x = torch.full((300_001,), rank + 1.0, device="npu")
    works = [dist.all_reduce(x, async_op=True) for _ in range(5)]
    {end}
    os.write(1, f"rank {{rank}} {{x[-1].item():.0f}}\\n".encode())
"""


@pytest.mark.parametrize("end", ["torch.npu.synchronize()", "works[-1].wait(); kept = works[-1].get_future()"])
def test_exit_without_destroy(end, tmp_path):
    script = write(tmp_path, UNFINISHED.format(end=end))
    result = run(*TORCHRUN, "--nproc_per_node=2", "-m", "symccl.npu", script)
    assert sorted(result.stdout.splitlines()) == ["rank 0 48", "rank 1 48"]
    assert "Traceback" not in result.stderr and "symccl" not in result.stderr


# The third document's, with a model and data: it never calls set_device().
SPAWNED = """
    import os
    import torch, torch_npu
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def train(rank, world_size):
        dist.init_process_group(backend="hccl", rank=rank, world_size=world_size)
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 3).to(rank)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs, labels = torch.arange(24.0).reshape(4, 6).sin() + rank, torch.tensor([0, 1, 2, rank % 3])
        for epoch in range(5):
            outputs = model(inputs.to(rank))
            loss = criterion(outputs, labels.to(rank))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weight = model.module.weight.detach()
        assert weight.device == torch.device("npu", rank)
        everyone = [torch.empty_like(weight) for _ in range(world_size)]
        dist.all_gather(everyone, weight)
        assert all(torch.equal(each, weight) for each in everyone)
        os.write(1, f"rank {rank} trained\\n".encode())
        dist.destroy_process_group()

    if __name__ == "__main__":
        world_size = int(os.environ["SIZE"])
        mp.spawn(train, args=(world_size,), nprocs=world_size, join=True)
"""


def test_spawned_training(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = write(tmp_path, SPAWNED)
    result = run(*NPU, script, SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    assert sorted(result.stdout.splitlines()) == [f"rank {rank} trained" for rank in range(4)]


def test_division_of_labour():
    result = run(*NPU, str(ROOT / "examples" / "hccl_vs_hcomm.py"))
    first, last, operations = result.stdout.splitlines()
    assert float(last.split()[-1]) < 0.5 * float(first.split()[-1])
    assert operations.startswith("8 ranks") and "'all_reduce'" in operations and "'send': 1" in operations


def test_overlap(tmp_path):
    trace = tmp_path / "trace.json"
    options = ["--steps", "3", "--width", "512", "--layers", "6", "--trace", str(trace)]
    result = run(*NPU, str(ROOT / "examples" / "overlap.py"), *options)
    assert "ms a step" in result.stdout and "ratio" in result.stdout
    bars = json.loads(trace.read_text())["traceEvents"]
    assert {(bar["pid"], bar["tid"]) for bar in bars} == {
        (rank, row) for rank in range(2) for row in ("computation", "communication")
    }
    assert all(bar["ph"] == "X" and bar["dur"] >= 0 for bar in bars)
    for rank in range(2):
        rows = {
            row: [(bar["ts"], bar["ts"] + bar["dur"]) for bar in bars if (bar["pid"], bar["tid"]) == (rank, row)]
            for row in ("computation", "communication")
        }
        assert len(rows["communication"]) == (3 + 2) * 6
        beside = [
            begin
            for begin, end in rows["communication"]
            if any(first < end and begin < last for first, last in rows["computation"])
        ]
        assert beside, "no all-reduce was under way while the rank computed"


def test_pool_example():
    out = torchrun(8, str(ROOT / "examples" / "npu_pool.py"))
    assert "on 8 ranks over hccl, zero-copy operations: 1" in out
