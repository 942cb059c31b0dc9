"""The ways in which a program may be started, and in which it may end."""

import os
import socket
import subprocess
import sys
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from ranks import Ranks, run_ranks

SECONDS = 180
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]

PROGRAM = """
import os
import torch, torch.distributed as dist
dist.init_process_group("symccl")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.arange(1000.0) + rank
dist.all_reduce(x)
assert torch.equal(x, size * torch.arange(1000.0) + size * (size - 1) / 2)
assert not [name for name in os.listdir("/dev/shm") if "symccl" in name]
os.write(1, f"rank {rank} of {size} backend {dist.get_backend()}\\n".encode())
"""
DESTROY = "dist.destroy_process_group()\n"


def start(command, directory, **variables):
    """Runs a command to its end, in a clean environment; temporary files go to `directory`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MASTER_", "SYMCCL_", "TORCH"))}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        kept.pop(name, None)
    command = [str(part) for part in command]
    kept |= {"OMP_NUM_THREADS": "1"}  # torchrun prints it when it sets the threads itself
    environment = kept | {"TMPDIR": str(directory)} | variables
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


def torchrun(tmp_path, size, program, **variables):
    """Runs a program's text in `size` ranks; all of them must print their line and end with exit code 0."""
    path = tmp_path / "program.py"
    path.write_text(program)
    done = start([*TORCHRUN, f"--nproc_per_node={size}", path], tmp_path, **variables)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of {size} backend symccl" for rank in range(size)]
    assert "symccl" not in done.stderr  # nothing is printed unless asked


def test_torchrun(tmp_path):
    torchrun(tmp_path, 4, "import symccl\n" + PROGRAM + DESTROY, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_backend_is_found_without_an_import(tmp_path):
    """PyTorch finds it by its entry points. Nor is there a need to destroy the group: the program ends all the same."""
    torchrun(tmp_path, 2, PROGRAM)


def test_end_with_work_outstanding(tmp_path):
    """A group is destroyed, and its program ends, while an operation waits for a rank that will not call it."""
    torchrun(tmp_path, 2, PROGRAM + "if rank == 0: work = dist.all_reduce(x, async_op=True)\n" + DESTROY)


def test_failing_rank_is_reported(tmp_path):
    """A rank that raises ends the job; the other one does not hang in its collective."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "if rank == 1: raise ValueError('rank 1 fails on purpose')\ndist.all_reduce(x)\n")
    done = start([*TORCHRUN, "--nproc_per_node=2", path], tmp_path)
    assert done.returncode != 0
    assert "rank 1 fails on purpose" in done.stderr


def spawned(rank, size, path, queue):
    dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=size)
    queue.put(all_reduced(rank))
    dist.destroy_process_group()


def all_reduced(rank):
    x = torch.arange(100_003.0) * (rank + 1)
    dist.all_reduce(x)
    assert torch.equal(x, torch.arange(100_003.0) * 3)
    return rank


def test_spawn(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where PyTorch leaves the files for the ranks' errors
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(spawned, (2, str(tmp_path / "rendezvous"), queue), nprocs=2)
    assert sorted(queue.get() for _ in range(2)) == [0, 1]


def by_address(rank, method, port):
    if method == "env":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
        dist.init_process_group("symccl")
    else:
        dist.init_process_group("symccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    return all_reduced(rank)


@pytest.mark.parametrize("method", ["env", "tcp"])
def test_rendezvous_at_an_address(method):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    assert run_ranks(2, by_address, method, port, init=False) == [0, 1]


def by_store(rank, path):
    store = dist.FileStore(path, 2)
    dist.init_process_group("symccl", store=store, rank=rank, world_size=2)
    return all_reduced(rank)


def test_rendezvous_by_a_store(tmp_path):
    assert run_ranks(2, by_store, str(tmp_path / "store"), init=False) == [0, 1]


def test_two_jobs_side_by_side():
    """Two jobs of one user on one host, with the same ranks and group names, do not meet."""
    with Ranks(2, all_reduced) as first, Ranks(2, all_reduced) as second:
        outcomes = first.join() + second.join()
    assert [outcome.value for outcome in outcomes] == [0, 1, 0, 1]


IMPORT_ONLY = """
import os
import torch
before = len(os.listdir("/proc/self/task"))
import symccl
assert len(os.listdir("/proc/self/task")) == before, "the import started threads"
assert "memfd" not in open("/proc/self/maps").read(), "the import made a heap"
"""


def test_import_alone_starts_nothing(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(IMPORT_ONLY)
    done = start([sys.executable, path], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
