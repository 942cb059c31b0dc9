"""torch_npu.distributed: what it adds to torch.distributed."""

import torch.distributed as dist

from symccl.npu._hccl import (
    all_gather_into_tensor_uneven,
    all_to_all_vc,
    is_hccl_available,
    reduce_scatter_tensor_uneven,
    reinit_process_group,
)

__all__ = [
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]


def is_available():
    return dist.is_available()
