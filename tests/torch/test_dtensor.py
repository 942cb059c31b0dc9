"""DTensor and tensor-parallel layers on symccl: the values of the unsharded computation, and those of gloo."""

import itertools

import pytest
import torch
from against_gloo import EXACT, OTHER_ORDER, same_as_gloo
from ranks import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

SIZES = (2, 4)
PLACEMENTS = (Replicate(), Shard(0), Shard(1), Partial())


def numbered(*shape):
    """A tensor of small integers, all different: sums of them are exact in any order."""
    return torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float32).reshape(shape) - 17


def redistribute(rank, size):
    """Every placement to every other, of a tensor that no number of ranks divides."""
    mesh = init_device_mesh("cpu", (size,))
    full = numbered(7, 5)
    values = {}
    for source, target in itertools.product(PLACEMENTS, PLACEMENTS):
        if target == Partial() and source != Partial():
            continue  # DTensor makes no partial tensor out of another
        if source == Partial():
            start = DTensor.from_local(full * (rank + 1), mesh, [source], run_check=False)
            whole = full * (size * (size + 1) // 2)
        else:
            start = distribute_tensor(full, mesh, [source])
            whole = full
        moved = start.redistribute(mesh, [target])
        assert torch.equal(moved.full_tensor(), whole), (source, target)
        values[f"{source} to {target}"] = moved.to_local()
    return values


@pytest.mark.parametrize("size", SIZES)
def test_redistribute(size):
    same_as_gloo(size, redistribute, size, tolerance=EXACT)


def redistribute_on_two_dimensions(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    full = numbered(9, 6)
    values = {}
    placements = [Replicate(), Shard(0), Shard(1)]
    for first, second in itertools.product(placements, placements):
        for target in ((Shard(0), Shard(0)), (Shard(1), Replicate()), (Shard(0), Shard(1))):
            moved = distribute_tensor(full, mesh, [first, second]).redistribute(mesh, target)
            assert torch.equal(moved.full_tensor(), full), (first, second, target)
            values[f"{first} {second} to {target}"] = moved.to_local()
    return values


def test_redistribute_on_two_dimensions():
    same_as_gloo(4, redistribute_on_two_dimensions, tolerance=EXACT)


def operations(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    a, b = numbered(8, 12), numbered(12, 4)
    rows, columns = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(a, mesh, [Shard(1)])
    inner = distribute_tensor(b, mesh, [Shard(0)])
    return {
        "rows @ replicated": (rows @ distribute_tensor(b, mesh, [Replicate()])).full_tensor(),
        "columns @ rows": (columns @ inner).full_tensor(),
        "sum": columns.sum().full_tensor(),
        "mean of rows": rows.mean(dim=0).full_tensor(),
        "maximum": rows.max().full_tensor(),
        "norm": torch.linalg.vector_norm(rows).full_tensor(),
        "softmax": torch.softmax(columns / 50, dim=1).full_tensor(),
    }


def unsharded_operations():
    a, b = numbered(8, 12), numbered(12, 4)
    product = a @ b
    norm = torch.linalg.vector_norm(a)
    softmax = torch.softmax(a / 50, dim=1)
    return [product, product, a.sum(), a.mean(dim=0), a.max(), norm, softmax]


@pytest.mark.parametrize("size", SIZES)
def test_operations(size):
    for result in same_as_gloo(size, operations, size):
        torch.testing.assert_close(list(result.values()), unsharded_operations(), **OTHER_ORDER)


class Feedforward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.up = nn.Linear(12, 24)
        self.down = nn.Linear(24, 12)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


TENSOR_PARALLEL = {"up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCE_PARALLEL = {
    "": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(),
}


def train_feedforward(rank, size, plan):
    """Returns losses, gradients and parameters. Without a plan, those of the layers on one rank."""
    torch.manual_seed(11)
    model = Feedforward()
    if plan:
        model = parallelize_module(model, init_device_mesh("cpu", (size,)), plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(3)
    losses = []
    for _ in range(3):
        x = torch.randn(2, 8, 12, generator=generator)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    def full(tensor):
        return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()

    gradients = {name: full(parameter.grad) for name, parameter in model.named_parameters()}
    return {"losses": losses, "gradients": gradients, "parameters": {n: full(p) for n, p in model.named_parameters()}}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("plan", [TENSOR_PARALLEL, SEQUENCE_PARALLEL], ids=["tensor", "sequence"])
def test_parallel_layers(size, plan):
    alone = run_ranks(1, train_feedforward, 1, None, init=False)[0]
    for result in same_as_gloo(size, train_feedforward, size, plan):
        torch.testing.assert_close(result, alone, **OTHER_ORDER)


def parallel_loss(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(2)
    logits, target = torch.randn(6, 16), torch.randint(16, (6,))
    sharded = distribute_tensor(logits, mesh, [Shard(1)]).requires_grad_()
    with loss_parallel():
        loss = nn.functional.cross_entropy(sharded, target)
        loss.backward()
    logits.requires_grad_()
    expected = nn.functional.cross_entropy(logits, target)
    expected.backward()
    value = loss.full_tensor() if isinstance(loss, DTensor) else loss
    torch.testing.assert_close([value, sharded.grad.full_tensor()], [expected, logits.grad], **OTHER_ORDER)
    return [value.detach(), sharded.grad.to_local()]


@pytest.mark.parametrize("size", SIZES)
def test_parallel_loss(size):
    same_as_gloo(size, parallel_loss, size)


def distributed_random_numbers(rank, size):
    torch.manual_seed(rank)
    return distribute_tensor(torch.randn(5, 3), init_device_mesh("cpu", (size,)), [Replicate()]).to_local()


@pytest.mark.parametrize("size", SIZES)
def test_distribute_takes_the_first_ranks_data(size):
    for result in same_as_gloo(size, distributed_random_numbers, size, tolerance=EXACT):
        torch.manual_seed(0)
        assert torch.equal(result, torch.randn(5, 3))
