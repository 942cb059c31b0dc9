"""torch_npu.contrib.transfer_to_npu: CUDA's code on the npu. It changes PyTorch for its process: a new one."""

import sys

from launched import TORCHRUN, run, write

NPU = [sys.executable, "-m", "symccl.npu"]

CUDA_SCRIPT = """
    import torch
    import torch.nn as nn
    from torch_npu.contrib import transfer_to_npu

    assert torch.cuda.is_available() and torch.cuda.device_count() >= 8
    torch.cuda.set_device("cuda:1")
    assert torch.cuda.current_device() == 1 and torch.zeros(2, device="cuda").device == torch.device("npu:1")
    torch.cuda.set_device(torch.device("cuda", 0))
    torch.cuda.manual_seed_all(3)
    assert torch.cuda.get_device_capability() < (8, 0) and torch.cuda.get_device_name(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    reference = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    model.load_state_dict(reference.state_dict())
    x, y = torch.arange(24.0).reshape(4, 6) / 24, torch.arange(12.0).reshape(4, 3) / 12
    model = model.to(device)
    for each, data, target in ((reference, x, y), (model, x.cuda(non_blocking=True), y.to("cuda:0"))):
        optimizer = torch.optim.AdamW(each.parameters(), 0.05)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.mse_loss(each(data), target).backward()
            optimizer.step()
    for a, b in zip(reference.parameters(), model.parameters()):
        assert b.is_cuda and b.device.type == "npu" and torch.equal(a, b.cpu())

    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2).cuda()).dtype == torch.bfloat16
    with torch.cuda.amp.autocast():
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2).cuda()).dtype == torch.float16
    scaler = torch.cuda.amp.GradScaler()
    assert scaler.scale(torch.ones(1, device=device)).item() == 65536
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.cuda.device(1):
        z = torch.full((3,), 2.0, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record(), end.record()
    torch.cuda.synchronize()
    assert z.device.index == 1 and start.elapsed_time(end) >= 0 and torch.cuda.memory_allocated() > 0
    with torch.device("cuda"):
        assert torch.ones(1).is_cuda
    g = torch.Generator("cuda").manual_seed(1)
    assert isinstance(g, torch.Generator) and torch.rand(3, device="cuda", generator=g).is_cuda
    torch.save(model.state_dict(), "model.pt")
    assert torch.load("model.pt", map_location="cuda:0")["0.weight"].is_cuda
    assert x.new_zeros(2, device="cuda").is_cuda and torch.zeros_like(x, device="cuda").is_cuda
    assert model.cuda().to("cpu")[0].weight.device.type == "cpu" and torch.ones(1, device="cpu").device.type == "cpu"
    print("RESULT good")
"""


def test_script_for_cuda(tmp_path):
    assert "RESULT good" in run(*NPU, write(tmp_path, CUDA_SCRIPT), cwd=tmp_path).stdout


NCCL_SCRIPT = """
    import os, sys
    import torch
    import torch.distributed as dist
    import torch_npu.contrib.transfer_to_npu
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.parallel import DistributedDataParallel

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    assert dist.is_nccl_available()
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    assert dist.get_backend() == "hccl"
    x = torch.arange(5.0, device="cuda") + rank
    dist.all_reduce(x)
    assert x.tolist() == [1, 3, 5, 7, 9]

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 2).cuda(), device_ids=[rank])
    model(torch.arange(6.0).reshape(2, 3).cuda() + rank).sum().backward()
    assert model.module.weight.grad.tolist() == [[4, 6, 8]] * 2  # 3 5 7 and 5 7 9, averaged

    group = dist.new_group([0, 1], backend="nccl")
    y = torch.full((2,), rank + 1.0).cuda()
    dist.broadcast(y, 1, group=group)
    mesh = init_device_mesh("cuda", (2,))
    pool = torch.cuda.MemPool(group._get_backend(torch.device("cuda")).mem_allocator)
    assert y.tolist() == [2, 2] and mesh.device_type == "npu" and pool.snapshot() == []
    sys.stdout.write(f"RESULT {rank}\\n")
    dist.destroy_process_group()
"""


def test_script_for_nccl(tmp_path):
    command = [*TORCHRUN, "--nproc_per_node=2", "-m", "symccl.npu", write(tmp_path, NCCL_SCRIPT)]
    assert sorted(line for line in run(*command).stdout.splitlines() if "RESULT" in line) == ["RESULT 0", "RESULT 1"]
