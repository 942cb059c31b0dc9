"""FSDP2's fully_shard, and FSDP1, train on symccl as they do on gloo."""

import pytest
import torch
from against_gloo import EXACT, OTHER_ORDER, assert_same_on_all_ranks, same_as_gloo
from ranks import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

import symccl

SIZES = (2, 4)
STEPS = 3
# bfloat16 has 8 bits: where gloo rounds after each of three additions, symccl rounds once.
BF16_ROUNDING = {"rtol": 2e-2, "atol": 2e-3}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 3 * width + 1)
        self.down = nn.Linear(3 * width + 1, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def make_model(width=19):
    """Three units of two sizes; no dimension divides by the number of ranks, so that all shards are padded."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(11, width), Block(width), Block(width), nn.Linear(width, 5))


def shard(model, **options):
    for block in (model[1], model[2]):
        fully_shard(block, **options)
    return fully_shard(model, **options)


def data(rank, step):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(6, 11, generator=generator), torch.randn(6, 5, generator=generator)


def train(rank, model, steps=STEPS, clip=None):
    """Returns the rank's losses, the norms, and the full parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses, norms = [], []
    for step in range(steps):
        x, y = data(rank, step)
        loss = nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        if clip is not None:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).full_tensor().item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    parameters = {name: value.full_tensor().detach() for name, value in model.named_parameters()}
    return {"losses": losses, "norms": norms, "parameters": parameters}


def check(size, body, *args, **options):
    results = same_as_gloo(size, body, *args, **options)
    assert_same_on_all_ranks([result["parameters"] for result in results])
    assert len(set(results[0]["losses"])) == len(results[0]["losses"])
    return results


def fp32(rank, options):
    return train(rank, shard(make_model(), **options))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reshard", [True, False], ids=["reshard", "keep"])
def test_fully_shard(size, reshard):
    check(size, fp32, {"reshard_after_forward": reshard})


def bf16(rank, reduce_dtype):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype)
    return train(rank, shard(make_model(), mp_policy=policy))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("reduce_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_fully_shard_bf16(size, reduce_dtype):
    check(size, bf16, reduce_dtype, tolerance=EXACT if size == 2 else BF16_ROUNDING)


def fp32_single_process(rank):
    """The same training without any sharding: the gradients of all ranks' data, averaged."""
    model, size = make_model(), 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        for source in range(size):
            x, y = data(source, step)
            (nn.functional.mse_loss(model(x), y) / size).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {name: value.detach() for name, value in model.named_parameters()}


def test_fully_shard_equals_training_in_one_process():
    sharded = run_ranks(2, fp32, {})[0]
    alone = run_ranks(1, fp32_single_process, init=False)[0]
    torch.testing.assert_close(sharded["parameters"], alone, **OTHER_ORDER)


def memory_from_group(rank, policy, from_group):
    """A model so wide that its messages take none of the paths for small ones. Counts what was done in place."""
    model = shard(make_model(width=151), **policy)
    if from_group:
        for module in (model, model[1], model[2]):
            module.set_allocate_memory_from_process_group_for_comm(True)
    result = train(rank, model)
    operations = symccl.stats()["operations"]
    counts = {kind: (operations[kind]["zero_copy"], operations[kind]["staged"]) for kind in FSDP_OPERATIONS}
    return result, counts


FSDP_OPERATIONS = ("all_gather", "reduce_scatter")
MIXED = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", [{}, MIXED], ids=["fp32", "bf16"])
def test_memory_from_process_group(size, policy):
    for (result, counts), (expected, expected_counts) in zip(
        run_ranks(size, memory_from_group, policy, True), run_ranks(size, memory_from_group, policy, False), strict=True
    ):
        torch.testing.assert_close(result, expected, **EXACT)
        for kind in FSDP_OPERATIONS:
            in_place, staged = counts[kind]
            assert in_place > 0 and expected_counts[kind] == (0, in_place + staged), (counts, expected_counts)


def accumulate(rank):
    model = shard(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        last = step % 2 == 1
        model.set_requires_gradient_sync(last)
        x, y = data(rank, step)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.item())
        if last:
            optimizer.step()
            optimizer.zero_grad()
    return {"losses": losses, "parameters": {name: p.full_tensor().detach() for name, p in model.named_parameters()}}


@pytest.mark.parametrize("size", SIZES)
def test_gradient_accumulation(size):
    check(size, accumulate)


def clipped(rank):
    return train(rank, shard(make_model()), clip=0.25)


@pytest.mark.parametrize("size", SIZES)
def test_gradient_clipping(size):
    norms = check(size, clipped)[0]["norms"]
    assert all(norm > 0.25 for norm in norms)


def divided(rank, factor):
    model = shard(make_model())
    if factor:
        for module in (model, model[1], model[2]):
            module.set_gradient_divide_factor(factor)
    return train(rank, model)


def test_gradient_divide_factor():
    """Sums with a factor, which gloo refuses. Dividing by 2 at 4 ranks is the mean, doubled: a power of two, exact."""
    doubled = run_ranks(4, divided, 2.0)
    mean = run_ranks(4, train_with_doubled_loss)
    torch.testing.assert_close(doubled[0]["parameters"], mean[0]["parameters"], **OTHER_ORDER)


def train_with_doubled_loss(rank):
    model = shard(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        x, y = data(rank, step)
        (2 * nn.functional.mse_loss(model(x), y)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"parameters": {name: value.full_tensor().detach() for name, value in model.named_parameters()}}


def hybrid(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    return train(rank, shard(make_model(), mesh=mesh))


def test_hybrid_sharding():
    check(4, hybrid)


def fsdp1(rank):
    policy = ModuleWrapPolicy({Block})
    model = FullyShardedDataParallel(make_model(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        x, y = data(rank, step)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    with FullyShardedDataParallel.summon_full_params(model):
        parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
    return {"losses": losses, "parameters": parameters}


@pytest.mark.parametrize("size", SIZES)
def test_fsdp1(size):
    check(size, fsdp1)
