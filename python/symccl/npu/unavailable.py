"""Names of torch.npu that are about the hardware: each raises a sentence that says why."""

_GRAPHS = "graphs are recorded and replayed by the hardware's scheduler; run the model eagerly"
_HEALTH = "it is about the health of a real device"
_LIBRARY = "it belongs to Ascend's operator libraries, which are not here"
_LIMITS = "the emulated device has no compute units to hand out; limit CPUs with OMP_NUM_THREADS or taskset"
_DUMP = "there are no hardware kernels whose inputs could be dumped; use torch.utils._python_dispatch to log operations"
_OVERFLOW = "overflow shows as inf and nan, as on newer NPUs; check with torch.isfinite"

_REASONS = {
    "NPUGraph": _GRAPHS,
    "NpuGraphOpHandler": _GRAPHS,
    "graph": _GRAPHS,
    "graph_pool_handle": _GRAPHS,
    "graph_task_group_begin": _GRAPHS,
    "graph_task_group_end": _GRAPHS,
    "graph_task_update_begin": _GRAPHS,
    "graph_task_update_end": _GRAPHS,
    "make_graphed_callables": _GRAPHS,
    "register_npu_graph_handler": _GRAPHS,
    "super_kernel_scope_begin": _GRAPHS,
    "super_kernel_scope_end": _GRAPHS,
    "ExternalEvent": _GRAPHS,
    "ExternalStream": "there are no streams outside of PyTorch",
    "check_uce_in_memory": _HEALTH,
    "restart_device": _HEALTH,
    "stop_device": _HEALTH,
    "stress_detect": _HEALTH,
    "utilization": _HEALTH,
    "current_blas_handle": _LIBRARY,
    "npurt": _LIBRARY,
    "obfuscation_calculate": _LIBRARY,
    "obfuscation_finalize": _LIBRARY,
    "obfuscation_initialize": _LIBRARY,
    "set_aoe": _LIBRARY,
    "set_op_timeout_ms": "kernels run inside their call; collectives have the timeout of their group",
    "get_device_limit": _LIMITS,
    "get_stream_limit": _LIMITS,
    "reset_stream_limit": _LIMITS,
    "set_device_limit": _LIMITS,
    "set_stream_limit": _LIMITS,
    "finalize_dump": _DUMP,
    "init_dump": _DUMP,
    "set_dump": _DUMP,
    "clear_npu_overflow_flag": _OVERFLOW,
    "get_npu_overflow_flag": _OVERFLOW,
    "host_memory_stats": "pinned memory is ordinary memory here, and is not counted",
    "host_memory_stats_as_nested_dict": "pinned memory is ordinary memory here, and is not counted",
    "reset_accumulated_host_memory_stats": "pinned memory is ordinary memory here, and is not counted",
    "reset_peak_host_memory_stats": "pinned memory is ordinary memory here, and is not counted",
}


def sentence(name, reason):
    return f"torch.npu.{name} is not emulated: {reason}"


def _refusing(name, reason):
    def refuse(*arguments, **options):
        raise NotImplementedError(sentence(name, reason))

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not emulated: {reason}."
    return refuse


names = {name: _refusing(name, reason) for name, reason in _REASONS.items()}
