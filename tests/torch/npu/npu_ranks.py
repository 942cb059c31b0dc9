"""Runs a function in forked ranks, each on a device of its own.

def body(rank):
    x = torch.full((4,), rank + 1.0, device="npu")
    dist.all_reduce(x)
    return x.cpu()

def test_sum():
    assert run_npu(2, body)[0][0] == 3
"""

import os
import pickle
import tempfile

import torch
import torch.distributed as dist
from ranks import Ranks, run_ranks

import symccl.npu  # noqa: F401


def run_npu(size, body, *args, backend="hccl", device_id=False, detail_level=False, init_options=None, **options):
    """run_ranks() with the current device set.

    device_id: init_process_group is told the device.
    detail_level: as under TORCH_DISTRIBUTED_DEBUG=DETAIL, which PyTorch reads when it is loaded.
    What `body` returns must be picklable: no npu tensors.
    """
    with tempfile.TemporaryDirectory(prefix="symccl-npu-") as folder:
        start = _start(folder, backend, init_options), device_id, detail_level
        return run_ranks(size, _on_device, start, body, args, init=False, **options)


def npu_ranks(folder, size, body, *args, **options):
    """The same with hands on, see Ranks; `folder` is empty."""
    return Ranks(size, _on_device, (_start(folder, "hccl", None), False, False), body, args, init=False, **options)


def _start(folder, backend, init_options):
    return {"backend": backend, "init_method": f"file://{folder}/rendezvous", **(init_options or {})}


def _on_device(rank, start, body, args):
    init, device_id, detail_level = start
    if detail_level:
        dist.set_debug_level(dist.DebugLevel.DETAIL)
    torch.npu.set_device(rank)
    if device_id:
        init["device_id"] = torch.device("npu", rank)
    dist.init_process_group(rank=rank, world_size=int(os.environ["WORLD_SIZE"]), **init)
    value = body(rank, *args)
    pickle.dumps(value)
    return value


def backend_of(group=None):
    """The group's backend for npu tensors."""
    return (group or dist.group.WORLD)._get_backend(torch.device("npu"))


def comm_stream(group=None):
    """The stream that the group's operations are pending work of."""
    return torch.npu.Stream(
        stream_id=backend_of(group)._get_stream_id(),
        device_index=torch.npu.current_device(),
        device_type=int(torch._C._autograd.DeviceType.PrivateUse1),
    )


def counts(kind, group=None):
    """How often an operation took which path."""
    return backend_of(group).stats()["operations"].get(kind, {"calls": 0, "zero_copy": 0, "staged": 0, "eager": 0})


def here(*tensors):
    """Asserts that tensors lie on this rank's device."""
    device = torch.device("npu", torch.npu.current_device())
    assert all(tensor.device == device for tensor in tensors), [tensor.device for tensor in tensors]
