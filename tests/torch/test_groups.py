"""Groups of some of the ranks: many, overlapping, in any order of use and of destruction."""

import gc
import itertools
import os
import threading
import time

import pytest
import torch
import torch.distributed as dist
from against_gloo import EXACT, same_as_gloo
from ranks import run_ranks


def numbers(rank, group_number, length=17):
    return torch.arange(length, dtype=torch.float64) + 1000 * rank + 7 * group_number


def sum_of(members, group_number, length=17):
    return sum(numbers(rank, group_number, length) for rank in members)


def every_subset(rank):
    """A group of each of the 15 sets of ranks; all work at the same time, each with its own values."""
    sets = [m for n in range(1, 5) for m in itertools.combinations(range(4), n)]
    groups = [dist.new_group(list(members)) for members in sets]
    mine = [(i, sets[i], groups[i]) for i in range(len(sets)) if rank in sets[i]]
    assert all(dist.get_group_rank(group, rank) == members.index(rank) for _, members, group in mine)
    for _ in range(3):
        tensors = [numbers(rank, i) for i, _, _ in mine]
        works = [dist.all_reduce(x, group=group, async_op=True) for x, (_, _, group) in zip(tensors, mine, strict=True)]
        for work in reversed(works):
            work.wait()
        for x, (i, members, _) in zip(tensors, mine, strict=True):
            assert torch.equal(x, sum_of(members, i)), members
    for i, members, group in reversed(mine):
        x = numbers(rank, i) if rank == members[-1] else torch.zeros(17, dtype=torch.float64)
        dist.broadcast(x, src=members[-1], group=group)
        assert torch.equal(x, numbers(members[-1], i)), members


def test_a_group_of_every_subset():
    run_ranks(4, every_subset)


def many(rank, count):
    """Groups that live at the same time; the memory that an idle one costs is bounded elsewhere."""
    groups = [dist.new_group() for _ in range(count)]
    for step in (1, 7, 3):
        for i in range(0, count, step):
            x = numbers(rank, i)
            dist.all_reduce(x, group=groups[i])
            assert torch.equal(x, sum_of(range(2), i)), i
    return len(groups)


def test_two_hundred_groups():
    assert run_ranks(2, many, 200, timeout=120) == [200, 200]


def made_and_destroyed(rank, count):
    """Groups that live one after the other leave no descriptor and no thread behind."""

    def use_one(i):
        group = dist.new_group()
        x = numbers(rank, i)
        dist.all_reduce(x, group=group, async_op=i % 2 == 1)
        dist.barrier(group=group)
        dist.destroy_process_group(group)
        return x

    def held():
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    use_one(0), use_one(1)
    before = held()
    for i in range(count):
        assert torch.equal(use_one(i), sum_of(range(2), i))
    dist.barrier()
    # The store opens its file for a moment now and then: before, or now.
    after = held()
    for _ in range(100):
        if after[0] <= before[0]:
            break
        time.sleep(0.02)
        after = held()
    assert after[0] <= before[0] and after[1] == before[1], (after, before)


def test_groups_made_and_destroyed():
    run_ranks(2, made_and_destroyed, 50)


def destroyed_in_different_orders(rank):
    groups = [dist.new_group() for _ in range(4)]
    for i, group in enumerate(groups):
        dist.all_reduce(numbers(rank, i), group=group)
    for i in range(4):
        dist.destroy_process_group(groups[i if rank % 2 else 3 - i])
    x = numbers(rank, 9)
    dist.all_reduce(x)
    assert torch.equal(x, sum_of(range(4), 9))


def test_destruction_in_different_orders():
    """Destroying a group waits for nobody."""
    run_ranks(4, destroyed_in_different_orders)


def destroyed_by_one_rank(rank):
    group = dist.new_group()
    x = numbers(rank, 1)
    dist.all_reduce(x, group=group)
    if rank == 0:
        dist.destroy_process_group(group)
        with pytest.raises(ValueError) as caught:
            dist.all_reduce(x, group=group)
        # PyTorch fails in turn when it describes the group for its log of exceptions.
        assert "was destroyed" in str(caught.value.__context__)
        with pytest.raises(dist.DistBackendError, match="was destroyed"):
            group.allreduce([x]).wait()
    y = numbers(rank, 2)
    dist.all_reduce(y)
    return y


def test_use_after_destruction():
    for y in run_ranks(2, destroyed_by_one_rank):
        assert torch.equal(y, sum_of(range(2), 2))


def unsorted_ranks(rank):
    """new_group sorts the ranks it is given; a group's rank is the place in the sorted list."""
    group = dist.new_group([3, 0, 2])
    if rank == 1:
        with pytest.warns(UserWarning, match="does not belong to the given group"):
            assert dist.all_reduce(torch.ones(3), group=group) is None
        return None
    gathered = [torch.zeros(2) for _ in range(3)]
    dist.all_gather(gathered, torch.tensor([rank, dist.get_rank(group)], dtype=torch.float32), group=group)
    return torch.stack(gathered)


def test_ranks_of_a_group():
    results = run_ranks(4, unsorted_ranks)
    expected = torch.tensor([[0.0, 0], [2, 1], [3, 2]])
    assert results[1] is None
    for rank in (0, 2, 3):
        assert torch.equal(results[rank], expected)


def local_synchronization(rank):
    """Only the members call new_group."""
    members = [0, 2] if rank % 2 == 0 else [1, 3]
    group = dist.new_group(members, use_local_synchronization=True)
    x = numbers(rank, rank % 2)
    dist.all_reduce(x, group=group)
    assert torch.equal(x, sum_of(members, rank % 2))


def test_only_members_create_the_group():
    run_ranks(4, local_synchronization)


def subgroups(rank):
    mine, groups = dist.new_subgroups(group_size=2)
    x = numbers(rank, 0)
    dist.all_reduce(x, group=mine)
    pair = [0, 1] if rank < 2 else [2, 3]
    assert torch.equal(x, sum_of(pair, 0))
    crossing, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    y = numbers(rank, 1)
    dist.all_reduce(y, group=crossing)
    assert torch.equal(y, sum_of([0, 3] if rank in (0, 3) else [1, 2], 1))
    assert len(groups) == 2


def test_subgroups():
    run_ranks(4, subgroups)


def beside_gloo(rank):
    """A group of gloo's in a program whose default backend is symccl, and a group of symccl's beside gloo's."""
    other = "gloo" if dist.get_backend() == "symccl" else "symccl"
    groups = [dist.new_group(backend=backend) for backend in (other, None, other, dist.get_backend())]
    works = []
    for i, group in enumerate(groups):
        x = numbers(rank, i)
        works.append((i, x, dist.all_reduce(x, group=group, async_op=True)))
    for i, x, work in works:
        work.wait()
        assert torch.equal(x, sum_of(range(2), i))
    return [dist.get_backend(group) for group in groups]


def test_beside_gloo():
    assert run_ranks(2, beside_gloo)[0] == ["gloo", "symccl", "gloo", "symccl"]
    assert run_ranks(2, beside_gloo, backend="gloo")[0] == ["symccl", "gloo", "symccl", "gloo"]


def default_group_again(rank):
    """The default group can be destroyed and made anew, also of the other size."""
    path = os.path.join(os.environ["REINIT_DIR"], "rendezvous")
    values = []
    for i in range(3):
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("symccl", init_method=f"file://{path}{i}", rank=1 - rank, world_size=2)
        x = numbers(dist.get_rank(), i)
        dist.all_reduce(x)
        values.append(x)
    return values


def test_default_group_made_again(tmp_path):
    for values in run_ranks(2, default_group_again, environment={"REINIT_DIR": str(tmp_path)}):
        assert all(torch.equal(x, sum_of(range(2), i)) for i, x in enumerate(values))


def alone(rank):
    """A group of one rank: every collective is a copy."""
    x = numbers(rank, 1)
    parts = [torch.zeros_like(x)]
    scattered = torch.zeros_like(x)
    dist.all_reduce(x)
    dist.reduce(x, dst=0)
    dist.broadcast(x, src=0)
    dist.all_gather(parts, x)
    dist.reduce_scatter(scattered, [x * 2])
    exchanged = torch.zeros_like(x)
    dist.all_to_all_single(exchanged, x * 3)
    dist.barrier()
    return [x, parts[0], scattered, exchanged]


def test_one_rank():
    x, part, scattered, exchanged = same_as_gloo(1, alone, tolerance=EXACT)[0]
    assert torch.equal(x, numbers(0, 1)) and torch.equal(part, x)
    assert torch.equal(scattered, x * 2) and torch.equal(exchanged, x * 3)


def from_several_threads(rank):
    """Each thread has a group of its own."""
    groups = [dist.new_group() for _ in range(4)]
    wrong = []

    def work(i):
        for step in range(20):
            x = numbers(rank, 100 * i + step)
            dist.all_reduce(x, group=groups[i])
            if not torch.equal(x, sum_of(range(2), 100 * i + step)):
                wrong.append((i, step))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_groups_in_several_threads():
    run_ranks(2, from_several_threads)
