"""PyTorch's ways to train on several devices run on npu and hccl, and compute what they compute on CPU tensors.

Kernels of the device are the CPU's, and hccl sums in the order of symccl: losses and parameters are the same bits.
"""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from npu_ranks import counts, here, run_npu
from ranks import run_ranks
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

SIZES = (2, 4)
STEPS = 4
WIDTH = 96  # messages that are too large for the eager path


def net(device):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(13, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4)).to(
        device
    )


def batch(rank, step, device):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x, y = torch.randn(8, 13, generator=generator), torch.randint(0, 4, (8,), generator=generator)
    return x.to(device), y.to(device)


def full(value):
    value = value.detach()
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu().clone()


def train(rank, device, model, optimizer=None, data_rank=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    losses = []
    for step in range(STEPS):
        x, y = batch(rank if data_rank is None else data_rank, step, device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if device == "npu":
        here(*(p.to_local() if isinstance(p, DTensor) else p.detach() for p in model.parameters()))
    return losses, {name: full(value) for name, value in model.named_parameters()}


def same_as_cpu(size, body, *args, **options):
    """body(rank, device, *args) returns the same bits on npu with hccl as on the CPU with symccl."""
    actual = run_npu(size, body, "npu", *args, **options)
    expected = run_ranks(size, body, "cpu", *args)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def ddp(rank, device, **options):
    ids = {"device_ids": [rank]} if device == "npu" else {}
    return DistributedDataParallel(net(device), bucket_cap_mb=0.002, **ids, **options)


def data_parallel(rank, device):
    return train(rank, device, ddp(rank, device, gradient_as_bucket_view=True))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device_id", [False, True], ids=["", "device_id"])
def test_ddp(size, device_id):
    same_as_cpu(size, data_parallel, device_id=device_id)


def accumulating(rank, device):
    model = ddp(rank, device)
    with model.no_sync():
        x, y = batch(rank, 100, device)
        nn.functional.cross_entropy(model(x), y).backward()
    return train(rank, device, model)


def hooked(rank, device):
    model = ddp(rank, device)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return train(rank, device, model)


@pytest.mark.parametrize("body", [accumulating, hooked])
def test_ddp_features(body):
    same_as_cpu(2, body)


def zero(rank, device):
    model = ddp(rank, device)
    made = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False)
    return train(rank, device, model, made)


@pytest.mark.parametrize("size", SIZES)
def test_zero(size):
    same_as_cpu(size, zero)


def shard(model, **options):
    for layer in (model[0], model[2]):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def sharded(rank, device, policy):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    return train(rank, device, shard(net(device), mesh=mesh, mp_policy=policy))


POLICIES = [
    MixedPrecisionPolicy(),
    MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device_id", [False, True], ids=["", "device_id"])
def test_fsdp2(size, device_id):
    same_as_cpu(size, sharded, POLICIES[0], device_id=device_id)


def test_fsdp2_mixed_precision():
    same_as_cpu(2, sharded, POLICIES[1])


def in_group_memory(rank):
    model = shard(net("npu"), mesh=init_device_mesh("npu", (2,)))
    for module in (model, model[0], model[2]):
        module.set_allocate_memory_from_process_group_for_comm(True)
    result = train(rank, "npu", model)
    assert counts("all_gather")["zero_copy"] > 0 and counts("reduce_scatter")["zero_copy"] > 0
    return result


def test_fsdp2_in_memory_of_the_group():
    actual, expected = run_npu(2, in_group_memory), run_npu(2, sharded, "npu", POLICIES[0])
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def hybrid(rank, device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    return train(rank, device, shard(net(device), mesh=mesh))


@pytest.mark.parametrize("device_id", [False, True], ids=["", "device_id"])
def test_hybrid_sharding(device_id):
    same_as_cpu(4, hybrid, device_id=device_id)


PLAN = {"0": ColwiseParallel, "2": RowwiseParallel}


def tensor_parallel(rank, device):
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = parallelize_module(net(device), mesh, {name: style() for name, style in PLAN.items()})
    return train(rank, device, model, data_rank=0)


@pytest.mark.parametrize("size", SIZES)
def test_tensor_parallel(size):
    same_as_cpu(size, tensor_parallel)


def two_dimensions(rank, device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("dp", "tp"))
    model = parallelize_module(net(device), mesh["tp"], {name: style() for name, style in PLAN.items()})
    return train(rank, device, shard(model, mesh=mesh["dp"]), data_rank=mesh["dp"].get_local_rank())


@pytest.mark.parametrize("device_id", [False, True], ids=["", "device_id"])
def test_fsdp2_with_tensor_parallel(device_id):
    same_as_cpu(4, two_dimensions, device_id=device_id)


def redistributed(rank, device):
    size = dist.get_world_size()
    mesh = init_device_mesh(device, (size,))
    whole = torch.arange(size * 3 * 5.0, device=device).reshape(size * 3, 5)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    results = [
        x.full_tensor(),
        x.redistribute(mesh, [Replicate()]).to_local(),
        distribute_tensor(torch.arange(2.0 * size * 7, device=device).reshape(2, size * 7), mesh, [Shard(1)])
        .redistribute(mesh, [Shard(0)])
        .full_tensor(),
        (x.sum() * 2).full_tensor(),
        (x @ x.t()).full_tensor(),
        DTensor.from_local(torch.full((4,), rank + 1.0, device=device), mesh, [Partial()]).full_tensor(),
    ]
    assert all(each.device.type == device for each in results)
    return [each.cpu() for each in results]


@pytest.mark.parametrize("size", SIZES)
def test_dtensor(size):
    same_as_cpu(size, redistributed)


def saved(rank, folder):
    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    model = shard(net("npu"), mesh=mesh)
    train(rank, "npu", model)
    kept = {name: full(value) for name, value in model.named_parameters()}
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)

    fresh = shard(net("npu"), mesh=mesh)
    assert not torch.equal(full(fresh[0].weight), kept["0.weight"])
    state = {"model": get_model_state_dict(fresh)}
    checkpoint.load(state, checkpoint_id=folder)
    set_model_state_dict(fresh, state["model"])
    here(*(p.to_local() for p in fresh.parameters()))
    torch.testing.assert_close({name: full(value) for name, value in fresh.named_parameters()}, kept, rtol=0, atol=0)


@pytest.mark.parametrize("size", SIZES)
def test_checkpoint(size, tmp_path):
    run_npu(size, saved, str(tmp_path / "checkpoint"))


def normalized(rank):
    torch.manual_seed(5)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(13, 7), nn.BatchNorm1d(7))).npu()
    model = DistributedDataParallel(model, device_ids=[rank])
    x, _ = batch(rank, 0, "npu")
    x.requires_grad_()
    model(x[: 5 + rank]).square().mul(torch.arange(7.0, device="npu")).sum().backward()
    here(x.grad)
    buffers = {name.removeprefix("module."): full(value) for name, value in model.named_buffers()}
    gradients = {name.removeprefix("module."): full(p.grad) for name, p in model.named_parameters()}
    return x.grad[: 5 + rank].cpu(), gradients, buffers


def normalized_together(_, size):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(13, 7), nn.BatchNorm1d(7))
    xs = [batch(rank, 0, "cpu")[0][: 5 + rank].requires_grad_() for rank in range(size)]
    model(torch.cat(xs)).square().mul(torch.arange(7.0)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return [x.grad for x in xs], gradients, {name: buffer.clone() for name, buffer in model.named_buffers()}


@pytest.mark.parametrize("size", SIZES)
def test_sync_batch_norm(size):
    """Ranks with batches of different sizes normalize as one process does over the whole batch."""
    ((inputs, gradients, buffers),) = run_ranks(1, normalized_together, size, init=False)
    for rank, (mine, averaged, running) in enumerate(run_npu(size, normalized)):
        torch.testing.assert_close(mine, inputs[rank], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close({name: g * size for name, g in averaged.items()}, gradients, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(running, buffers, rtol=1e-5, atol=1e-6)
