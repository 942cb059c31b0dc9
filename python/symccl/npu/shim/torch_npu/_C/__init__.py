"""The names of torch_npu's extension module that scripts use."""

from . import _distributed_c10d  # noqa: F401
