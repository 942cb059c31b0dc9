from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Backend, ErrorType

__version__: str

class Options(Backend.Options):
    """Options of a group, for `pg_options`.

    device: ordinal (0 to 63) of the heap to use; -1 is this process's default (LOCAL_RANK, else the rank).
    is_high_priority_stream: while an operation of the group runs, large ones of this process's other groups pause
    between two blocks, for 1 ms at most each time and 50 times at most in an operation.
    """

    device: int
    is_high_priority_stream: bool
    def __init__(self, timeout: timedelta = ..., device: int = -1) -> None: ...

class PoolAllocator:
    """`backend.mem_allocator`: names the heap that a MemPool takes its memory from."""

    @property
    def device(self) -> int: ...

class MemPool:
    """A pool of memory that every rank of this host can reach. Works before init_process_group.

    allocator: `backend.mem_allocator`, or None for this process's default heap; another allocator is a TypeError.
    use_on_oom, no_split: for code written for torch.cuda.MemPool; they have no effect: allocations outside of the
    pool never come from it, and blocks are always cut from larger segments.
    """

    def __init__(
        self, allocator: PoolAllocator | None = None, use_on_oom: bool = False, no_split: bool = False
    ) -> None: ...
    @property
    def id(self) -> tuple[int, int]: ...
    @property
    def allocator(self) -> PoolAllocator: ...
    def use_count(self) -> int:
        """One, and one more for each use_mem_pool context that is open."""
    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The pool's segments and their blocks, with the keys of torch.cuda.MemPool.snapshot(). Sizes are bytes."""
    def trim(self) -> int:
        """Gives segments without a block in use back to the heap; returns their bytes."""

class _MemPoolUse:
    def __init__(self, pool: MemPool) -> None: ...
    def enter(self) -> None: ...
    def exit(self) -> None: ...

class ProcessGroupSymCCL(Backend):
    """The backend object of a group: `group._get_backend(torch.device("cpu"))`."""

    @property
    def mem_allocator(self) -> PoolAllocator: ...
    @property
    def options(self) -> Options: ...
    def register_mem_pool(self, pool: MemPool, symm: bool = False) -> None:
        """See symccl.register_mem_pool. The default of `symm` is PyTorch's; only True is supported."""
    def deregister_mem_pool(self, pool: MemPool) -> None: ...
    def verify_mem_pool(self, pool: MemPool) -> None: ...
    def is_symmetric(self, tensor: torch.Tensor) -> bool: ...
    def stats(self) -> dict[str, Any]: ...
    def pids(self) -> Sequence[int]:
        """The members' process ids, by rank."""
    def get_error(self) -> ErrorType: ...

def create(options: Any, pg_options: Options | None) -> ProcessGroupSymCCL: ...
def _end() -> None: ...
