"""Devices, streams and events, and that they are honest about work that is under way."""

import os
import sys
import threading
import time

import pytest
import torch
from launched import run
from pending_work import Gate

import symccl._npu as npu


def stream(priority=0, device="npu:0"):
    return torch.Stream(device=torch.device(device), priority=priority)


def test_current_device_is_the_threads():
    torch.accelerator.set_device_index(3)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(npu.current_device()))
    thread.start()
    thread.join()
    assert seen == [0] and npu.current_device() == 3
    assert torch.empty(1, device="npu").device == torch.device("npu", 3)


@pytest.mark.parametrize("ordinal", [-1, 64, 8])
def test_no_such_device(ordinal):
    with pytest.raises(RuntimeError, match="there is no device .*accepted: 0 to 7"):
        npu.set_device(ordinal)
    assert npu.current_device() == 0


def test_tensor_on_no_such_device():
    with pytest.raises(RuntimeError, match="there is no device 9"):
        torch.empty(1, device="npu:9")


def test_lower_number_is_the_higher_priority():
    assert npu.stream_priority(stream(0)) == npu.least_priority == 0
    assert npu.stream_priority(stream(-1)) == npu.greatest_priority == -1
    assert npu.stream_priority(stream(1)) == 0 and npu.stream_priority(stream(-7)) == -1
    assert npu.stream_priority(npu.default_stream(2)) == 0
    assert len({stream().stream_id for _ in range(100)}) == 100


def test_current_stream_is_the_threads_and_the_devices():
    mine = stream()
    with mine:
        assert torch.accelerator.current_stream() == mine
        assert torch.accelerator.current_stream(torch.device("npu:1")).stream_id == 0
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream()))
        thread.start()
        thread.join()
        assert seen[0].stream_id == 0
    assert torch.accelerator.current_stream().stream_id == 0


def test_query_and_synchronize_are_of_one_stream():
    busy, idle = stream(), stream()
    gate = Gate(busy)
    assert not busy.query() and idle.query()
    idle.synchronize()
    assert gate.waits == 0
    closer = gate.open_after(0.2)
    began = time.monotonic()
    busy.synchronize()
    assert time.monotonic() - began >= 0.15 and busy.query()
    closer.join()


def test_device_synchronize_waits_for_all_streams():
    gates = [Gate(stream()) for _ in range(3)]
    other = Gate(stream(device="npu:1"))
    closers = [gate.open_after(0.1 * i) for i, gate in enumerate(gates)]
    npu.synchronize(0)
    assert all(gate._open.is_set() for gate in gates) and other.waits == 0
    for closer in closers:
        closer.join()
    other.open()
    npu.synchronize(1)


def test_event_is_about_what_came_before_it():
    busy = stream()
    before, after = torch.Event(device="npu"), torch.Event(device="npu")
    before.record(busy)
    gate = Gate(busy)
    after.record(busy)
    later = Gate(busy)
    assert before.query() and not after.query()
    before.synchronize()
    gate.open()
    assert after.query() and not busy.query()
    after.synchronize()
    assert later.waits == 0
    later.open()
    assert busy.query()


def test_wait_event_and_wait_stream_hold_the_host():
    busy, waiting = stream(), stream()
    event = torch.Event(device="npu")
    gate = Gate(busy)
    event.record(busy)
    closer = gate.open_after(0.2)
    waiting.wait_event(event)
    assert event.query()
    closer.join()
    gate = Gate(busy)
    closer = gate.open_after(0.2)
    waiting.wait_stream(busy)
    assert busy.query()
    closer.join()


def test_waits_let_other_threads_run_python():
    """The end of the work needs the interpreter: a wait that kept it would never end."""
    for wait in (
        lambda busy, event: busy.synchronize(),
        lambda busy, event: event.synchronize(),
        lambda busy, event: event.wait(stream()),
        lambda busy, event: npu.synchronize(),
        lambda busy, event: torch.accelerator.synchronize(),
    ):
        busy, event = stream(), torch.Event(device="npu")
        gate = Gate(busy)
        event.record(busy)
        closer = gate.open_after(0.05)
        wait(busy, event)
        assert busy.query()
        closer.join()


def test_elapsed_time_counts_to_the_end_of_the_work():
    busy = stream()
    start, end = (torch.Event(device="npu", enable_timing=True) for _ in range(2))
    start.record(busy)
    gate = Gate(busy)
    end.record(busy)
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be completed"):
        npu.elapsed_time(start.event_id, end.event_id)
    time.sleep(0.2)
    gate.open()
    time.sleep(0.3)  # asked later than the end: no part of it
    assert 190 <= start.elapsed_time(end) < 500
    assert abs(npu.elapsed_time(start.event_id, end.event_id) - start.elapsed_time(end)) < 1e-6
    never = torch.Event(device="npu", enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        npu.elapsed_time(start.event_id, never.event_id)


def test_event_of_another_device():
    event = torch.Event(device="npu:1")
    event.record(stream(device="npu:1"))
    with pytest.raises(RuntimeError, match="event of device 1 cannot be recorded by a stream of device 0"):
        event.record(stream())


def test_ended_work_is_let_go_of():
    import gc
    import weakref

    busy = stream()
    held = []
    for _ in range(50):
        gate = Gate(busy)
        gate.open()
        held.append(weakref.ref(gate))
        del gate
    assert busy.query()
    gc.collect()
    assert not [reference for reference in held if reference() is not None]


def test_many_threads_wait_for_one_work():
    busy = stream()
    gate = Gate(busy)
    threads = [threading.Thread(target=busy.synchronize) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert all(thread.is_alive() for thread in threads)
    gate.open()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_forked_child_waits_for_nothing_of_its_parent():
    busy = stream()
    gate = Gate(busy)
    child = os.fork()
    if child == 0:
        npu.synchronize()
        os._exit(0 if busy.query() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not busy.query() and gate.waits == 0
    gate.open()
    assert busy.query()


def test_how_many_devices():
    code = "import symccl._npu as n; print(n.device_count())"
    for variables, expected in (
        ({}, "8"),
        ({"LOCAL_WORLD_SIZE": "12"}, "12"),
        ({"LOCAL_WORLD_SIZE": "100"}, "64"),
        ({"LOCAL_WORLD_SIZE": "12", "SYMCCL_NPU_DEVICES": "3"}, "3"),
    ):
        assert run(sys.executable, "-c", code, **variables).stdout.strip() == expected
    refused = run(sys.executable, "-c", code, check=False, SYMCCL_NPU_DEVICES="0")
    assert refused.returncode == 1
    assert "ImportError: symccl: the variable SYMCCL_NPU_DEVICES is '0'; accepted: a number from 1" in refused.stderr
