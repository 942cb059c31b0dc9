"""Collectives that go on beside the caller: works, futures, streams and events tell the truth about them."""

import gc
import time

import pytest
import torch
import torch.distributed as dist
from npu_ranks import backend_of, comm_stream, counts, here, run_npu
from reference import reduced, values

COUNT = 300_001


def store():
    return dist.distributed_c10d._get_default_store()


def pending(rank, synchronize):
    """Rank 1 comes only when rank 0 has looked at its pending operation."""
    x = values(COUNT, torch.float32, rank).npu()
    before, after = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    stream = comm_stream()
    if rank == 1:
        store().wait(["looked"])
        dist.all_reduce(x)
    else:
        before.record(stream)
        work = dist.all_reduce(x, async_op=True)
        after.record(stream)
        elsewhere = torch.npu.Event()
        elsewhere.record()
        assert not work.is_completed() and not stream.query() and not after.query()
        assert before.query() and elsewhere.query() and torch.npu.current_stream().query()
        with pytest.raises(RuntimeError, match="completed before calculating elapsed time"):
            before.elapsed_time(after)
        time.sleep(0.05)
        store().set("looked", "1")
        if synchronize == "device":
            torch.npu.synchronize()
        elif synchronize == "stream":
            stream.synchronize()
        elif synchronize == "event":
            after.synchronize()
        elif synchronize == "wait_event":
            torch.npu.current_stream().wait_event(after)
        elif synchronize == "wait_stream":
            torch.npu.Stream().wait_stream(stream)
        else:
            work.wait()
        assert after.query() and stream.query() and before.elapsed_time(after) >= 50
        work.wait()
        work.wait()
        assert work.is_completed() and before.elapsed_time(after) >= 50
    assert torch.equal(x.cpu(), reduced([values(COUNT, torch.float32, each) for each in range(2)], "SUM"))


@pytest.mark.parametrize("synchronize", ["device", "stream", "event", "wait_event", "wait_stream", "work"])
def test_pending_work(synchronize):
    run_npu(2, pending, synchronize)


def results(rank):
    size = dist.get_world_size()
    x = values(COUNT, torch.float32, rank).npu()
    expected = reduced([values(COUNT, torch.float32, each) for each in range(size)], "SUM")
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    (result,) = work.result()
    here(result)
    assert result.data_ptr() == x.data_ptr()
    ended = doubled.wait()
    here(ended)
    assert torch.equal(ended.cpu(), 2 * expected)
    work.wait()
    assert torch.equal(x.cpu(), expected)

    got = torch.empty(5, device="npu")
    works = [dist.irecv(got, (rank - 1) % size), dist.isend(values(5, torch.float32, rank).npu(), (rank + 1) % size)]
    torch.npu.synchronize()
    assert all(each.is_completed() for each in works)
    assert torch.equal(got.cpu(), values(5, torch.float32, (rank - 1) % size))


@pytest.mark.parametrize("size", [2, 4])
def test_results_are_npu_tensors(size):
    run_npu(size, results)


def forgotten(rank):
    """A Work that nobody keeps still counts, and nothing that has ended keeps memory."""
    torch.npu.synchronize()
    x = values(COUNT, torch.float32, rank).npu()
    before = torch.npu.memory_allocated()
    for _ in range(50):
        y = x.clone()
        dist.all_reduce(y, async_op=True)
        del y
    torch.npu.synchronize()
    gc.collect()
    assert torch.npu.memory_allocated() == before
    dist.barrier()
    assert comm_stream().query()


def test_forgotten_works():
    run_npu(2, forgotten)


def in_flight(rank):
    """Many operations at once keep their order; each has its own tensors."""
    xs = [values(10_007, torch.float32, rank, seed=each).npu() for each in range(40)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    assert len(works) == 40
    torch.npu.synchronize()
    assert all(work.is_completed() for work in works)
    for each, x in enumerate(xs):
        assert torch.equal(x.cpu(), reduced([values(10_007, torch.float32, r, seed=each) for r in range(2)], "SUM"))
    assert counts("all_reduce")["calls"] == 40


def test_operations_in_flight():
    run_npu(2, in_flight)


def failing(rank):
    """An operation that fails is no longer pending, and its error is its Work's."""
    if rank == 1:
        store().wait(["started"])
        backend_of().abort()
        return
    work = dist.all_reduce(torch.ones(COUNT, device="npu"), async_op=True)
    store().set("started", "1")
    torch.npu.synchronize()
    assert comm_stream().query()
    with pytest.raises(dist.DistBackendError, match="abort"):
        work.wait()


def test_failure_is_told_to_the_work():
    run_npu(2, failing)
