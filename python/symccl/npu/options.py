"""Switches of the device that scripts set. They are kept and given back; the emulation has nothing that they change."""

import enum
import itertools
import warnings

import torch

from .devices import _checked_index

__all__ = [
    "CubeMathType",
    "are_compatible_impl_enabled",
    "config",
    "conv",
    "disable_deterministic_with_backward",
    "enable_deterministic_with_backward",
    "get_mm_bmm_format_nd",
    "get_per_process_memory_fraction",
    "get_sync_debug_mode",
    "is_jit_compile_false",
    "matmul",
    "mstx",
    "set_compile_mode",
    "set_deterministic_level",
    "set_mm_bmm_format_nd",
    "set_option",
    "set_per_process_memory_fraction",
    "set_sync_debug_mode",
    "use_compatible_impl",
]


class CubeMathType(enum.IntEnum):
    """How an NPU may round matrix products. Here they are as exact as on the CPU, whatever is chosen."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3


class _Switches:
    """An object with a fixed set of attributes: a misspelt one is an error."""

    def __init__(self, **defaults):
        self.__dict__.update(defaults)

    def __setattr__(self, name, value):
        if name not in self.__dict__:
            raise AttributeError(f"torch.npu: no switch {name!r} here (there are: {', '.join(self.__dict__)})")
        self.__dict__[name] = value


config = _Switches(allow_internal_format=False)
matmul = _Switches(allow_hf32=False, cube_math_type=CubeMathType.KEEP_DTYPE)
conv = _Switches(allow_hf32=True, cube_math_type=CubeMathType.KEEP_DTYPE)

_kept = {"jit_compile": "enable", "mm_bmm_format_nd": True, "compatible_impl": False}
_fractions = {}


def set_option(option):
    """Keeps a dict of the options of Ascend's compiler; there is no such compiler here."""
    if not isinstance(option, dict):
        raise TypeError(f"torch.npu.set_option takes a dict, got {type(option).__name__}")
    _kept.update(option)


def set_compile_mode(jit_compile=False):
    """Whether kernels are compiled at run time; they never are here."""
    _kept["jit_compile"] = "enable" if jit_compile else "disable"


def is_jit_compile_false():
    return _kept["jit_compile"] == "disable"


def set_mm_bmm_format_nd(is_nd):
    if not isinstance(is_nd, bool):
        raise TypeError(f"torch.npu.set_mm_bmm_format_nd takes a bool, got {is_nd!r}")
    _kept["mm_bmm_format_nd"] = is_nd


def get_mm_bmm_format_nd():
    return _kept["mm_bmm_format_nd"]


def use_compatible_impl(is_enable):
    _kept["compatible_impl"] = bool(is_enable)


def are_compatible_impl_enabled():
    return _kept["compatible_impl"]


def set_deterministic_level(level):
    """0 and 1 are torch.use_deterministic_algorithms(False, True); 2 is as 1: all kernels are deterministic."""
    if level not in (0, 1, 2):
        raise ValueError(f"torch.npu.set_deterministic_level: level must be 0, 1 or 2, got {level!r}")
    torch.use_deterministic_algorithms(level > 0)


def enable_deterministic_with_backward(tensor):
    """Marks a place from which on backward is deterministic; it always is."""
    return tensor


def disable_deterministic_with_backward(tensor):
    return tensor


def set_per_process_memory_fraction(fraction, device=None):
    """Keeps the fraction. It is not enforced: what limits a device is its heap, SYMCCL_HEAP_SIZE."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _fractions[_checked_index(device)] = float(fraction)
    warnings.warn("torch.npu: a memory fraction is not enforced here; SYMCCL_HEAP_SIZE limits a device", stacklevel=2)


def get_per_process_memory_fraction(device=None):
    return _fractions.get(_checked_index(device), 1.0)


def set_sync_debug_mode(debug_mode):
    """Only 0 ("default"): kernels here are synchronous, so there is nothing to warn of."""
    if debug_mode not in (0, "default"):
        raise NotImplementedError(
            f"torch.npu.set_sync_debug_mode({debug_mode!r}) is not emulated: every kernel ends before its call returns"
        )


def get_sync_debug_mode():
    return 0


class _Marks:
    """torch.npu.mstx: marks and ranges, which show in torch.profiler's traces."""

    def __init__(self):
        self._open = {}
        self._numbers = itertools.count(1)

    def mark(self, message="", stream=None, domain="default"):
        with torch.profiler.record_function(message):
            pass

    def range_start(self, message="", stream=None, domain="default"):
        number = next(self._numbers)
        self._open[number] = torch.profiler.record_function(message)
        self._open[number].__enter__()
        return number

    def range_end(self, range_id, domain="default"):
        if range_id not in self._open:
            raise ValueError(f"torch.npu.mstx.range_end: no open range {range_id!r}")
        self._open.pop(range_id).__exit__(None, None, None)

    def mstx_range(self, message, stream=None, domain="default"):
        """Decorator: a range around each call of a function."""
        return torch.profiler.record_function(message)


mstx = _Marks()
