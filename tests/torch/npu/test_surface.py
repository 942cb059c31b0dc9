"""The names of torch.npu and torch_npu: that they exist, where, and what those say that cannot be emulated."""

import importlib

import pytest
import torch
import torch_npu

# The names that torch_npu 2.13 makes public.
NAMES = """
is_initialized init set_dump synchronize device_count can_device_access_peer set_device current_device get_device_name
get_device_properties get_device_capability mem_get_info is_available device device_of StreamContext stream set_stream
current_stream default_stream set_sync_debug_mode get_sync_debug_mode init_dump utilization finalize_dump manual_seed
manual_seed_all seed seed_all initial_seed caching_allocator_alloc caching_allocator_delete
get_per_process_memory_fraction set_per_process_memory_fraction empty_cache empty_virt_addr_cache memory_stats
memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats reset_max_memory_allocated
reset_max_memory_cached memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
max_memory_cached memory_snapshot memory_summary MemPool use_mem_pool get_allocator_backend NPUPluggableAllocator
change_current_allocator Stream Event set_option CubeMathType set_aoe set_compile_mode set_mm_bmm_format_nd
get_mm_bmm_format_nd get_npu_overflow_flag clear_npu_overflow_flag stress_detect get_rng_state set_rng_state
get_rng_state_all set_rng_state_all is_jit_compile_false get_amp_supported_dtype is_autocast_enabled is_bf16_supported
set_autocast_enabled get_autocast_dtype set_autocast_dtype BoolStorage ByteStorage ShortStorage LongStorage IntStorage
HalfStorage CharStorage DoubleStorage FloatStorage BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor
IntTensor LongTensor ShortTensor BFloat16Tensor BFloat16Storage current_blas_handle stop_device restart_device
check_uce_in_memory config matmul conv enable_deterministic_with_backward disable_deterministic_with_backward mstx
SyncLaunchStream NPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables ExternalEvent
graph_task_group_begin graph_task_group_end graph_task_update_begin graph_task_update_end set_device_limit
get_device_limit set_stream_limit reset_stream_limit get_stream_limit ipc_collect obfuscation_initialize
obfuscation_finalize obfuscation_calculate set_op_timeout_ms host_empty_cache host_memory_stats
host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats reset_peak_host_memory_stats
set_deterministic_level use_compatible_impl are_compatible_impl_enabled NpuGraphOpHandler register_npu_graph_handler
super_kernel_scope_begin super_kernel_scope_end npurt
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_name_is_there(name):
    assert name in torch.npu.__all__ and getattr(torch.npu, name) is getattr(torch_npu.npu, name)


def test_module_paths_lead_to_the_same_modules():
    assert torch.npu is torch_npu.npu is importlib.import_module("torch.npu")
    for root in ("torch.npu", "torch_npu.npu"):
        for path in ("amp", "amp.autocast_mode", "amp.grad_scaler", "memory", "random", "streams", "utils"):
            importlib.import_module(f"{root}.{path}")
        assert importlib.import_module(f"{root}.streams").Stream is torch.npu.Stream
        assert importlib.import_module(f"{root}.amp").autocast is torch.npu.amp.autocast
    from torch_npu.npu.amp import GradScaler, autocast  # noqa: F401
    from torch_npu.npu.utils import _get_device_index

    assert _get_device_index("npu:2") == 2 and torch_npu.__version__ == "2.13.0+symccl"


@pytest.mark.parametrize("name", sorted(torch.npu.unavailable.names))
def test_what_cannot_be_emulated_says_why(name):
    with pytest.raises(NotImplementedError, match=rf"^torch\.npu\.{name} is not emulated: \w.{{20}}"):
        getattr(torch.npu, name)()


def test_names_of_torch_distributed():
    assert torch.distributed.is_hccl_available() and torch_npu.distributed.is_hccl_available()
    assert torch.distributed.get_default_backend_for_device("npu") == "hccl"
    assert torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options().is_high_priority_stream is False


def test_operator_library_says_what_to_use():
    with pytest.raises(
        AttributeError, match="torch_npu.npu_fusion_attention is not emulated.*use the PyTorch operations"
    ):
        getattr(torch_npu, "npu_fusion_attention")  # noqa: B009
    assert not hasattr(torch_npu, "npu_rms_norm") and not hasattr(torch_npu, "other")
    x = torch.ones(3, device="npu")
    assert torch_npu.npu_format_cast(x, 29) is x and torch_npu.get_npu_format(x) == 2


def test_hardware_profiling_is_refused():
    from torch_npu.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        torch.ones(3, 4, device="npu") @ torch.ones(4, 2, device="npu")
    assert any(event.key == "aten::mm" for event in profiled.key_averages())
    with pytest.raises(NotImplementedError, match="ProfilerActivity.NPU is not emulated: there is no hardware"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU])
    with pytest.raises(NotImplementedError, match="_ExperimentalConfig is not emulated"):
        torch_npu.profiler._ExperimentalConfig()


def test_switches_are_kept():
    assert torch.npu.config.allow_internal_format is False
    torch.npu.matmul.allow_hf32 = True
    assert torch.npu.matmul.allow_hf32
    torch.npu.matmul.allow_hf32 = False
    with pytest.raises(AttributeError, match="no switch 'alow_hf32' here .*allow_hf32"):
        torch.npu.matmul.alow_hf32 = True
    torch.npu.set_compile_mode(jit_compile=False)
    assert torch.npu.is_jit_compile_false()
    torch.npu.set_compile_mode(jit_compile=True)
    assert not torch.npu.is_jit_compile_false()
    torch.npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    with pytest.raises(TypeError, match="takes a dict"):
        torch.npu.set_option("x")
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        torch.npu.set_per_process_memory_fraction(1.5)
    with pytest.warns(UserWarning, match="SYMCCL_HEAP_SIZE"):
        torch.npu.set_per_process_memory_fraction(0.5, 1)
    assert torch.npu.get_per_process_memory_fraction(1) == 0.5 and torch.npu.get_per_process_memory_fraction(0) == 1
    with pytest.raises(NotImplementedError, match="set_sync_debug_mode"):
        torch.npu.set_sync_debug_mode("warn")
    torch.npu.set_deterministic_level(1)
    assert torch.are_deterministic_algorithms_enabled()
    torch.npu.set_deterministic_level(0)
    assert not torch.are_deterministic_algorithms_enabled()


def test_marks_show_in_traces():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        number = torch.npu.mstx.range_start("forward pass")
        torch.npu.mstx.mark("half way")
        torch.npu.mstx.range_end(number)
    keys = {event.key for event in profiled.key_averages()}
    assert {"forward pass", "half way"} <= keys
    with pytest.raises(ValueError, match="no open range"):
        torch.npu.mstx.range_end(number)


def test_capability_is_what_the_variable_says(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert torch.npu.get_device_capability() == (8, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
    with pytest.warns(UserWarning, match="'eight'"):
        assert torch.npu.get_device_capability() is None


def test_streams_show_what_they_are():
    assert repr(torch.npu.default_stream()) == "<torch_npu.npu.Stream device=npu:0 npu_stream=0x0>"
    assert repr(torch.npu.Event()) == "<torch_npu.npu.Event uninitialized>"


def test_default_tensor_type():
    torch.set_default_device("npu")
    try:
        assert torch.ones(2).is_npu and torch.nn.Linear(2, 2).weight.is_npu
    finally:
        torch.set_default_device(None)
    assert torch.ones(2).device.type == "cpu"
