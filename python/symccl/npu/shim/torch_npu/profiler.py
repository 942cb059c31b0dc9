"""torch_npu.profiler: PyTorch's profiler on the CPU's side. What only the hardware can tell is refused."""

import enum

import torch
from torch.profiler import ProfilerAction, schedule, tensorboard_trace_handler

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "schedule", "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    CPU = "CPU"
    NPU = "NPU"


class profile(torch.profiler.profile):
    """torch.profiler.profile of the operations as the CPU runs them.

    Raises:
        NotImplementedError: ProfilerActivity.NPU, or an experimental_config: there is no hardware to measure.
    """

    def __init__(self, *, activities=(ProfilerActivity.CPU,), experimental_config=None, **options):
        hardware = "ProfilerActivity.NPU" if ProfilerActivity.NPU in activities else None
        hardware = "experimental_config" if experimental_config is not None else hardware
        if hardware is not None:
            raise NotImplementedError(
                f"torch_npu.profiler: {hardware} is not emulated: there is no hardware to measure; "
                "ProfilerActivity.CPU shows every operation and collective"
            )
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def _hardware_only(name):
    def refuse(*arguments, **options):
        raise NotImplementedError(f"torch_npu.profiler.{name} is not emulated: there is no hardware to measure")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_ExperimentalConfig = _hardware_only("_ExperimentalConfig")
dynamic_profile = _hardware_only("dynamic_profile")
