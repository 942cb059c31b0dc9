"""MemPool and use_mem_pool: what is routed, to whom it returns, what is refused."""

import gc
import os
import threading

import pytest
import torch
import torch.nn.functional as F
from ranks import run_ranks

import symccl

CPU = torch.device("cpu")


def alone(fn, *args, **options):
    """Runs the body in one rank without a process group."""
    return run_ranks(1, fn, *args, init=False, **options)[0]


def inside(pool, tensor):
    """Whether the tensor's memory lies in a block in use of the pool."""
    address = tensor.data_ptr()
    for segment in pool.snapshot():
        for block in segment["blocks"]:
            if block["address"] <= address < block["address"] + block["size"]:
                return block["state"] == "active_allocated"
    return False


def routed(_):
    pool = symccl.MemPool()
    a, b = torch.randn(50, 50), torch.randn(50, 50)
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)
    images = torch.randn(2, 3, 16, 16)
    with symccl.use_mem_pool(pool):
        made = {
            "empty": torch.empty(100),
            "zeros": torch.zeros(3, 5),
            "full": torch.full((7,), 2.5),
            "arange": torch.arange(1000),
            "randn": torch.randn(33),
            "tensor": torch.tensor([1.0, 2.0]),
            "matrix product": a @ b,
            "sum": a + b,
            "clone": a.clone(),
            "other type": a.to(torch.bfloat16),
            "cat": torch.cat([a, b]),
            "contiguous": a.t().contiguous(),
            "sort": a.sort().values,
            "convolution": F.conv2d(images, weight),
            "empty_like": torch.empty_like(a),
        }
        made["convolution"].sum().backward()
        made["gradient"] = weight.grad
        foreign = {"from_numpy": torch.from_numpy(a.numpy()), "view": a[1:]}
    for name, tensor in made.items():
        assert inside(pool, tensor), name
    for name, tensor in foreign.items():
        assert not inside(pool, tensor), name
    assert not inside(pool, torch.empty(100))
    torch.testing.assert_close(made["matrix product"], a @ b)
    torch.testing.assert_close(made["convolution"], F.conv2d(images, weight))
    assert made["arange"].numpy()[999] == 999
    with symccl.use_mem_pool(pool):
        assert torch.empty(0).numel() == 0


def test_routed():
    alone(routed)


def nests(_):
    outer, inner = symccl.MemPool(), symccl.MemPool()
    assert outer.use_count() == 1
    with symccl.use_mem_pool(outer):
        assert outer.use_count() == 2 and inner.use_count() == 1
        a = torch.empty(10)
        with pytest.raises(KeyError):
            with symccl.use_mem_pool(inner, device="cpu"):
                b = torch.empty(10)
                assert inner.use_count() == 2
                raise KeyError
        c = torch.empty(10)
        with symccl.use_mem_pool(outer):
            assert outer.use_count() == 3
            d = torch.empty(10)
    e = torch.empty(10)
    assert inside(outer, a) and inside(inner, b) and inside(outer, c) and inside(outer, d)
    assert not inside(outer, e) and not inside(inner, e)
    assert outer.use_count() == 1 and inner.use_count() == 1


def test_nests():
    alone(nests)


def per_thread(_):
    pool, other = symccl.MemPool(), symccl.MemPool()
    found = {}
    entered, checked = threading.Event(), threading.Event()

    def without():
        entered.wait()
        found["without"] = torch.empty(10)
        with symccl.use_mem_pool(other):
            found["with"] = torch.empty(10)
        checked.set()

    thread = threading.Thread(target=without)
    thread.start()
    with symccl.use_mem_pool(pool):
        entered.set()
        checked.wait()
        mine = torch.empty(10)
    thread.join()
    assert inside(pool, mine) and inside(other, found["with"])
    assert not inside(pool, found["without"]) and not inside(other, found["without"])

    # A context cannot be left by another thread.
    use = symccl._C._MemPoolUse(pool)
    use.enter()
    failures = []

    def leave():
        try:
            use.exit()
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert len(failures) == 1 and "thread that entered" in failures[0]
    use.exit()


def test_per_thread():
    alone(per_thread)


def returns_memory(_):
    pool = symccl.MemPool()
    with symccl.use_mem_pool(pool):
        x = torch.empty(1000)
        y = torch.empty(3 << 20)
    address = x.data_ptr()
    used = sum(segment["allocated_size"] for segment in pool.snapshot())
    assert used >= 4000 + (12 << 20)
    # Freed on another thread, after the context: back to the same pool.
    box = [x]
    del x
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    with symccl.use_mem_pool(pool):
        z = torch.empty(1000)
    assert z.data_ptr() == address, "the freed block is not reused"
    segments = len(pool.snapshot())
    del y
    gc.collect()
    assert pool.trim() >= 12 << 20
    assert len(pool.snapshot()) == segments - 1
    # Tensors outlive their pool.
    z.fill_(3)
    del pool
    gc.collect()
    assert bool((z == 3).all())


def test_returns_memory():
    alone(returns_memory)


def snapshot(_):
    pool = symccl.MemPool()
    assert pool.snapshot() == []
    with symccl.use_mem_pool(pool):
        x = torch.empty(1000)
        y = torch.empty(20 << 20, dtype=torch.uint8)
    small, large = pool.snapshot(include_traces=False)
    assert small["total_size"] == 2 << 20 and small["segment_type"] == "small"
    assert large["total_size"] == 20 << 20 and large["segment_type"] == "large"
    assert small["segment_pool_id"] == pool.id and pool.id[0] == 0
    assert sum(block["size"] for block in small["blocks"]) == small["total_size"]
    first = small["blocks"][0]
    assert first["address"] == x.data_ptr() == small["address"] and first["size"] == 4096
    assert first["state"] == "active_allocated" and small["blocks"][-1]["state"] == "inactive"
    assert large["allocated_size"] == 20 << 20
    keys = "device address total_size allocated_size active_size requested_size stream segment_type segment_pool_id"
    assert set(keys.split()) <= set(small)
    del x, y


def test_snapshot():
    alone(snapshot)


def arguments(_):
    pool = symccl.MemPool(allocator=None, use_on_oom=True, no_split=True)
    assert isinstance(pool.allocator, symccl._C.PoolAllocator)
    assert symccl.MemPool(pool.allocator).allocator is pool.allocator
    assert symccl.MemPool().id != pool.id
    with pytest.raises(TypeError, match="mem_allocator of a symccl backend, got .*object"):
        symccl.MemPool(object())
    with pytest.raises(ValueError, match="accepted: 'cpu'"):
        with symccl.use_mem_pool(pool, device="meta"):
            pass
    with pytest.raises(TypeError, match="takes a symccl.MemPool, got str"):
        with symccl.use_mem_pool("pool"):
            pass


def test_arguments():
    alone(arguments)


def out_of_memory(_):
    pool = symccl.MemPool()
    with symccl.use_mem_pool(pool):
        kept = torch.full((1000,), 5.0)
        with pytest.raises(torch.OutOfMemoryError, match="SYMCCL_") as caught:
            torch.empty(1 << 40)
        assert "asked" in str(caught.value) or str(4 << 40) in str(caught.value), caught.value
        after = torch.empty(1000)
    assert inside(pool, after) and bool((kept == 5).all())


def test_out_of_memory():
    alone(out_of_memory)


def forked(_):
    pool = symccl.MemPool()
    with symccl.use_mem_pool(pool):
        x = torch.ones(1000)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing was raised"
        try:
            with symccl.use_mem_pool(pool):
                torch.empty(10)
        except RuntimeError as error:
            text = str(error)
        assert x[0] == 1
        del x, pool  # frees nothing of the parent's
        gc.collect()
        with symccl.use_mem_pool(symccl.MemPool()):
            own = torch.full((10,), 2.0)
        text += " own" if own.sum() == 20 else ""
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 10000).decode()
    assert os.waitpid(child, 0)[1] == 0
    assert "forked child cannot use its parent's pool" in text and text.endswith("own"), text
    assert bool((x == 1).all()) and inside(pool, x)


def test_forked():
    alone(forked)


def profiled(_):
    from torch.profiler import ProfilerActivity, profile

    pool = symccl.MemPool()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        with symccl.use_mem_pool(pool):
            x = torch.empty(100000)
        del x
        y = torch.empty(5000)
        del y
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in events]
    assert 400000 in sizes and -400000 in sizes, sizes
    assert sum(sizes) == 0, sizes


def test_profiled():
    alone(profiled)
