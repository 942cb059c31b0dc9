"""What a process group knows about pools and about its operations."""

import torch
import torch.distributed as dist

from . import _C


def _backend_of(group, device=None):
    """The backend of a process group (None: the default one), also inside TORCH_DISTRIBUTED_DEBUG's wrapper.

    Of several, that for `device`; None is the CPU, or the only device that the group works on.
    """
    group = dist.group.WORLD if group is None else group
    if isinstance(group, _C.ProcessGroupSymCCL):
        return group
    if group is None:
        raise ValueError(
            "symccl: the default process group has not been initialized, call init_process_group('symccl')"
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"symccl: expected a process group that this rank is a member of, got {group!r}")
    if device is None:
        devices = [each.type for each in group._device_types]
        device = devices[0] if len(devices) == 1 else "cpu"
    backend = group._get_backend(torch.device(device))
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, _C.ProcessGroupSymCCL):
        kind = "CPU" if device == "cpu" else device
        raise TypeError(f"symccl: the group's backend for {kind} tensors is {backend.name()!r}, not 'symccl'")
    return backend


def register_mem_pool(group, pool, symm=True):
    """Marks the segments of `pool`, those of today and those to come, as symmetric memory of `group`.

    Local: talks to no other rank. Operations whose tensors lie in registered memory on all ranks work on them in place.
    Registering twice is the same as once. Unlike `backend.register_mem_pool`, this also works under
    TORCH_DISTRIBUTED_DEBUG=DETAIL, which hides the backend.

    Args:
        group (ProcessGroup or None): None is the default group.
        pool (MemPool): a pool on the group's device.
        symm (bool): must be True.

    Raises:
        RuntimeError: `symm` is False.
        ValueError: the pool lies on another device's heap.
    """
    _backend_of(group).register_mem_pool(pool, symm=symm)


def deregister_mem_pool(group, pool):
    """Ends what register_mem_pool began. The tensors stay valid; operations on them take the staged path.

    Raises:
        RuntimeError: the pool is not registered with the group.
    """
    _backend_of(group).deregister_mem_pool(pool)


def is_symmetric(tensor, group=None):
    """Whether the tensor's memory lies in segments that are registered with `group` on this rank."""
    return _backend_of(group).is_symmetric(tensor)


def verify_pool(group, pool):
    """Checks that `pool` has segments of equal sizes, in equal order, on all ranks. A collective call.

    Nothing requires it: operations decide by themselves what they can do in place. It finds ranks whose allocations
    have run apart.

    Raises:
        RuntimeError: (on every rank) the segments differ; names the ranks and their sizes.
    """
    _backend_of(group).verify_mem_pool(pool)


def stats(group=None):
    """Counts of `group` on this rank since its creation, and of this process's heap.

    Returns a dict: `name`, `rank`, `size`, `sequence` (collectives issued), `operations` (by kind, each with `calls`,
    `bytes`, the path taken: `inlined`, `eager`, `zero_copy`, `staged`, and `loaded_bytes`, `stored_bytes`: what this
    rank's copies and reductions read and wrote), `staged_send_private` and `staged_recv_private` (why staged: some
    rank's buffer was not registered), `registered_segments`, `registered_bytes`, `symmetric` (all heaps stand at equal
    addresses on all ranks), `heap` (`bytes`, `used`, `peak`, `symmetric`).
    """
    return _backend_of(group).stats()
