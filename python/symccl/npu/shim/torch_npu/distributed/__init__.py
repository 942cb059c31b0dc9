"""torch_npu.distributed: what it adds to torch.distributed."""

import torch.distributed as dist

__all__ = ["is_available", "is_hccl_available"]


def is_available():
    return dist.is_available()


def is_hccl_available():
    """Whether the backend `hccl` is registered with torch.distributed."""
    return "hccl" in dist.Backend.backend_list
