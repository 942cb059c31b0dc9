"""Memory of the device: what is allocated, what is reserved, and pools. Sizes are bytes."""

import collections
import contextlib

import torch

from .. import _C, _npu
from .devices import _checked_index, _get_device_index
from .streams import Stream

__all__ = [
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "empty_virt_addr_cache",
    "host_empty_cache",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "use_mem_pool",
]


def memory_stats_as_nested_dict(device=None):
    """The allocator's counters, as {"allocated_bytes": {"all": {"current": ..., "peak": ...}}, ...}."""
    return torch._C._accelerator_getDeviceStats(_checked_index(device))


def memory_stats(device=None):
    """The allocator's counters by flat names: "allocated_bytes.all.current", "reserved_bytes.all.peak", ..."""
    flat = {}

    def flatten(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                flatten(f"{prefix}.{key}" if prefix else key, inner)
        else:
            flat[prefix] = value

    flatten("", memory_stats_as_nested_dict(device))
    return collections.OrderedDict(sorted(flat.items()))


def memory_allocated(device=None):
    """Bytes of living tensors."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    """The most that memory_allocated() was since the start, or since reset_peak_memory_stats()."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    """Bytes that the allocator holds: tensors, and what it keeps for the next ones."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.all.peak"]


memory_cached = memory_reserved  # older names
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device=None):
    torch._C._accelerator_resetPeakStats(_checked_index(device))


def reset_accumulated_memory_stats(device=None):
    torch._C._accelerator_resetAccumulatedStats(_checked_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def memory_summary(device=None, abbreviated=False):
    """A table of memory_stats() for people."""
    index = _checked_index(device)
    stats = memory_stats(index)
    rows = ["allocated_bytes", "active_bytes", "reserved_bytes"]
    if not abbreviated:
        rows += ["allocation", "active", "segment"]
    lines = [
        f"memory of npu:{index}",
        f"{'':<16}{'current':>16}{'peak':>16}{'allocated':>18}{'freed':>18}",
    ]
    for row in rows:
        current, peak, allocated, freed = (
            stats.get(f"{row}.all.{what}", 0) for what in ("current", "peak", "allocated", "freed")
        )
        lines.append(f"{row:<16}{current:>16}{peak:>16}{allocated:>18}{freed:>18}")
    return "\n".join(lines) + "\n"


def empty_cache():
    """Gives what no tensor uses back to the heap."""
    torch._C._accelerator_emptyCache()


def empty_virt_addr_cache():
    """Nothing to do: address space is the heap's, and fixed."""


def host_empty_cache():
    """Nothing to do: host memory is not cached."""


def ipc_collect():
    """Nothing to do: no memory is kept for other processes."""


def memory_snapshot():
    """The segments of all devices and their blocks, as a list of dicts."""
    return _npu.memory_snapshot()


_raw = {}


def caching_allocator_alloc(size, device=None, stream=None):
    """Allocates `size` bytes and returns their address; caching_allocator_delete(address) ends it."""
    if stream is not None and not isinstance(stream, Stream | int):
        raise TypeError(f"caching_allocator_alloc: stream must be a torch_npu.npu.Stream or an int, got {stream!r}")
    if size <= 0:
        raise ValueError(f"caching_allocator_alloc: size must be positive, got {size}")
    storage = torch.UntypedStorage(size, device=torch.device("npu", _checked_index(device)))
    _raw[storage.data_ptr()] = storage
    return storage.data_ptr()


def caching_allocator_delete(mem_ptr):
    if _raw.pop(mem_ptr, None) is None:
        raise ValueError(f"caching_allocator_delete: {mem_ptr:#x} did not come from caching_allocator_alloc")


class MemPool(_C.MemPool):
    """A pool of the device's memory, which a group can register: `MemPool(backend.mem_allocator)`.

    Args:
        allocator: `backend.mem_allocator`; None is the current device's.
        use_on_oom, no_split: have no effect, see symccl.MemPool.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        super().__init__(_npu.pool_allocator() if allocator is None else allocator, use_on_oom, no_split)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Tensors that this thread creates on the pool's device inside the context come from `pool`.

    Contexts nest, the inner pool wins. Other threads are not concerned: gradients that backward() allocates on its own
    thread are not routed.

    Args:
        device: the pool's device, if given.

    Raises:
        ValueError: another device.
    """
    if not isinstance(pool, _C.MemPool):
        raise TypeError(f"torch.npu.use_mem_pool takes a torch.npu.MemPool, got {type(pool).__name__}")
    index = pool.allocator.device if device is None else _get_device_index(device, optional=True)
    if index != pool.allocator.device:
        raise ValueError(f"torch.npu.use_mem_pool: the pool lies on npu:{pool.allocator.device}, not on npu:{index}")
    scope = _npu.PoolScope(pool)
    scope.enter()
    try:
        yield
    finally:
        scope.exit()
