"""Data-parallel training on real data: a small convolutional network learns the UCI handwritten digits.

    python examples/train_digits.py

Two ranks train with DistributedDataParallel, once over symccl and once over gloo, from the same seed. Printed: both
loss curves, their largest difference, the accuracy on held-out digits, and the time until gradients were there.
"""

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import symccl  # noqa: F401  (registers the backend)

RANKS = 2
EPOCHS = 12
BATCH = 32
REQUIRED_ACCURACY = 0.95


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images (n, 1, 8, 8) in 0..1 and labels; four fifths to train with, one fifth held out."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(7))
    cut = len(labels) * 4 // 5
    return images[order[:cut]], labels[order[:cut]], images[order[cut:]], labels[order[cut:]]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


class CommunicationClock:
    """A DDP hook that averages gradients as DDP itself does, and counts the seconds until they are there."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def average(self, _state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        start = time.perf_counter()
        gradients = bucket.buffer().div_(dist.get_world_size())

        def finish(future):
            self.seconds += time.perf_counter() - start
            return future.value()[0]

        return dist.all_reduce(gradients, async_op=True).get_future().then(finish)


def train(rank: int, backend: str, rendezvous: str, results) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    images, labels, test_images, test_labels = data()
    model = DistributedDataParallel(network())
    clock = CommunicationClock()
    model.register_comm_hook(None, clock.average)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for epoch in range(EPOCHS):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        mine = order[: len(order) // RANKS * RANKS].view(-1, RANKS)[:, rank]
        total, steps = torch.zeros(()), 0
        for batch in mine.split(BATCH):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, steps = total + loss.detach(), steps + 1
        mean = total / steps
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        losses.append(mean.item() / RANKS)
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
    if rank == 0:
        results.put((losses, accuracy, clock.seconds))
    dist.barrier()
    dist.destroy_process_group()


def run(backend: str) -> tuple[list[float], float, float]:
    results = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(backend, f"{folder}/rendezvous", results), nprocs=RANKS)
    return results.get()


def main() -> int:
    runs = {backend: run(backend) for backend in ("symccl", "gloo")}
    (ours, our_accuracy, our_seconds), (theirs, their_accuracy, their_seconds) = runs["symccl"], runs["gloo"]
    print(f"{'epoch':>5}{'loss symccl':>14}{'loss gloo':>14}")
    for epoch, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        print(f"{epoch:>5}{a:>14.6f}{b:>14.6f}")
    difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"largest difference of the losses: {difference:.2e}")
    print(f"accuracy on held-out digits: symccl {our_accuracy:.1%}, gloo {their_accuracy:.1%}")
    print(f"seconds until gradients were there: symccl {our_seconds:.2f}, gloo {their_seconds:.2f}")
    good = difference < 1e-3 and min(our_accuracy, their_accuracy) > REQUIRED_ACCURACY
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
