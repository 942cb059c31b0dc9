"""Ranks that are late, killed, stopped or absent; abort, fork, Ctrl-C; monitored_barrier."""

import datetime
import os
import re
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from group_state import finished, still_usable
from ranks import Ranks, mark, run_ranks

import symccl

CPU = torch.device("cpu")


def late(rank, which):
    calls = {
        "barrier": dist.barrier,
        "all_reduce": lambda: dist.all_reduce(torch.ones(100000)),
        "async": lambda: dist.all_reduce(torch.ones(10), async_op=True).wait(),
        "recv": lambda: dist.recv(torch.ones(10), 1),
        "any source": lambda: dist.recv(torch.ones(10)),
        "option": lambda: dist.group.WORLD.allreduce([torch.ones(10)], option).wait(),
    }
    option = dist.AllreduceOptions()
    option.timeout = datetime.timedelta(milliseconds=300)
    if which == "option":
        dist.group.WORLD.set_timeout(datetime.timedelta(seconds=600))
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["timed out"], datetime.timedelta(seconds=50))
        return None
    before = time.monotonic()
    with pytest.raises(dist.DistBackendError) as caught:
        calls[which]()
    waited = time.monotonic() - before
    store.set("timed out", "yes")
    assert waited >= (0.3 if which == "option" else 1.0), waited
    finished(r"(Timed out|timeout)")
    return str(caught.value)


@pytest.mark.parametrize("which", ["barrier", "all_reduce", "async", "recv", "any source", "option"])
def test_timeout(which):
    text = run_ranks(2, late, which, group_timeout=1)[0]
    assert f"Timed out waiting {300 if which == 'option' else 1000}ms" in text, text
    assert re.search(r" (Timed out|closed|timeout) ", text), text
    if which != "any source":
        assert re.search(r"rank 1 \(pid \d+\)", text), text


def killed_before(rank, which):
    dist.barrier()
    mark("ready")
    if rank == 1:
        time.sleep(60)
    calls = {
        "all_reduce": lambda: dist.all_reduce(torch.ones(100000)),
        "async": lambda: dist.all_reduce(torch.ones(10), async_op=True).wait(),
        "barrier": dist.barrier,
        "recv": lambda: dist.recv(torch.ones(10), 1),
    }
    with pytest.raises(dist.DistBackendError) as caught:
        calls[which]()
    finished("rank 1")
    return str(caught.value)


@pytest.mark.parametrize("which", ["all_reduce", "async", "barrier", "recv"])
def test_killed(which):
    """Survivors name the dead rank, half an hour before the group's timeout."""
    with Ranks(3, killed_before, which) as ranks:
        for rank in range(3):
            ranks.wait_for(rank, "ready")
        time.sleep(0.3)
        pid = ranks.pids[1]
        ranks.kill(1)
        for outcome in ranks.join([0, 2]):
            assert outcome.returned, outcome
            assert re.search(rf"rank 1 \(pid {pid}\) is gone", outcome.value), outcome.value


def process_state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def stopped(rank):
    still_usable()
    mark("ready")
    if rank == 1:
        time.sleep(60)
    pid = dist.group.WORLD._get_backend(CPU).pids()[1]
    while process_state(pid) != "T":
        time.sleep(0.01)
    with pytest.raises(dist.DistBackendError) as caught:
        dist.all_reduce(torch.ones(1000))
    return str(caught.value)


def test_stopped():
    """A stopped rank ends the others at their deadline, which say that it is stopped."""
    with Ranks(2, stopped, group_timeout=2) as ranks:
        ranks.wait_for(1, "ready")
        pid = ranks.pids[1]
        ranks.stop(1)
        (outcome,) = ranks.join([0])
        assert outcome.returned, outcome
        assert re.search(rf"rank 1 \(pid {pid}\) is stopped", outcome.value), outcome.value


def creation(rank, path, how):
    if rank == 1:
        mark("here")
        if how == "absent":
            time.sleep(60)
    dist.init_process_group(
        "symccl", init_method=f"file://{path}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=2)
    )


def test_absent_at_creation(tmp_path):
    with Ranks(2, creation, str(tmp_path / "store"), "absent", init=False) as ranks:
        (outcome,) = ranks.join([0])
        assert "DistBackendError" in outcome.error or "DistStoreError" in outcome.error, outcome
        assert "Timed out waiting 2000ms" in outcome.error and "rank 1" in outcome.error, outcome.error


def aborted(rank):
    still_usable()
    store = dist.distributed_c10d._get_default_store()
    store.set(f"ready {rank}", "yes")
    if rank == 0:
        store.wait(["ready 1"])
        dist.group.WORLD.abort()
        dist.group.WORLD.abort()
        finished("abort")
        return "abort"
    with pytest.raises(dist.DistBackendError, match="abort") as caught:
        dist.barrier()
    finished("abort")
    return str(caught.value)


def test_abort():
    assert "rank 0" in run_ranks(2, aborted)[1]


def abort_from_another_thread(rank):
    dist.barrier()
    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["over"], datetime.timedelta(seconds=50))
        return

    def end():
        time.sleep(0.3)
        dist.group.WORLD.abort()

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(dist.DistBackendError, match="abort"):
        dist.all_reduce(torch.ones(100))
    thread.join()
    dist.distributed_c10d._get_default_store().set("over", "yes")


def test_abort_from_another_thread():
    run_ranks(2, abort_from_another_thread)


def destroyed(rank):
    group = dist.new_group([0, 1])
    backend = group._get_backend(CPU)
    dist.destroy_process_group(group)
    with pytest.raises(dist.DistBackendError, match="was destroyed"):
        backend.allreduce([torch.ones(3)])
    with pytest.raises(dist.DistBackendError, match="was destroyed"):
        backend.register_mem_pool(symccl.MemPool(), symm=True)
    still_usable()


def test_use_after_destroy():
    run_ranks(2, destroyed)


def forked(rank):
    still_usable()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing was raised"
        try:
            dist.all_reduce(torch.ones(3))
        except dist.DistBackendError as error:
            text = str(error)
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 10000).decode()
    assert os.waitpid(child, 0)[1] == 0
    assert "forked child" in text, text
    still_usable()


def test_use_after_fork():
    run_ranks(2, forked)


def same_name(rank):
    options = dist.distributed_c10d._DistributedBackendOptions()
    options.store = dist.distributed_c10d._get_default_store()
    options.group_rank, options.group_size = rank, 2
    options.timeout = datetime.timedelta(seconds=5)
    options.group_id = dist.group.WORLD.group_name
    with pytest.raises(ValueError, match="alive in this process"):
        symccl._C.create(options, None)
    options.group_rank = 7
    with pytest.raises(ValueError, match="rank 7 is not in a group of 2 ranks"):
        symccl._C.create(options, None)
    with pytest.raises(TypeError, match="pg_options must be symccl.Options"):
        symccl._C.create(options, object())
    still_usable()


def test_same_name():
    run_ranks(2, same_name)


def interrupted(rank, path, which):
    def create():
        dist.init_process_group("symccl", init_method=f"file://{path}", rank=rank, world_size=2)

    calls = {
        "all_reduce": lambda: dist.all_reduce(torch.ones(100)),
        "async": lambda: dist.all_reduce(torch.ones(100), async_op=True).wait(),
        "wait": lambda: dist.all_reduce(torch.ones(100), async_op=True).wait(datetime.timedelta(seconds=50)),
        "recv": lambda: dist.recv(torch.ones(100), 1),
        "monitored_barrier": lambda: dist.group.WORLD.monitored_barrier(),
        "creation": create,
    }
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if which != "creation":
        create()
        still_usable()
    mark("ready")
    if rank == 1:
        time.sleep(60)
    with pytest.raises(KeyboardInterrupt):
        calls[which]()


@pytest.mark.parametrize("which", ["all_reduce", "async", "wait", "recv", "monitored_barrier", "creation"])
def test_interrupted(tmp_path, which):
    """Ctrl-C ends a call that waits."""
    with Ranks(2, interrupted, str(tmp_path / "store"), which, init=False) as ranks:
        ranks.wait_for(0, "ready")
        time.sleep(0.5)
        os.kill(ranks.pids[0], signal.SIGINT)
        (outcome,) = ranks.join([0])
        assert outcome.returned, outcome


# --- monitored barrier --------------------------------------------------------------------------------------------


def monitored(rank, late_ranks, wait_all):
    group = dist.group.WORLD
    for _ in range(3):
        group.monitored_barrier(datetime.timedelta(seconds=30))
        still_usable()
    store = dist.distributed_c10d._get_default_store()
    if rank in late_ranks:
        store.wait(["over"], datetime.timedelta(seconds=50))
        return None
    with pytest.raises(RuntimeError) as caught:
        group.monitored_barrier(datetime.timedelta(milliseconds=500), wait_all_ranks=wait_all)
    if store.add("done", 1) == dist.get_world_size() - len(late_ranks):
        store.set("over", "yes")
    return str(caught.value)


@pytest.mark.parametrize("wait_all, expected", [(False, "Rank 1 failed"), (True, "Ranks 1, 3 failed")])
def test_monitored_barrier(wait_all, expected):
    texts = run_ranks(4, monitored, [1, 3], wait_all)
    assert f"[Rank 0]: {expected} to pass monitoredBarrier in 500 ms" in texts[0], texts[0]
    reached = (
        "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0"
    )
    assert reached in texts[2], texts[2]


def monitored_without_time(rank):
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 0 timed out in monitoredBarrier after 0 ms"):
            dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=0))


def test_monitored_barrier_without_time():
    run_ranks(2, monitored_without_time)
