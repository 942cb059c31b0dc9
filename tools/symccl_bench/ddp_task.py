"""A training step with DistributedDataParallel: of a small transformer, or of a convolutional network, on CPUs.

Exposed communication is what a step takes longer than the same step without communication (no_sync); the communication
itself is a blocking all-reduce of as many bytes. The three are measured in turns. Gradients are checked against those
that one process computes from the batches of all ranks.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, LAYERS, LENGTH, SEQUENCES = 512, 128, 4, 32, 4
IMAGES, SIDE, CLASSES = 8, 16, 10


class Transformer(nn.Module):
    """Four encoder layers of width 128 over 512 words, about a million parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words)))

    @staticmethod
    def batch(generator):
        words = torch.randint(VOCABULARY, (SEQUENCES, LENGTH + 1), generator=generator)
        return words[:, :-1], words[:, 1:]


class Convolution(nn.Module):
    """Three convolutions and two full layers, about two million parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128 * (SIDE // 2) ** 2, 256),
            nn.ReLU(),
            nn.Linear(256, CLASSES),
        )

    def forward(self, images):
        return self.layers(images)

    @staticmethod
    def batch(generator):
        images = torch.randn(IMAGES, 3, SIDE, SIDE, generator=generator)
        return images, torch.randint(CLASSES, (IMAGES,), generator=generator)


MODELS = {"ddp_transformer": Transformer, "ddp_convolution": Convolution}


def loss_of(model, batch):
    inputs, wanted = batch
    return nn.functional.cross_entropy(model(inputs).flatten(0, -2), wanted.flatten())


class Training:
    """One model on one rank; the same batch in every step of an iteration."""

    def __init__(self, op, rank, size):
        self.rank, self.size = rank, size
        torch.manual_seed(1)
        self.plain = MODELS[op]()
        torch.manual_seed(1)
        self.model = DistributedDataParallel(MODELS[op]())
        self.flat = torch.ones(sum(parameter.numel() for parameter in self.plain.parameters()))

    def batch(self, rank, iteration):
        return self.plain.batch(torch.Generator().manual_seed(iteration * 1009 + rank))

    def compute(self, iteration):
        """The time of the step alone."""
        batch = self.batch(self.rank, iteration)
        began = time.monotonic_ns()
        with self.model.no_sync():
            loss_of(self.model, batch).backward()
        return time.monotonic_ns() - began

    def communicate(self):
        """The time of the communication alone."""
        self.flat.fill_(1.0)
        began = time.monotonic_ns()
        dist.all_reduce(self.flat)
        return time.monotonic_ns() - began

    def step(self, iteration):
        """The time of the step with its communication."""
        batch = self.batch(self.rank, iteration)
        self.model.zero_grad(set_to_none=False)
        began = time.monotonic_ns()
        loss_of(self.model, batch).backward()
        return time.monotonic_ns() - began

    def wrong(self, iteration):
        """Elements of the gradients that are not the average over the ranks, but for rounding."""
        self.plain.zero_grad()
        for rank in range(self.size):
            (loss_of(self.plain, self.batch(rank, iteration)) / self.size).backward()
        found = 0
        for mine, alone in zip(self.model.module.parameters(), self.plain.parameters(), strict=True):
            found += int((~torch.isclose(mine.grad, alone.grad, rtol=1e-3, atol=1e-5)).sum())
        return found

    def spread(self):
        """Whether all ranks have the same bits."""
        mine = [parameter.grad for parameter in self.model.module.parameters()]
        sums = torch.stack([gradient.double().sum() for gradient in mine])
        least, most = sums.clone(), sums.clone()
        dist.all_reduce(least, dist.ReduceOp.MIN)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return int((least != most).sum())
