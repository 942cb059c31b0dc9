"""Importing this runs code for CUDA and NCCL on the npu: "cuda" is npu, `torch.cuda` is `torch.npu`, "nccl" is hccl.

It changes PyTorch for the whole process, for good. What it cannot reach: `tensor.device.type`, which is "npu", and
names of torch.cuda that an npu has not.
"""

import functools

import torch
import torch.distributed as dist
import torch.distributed.device_mesh
from torch.utils import _device

from symccl import npu
from symccl.npu import amp, devices

devices.also_npu.add("cuda")


def _moved(value):
    """`value` with every cuda device and backend name in it replaced."""
    if isinstance(value, str):
        if value == "cuda" or value.startswith("cuda:"):
            return "npu" + value[4:]
        return value
    if isinstance(value, torch.device):
        if value.type != "cuda":
            return value
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if isinstance(value, dict):
        return {_moved(key): _moved(entry) for key, entry in value.items()}
    return value


def _moved_backend(value):
    """A backend as init_process_group takes it: "nccl", "cuda:nccl,cpu:gloo"."""
    if not isinstance(value, str):
        return value
    parts = [part.split(":") for part in value.split(",")]
    replaced = {"nccl": "hccl", "cuda": "npu"}
    return ",".join(":".join(replaced.get(word.lower(), word) for word in part) for part in parts)


def _moving(function, backend_at=None):
    """`function` with its arguments moved; the argument `backend`, at that place, is a backend's name."""

    @functools.wraps(function)
    def moving(*arguments, **options):
        arguments = [
            _moved_backend(value) if place == backend_at else _moved(value) for place, value in enumerate(arguments)
        ]
        options = {
            name: _moved_backend(value) if name == "backend" and backend_at is not None else _moved(value)
            for name, value in options.items()
        }
        return function(*arguments, **options)

    return moving


def _patch(owner, *names):
    for name in names:
        setattr(owner, name, _moving(getattr(owner, name)))


class _GeneratorType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.original)

    def __call__(cls, device="cpu"):
        return cls.original(device=_moved(device))


def _patch_torch():
    factories = [f.__name__ for f in _device._device_constructors() if getattr(torch, f.__name__, None) is f]
    likes = ["empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like"]
    _patch(torch, *factories, *likes, "load", "normal", "set_default_device")
    _patch(torch.autocast, "__init__")
    _patch(_device.DeviceContext, "__init__")
    torch.Generator = _GeneratorType("Generator", (), {"original": torch.Generator})

    new = ["new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros"]
    _patch(torch.Tensor, *new, "to", "pin_memory")
    torch.Tensor.cuda = _moving(torch.Tensor.npu)
    torch.Tensor.is_cuda = torch.Tensor.is_npu
    _patch(torch.nn.Module, "to", "to_empty")
    torch.nn.Module.cuda = _moving(torch.nn.Module.npu)
    _patch(torch.amp.GradScaler, "__init__")


def _get_device_capability(device=None):
    """As npu's, but (0, 0) in place of None: CUDA's code, PyTorch's own too, compares it with numbers."""
    return npu.get_device_capability(device) or (0, 0)


def _patch_cuda():
    for name in npu.__all__:
        setattr(torch.cuda, name, getattr(npu, name))
    torch.cuda.get_device_capability = _get_device_capability
    torch.cuda.CUDAGraph = npu.NPUGraph
    torch.cuda._lazy_init = npu._lazy_init
    torch.cuda.amp.autocast = amp.autocast
    torch.cuda.amp.GradScaler = amp.GradScaler


def _patch_distributed():
    module = dist.distributed_c10d
    dist.init_process_group = module.init_process_group = _moving(module.init_process_group, backend_at=0)
    dist.new_group = module.new_group = _moving(module.new_group, backend_at=2)
    dist.is_nccl_available = module.is_nccl_available = lambda: True
    dist.init_device_mesh = dist.device_mesh.init_device_mesh = _moving(dist.device_mesh.init_device_mesh)
    _patch(dist.ProcessGroup, "_get_backend")


_patch_torch()
_patch_cuda()
_patch_distributed()
