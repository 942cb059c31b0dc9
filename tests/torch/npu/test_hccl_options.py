"""Options of a group of the backend `hccl`: what is honoured, and what is refused with torch_npu's words."""

import datetime
import warnings

import pytest
import torch
import torch.distributed as dist
from npu_ranks import backend_of, comm_stream, run_npu

from symccl.npu._hccl import ProcessGroupHCCL


def options(**config):
    made = ProcessGroupHCCL.Options()
    made.hccl_config = config
    return made


EVERY_KEY = {
    "hccl_buffer_size": 200,
    "group_name": "dp",
    "qos_traffic_class": 3,
    "qos_service_level": 2,
    "hccl_sdma_qos": 1,
    "hccl_op_expansion_mode": 2,
    "hccl_world_rank_id": 0,
    "hccl_job_id": 17,
    "hccl_exec_timeout": 40,
    "hccl_sym_win_max_mem_size_per_rank": 3,
    "hccl_algo": "level0:ring",
    "hccl_retry_enable": "L0:0",
    "hccl_retry_params": "MaxCnt:1",
    "hccl_buffer_name": "shared",
}


def honoured(rank):
    backend = backend_of()
    live = backend.options
    assert live.hccl_config == EVERY_KEY and live.group_id == "0" and live.global_ranks_in_group == [0, 1]
    assert live._timeout == datetime.timedelta(seconds=40)  # hccl_exec_timeout
    x = torch.full((300_001,), rank + 1.0, device="npu")
    dist.all_reduce(x)
    assert x[-1].item() == 3
    assert backend.stats()["operations"]["all_reduce"]["staged"] == 1
    return backend.get_hccl_comm_name(rank), comm_stream().priority


def test_every_key():
    given = options(**EVERY_KEY)
    names = run_npu(2, honoured, init_options={"pg_options": given})
    assert names[0] == names[1] and names[0][1] == 0
    assert given.hccl_config == EVERY_KEY


WRONG_TYPES = [(key, "text" if isinstance(value, int) else 5) for key, value in EVERY_KEY.items()]


@pytest.mark.parametrize(("key", "value"), WRONG_TYPES, ids=[key for key, _ in WRONG_TYPES])
def test_wrong_type(key, value):
    """Refused when the group is created, before anybody is waited for."""
    accepted = "int" if isinstance(value, str) else "string"
    with pytest.raises(RuntimeError, match=rf"Value type of {key} should be {accepted}\. \(rank 3 of group ''\)"):
        ProcessGroupHCCL(dist.HashStore(), 3, 5, options(**{key: value}))


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"hccl_exec_timeout": -1}, "Value type of hccl_exec_timeout less than 0"),
        ({"hccl_exec_timeout": 2**31}, r"Value type of hccl_exec_timeout exceeds INT32_MAX\(2147483647\)"),
        ({"hccl_buffer_size": -5}, "Value type of hccl_buffer_size less than 0"),
        ({"hccl_sym_win_max_mem_size_per_rank": 0}, "accepted: gigabytes, from 1 on"),
    ],
)
def test_out_of_range(config, text):
    with pytest.raises(RuntimeError, match=text):
        ProcessGroupHCCL(dist.HashStore(), 0, 2, options(**config))


def test_neither_number_nor_text():
    for value, name in ((2.5, "float"), ([1], "list"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"Value type of hccl_buffer_size should be int, got {name}"):
            options(hccl_buffer_size=value)
        with pytest.raises(TypeError, match=f"Value type of hccl_bufer_size should be int or string, got {name}"):
            options(hccl_bufer_size=value)


def unknown(rank):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        group = dist.new_group([0, 1], pg_options=options(hccl_bufer_size=7))
    told = [str(each.message) for each in caught if "hccl_bufer_size" in str(each.message)]
    assert len(told) == 1 and "is unknown and has no effect (known: group_name, hccl_algo, " in told[0], told
    x = torch.ones(3, device="npu")
    dist.all_reduce(x, group=group)
    assert x.sum().item() == 6


def test_unknown_key():
    run_npu(2, unknown)


def unknown_algorithm(rank):
    with pytest.raises((RuntimeError, ValueError), match="nonsense"):
        dist.new_group([0, 1], pg_options=options(hccl_algo="level0:nonsense"))


def test_unknown_algorithm():
    run_npu(2, unknown_algorithm)


def priorities(rank):
    given = ProcessGroupHCCL.Options()
    given.is_high_priority_stream = True
    high = dist.new_group([0, 1], pg_options=given)
    usual = dist.new_group([0, 1])
    assert comm_stream(high).priority < comm_stream(usual).priority == 0
    assert backend_of(high).get_coll_stream_id(rank) == backend_of(high).get_p2p_stream_id(rank, 1 - rank, False)
    for group in (high, usual):
        x = torch.full((100_003,), rank + 1.0, device="npu")
        dist.all_reduce(x, group=group)
        assert x[-1].item() == 3


def test_priority():
    run_npu(2, priorities)


def high_by_variable(rank):
    assert comm_stream().priority == -1


def test_priority_by_variable():
    run_npu(1, high_by_variable, environment={"TORCH_HCCL_HIGH_PRIORITY": "1"})


def test_options_are_copied():
    import copy

    made = options(hccl_buffer_size=7)
    made.op_timeout = datetime.timedelta(seconds=9)
    for other in (copy.copy(made), copy.deepcopy(made)):
        assert type(other) is ProcessGroupHCCL.Options and other.hccl_config == {"hccl_buffer_size": 7}
        assert other.op_timeout == datetime.timedelta(seconds=9) and not other.is_high_priority_stream


def foreign(rank):
    assert backend_of().options.hccl_config == {}


def test_options_of_another_backend_are_not_used():
    run_npu(2, foreign, init_options={"pg_options": dist.ProcessGroupGloo._Options()})
