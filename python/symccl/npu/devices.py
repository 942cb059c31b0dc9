"""Device management: torch.npu.set_device, synchronize, properties."""

import dataclasses
import os
import re
import warnings

import torch

from .. import _npu

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_initialized",
    "mem_get_info",
    "set_device",
    "synchronize",
]

NAME = "SymCCL-emulated-NPU"
also_npu = set()  # device types that mean the npu too: "cuda", after torch_npu.contrib.transfer_to_npu


def _get_device_index(device=None, optional=False):
    """The ordinal that `device` names: an int, "npu", "npu:1", a torch.device, or None for the current one."""
    if isinstance(device, str):
        device = int(device) if device.isdigit() else torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "npu" and device.type not in also_npu:
            raise ValueError(f"Expected a npu device, but got: {device}")
        device = device.index
    if device is None:
        if not optional:
            raise ValueError("Expected a npu device with a specified index or an integer, but got: None")
        return _npu.current_device()
    return device


def _checked_index(device):
    index = _get_device_index(device, optional=True)
    if not 0 <= index < _npu.device_count():
        raise AssertionError(f"Invalid device id: {index} (this process has npu:0 to npu:{_npu.device_count() - 1})")
    return index


def is_available():
    return True


def is_initialized():
    return True


def init():
    """Nothing to do: the device is there as soon as it is imported."""


def _lazy_init():
    pass


def _is_in_bad_fork():
    return False  # a forked child can use the device


def device_count():
    """How many ordinals this process may name (SYMCCL_NPU_DEVICES)."""
    return _npu.device_count()


def current_device():
    return _npu.current_device()


def set_device(device):
    """Makes `device` (int, str or torch.device) the current one of this thread."""
    index = _get_device_index(device, optional=True)
    if index >= 0:
        _npu.set_device(index)


def synchronize(device=None):
    """Returns when everything that was started on the device has ended. Kernels end before their call returns; this
    waits for collectives."""
    _npu.synchronize(_get_device_index(device, optional=True))


def _exchange_device(device):
    return _maybe_exchange_device(device)


def _maybe_exchange_device(device):
    previous = _npu.current_device()
    if device >= 0:
        _npu.set_device(device)
    return previous


def can_device_access_peer(device_id, peer_device_id):
    """Always: all ordinals are memory of this host."""
    _checked_index(device_id)
    _checked_index(peer_device_id)
    return True


@dataclasses.dataclass(frozen=True)
class _DeviceProperties:
    name: str
    total_memory: int  # bytes of the ordinal's heap
    multi_processor_count: int  # CPUs that this process may use
    cube_core_num: int = 0  # matrix and vector units of an NPU: none here
    vector_core_num: int = 0
    L2_cache_size: int = 0
    uuid: str = ""
    is_emulated: bool = True


def get_device_name(device_name=None):
    """Says that the device is emulated."""
    _checked_index(device_name)
    return NAME


def get_device_properties(device_name=None):
    index = _checked_index(device_name)
    return _DeviceProperties(
        name=NAME,
        total_memory=mem_get_info(index)[1],
        multi_processor_count=len(os.sched_getaffinity(0)),
        uuid=f"symccl-{index}",
    )


def get_device_capability(device=None):
    """What TORCH_NPU_DEVICE_CAPABILITY says ("8.0" is (8, 0)), or None: an NPU has no such number."""
    _checked_index(device)
    text = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY", "")
    if not text:
        return None
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    if match is None:
        warnings.warn(f"TORCH_NPU_DEVICE_CAPABILITY is {text!r} (accepted: 'major.minor', as '8.0')", stacklevel=2)
        return None
    return int(match[1]), int(match[2])


def mem_get_info(device=None):
    """(free, total) bytes of the device's memory."""
    return torch._C._accelerator_getMemoryInfo(_checked_index(device))


class device:
    """Context manager that makes a device (int, str, torch.device) current; None or -1 changes nothing."""

    def __init__(self, device):
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _maybe_exchange_device(self.idx)

    def __exit__(self, *exception):
        _npu.set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; for other devices it does nothing."""

    def __init__(self, obj):
        super().__init__(obj.device if obj.device.type == "npu" else None)
