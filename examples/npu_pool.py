"""A script for torch_npu and HCCL, on the emulated device: symmetric memory without an NPU.

    torchrun --standalone --nproc_per_node=8 -m symccl.npu examples/npu_pool.py

Nothing in it is SymCCL's, but for the counters at its end, which tell how the all-reduce was done.
"""

import os

import torch
import torch.distributed as dist
import torch_npu

COUNT = 1 << 20


def main() -> None:
    torch.set_num_threads(1)
    device = torch.device("npu", int(os.environ["LOCAL_RANK"]))
    torch.npu.set_device(device)
    dist.init_process_group("hccl")
    rank, size = dist.get_rank(), dist.get_world_size()

    backend = dist.group.WORLD._get_backend(device)
    pool = torch_npu.npu.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool, symm=True)
    with torch_npu.npu.use_mem_pool(pool, device=device):
        x = torch.arange(COUNT, dtype=torch.float32, device=device) % 1000 + rank

    work = dist.all_reduce(x, async_op=True)  # on the device's communication stream
    y = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)  # meanwhile
    work.wait()
    torch.npu.synchronize()

    expected = size * (torch.arange(COUNT, dtype=torch.float32) % 1000) + size * (size - 1) / 2
    torch.testing.assert_close(x.cpu(), expected, rtol=0, atol=0)
    assert y[0, 0].item() == 64
    counters = backend.stats()["operations"]["all_reduce"]
    assert counters["zero_copy"] == counters["calls"] == 1, counters
    if rank == 0:
        print(
            f"{torch.npu.get_device_name()}: all_reduce of {COUNT} floats on {size} ranks over {dist.get_backend()}, "
            f"zero-copy operations: {counters['zero_copy']}"
        )
    dist.barrier()
    backend.deregister_mem_pool(pool)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
