"""What the backend `hccl` refuses: torch_npu's exception types and words, then rank and group; the group goes on."""

import pytest
import torch
import torch.distributed as dist
from npu_ranks import backend_of, run_npu


def refused(text, call, *arguments, error=RuntimeError, **options):
    with pytest.raises(error, match=rf"{text}.* \(rank {dist.get_rank()} of group '0'\)"):
        call(*arguments, **options)


def still_usable():
    x = torch.full((5,), dist.get_rank() + 1.0, device="npu")
    dist.all_reduce(x)
    assert x.cpu().tolist() == [3.0] * 5


def placement(rank):
    """Calls on the backend itself: torch.distributed finds CPU tensors before it."""
    backend = backend_of()
    here, cpu = torch.arange(8.0, device="npu"), torch.arange(8.0)
    sparse = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (8,))
    for tensor in (cpu, sparse):
        refused("Tensors must be NPU and dense", backend.allreduce, [tensor])
        refused("Tensors must be NPU and dense", backend.broadcast, [tensor])
        refused("Tensors must be NPU and dense", backend.reduce, [tensor])
        refused("Tensors must be NPU and dense", backend.allgather, [[here.clone(), tensor]], [here])
        refused("Tensors must be NPU and dense", backend.send, [tensor], 1 - rank, 0)
        refused("Tensors must be NPU and dense", backend.recv, [tensor], 1 - rank, 0)
    other = torch.arange(4.0, device=f"npu:{1 - rank}")
    refused("Tensors must be on same NPU device", backend._allgather_base, here, other)
    refused("tensors must be on the same device", backend.alltoall, [here.clone(), here.clone()], [here, other])
    still_usable()


def test_placement():
    run_npu(2, placement)


def strided(rank):
    backend = backend_of()
    whole = torch.arange(24.0, device="npu").reshape(4, 6)
    for tensor in (whole.t(), whole[:, ::2], whole[:, 1:5], torch.ones(3, device="npu").expand(2, 3)):
        refused("Tensors must be contiguous", dist.all_reduce, tensor)
        refused("Tensors must be contiguous", dist.broadcast, tensor, 0)
        refused(
            "Tensors must be contiguous", dist.all_gather_single, torch.empty(2 * tensor.numel(), device="npu"), tensor
        )
        refused("Tensors must be contiguous", dist.send, tensor, 1 - rank)
    images = (
        torch.arange(2 * 3 * 4 * 5.0, device="npu").reshape(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    )
    before = images.cpu()
    dist.all_reduce(images)  # channels last is a layout of its own, and accepted
    assert torch.equal(images.cpu(), 2 * before)
    refused("Tensor list must be nonempty", backend.allreduce, [])
    refused("Tensor list mustn't be larger than the number of available NPUs", backend.allreduce, [whole, whole])
    still_usable()


def test_layout():
    run_npu(2, strided)


def sized(rank):
    small, ints = torch.ones(3, device="npu"), torch.ones(6, dtype=torch.int32, device="npu")
    refused("output tensor must have the same type as input tensor", dist.all_gather_single, ints, small)
    refused(
        "output tensor size must be equal to world_size times input tensor size",
        dist.all_gather_single,
        torch.empty(7, device="npu"),
        small,
    )
    refused("input tensor must be the same type as the output tensor", dist.reduce_scatter_single, small, ints)
    refused(
        "input tensor must be the same size as output size times world size",
        dist.reduce_scatter_single,
        small,
        torch.ones(7, device="npu"),
    )
    floats = torch.empty(6, device="npu")
    refused("Tensors are not equal in size or data type", backend_of().alltoall_base, floats, ints, [], [])
    refused("Tensors are not equal in size or data type", dist.all_to_all_single, floats, torch.cat([floats] * 2))
    odd = torch.ones(3, 2, device="npu")
    refused("Tensor's dim 0 does not divide equally across group size", dist.all_to_all_single, odd.clone(), odd)
    refused("Number of tensor splits not equal to group size", dist.all_to_all_single, odd.clone(), odd, [3], [1, 2])
    refused("Split sizes doesn't match total dim 0 size", dist.all_to_all_single, odd.clone(), odd, [1, 1], [1, 2])
    scalar = torch.ones((), device="npu")
    refused("Scalar tensors .* are not supported in alltoall", dist.all_to_all_single, scalar.clone(), scalar)
    one = [torch.ones(3, device="npu")]
    refused("the size of output_tensors and worldsize must equal", backend_of().alltoall, one, one)
    still_usable()


def test_sizes_and_types():
    run_npu(2, sized)


def reductions(rank):
    floats, eighths = torch.ones(4, device="npu"), torch.ones(4, device="npu").to(torch.float8_e4m3fn)
    for op, name in ((dist.ReduceOp.BAND, "BAND"), (dist.ReduceOp.BOR, "BOR"), (dist.ReduceOp.BXOR, "BXOR")):
        refused(f"Cannot use ReduceOp.{name} with HCCL", dist.all_reduce, floats, op)
    refused("HCCL AllReduce: Unsupported data type torch.float8_e4m3fn", dist.all_reduce, eighths)
    refused("HCCL Reduce: Unsupported data type", dist.reduce, eighths, 0)
    refused("HCCL ReduceScatter: Unsupported data type", dist.reduce_scatter_single, eighths[:2].clone(), eighths)
    out = torch.empty(8, device="npu").to(torch.float8_e4m3fn)
    dist.all_gather_single(out, eighths)  # what only moves has no type
    assert torch.equal(out.float().cpu(), torch.ones(8))
    still_usable()


def test_reductions():
    run_npu(2, reductions)


def ordinals(rank):
    with pytest.raises(RuntimeError, match="99|device"):
        torch.npu.set_device(99)
    with pytest.raises(RuntimeError):
        torch.ones(2, device="npu:99")
    still_usable()


def test_ordinal_out_of_range():
    run_npu(2, ordinals)


def different(rank):
    """Ranks that call different operations are told what each of them called."""
    x = torch.ones(70_001, device="npu")
    with pytest.raises(dist.DistBackendError, match="all_reduce.*broadcast|broadcast.*all_reduce") as caught:
        dist.all_reduce(x) if rank == 0 else dist.broadcast(x, 0)
    assert "rank 0" in str(caught.value) and "rank 1" in str(caught.value)


def test_mismatch():
    run_npu(2, different)
