"""A small GPT learns the documentation of Python's own modules: on npu with hccl as on the CPU with gloo."""

import argparse
import collections
import inspect
import logging
import statistics
import threading

import pytest
import torch
import torch.distributed as dist
from npu_ranks import here, run_npu
from ranks import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
STEPS = 200
CONTEXT, BATCH, WIDTH, HEADS, LAYERS, VOCABULARY = 32, 4, 32, 2, 2, 128


def text():
    """The bytes of some modules' documentation, and of what is in them."""
    parts = []
    for module in (argparse, collections, logging, statistics, threading):
        parts.append(inspect.getdoc(module) or "")
        for name in sorted(vars(module)):
            parts.append(inspect.getdoc(getattr(module, name)) or "")
    data = "\n".join(parts).encode("ascii", "replace")
    assert len(data) > 50_000
    return torch.tensor(list(data), dtype=torch.long)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        with sdpa_kernel(SDPBackend.MATH):  # PyTorch has others for the CPU, which round differently
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, indices):
        x = self.tokens(indices) + self.places(torch.arange(indices.shape[1], device=indices.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def wrap(model, wrapper, rank, device):
    if wrapper == "ddp":
        return DistributedDataParallel(model, device_ids=[rank] if device == "npu" else None)
    mesh = init_device_mesh(device, (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(rank, device, wrapper):
    torch.manual_seed(0)
    model = wrap(Gpt().to(device), wrapper, rank, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
    data, generator = text(), torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=generator)
        sample = torch.stack([data[start : start + CONTEXT + 1] for start in starts]).to(device)
        loss = nn.functional.cross_entropy(model(sample[:, :-1]).flatten(0, 1), sample[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / RANKS)
    if device == "npu":
        here(*(p.to_local() if isinstance(p, DTensor) else p.detach() for p in model.parameters()))
    return losses


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp2"])
def test_gpt(wrapper):
    actual = run_npu(RANKS, train, "npu", wrapper, timeout=200)
    expected = run_ranks(RANKS, train, "cpu", wrapper, backend="gloo", timeout=200)
    assert actual == expected  # two ranks: there is only one order to add in
    losses = actual[0]
    assert actual[1] == losses and losses[0] > 4.5 and statistics.mean(losses[-20:]) < 2.9, losses[::20]
