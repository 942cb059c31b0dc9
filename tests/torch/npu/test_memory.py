"""Where the memory of npu tensors lies, and what the statistics say of it."""

import contextlib
import gc
import os
import threading

import pytest
import torch

import symccl
import symccl._npu as npu

MB = 1 << 20


def new_pool(device=0):
    return symccl.MemPool(npu.pool_allocator(device))


@contextlib.contextmanager
def use(pool):
    scope = npu.PoolScope(pool)
    scope.enter()
    try:
        yield
    finally:
        scope.exit()


def lies_in(pool, tensor):
    begin, end = tensor.data_ptr(), tensor.data_ptr() + max(1, tensor.untyped_storage().nbytes())
    return any(s["address"] <= begin and end <= s["address"] + s["total_size"] for s in pool.snapshot())


def allocated(device=0):
    return torch.accelerator.memory_allocated(device)


def test_tensor_lies_in_the_heap_of_its_device():
    for device in (0, 2):
        x = torch.arange(1000.0, device=f"npu:{device}")
        inside = [s for s in npu.memory_snapshot() if s["address"] <= x.data_ptr() < s["address"] + s["total_size"]]
        assert [s["device"] for s in inside] == [device]


# Each makes its result in another way: structured operators, others, factories, random numbers, views of new memory,
# lists, in place with new memory, gradients of the calling thread.
ROUTED = {
    "empty": lambda a: torch.empty(100, device="npu"),
    "full": lambda a: torch.full((300,), 7.0, device="npu"),
    "to": lambda a: torch.arange(500.0).to("npu"),
    "tensor": lambda a: torch.tensor([1.0, 2.0, 3.0], device="npu"),
    "add": lambda a: a + 1,
    "mm": lambda a: a @ a,
    "sum": lambda a: a.sum(0),
    "cat": lambda a: torch.cat([a, a]),
    "clone": lambda a: a.clone(),
    "sort": lambda a: a.sort().values,
    "nonzero": lambda a: a.nonzero(),
    "masked_select": lambda a: a[a > 0],
    "layer_norm": lambda a: torch.nn.functional.layer_norm(a, (64,)),
    "softmax": lambda a: a.softmax(1),
    "conv": lambda a: torch.nn.functional.conv1d(a[None], torch.ones(3, 64, 3, device="npu")),
    "conv_large": lambda a: torch.nn.functional.conv2d(
        torch.ones(8, 16, 64, 64, device="npu"), torch.ones(32, 16, 3, 3, device="npu")
    ),
    "rand": lambda a: torch.rand(200, device="npu"),
    "split": lambda a: torch._foreach_mul([a, a], 2.0)[1],
    "linalg": lambda a: torch.linalg.inv(a @ a.T + torch.eye(64, device="npu")),
    "fft": lambda a: torch.fft.fft(a).real,
    "resize": lambda a: a.clone().resize_(64, 640),
    "out": lambda a: torch.add(a, 1, out=torch.empty(0, device="npu")),
    "dropout": lambda a: torch.nn.functional.dropout(a),
    "embedding": lambda a: torch.nn.functional.embedding(torch.arange(5, device="npu"), a),
}


@pytest.mark.parametrize("name", ROUTED)
def test_results_land_in_the_active_pool(name):
    a = torch.randn(64, 64, device="npu")
    pool = new_pool()
    with use(pool):
        inside = ROUTED[name](a)
    outside = ROUTED[name](a)
    assert inside.device == torch.device("npu", 0)
    assert lies_in(pool, inside) and not lies_in(pool, outside)


def test_structured_results_are_not_copied():
    """A copy would need room for two: the pool holds the result, and nothing that it could have been copied from."""
    a = torch.randn(4 * MB, device="npu")
    pool = new_pool()
    with use(pool):
        b = a + a
    assert sum(s["total_size"] for s in pool.snapshot()) == 16 * MB
    assert torch.equal(b.cpu(), a.cpu() * 2)
    del b


def test_scopes_nest_and_belong_to_a_thread():
    outer, inner = new_pool(), new_pool()
    other_device = new_pool(1)
    seen = []
    with use(outer):
        with use(inner), use(other_device):
            x = torch.ones(10, device="npu")
            elsewhere = torch.ones(10, device="npu:1")
            thread = threading.Thread(target=lambda: seen.append(torch.ones(10, device="npu")))
            thread.start()
            thread.join()
        y = torch.ones(10, device="npu")
        host = torch.ones(10)
    assert lies_in(inner, x) and lies_in(outer, y) and lies_in(other_device, elsewhere)
    assert not any(lies_in(pool, t) for pool in (outer, inner) for t in (seen[0], host))
    assert outer.use_count() == inner.use_count() == 1


def test_scopes_end_in_order():
    first, second = npu.PoolScope(new_pool()), npu.PoolScope(new_pool())
    first.enter()
    second.enter()
    try:
        with pytest.raises(RuntimeError, match="the innermost one first"):
            first.exit()
        with pytest.raises(RuntimeError, match="entered already"):
            second.enter()
    finally:
        second.exit()
        first.exit()
    with pytest.raises(RuntimeError, match="innermost one first"):
        first.exit()


def test_tensor_outlives_its_pool():
    pool = new_pool()
    with use(pool):
        x = torch.arange(1000, device="npu")
    del pool
    gc.collect()
    assert x.sum().item() == 499500


def test_allocated_counts_what_lives():
    before, peak_before = allocated(), torch.accelerator.max_memory_allocated(0)
    assert peak_before >= before
    x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    assert allocated() == before + 3 * MB
    y = x.view(-1)[100:]
    assert allocated() == before + 3 * MB
    z = x + 1
    assert allocated() == before + 6 * MB
    del x, y
    assert allocated() == before + 3 * MB
    del z
    assert allocated() == before
    small = torch.empty(1, device="npu")
    assert allocated() == before + 512
    del small


def test_allocated_follows_what_the_host_allocates_for_the_device():
    """Results of operators that are not structured, and memory that a kernel exchanges."""
    x = torch.randn(512, 512, device="npu")
    before = allocated()
    y = x.sort().values
    assert allocated() == before + MB
    y.resize_(1024, 512)
    assert allocated() == before + 2 * MB
    del y
    z = torch.empty(0, device="npu")
    torch.mul(x, x, out=z)
    assert allocated() == before + MB
    z.untyped_storage().resize_(0)
    assert allocated() == before


def test_peaks_and_sums():
    before = allocated()
    torch.accelerator.reset_peak_memory_stats(0)
    torch.accelerator.reset_accumulated_memory_stats(0)
    assert torch.accelerator.max_memory_allocated(0) == before
    for _ in range(3):
        x = torch.empty(5 * MB, dtype=torch.uint8, device="npu")
        del x
    assert allocated() == before
    assert torch.accelerator.max_memory_allocated(0) == before + 5 * MB
    stats = torch.accelerator.memory_stats(0)
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 15 * MB
    assert stats["allocation.all.allocated"] == 3
    torch.accelerator.reset_peak_memory_stats(0)
    assert torch.accelerator.max_memory_allocated(0) == before


def test_reserved_and_empty_cache():
    npu.empty_cache()
    before = torch.accelerator.memory_reserved(0)
    x = torch.empty(40 * MB, dtype=torch.uint8, device="npu")
    assert torch.accelerator.memory_reserved(0) == before + 40 * MB
    del x
    assert torch.accelerator.memory_reserved(0) == before + 40 * MB
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved(0) == before
    assert torch.accelerator.max_memory_reserved(0) >= before + 40 * MB


def test_devices_are_counted_apart():
    npu.set_device(1)
    before = [allocated(i) for i in range(3)]
    x = torch.empty(2 * MB, dtype=torch.uint8, device="npu:2")
    assert [allocated(i) - before[i] for i in range(3)] == [0, 0, 2 * MB]
    del x


def test_untouched_device_has_no_heap():
    assert allocated(7) == 0 and torch.accelerator.memory_reserved(7) == 0


def test_pools_are_counted_too():
    before = allocated()
    pool = new_pool()
    with use(pool):
        x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    assert allocated() == before + 3 * MB
    del pool
    gc.collect()
    assert allocated() == before + 3 * MB
    del x
    assert allocated() == before


def test_snapshot_holds_the_blocks():
    x = torch.empty(3 * MB, dtype=torch.uint8, device="npu")
    blocks = [b for s in npu.memory_snapshot() for b in s["blocks"] if b["address"] == x.data_ptr()]
    assert [(b["size"], b["state"]) for b in blocks] == [(3 * MB, "active_allocated")]


def test_out_of_memory():
    before = allocated()
    with pytest.raises(torch.OutOfMemoryError, match="asked"):
        torch.empty(1 << 42, device="npu", dtype=torch.uint8)
    assert allocated() == before and torch.ones(3, device="npu").sum().item() == 3


def test_memory_info_is_the_heaps():
    free, total = torch.accelerator.get_memory_info(0)
    x = torch.empty(64 * MB, dtype=torch.uint8, device="npu")
    assert torch.accelerator.get_memory_info(0)[1] == total and 0 < free <= total
    assert free - torch.accelerator.get_memory_info(0)[0] in (0, 64 * MB)  # 0: from the cache
    del x


def test_operators_leak_nothing():
    def step(a):
        b = torch.relu(a @ a.T) + 1
        c = b.sort().values[:, ::2].clone().resize_(3, 5)
        torch.add(c, 1, out=c)
        return torch.nn.functional.conv1d(b[None], torch.ones(2, 16, 3, device="npu")).sum().item() + c.numel()

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    a = torch.randn(16, 8, device="npu")
    for _ in range(200):
        step(a)
    before, host = allocated(), resident()
    for _ in range(3000):
        step(a)
    assert allocated() == before
    assert resident() - host < 4 * MB


def test_threads_allocate_and_free_for_each_other():
    shared = torch.arange(1000.0, device="npu")
    results, errors = {}, []

    def work(index):
        try:
            npu.set_device(index)
            pool = new_pool(index)
            with use(pool):
                mine = torch.full((1000,), float(index), device="npu")
                for _ in range(200):
                    mine = mine + 1
                assert mine.device.index == index and lies_in(pool, mine)
                double = shared * 2  # on its own device, whatever the thread's
                assert double.device.index == 0 and lies_in(pool, double) == (index == 0)
            results[index] = mine.sum().item() + double.sum().item()
        except BaseException as error:
            errors.append(error)

    before = allocated()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert results == {i: 1000.0 * (i + 200) + 999000.0 for i in range(8)}
    assert allocated() == before


def test_forked_child_computes():
    x = torch.arange(100.0, device="npu")
    pool = new_pool()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            y = x * 2 + torch.ones(100, device="npu")
            said = f"{y.sum().item()} {torch.rand(3, device='npu').numel()}"
            del x
            with use(pool):
                pass
        except BaseException as error:
            said += f" {type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert said.startswith("10000.0 3 RuntimeError") and "forked child cannot use its parent's pool" in said
    assert x.sum().item() == 4950


def test_pinned_memory():
    x = torch.arange(100.0)
    y = x.pin_memory()
    assert not x.is_pinned() and y.is_pinned() and y.device.type == "cpu" and torch.equal(x, y)
    assert y.to("npu", non_blocking=True).sum().item() == 4950
    address = y.data_ptr()
    del y
    assert not x.is_pinned() and address != x.data_ptr()


def test_profiler_is_told():
    from torch.profiler import ProfilerActivity, profile

    a = torch.randn(64, 64, device="npu")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        b = torch.empty(100000, device="npu")
        c = a.sort().values
        del b, c
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in events if event.device_type() == torch._C._autograd.DeviceType.PrivateUse1]
    assert 400000 in sizes and -400000 in sizes and 16384 in sizes and sum(sizes) == 0, sizes


def test_alias_shares_memory_and_keeps_it():
    x = torch.arange(100, device="npu")
    before = allocated()
    alias = npu.cpu_alias(x)
    assert alias.device.type == "cpu" and alias.data_ptr() == x.data_ptr()
    alias[3] = 77
    assert x[3].item() == 77
    del x
    assert allocated() == before and alias.sum().item() == 4950 + 74
    transposed = torch.arange(6.0, device="npu").view(2, 3).t()[1:]
    assert npu.cpu_alias(transposed).stride() == transposed.stride()
    assert torch.equal(npu.cpu_alias(transposed), transposed.cpu())


def test_adopt():
    pool = new_pool()
    with symccl.use_mem_pool(pool):
        x = torch.arange(100.0)
    address = x.data_ptr()
    assert npu.adopt(x, 0).data_ptr() == address
    y = npu.adopt(torch.arange(50.0), 2)  # not in a heap: copied there
    inside = [s for s in npu.memory_snapshot() if s["address"] <= y.data_ptr() < s["address"] + s["total_size"]]
    assert y.device.index == 2 and [s["device"] for s in inside] == [2] and y.sum().item() == 1225
