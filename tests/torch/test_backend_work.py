"""Work objects, futures, threads, messages and batches."""

import datetime
import os
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks
from reference import assert_bits, reduced, values

CPU = torch.device("cpu")


def backend_of(group=None):
    return (group or dist.group.WORLD)._get_backend(CPU)


def seconds(number):
    return datetime.timedelta(seconds=number)


# --- work and futures ---------------------------------------------------------------------------------------------


def futures(rank):
    size = dist.get_world_size()
    x = values(1000, torch.float32, rank)
    expected = reduced([values(1000, torch.float32, other) for other in range(size)], "SUM")
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert_bits(doubled.wait(), expected * 2, "value of a future's callback")
    assert work.wait() and work.is_completed()
    assert_bits(work.get_future().wait()[0], expected, "a future taken after the end")
    assert work.result()[0].data_ptr() == x.data_ptr()

    # The outputs of a list form, in order of the ranks.
    outputs = [torch.empty(5) for _ in range(size)]
    result = dist.all_gather(outputs, torch.full((5,), float(rank)), async_op=True).get_future().wait()
    assert [tensor[0].item() for tensor in result] == list(range(size))

    # The tensors may be dropped while the operation runs.
    works = [dist.all_reduce(torch.full((10000,), float(rank)), async_op=True) for _ in range(20)]
    for work in works:
        assert_bits(work.get_future().wait()[0], torch.full((10000,), float(sum(range(size)))), "a dropped tensor")
    for _ in range(20):
        dist.all_reduce(torch.full((10000,), float(rank)), async_op=True)
    dist.barrier()


def test_futures():
    run_ranks(3, futures)


def callbacks_that_wait(rank):
    """A callback may wait for another operation of the same group, as PowerSGD's does."""
    size = dist.get_world_size()
    total = torch.full((4,), float(sum(range(size))))

    def again(future):
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    results = []
    for _ in range(3):
        x = torch.full((4,), float(rank))
        future = dist.all_reduce(x, async_op=True).get_future().then(again).then(lambda future: future.value() + 1)
        results.append(future.wait())
    for result in results:
        assert_bits(result, total * size + 1, "an operation inside of a callback")


def test_callbacks_that_wait():
    run_ranks(2, callbacks_that_wait)


def failing_future(rank):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        future = work.get_future()
        dist.group.WORLD.abort()
        with pytest.raises(Exception, match="abort"):
            future.wait()
        with pytest.raises(dist.DistBackendError, match="abort"):
            work.wait()
        store.set("aborted", "yes")
    else:
        store.wait(["aborted"])  # the end of this rank would be a failure of its own


def test_failing_future():
    run_ranks(2, failing_future)


def order(rank):
    """Operations run in the order in which they were issued, blocking ones among the others."""
    x = torch.full((3,), float(rank + 1))
    first = dist.all_reduce(x, async_op=True)
    second = dist.all_reduce(x, async_op=True)
    dist.all_reduce(x)
    assert first.is_completed() and second.is_completed()
    assert x[0].item() == 3 * 2 * 2


def test_order():
    run_ranks(2, order)


def wait_with_a_timeout(rank):
    """It raises, and the operation goes on."""
    x = torch.full((100000,), float(rank + 1))
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        before = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="Timed out waiting 50ms"):
            work.wait(datetime.timedelta(milliseconds=50))
        assert time.monotonic() - before >= 0.05
        assert not work.is_completed()
        dist.distributed_c10d._get_default_store().set("timed out", "yes")
        work.wait()
    else:
        dist.distributed_c10d._get_default_store().wait(["timed out"])
        dist.all_reduce(x)
    assert x[0].item() == 3
    dist.barrier()


def test_wait_with_a_timeout():
    run_ranks(2, wait_with_a_timeout)


# --- threads ------------------------------------------------------------------------------------------------------


def thread_names():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return sorted(names)


def blocking_calls_stay_in_their_thread(rank):
    x = torch.ones(1 << 22)
    dist.barrier()
    names = thread_names()
    mine, whole = time.thread_time(), time.process_time()
    for _ in range(5):
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.all_gather_single(torch.empty(2 << 20), x[: 1 << 20])
    mine, whole = time.thread_time() - mine, time.process_time() - whole
    assert thread_names() == names, "a blocking call started a thread"
    assert mine > 0.8 * whole, f"the caller's thread used {mine:.3f} s of {whole:.3f} s"


def test_blocking_calls_stay_in_their_thread():
    run_ranks(2, blocking_calls_stay_in_their_thread)


def several_threads(rank):
    """Each thread has a group of its own; their calls do not disturb each other."""
    groups = [dist.new_group() for _ in range(3)]
    failures = []

    def work(index):
        try:
            for i in range(100):
                x = torch.full((100,), float(rank + index))
                dist.all_reduce(x, group=groups[index], async_op=i % 2 == 0) and dist.barrier(groups[index])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_several_threads():
    run_ranks(2, several_threads)


# --- point to point and batches -----------------------------------------------------------------------------------


def point_to_point(rank):
    size = dist.get_world_size()
    if rank == 0:
        # In the order of arrival, with the true source.
        seen = set()
        for _ in range(size - 1):
            x = torch.empty(100)
            source = dist.recv(x)
            assert_bits(x, values(100, torch.float32, source), "receive from any source")
            seen.add(source)
        assert seen == set(range(1, size))
        for other in range(1, size):
            for tag in (5, 3, 4):  # another order than that of the sends
                x = torch.empty(70000)
                dist.recv(x, other, tag=tag)
                assert_bits(x, values(70000, torch.float32, other, seed=tag), f"tag {tag}")
    else:
        dist.send(values(100, torch.float32, rank), 0)
        works = [dist.isend(values(70000, torch.float32, rank, seed=tag), 0, tag=tag) for tag in (3, 4, 5)]
        for work in works:
            work.wait()
    empty = torch.empty(0)
    if rank == 1:
        dist.send(empty, 0)
    elif rank == 0:
        dist.recv(empty, 1)


def test_point_to_point():
    run_ranks(3, point_to_point)


def batches(rank):
    size = dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (1, 1000, 300000):
        got = [torch.empty(count) for _ in range(2)]
        operations = [
            dist.P2POp(dist.isend, values(count, torch.float32, rank, seed=1), right),
            dist.P2POp(dist.irecv, got[0], left),
            dist.P2POp(dist.irecv, got[1], left),
            dist.P2POp(dist.isend, values(count, torch.float32, rank, seed=2), right),
        ]
        if rank % 2:
            operations = [operations[1], operations[2], operations[0], operations[3]]
        works = dist.batch_isend_irecv(operations)
        assert len(works) == 1
        for work in works:
            work.wait()
        for i in (0, 1):
            assert_bits(got[i], values(count, torch.float32, left, seed=i + 1), f"batch of {count}")


def test_batches():
    run_ranks(3, batches)


def mixed_batch(rank):
    """Collectives and messages inside one coalescing manager, blocking and not."""
    x, y, z = torch.full((4,), float(rank)), torch.full((4,), float(rank)), torch.empty(4)
    with dist.distributed_c10d._coalescing_manager(device=CPU, async_ops=True) as manager:
        dist.broadcast(x, 1)
        dist.broadcast(y, 0, async_op=True)
        if rank == 0:
            dist.isend(torch.full((4,), 7.0), 1)
        else:
            dist.irecv(z, 0)
    manager.wait()
    assert x[0].item() == 1 and y[0].item() == 0
    assert rank == 0 or z[0].item() == 7
    # A batch that an exception leaves open is dropped.
    with pytest.raises(RuntimeError, match="left"):
        with dist.distributed_c10d._coalescing_manager(device=CPU):
            dist.broadcast(x, 0, async_op=True)
            raise RuntimeError("left")
    dist.distributed_c10d._world.pg_coalesce_state.pop(dist.group.WORLD, None)
    messages = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, z, 1 - rank)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    assert z[0].item() == 1


def test_mixed_batch():
    run_ranks(2, mixed_batch)
