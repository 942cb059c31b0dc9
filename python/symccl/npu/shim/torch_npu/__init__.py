"""SymCCL's emulated npu device under the names of torch_npu. To be found only where this folder's parent is on the
path, which `python -m symccl.npu --path` prints."""


def _autoload():
    """Called by PyTorch's entry points, maybe while this module is half imported; the import does everything."""


from symccl import npu  # noqa: E402

npu._install(__name__ + ".npu")

from . import _C, distributed, profiler  # noqa: E402, F401

distributed.dist.is_hccl_available = distributed.is_hccl_available  # a name that torch_npu gives to torch.distributed

__version__ = "2.13.0+symccl"
__all__ = ["distributed", "get_npu_format", "npu", "npu_format_cast", "profiler"]

_ND = 2  # the plain layout, and the only one here


def get_npu_format(tensor):
    """The number of the tensor's memory layout: 2, the plain one."""
    return _ND


def npu_format_cast(tensor, acl_format):
    """The tensor as it is: a device's internal layouts do not show in its values, and there are none here."""
    return tensor


def __getattr__(name):
    if name.startswith("npu_"):
        raise AttributeError(
            f"torch_npu.{name} is not emulated: it is a kernel of Ascend's operator library; "
            "use the PyTorch operations that it fuses"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
