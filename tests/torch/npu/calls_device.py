"""Calls that the CPU has not: device management, streams and events, memory and pools, random states, loading data."""

import gc
import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing
import torch_npu
from call_list import check, data
from torch.utils.data import DataLoader, TensorDataset

# --- Devices ---


@check
def set_device_forms(d):
    before = torch.npu.current_device()
    for form in (1, "npu:1", torch.device("npu", 1), torch.device("npu:1")):
        torch.npu.set_device(form)
        assert torch.npu.current_device() == 1 and torch.empty(1, device="npu").device == torch.device("npu:1")
        torch.npu.set_device(before)
    assert torch.npu.current_device() == before == 0


@check
def device_contexts(d):
    with torch.npu.device(2):
        assert torch.empty(1, device="npu").device.index == 2
        with torch.npu.device("npu:3"), torch.npu.device(None), torch.npu.device(-1):
            assert torch.npu.current_device() == 3
        with torch.npu.device_of(torch.empty(1, device="npu:1")):
            assert torch.npu.current_device() == 1
        with torch.npu.device_of(torch.empty(1)):
            assert torch.npu.current_device() == 2
    assert torch.npu.current_device() == 0


@check
def device_out_of_range(d):
    count = torch.npu.device_count()
    assert count >= 8
    for attempt in (
        lambda: torch.npu.set_device(count),
        lambda: torch.empty(1, device=f"npu:{count}"),
        lambda: torch.ones(1).to(torch.device("npu", count)),
    ):
        with pytest.raises(RuntimeError, match=rf"npu.*\b{count}\b|\b{count}\b.*npu"):
            attempt()
    for attempt in (torch.npu.get_device_name, torch.npu.memory_allocated, torch.npu.get_rng_state):
        with pytest.raises(AssertionError, match="Invalid device id"):
            attempt(count)
    with pytest.raises(ValueError, match="Expected a npu device, but got: cpu"):
        torch.npu.synchronize("cpu")


@check
def device_properties(d):
    assert torch.npu.is_available() and torch.npu.is_initialized() and torch.accelerator.is_available()
    assert "emulated" in torch.npu.get_device_name(d)
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name() and properties.is_emulated
    assert properties.total_memory == torch.npu.mem_get_info()[1] > 0
    assert torch.npu.can_device_access_peer(0, 1) and torch.npu.get_device_capability() is None
    assert torch.accelerator.current_accelerator().type == "npu"


@check
def npu_methods(d):
    x = data("cpu", 3, 4)
    assert torch.equal(x.npu().cpu(), x) and x.npu(1).device.index == 1 and x.npu("npu:2").device.index == 2
    assert x.npu().is_npu and not x.is_npu and x.npu(non_blocking=True).get_device() == 0 and x.to(0).is_npu
    module = torch.nn.Linear(4, 3).npu()
    assert all(p.is_npu for p in module.parameters()) and module(x.npu()).is_npu
    assert x.untyped_storage().npu().is_npu
    packed = torch.nn.utils.rnn.pack_sequence([data("cpu", 3), data("cpu", 2)]).npu()
    assert packed.data.is_npu and packed.is_npu


@check
def ordinals_do_not_mix(d):
    x, y = data("npu:0", 4), data("npu:1", 4)
    with pytest.raises(RuntimeError, match="at least two devices, npu:0 and npu:1"):
        x + y
    assert torch.equal((x + y.to("npu:0")).cpu(), data("cpu", 4) * 2)
    y.copy_(x * 3)
    assert torch.equal(y.cpu(), data("cpu", 4) * 3) and y.device.index == 1


@check
def old_tensor_types(d):
    x = torch.npu.FloatTensor([1, 2, 3])
    assert x.is_npu and x.tolist() == [1, 2, 3] and isinstance(x, torch.npu.FloatTensor)
    assert not isinstance(x, torch.npu.HalfTensor) and not isinstance(x.cpu(), torch.npu.FloatTensor)
    assert x.type() == "torch.npu.FloatTensor" and torch.npu.LongTensor(2, 3).shape == (2, 3)
    half = x.type("torch.npu.HalfTensor")
    assert isinstance(half, torch.npu.HalfTensor) and half.tolist() == [1, 2, 3]
    storage = torch.npu.FloatStorage(5)
    assert isinstance(storage, torch.npu.FloatStorage) and len(storage) == 5


@check
def printing(d):
    assert repr(torch.tensor([1.5, 2], device=d)) == "tensor([1.5000, 2.0000], device='npu:0')"
    assert str(torch.device("npu", 3)) == "npu:3"


@check
def threads_have_a_device_each(d):
    shared = data(d, 100)
    results = {}

    def work(index):
        assert torch.npu.current_device() == 0  # of a new thread
        torch.npu.set_device(index)
        pool = torch.npu.MemPool()
        for _ in range(50):
            with torch.npu.use_mem_pool(pool):
                local = shared.to("npu") * index
        results[index] = (local.device.index, local.cpu())

    threads = [threading.Thread(target=work, args=(index,)) for index in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for index in range(1, 6):
        assert results[index][0] == index and torch.equal(results[index][1], data("cpu", 100) * index)


# --- Streams and events ---


@check
def streams(d):
    default = torch.npu.default_stream()
    assert torch.npu.current_stream() == default and default.npu_stream == 0
    first, second = torch.npu.Stream(), torch.npu.Stream(device="npu:0", priority=-1)
    assert first != second and first.device == torch.device("npu:0") and first.query()
    with torch.npu.stream(first):
        assert torch.npu.current_stream() == first
        with torch.npu.stream(second), torch.npu.stream(None):
            assert torch.npu.current_stream() == second
            x = data(d, 5) * 2
        assert torch.npu.current_stream() == first
        first.wait_stream(second)
    assert torch.npu.current_stream() == default and torch.equal(x.cpu(), data("cpu", 5) * 2)
    x.record_stream(first)
    first.synchronize()
    torch.npu.synchronize()
    assert torch.npu.current_stream("npu:1") == torch.npu.default_stream("npu:1")
    with torch.npu.stream(torch.npu.Stream("npu:1")):
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0 and len({first, second, default, torch.npu.default_stream()}) == 3


@check
def stream_priorities(d):
    assert torch.npu.Stream().priority == 0 and torch.npu.Stream(priority=-1).priority == -1
    high = torch.npu.Stream(priority=-1)
    with torch.npu.stream(high):
        assert torch.npu.current_stream().priority == -1


@check
def events(d):
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    stream = torch.npu.current_stream()
    start.record()
    x = data(d, 300, 300)
    for _ in range(10):
        x = x @ x / 300
    end.record(stream)
    end.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 60_000 and start.elapsed_time(start) == 0
    assert isinstance(stream.record_event(), torch.npu.Event)
    stream.wait_event(end)
    end.wait()
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(stream.record_event())
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        start.elapsed_time(torch.npu.Event(enable_timing=True))
    with pytest.raises(NotImplementedError, match="events belong to a process"):
        torch.npu.Event(interprocess=True)


# --- Memory ---


@check
def memory_is_counted(d):
    gc.collect()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    x = torch.empty(1 << 20, device=d)
    grown = torch.npu.memory_allocated() - before
    assert 4 << 20 <= grown < (4 << 20) + 4096 and torch.npu.memory_reserved() >= torch.npu.memory_allocated()
    y = x + 1
    del x
    assert torch.npu.memory_allocated() - before == grown
    assert 0 <= torch.npu.max_memory_allocated() - before - 2 * grown < 4096
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() - before == grown
    view = y.view(1024, 1024)[3:]
    del y
    assert torch.npu.memory_allocated() - before == grown
    del view
    assert torch.npu.memory_allocated() == before
    assert torch.npu.memory_allocated(1) == torch.npu.memory_allocated("npu:1")


@check
def memory_of_results_is_counted(d):
    gc.collect()
    x = data(d, 500, 500)
    before = torch.npu.memory_allocated()
    kept = [x.sort(1), x.cumsum(0), x.softmax(1), torch.nn.functional.layer_norm(x, (500,)), x[x > 0], x.cpu().npu()]
    assert torch.npu.memory_allocated() - before >= 6 * 1_000_000
    del kept
    assert torch.npu.memory_allocated() == before


@check
def memory_statistics(d):
    stats = torch.npu.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "allocation", "segment"):
        for kind in ("current", "peak", "allocated", "freed"):
            assert stats[f"{name}.all.{kind}"] >= 0
    x = torch.empty(1000, device=d)
    after = torch.npu.memory_stats()
    assert after["allocation.all.allocated"] == stats["allocation.all.allocated"] + 1
    assert after["allocated_bytes.all.allocated"] >= stats["allocated_bytes.all.allocated"] + x.nbytes
    nested = torch.npu.memory_stats_as_nested_dict()
    assert (
        nested["allocated_bytes"]["all"]["current"]
        == torch.npu.memory_allocated()
        == torch.accelerator.memory_allocated()
    )
    assert str(torch.npu.memory_allocated()) in torch.npu.memory_summary()
    torch.npu.reset_accumulated_memory_stats()
    assert torch.npu.memory_stats()["allocation.all.allocated"] == 0
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total


@check
def empty_cache(d):
    x = torch.empty(32 << 20, device=d)
    held = torch.npu.memory_reserved()
    del x
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= held - (128 << 20)


@check
def raw_memory(d):
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(5000)
    assert address > 0 and torch.npu.memory_allocated() >= before + 5000
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before
    with pytest.raises(ValueError, match="did not come from caching_allocator_alloc"):
        torch.npu.caching_allocator_delete(address)


@check
def snapshot_of_the_device(d):
    x = torch.empty(777, device=d)
    holding = [
        segment
        for segment in torch.npu.memory_snapshot()
        if segment["address"] <= x.data_ptr() < segment["address"] + segment["total_size"]
    ]
    assert len(holding) == 1 and holding[0]["allocated_size"] >= x.nbytes
    assert any(block["state"] == "active_allocated" for block in holding[0]["blocks"])


@check
def out_of_memory(d):
    with pytest.raises(torch.OutOfMemoryError, match="npu:0|heap"):
        torch.empty(1 << 45, dtype=torch.uint8, device=d)
    assert torch.ones(3, device=d).sum().item() == 3


@check
def leak_loop(d):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)).npu()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x = data(d, 32, 8)

    def step():
        optimizer.zero_grad()
        out = model(x)
        out.sort(1)[0].square().mean().backward()
        optimizer.step()
        torch.npu.Event().record()
        return out[:, ::2].contiguous().cpu().sum().item()

    for _ in range(20):
        step()
    gc.collect()
    held, reserved, resident = torch.npu.memory_allocated(), torch.npu.memory_reserved(), _resident()
    for _ in range(400):
        step()
    gc.collect()
    assert torch.npu.memory_allocated() == held and torch.npu.memory_reserved() == reserved
    assert _resident() - resident < 8 << 20


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


# --- Pools ---


def _inside(pool, tensor):
    return any(
        segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]
        for segment in pool.snapshot()
    )


@check
def pool_takes_results(d):
    pool, outside = torch_npu.npu.MemPool(), data(d, 64, 64)
    with torch_npu.npu.use_mem_pool(pool, device=torch.device(d)):
        made = {
            "empty": torch.empty(100, device=d),
            "full": torch.full((1024,), 2.0, device=d),
            "add": outside + 1,
            "matmul": outside @ outside,
            "sort": outside.sort(1)[0],
            "layer_norm": torch.nn.functional.layer_norm(outside, (64,)),
            "conv": torch.nn.functional.conv1d(outside[None], outside[:8, :, None]),
            "index": outside[outside > 0],
            "clone": outside.clone(),
            "to": torch.ones(7).to(d),
        }
        view = outside[1:]
    for name, tensor in made.items():
        assert _inside(pool, tensor), name
    assert torch.equal((outside @ outside).cpu(), made["matmul"].cpu())
    assert not _inside(pool, view) and not _inside(pool, torch.empty(100, device=d))
    assert len(pool.id) == 2 and pool.use_count() >= 1


@check
def pools_nest(d):
    outer, inner = torch.npu.MemPool(), torch.npu.MemPool()
    assert outer.id != inner.id
    with torch.npu.use_mem_pool(outer):
        a = torch.empty(10, device=d)
        with pytest.raises(KeyError), torch.npu.use_mem_pool(inner):
            b = torch.empty(10, device=d)
            raise KeyError
        c = torch.empty(10, device=d)
    assert _inside(outer, a) and _inside(inner, b) and _inside(outer, c)


@check
def pool_of_the_thread(d):
    pool, made = torch.npu.MemPool(), []
    with torch.npu.use_mem_pool(pool):
        thread = threading.Thread(target=lambda: made.append(torch.empty(10, device=d)))
        thread.start()
        thread.join(60)
    assert made and not _inside(pool, made[0])


@check
def pool_snapshot(d):
    pool = torch.npu.MemPool()
    assert pool.snapshot() == []
    with torch.npu.use_mem_pool(pool):
        x = torch.empty(3000, device=d)
    (segment,) = pool.snapshot()
    keys = {"address", "total_size", "allocated_size", "active_size", "requested_size", "segment_type", "blocks"}
    assert keys | {"segment_pool_id", "is_expandable"} <= segment.keys()
    assert segment["segment_pool_id"] == pool.id and segment["total_size"] >= segment["allocated_size"] >= x.nbytes


@check
def pool_outlived_by_tensors(d):
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        x = data(d, 5000)
    del pool
    gc.collect()
    assert torch.equal(x.cpu(), data("cpu", 5000))


@check
def pool_of_other_kind(d):
    for wrong in (None, "pool", 3):
        with pytest.raises(TypeError), torch.npu.use_mem_pool(wrong):
            pass
    with pytest.raises(TypeError):
        torch.npu.MemPool("allocator")


# --- Random states ---


@check
def random_states(d):
    torch.npu.manual_seed(3)
    state = torch.npu.get_rng_state()
    first = torch.randn(5, device=d)
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(5, device=d).cpu(), first.cpu()) and torch.npu.initial_seed() == 3
    cpu_state = torch.get_rng_state()
    torch.randn(5, device=d), torch.nn.functional.dropout(first, 0.5), torch.randperm(5, device=d)
    assert torch.equal(torch.get_rng_state(), cpu_state)  # the CPU's numbers are not used up
    torch.npu.manual_seed_all(4)
    a, b = torch.rand(5, device="npu:0"), torch.rand(5, device="npu:1")
    assert torch.equal(a.cpu(), b.cpu())
    states = torch.npu.get_rng_state_all()
    c = torch.rand(5, device="npu:1")
    torch.npu.set_rng_state_all(states)
    assert len(states) == torch.npu.device_count() and torch.equal(torch.rand(5, device="npu:1").cpu(), c.cpu())
    assert torch.npu.seed() == torch.npu.initial_seed()


@check
def dropout(d):
    torch.manual_seed(11)
    x = torch.ones(10_000, device=d).requires_grad_()
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    kept = y != 0
    assert 0.70 < kept.float().mean().item() < 0.80 and torch.allclose(y[kept], torch.tensor(1 / 0.75, device=d))
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


# --- Loading data ---


def _as_npu(batch):
    return [each.npu(non_blocking=True) for each in batch]


def _loaded(**options):
    loader = DataLoader(TensorDataset(data("cpu", 40, 3), torch.arange(40)), batch_size=8, **options)
    return [_as_npu(batch) for batch in loader]


@check
def data_loader(d):
    plain = _loaded()
    for options in ({"num_workers": 2}, {"num_workers": 2, "pin_memory": True, "persistent_workers": True}):
        for expected, got in zip(plain, _loaded(**options), strict=True):
            assert got[0].is_npu and torch.equal(got[0].cpu(), expected[0].cpu()) and torch.equal(got[1], expected[1])


@check
def pinned_memory(d):
    x = data("cpu", 50).pin_memory()
    assert x.is_pinned() and torch.equal(x.npu(non_blocking=True).cpu(), data("cpu", 50))


@check
def passing_to_another_process(d):
    with pytest.raises(RuntimeError, match="only available on CPU"):
        ForkingPickler.dumps(data(d, 3))
    assert torch.equal(pickle.loads(ForkingPickler.dumps(data(d, 3).cpu())), data("cpu", 3))


# --- Mixed precision by torch.npu's own names ---


@check
def npu_amp(d):
    with torch.npu.amp.autocast():
        assert torch.npu.is_autocast_enabled() and (data(d, 3, 4) @ data(d, 4, 2)).dtype == torch.float16
    with torch_npu.npu.amp.autocast(dtype=torch.bfloat16):
        assert (
            torch.npu.get_autocast_dtype() == torch.bfloat16 and (data(d, 3, 4) @ data(d, 4, 2)).dtype == torch.bfloat16
        )
        for reduction in (torch.nn.LayerNorm(4).npu(), torch.nn.Softmax(1), torch.cumsum):  # an accelerator's list
            done = reduction(data(d, 3, 4).half(), *((1,) if reduction is torch.cumsum else ()))
            assert done.dtype == torch.float32
    assert not torch.npu.is_autocast_enabled() and torch.npu.is_bf16_supported()
    parameter = torch.nn.Parameter(torch.ones(2, device=d))
    optimizer = torch.optim.SGD([parameter], 1.0)
    for dynamic, after in ((True, 4.0), (False, 8.0)):
        scaler = torch.npu.amp.GradScaler(init_scale=8.0, dynamic=dynamic)
        scaler.scale((parameter * float("inf")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == after and torch.equal(parameter.cpu().detach(), torch.ones(2))
