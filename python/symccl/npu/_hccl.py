"""The backend `hccl` for npu tensors: its registration with torch.distributed, and the calls that torch_npu adds."""

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions, ReduceScatterOptions

from .. import _groups, _npu

ProcessGroupHCCL = _npu.ProcessGroupHCCL


def is_hccl_available():
    """Whether the backend `hccl` is registered with torch.distributed."""
    return "hccl" in dist.Backend.backend_list


if not is_hccl_available():
    dist.Backend.register_backend("hccl", _npu.create_hccl, extended_api=True, devices=["npu"])


_register_backend = dist.ProcessGroup._register_backend


def _register_beside(self, device, backend_type, backend=None):
    """c10d keeps one backend of a type for a group, and all plug-ins are of type CUSTOM: beside another one for the
    CPU, hccl would not be used. So there it takes the type of a backend that PyTorch's wheels do not have."""
    ours = isinstance(getattr(backend, "wrapped_pg", backend), ProcessGroupHCCL)
    if ours and any(each.type == "cpu" for each in self._device_types):
        backend_type = dist.ProcessGroup.BackendType.UCC
    _register_backend(self, device, backend_type, backend)


dist.ProcessGroup._register_backend = _register_beside


def _ended(work, async_op):
    if async_op:
        return work
    work.wait()
    return None


def all_gather_into_tensor_uneven(output, input, output_split_sizes=None, group=None, async_op=False):
    """Gathers the `input` of all ranks into `output`, one after the other along dimension 0.

    Args:
        output_split_sizes (list of int): how many rows are each rank's, equal on all ranks; None: evenly.

    Returns:
        A Work if `async_op`, else None.
    """
    options = AllgatherOptions()
    options.asyncOp = async_op
    backend = _groups._backend_of(group, "npu")
    return _ended(backend.all_gather_into_tensor_uneven(output, input, output_split_sizes or [], options), async_op)


def reduce_scatter_tensor_uneven(
    output, input, input_split_sizes=None, op=dist.ReduceOp.SUM, group=None, async_op=False
):
    """Reduces the `input` of all ranks and gives each rank its rows of dimension 0.

    Args:
        input_split_sizes (list of int): how many rows each rank gets, equal on all ranks; None: evenly.

    Returns:
        A Work if `async_op`, else None.
    """
    options = ReduceScatterOptions()
    options.reduceOp = op
    options.asyncOp = async_op
    backend = _groups._backend_of(group, "npu")
    return _ended(backend.reduce_scatter_tensor_uneven(output, input, input_split_sizes or [], options), async_op)


def all_to_all_vc(output, input, send_count_matrix, group=None, async_op=False):
    """Sends elements of `input` to every rank, as a matrix says that is equal on all ranks.

    Args:
        send_count_matrix: [i][j] is how many elements rank i sends to rank j; nested, or flat by rows.

    Returns:
        A Work if `async_op`, else None.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    counts = torch.as_tensor(send_count_matrix, dtype=torch.int64, device="cpu")
    if counts.numel() != size * size:
        raise ValueError(
            f"all_to_all_vc: send_count_matrix has {counts.numel()} entries, the group of {size} ranks needs "
            f"{size * size} (rank {rank})"
        )
    counts = counts.reshape(size, size)
    for name, tensor in (("output", output), ("input", input)):
        if not tensor.is_contiguous():
            raise RuntimeError(f"Tensors must be contiguous ({name} of all_to_all_vc, rank {rank})")
    return dist.all_to_all_single(
        output.view(-1), input.view(-1), counts[:, rank].tolist(), counts[rank].tolist(), group=group, async_op=async_op
    )


def reinit_process_group(group=None, rebuild_link=True):
    """Not emulated: it revives groups after a device was restarted."""
    raise NotImplementedError(
        "torch_npu.distributed.reinit_process_group is not emulated: it revives groups after a device was restarted; "
        "call destroy_process_group() and init_process_group() again"
    )
