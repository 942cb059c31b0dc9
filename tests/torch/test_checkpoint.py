"""Distributed checkpoints, saved and loaded over symccl: by as many ranks or by others, or by gloo."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import run_ranks
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

# Upstream warns that plain tensors are saved by each rank, and about its own storage.
pytestmark = pytest.mark.filterwarnings("ignore")


def make_model():
    torch.manual_seed(9)
    return fully_shard(nn.Sequential(nn.Linear(7, 13), nn.ReLU(), nn.Linear(13, 3)))


def trained(rank, steps):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        x = torch.sin(torch.arange(28.0).reshape(4, 7) + step)  # the same on all ranks: no order of additions matters
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def full(values):
    """A state as plain tensors, wherever their shards lie."""
    if isinstance(values, dict):
        return {key: full(value) for key, value in values.items()}
    return values.full_tensor() if isinstance(values, DTensor) else values


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_same(actual[key], expected[key])
    else:
        assert torch.equal(actual, expected) if isinstance(expected, torch.Tensor) else actual == expected


def state_of(model, optimizer):
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def save(rank, path):
    state = state_of(*trained(rank, 3))
    dcp.save(state | {"extra": {"step": 3, "name": "run"}}, checkpoint_id=path)
    return full(state)


def save_async(rank, path):
    state = state_of(*trained(rank, 3))
    dcp.async_save(state | {"extra": {"step": 3, "name": "run"}}, checkpoint_id=path).result()
    return full(state)


def load(rank, path):
    model, optimizer = trained(rank, 1)
    state = state_of(model, optimizer) | {"extra": {"step": 0, "name": ""}}
    dcp.load(state, checkpoint_id=path)
    assert state["extra"] == {"step": 3, "name": "run"}
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return full(state_of(model, optimizer))


@pytest.mark.parametrize("saving, loading", [(2, 2), (2, 4), (4, 2), (4, 1)])
def test_load_by_other_ranks(tmp_path, saving, loading):
    saved = run_ranks(saving, save, str(tmp_path))
    for loaded in run_ranks(loading, load, str(tmp_path)):
        assert_same(loaded, saved[0])


@pytest.mark.parametrize("backends", [("gloo", "symccl"), ("symccl", "gloo")], ids="-to-".join)
def test_interchangeable_with_gloo(tmp_path, backends):
    saved = run_ranks(2, save, str(tmp_path), backend=backends[0])
    for loaded in run_ranks(2, load, str(tmp_path), backend=backends[1]):
        assert_same(loaded, saved[0])


def test_save_in_the_background(tmp_path):
    saved = run_ranks(2, save_async, str(tmp_path))
    for loaded in run_ranks(2, load, str(tmp_path)):
        assert_same(loaded, saved[0])


def reshard(rank, path):
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(11 * 6, dtype=torch.float32).reshape(11, 6)
    dcp.save({"x": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=path)
    loaded = {"x": distribute_tensor(torch.zeros(11, 6), mesh, [Shard(1)])}
    dcp.load(loaded, checkpoint_id=path)
    assert torch.equal(loaded["x"].full_tensor(), whole)


@pytest.mark.parametrize("size", [2, 4])
def test_load_into_another_sharding(tmp_path, size):
    run_ranks(size, reshard, str(tmp_path))


def load_what_is_not_there(rank, path):
    dcp.save({"x": torch.ones(3)}, checkpoint_id=path)
    with pytest.raises(CheckpointException, match="Missing key"):
        dcp.load({"y": torch.ones(3)}, checkpoint_id=path)
    dist.barrier()  # the group stays usable


def test_load_of_a_missing_key_fails_on_all_ranks(tmp_path):
    run_ranks(2, load_what_is_not_there, str(tmp_path))
