"""The emulated device `npu`. Importing it renames PyTorch's PrivateUse1 and registers the device, once for the process.

ImportError if something else has claimed PrivateUse1, or SYMCCL_NPU_DEVICES is malformed. Streams and events are
torch.Stream and torch.Event; memory statistics are torch.accelerator's.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Store, Work

from ._C import MemPool, PoolAllocator, ProcessGroupSymCCL
from ._C import Options as GroupOptions

least_priority: int
greatest_priority: int
"""The range of stream priorities; a lower number is served sooner."""

def device_count() -> int: ...
def current_device() -> int: ...
def set_device(device: int) -> None: ...
def synchronize(device: int = -1) -> None:
    """Waits until everything that is under way on the device has ended. -1: the current device."""

def default_generator(device: int = -1) -> torch.Generator: ...
def cpu_alias(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the memory of an npu tensor, which it keeps alive."""

def adopt(tensor: torch.Tensor, device: int) -> torch.Tensor:
    """Makes a CPU tensor one of npu:`device`, in place if it lies in that heap. Nothing else may use its storage."""

def stream_priority(stream: torch.Stream) -> int: ...
def default_stream(device: int = -1) -> torch.Stream: ...
def elapsed_time(start_event_id: int, end_event_id: int) -> float:
    """Milliseconds between two recorded events, by their `event_id`; RuntimeError if one is not over yet."""

def add_pending(stream: torch.Stream, poll: Callable[[bool], float | None]) -> None:
    """Has the stream, its events and synchronize() account for work that goes on beside the calls.

    poll: asked with False returns None while the work is under way, else the seconds since its end; with True it waits
        for the end first. Called on any thread.
    """

class PoolScope:
    """Between enter() and exit() tensors of the pool's device that the thread makes come from `pool`."""

    def __init__(self, pool: MemPool) -> None: ...
    def enter(self) -> None: ...
    def exit(self) -> None: ...

def pool_allocator(device: int = -1) -> PoolAllocator:
    """What a MemPool on the device is made with."""

def empty_cache() -> None:
    """Gives segments that no tensor uses back to the heaps; those of a MemPool stay until its trim()."""

def memory_snapshot() -> list[dict[str, Any]]:
    """The segments of all pools that npu tensors come from, with the keys of torch.cuda.memory_snapshot()."""

class ProcessGroupHCCL(ProcessGroupSymCCL):
    """The backend object of a group: `group._get_backend(torch.device("npu"))`.

    Refused arguments raise RuntimeError with torch_npu's text, then rank and group.
    """

    class Options(GroupOptions):
        """Options of a group, for `pg_options`; a group copies them.

        hccl_config: by key, int or str. Of effect: hccl_algo (as HCCL_ALGO, for this group), hccl_exec_timeout (seconds
            for each operation), hccl_sym_win_max_mem_size_per_rank (GB that may be registered, 16). The others that
            HCCL knows describe its hardware and buffers: they are checked, and have none.
        is_high_priority_stream: the group's work comes before that of groups without it. TORCH_HCCL_HIGH_PRIORITY=1
            sets it for all.
        op_timeout: of each operation, where it differs from PyTorch's default and hccl_exec_timeout is not given.
        group_id: of the group, once it is created.
        """

        hccl_config: dict[str, int | str]
        is_high_priority_stream: bool
        op_timeout: timedelta
        group_id: str
        def __init__(self) -> None: ...

    def __init__(self, store: Store, rank: int, size: int, options: ProcessGroupHCCL.Options) -> None: ...
    def all_gather_into_tensor_uneven(
        self, output: torch.Tensor, input: torch.Tensor, output_split_sizes: list[int] = ..., opts: Any = ...
    ) -> Work: ...
    def reduce_scatter_tensor_uneven(
        self, output: torch.Tensor, input: torch.Tensor, input_split_sizes: list[int] = ..., opts: Any = ...
    ) -> Work: ...
    def get_hccl_comm_name(self, rankid: int, init_comm: bool = True) -> str:
        """The same on all ranks, and no other group's."""
    def _set_hccl_comm_name(self, hccl_comm_name: str) -> None: ...
    def abort_hccl_comm(self, reason: str = "") -> None: ...
    def _get_stream_id(self, p2p: bool = False, peer: int = -1) -> int:
        """The stream that the group's operations are pending work of."""
    def get_coll_stream_id(self, device: int) -> int: ...
    def get_p2p_stream_id(self, device: int, peer: int, is_batched: bool) -> int: ...
    def _group_start(self) -> None: ...
    def _group_end(self) -> None: ...
    def _window_register_and_exchange(self, window_size: int, peer_ranks: list[int]) -> None:
        """Makes memory of `window_size` bytes that the peers can reach; once a group. Local."""
    def _get_window_mem(self) -> torch.Tensor: ...

def create_hccl(options: Any, pg_options: Any) -> ProcessGroupHCCL: ...

class PluggableAllocator:
    """A user's own allocator: the addresses of two C functions, `void *(ssize_t bytes, int device, void *stream)` and
    `void (void *address, ssize_t bytes, int device, void *stream)`.

    Its memory need not lie in a heap, so groups do not work on it in place; results that are not structured are copied.
    """

    def __init__(self, alloc_address: int, free_address: int) -> None: ...

def change_current_allocator(allocator: PluggableAllocator) -> None:
    """Takes all npu tensors from `allocator`; RuntimeError once there has been one."""

def allocator_backend() -> str:
    """'native' or 'pluggable'."""
