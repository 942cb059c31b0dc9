"""The emulated Ascend device: importing this module is what switches it on.

It renames PyTorch's spare device type PrivateUse1 to `npu`, whose tensors live on this host's heaps, and installs
itself as `torch.npu`. The folder that `python -m symccl.npu --path` prints holds a `torch_npu` made of the same names,
so that scripts for that package run unmodified. Nothing else in symccl imports this.
"""

# ruff: noqa: E402, F401, F403

import sys
import types

import torch

from . import _activate

_activate.activate()

from . import _hccl, amp, devices, memory, options, pluggable, random, streams, typed, unavailable
from .amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    is_bf16_supported,
    set_autocast_dtype,
    set_autocast_enabled,
)
from .devices import *
from .devices import _exchange_device, _get_device_index, _is_in_bad_fork, _lazy_init, _maybe_exchange_device
from .memory import *
from .options import *
from .pluggable import *
from .random import *
from .streams import *

globals().update(typed.tensor_types, **typed.storage_types, **unavailable.names)


def _install(root):
    """Makes this package importable as `root` (torch.npu, torch_npu.npu), with the module paths that scripts name."""
    sys.modules[root] = sys.modules[__name__]
    places = {
        "amp": amp,
        "amp.autocast_mode": amp,
        "amp.grad_scaler": amp,
        "memory": memory,
        "random": random,
        "streams": streams,
        "utils": devices,
    }
    for path, module in places.items():
        sys.modules[f"{root}.{path}"] = module
        setattr(amp if "." in path else sys.modules[__name__], path.rpartition(".")[2], module)


torch._register_device_module("npu", sys.modules[__name__])
_install("torch.npu")
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
)
_initialized = True  # torch.utils.checkpoint looks here whether there are random states to keep

__all__ = sorted(
    name for name, value in globals().items() if name[0] != "_" and not isinstance(value, types.ModuleType)
)
