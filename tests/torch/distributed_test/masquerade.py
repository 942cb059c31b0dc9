"""Lets symccl run under gloo's name, so that upstream tests which look only at the name see our backend.

Upstream decides by the literal name 'gloo' whether a backend has futures, monitored barriers, coalesced collectives and
object lists. After `install()`, init_process_group("gloo") and new_group build a symccl backend where they would have
built a ProcessGroupGloo; nothing else of PyTorch changes. For test processes only.
"""

import functools
import inspect

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d


class _BuildsSymccl(type):
    """The class that stands where ProcessGroupGloo stood: called, it makes a symccl backend, its only instances."""

    def __call__(cls, store, rank, size, timeout=c10d.default_pg_timeout):
        options = c10d._DistributedBackendOptions()
        options.store = store
        options.group_rank = rank
        options.group_size = size
        options.timeout = timeout
        options.group_id = cls.group_name
        options.global_ranks_in_group = cls.global_ranks
        # A second backend of the same group is the one with which TORCH_DISTRIBUTED_DEBUG=DETAIL checks the first.
        cls.group_name += " check"
        backend = c10d.Backend._plugins["SYMCCL"].creator_fn(options, None)
        cls.backend_type = type(backend)
        return backend

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.backend_type)


class _ProcessGroupGloo(metaclass=_BuildsSymccl):
    """Gloo's constructor is not told the group's name and ranks; symccl's is, so they are noted when they pass by."""

    group_name = ""
    global_ranks = []
    backend_type = ()


def install():
    new_process_group = c10d._new_process_group_helper
    signature = inspect.signature(new_process_group)

    @functools.wraps(new_process_group)
    def note_name(*args, **kwargs):
        arguments = signature.bind(*args, **kwargs).arguments
        _ProcessGroupGloo.group_name = arguments["group_name"]
        _ProcessGroupGloo.global_ranks = arguments["global_ranks_in_group"]
        return new_process_group(*args, **kwargs)

    # C++ code casts what is registered as gloo's type to gloo's class (DDP's logger does): there it stays a plugin.
    custom, gloo = c10d.ProcessGroup.BackendType.CUSTOM, c10d.ProcessGroup.BackendType.GLOO
    c10d.Backend.backend_type_map["gloo"] = custom
    register = c10d.ProcessGroup._register_backend

    def register_as_custom(group, device, backend_type, backend):
        register(group, device, custom if backend_type == gloo else backend_type, backend)

    c10d.ProcessGroup._register_backend = register_as_custom
    c10d._new_process_group_helper = note_name
    c10d.ProcessGroupGloo = dist.ProcessGroupGloo = _ProcessGroupGloo


def title_events_as_gloo(distributed_test):
    """Profiler events of our backend are titled `symccl:<operation>`; the tests look for `gloo:<operation>`."""
    find = distributed_test.get_profiling_event

    def find_renamed(event_name, profiler, *args, **kwargs):
        new_api = isinstance(profiler, torch.profiler.profile)
        for event in profiler.events() if new_api else profiler.function_events:
            event.name = event.name.replace("symccl:", "gloo:")
        return find(event_name, profiler, *args, **kwargs)

    distributed_test.get_profiling_event = find_renamed
