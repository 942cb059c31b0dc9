"""Who does what in training on HCCL: collectives for what all ranks need, messages for what two ranks exchange.

    python -m symccl.npu examples/hccl_vs_hcomm.py

HCCL's documents call the two halves hccl (all_reduce and its like) and hcomm (send and receive); through PyTorch both
are calls on one process group. Eight ranks train with DistributedDataParallel, whose gradients go by all-reduce; then
each rank hands its activations to its neighbour, as a pipeline does.
"""

import argparse
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
SHAPE = (256, 300)


def gradients_by_all_reduce(rank: int, size: int) -> nn.Module:
    """Every rank has its own part of the data, and all ranks end with the same model."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(10, 1).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + rank)
    truth = torch.arange(10.0).unsqueeze(1) / 10
    for step in range(STEPS):
        inputs = torch.randn(64, 10, generator=generator)
        loss = nn.functional.mse_loss(model(inputs.to(rank)), (inputs @ truth).to(rank))
        optimizer.zero_grad()
        loss.backward()  # DDP starts an all-reduce for each bucket of gradients as soon as it is full
        optimizer.step()
        if rank == 0 and step in (0, STEPS - 1):
            print(f"step {step:>2}: loss {loss.item():.4f}")

    weights = [torch.empty_like(model.module.weight) for _ in range(size)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(each, weights[0]) for each in weights), "the ranks' models differ"
    return model


def activations_by_messages(rank: int, size: int) -> None:
    """Rank r sends to r + 1 and to nobody else; the others need not know."""
    mine = torch.arange(float(SHAPE[0] * SHAPE[1]), device="npu").reshape(SHAPE) + rank
    received = torch.empty(SHAPE, device="npu")
    if rank + 1 < size:
        sending = dist.isend(mine, rank + 1)
    if rank > 0:
        dist.recv(received, rank - 1)
        assert torch.equal(received, mine - 1), "not what the neighbour sent"
    if rank + 1 < size:
        sending.wait()


def work(rank: int, size: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", init_method=rendezvous, rank=rank, world_size=size)
    gradients_by_all_reduce(rank, size)
    activations_by_messages(rank, size)
    dist.barrier()
    if rank == 0:
        operations = dist.group.WORLD._get_backend(torch.device("npu"))  # the counters are SymCCL's
        counts = {name: each["calls"] for name, each in operations.stats()["operations"].items() if each["calls"]}
        print(f"{size} ranks; operations of rank 0: {counts}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    size = parser.parse_args().ranks
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(size, f"file://{folder}/rendezvous"), nprocs=size)


if __name__ == "__main__":
    main()
