"""Tensors in pools."""

import contextlib

import torch

from . import _C


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Makes the CPU tensors that the current thread creates inside the context come from `pool`.

    Everything that PyTorch allocates through its CPU allocator is routed: factory functions, outputs of operators
    (`y = a @ b`), gradients when backward() runs inside the context. Not routed: memory that already exists
    (`from_numpy`, views), `copy.deepcopy` of a tensor, shared-memory storages, and other threads. Contexts nest, the
    inner pool wins; an exception restores the outer one. Tensors stay valid after the context and after the pool.

    Args:
        pool (MemPool): the pool. A forked child cannot use its parent's.
        device (torch.device or str, optional): "cpu", the only device there is.

    Raises:
        ValueError: another device than the CPU.
        RuntimeError: the pool belongs to the parent process.
        torch.OutOfMemoryError: (by allocations inside) the heap, the machine or the cgroup has too little memory left.
    """
    if device is not None and torch.device(device).type != "cpu":
        raise ValueError(f"symccl: use_mem_pool: device is {device!r} (accepted: 'cpu')")
    if not isinstance(pool, _C.MemPool):
        raise TypeError(f"symccl: use_mem_pool takes a symccl.MemPool, got {type(pool).__name__}")
    use = _C._MemPoolUse(pool)
    use.enter()
    try:
        yield
    finally:
        use.exit()
