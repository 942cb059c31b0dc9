"""Collectives and messages of Python objects."""

import dataclasses

import pytest
import torch
import torch.distributed as dist
from against_gloo import EXACT
from ranks import run_ranks

SIZES = (2, 4)


@dataclasses.dataclass
class Record:
    name: str
    values: list


def objects_of(rank):
    """Objects of every kind and size, all different between the ranks."""
    return [
        None,
        rank,
        "é" * (rank * 7),
        Record(f"rank {rank}", [rank] * rank),
        {"nested": [(rank, {"x": {rank}})], rank: b"\0" * (1000 * rank + 1)},
        torch.arange(rank + 1.0) + 0.5,
        bytes(range(256)) * (5000 + rank),  # more than a megabyte: no message buffer holds it
    ]


def same(actual, expected):
    if isinstance(expected, torch.Tensor):
        return torch.equal(actual, expected)
    return type(actual) is type(expected) and actual == expected


def all_gather(rank, size):
    for mine in zip(*map(objects_of, range(size)), strict=True):
        gathered = [None] * size
        dist.all_gather_object(gathered, mine[rank])
        assert all(map(same, gathered, mine))


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_object(size):
    run_ranks(size, all_gather, size)


def gather(rank, size):
    for root in range(size):
        for mine in zip(*map(objects_of, range(size)), strict=True):
            gathered = [None] * size if rank == root else None
            dist.gather_object(mine[rank], gathered, dst=root)
            assert rank != root or all(map(same, gathered, mine))


@pytest.mark.parametrize("size", SIZES)
def test_gather_object(size):
    run_ranks(size, gather, size)


def broadcast(rank, size):
    for root in range(size):
        received = objects_of(root) if rank == root else [None] * len(objects_of(root))
        dist.broadcast_object_list(received, src=root)
        assert all(map(same, received, objects_of(root)))


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_object_list(size):
    run_ranks(size, broadcast, size)


def scatter(rank, size):
    for root in range(size):
        for per_rank in zip(*map(objects_of, range(size)), strict=True):
            received = [None]
            dist.scatter_object_list(received, list(per_rank) if rank == root else None, src=root)
            assert same(received[0], per_rank[rank])


@pytest.mark.parametrize("size", SIZES)
def test_scatter_object_list(size):
    run_ranks(size, scatter, size)


def send_and_receive(rank, size):
    """Around the ring, the even ranks first."""
    following, preceding = (rank + 1) % size, (rank - 1) % size
    received = [None] * len(objects_of(preceding))
    for sends in (rank % 2 == 0, rank % 2 == 1):
        if sends:
            dist.send_object_list(objects_of(rank), dst=following)
        else:
            dist.recv_object_list(received, src=preceding)
    assert all(map(same, received, objects_of(preceding)))


@pytest.mark.parametrize("size", SIZES)
def test_send_and_receive_object_list(size):
    run_ranks(size, send_and_receive, size)


def in_subgroup(rank):
    members = [3, 1]
    group = dist.new_group(members)
    if rank not in members:
        return
    gathered = [None] * 2
    dist.all_gather_object(gathered, ("mine", rank), group=group)
    assert gathered == [("mine", 1), ("mine", 3)]  # new_group sorts its ranks
    received = [Record("of 3", [rank])]
    dist.broadcast_object_list(received, src=3, group=group)
    assert received[0].values == [3]
    dist.broadcast_object_list(
        received if rank == 3 else (received := [Record("other", [1])]), group=group, group_src=0
    )
    assert received[0].values == [1] or rank == 3
    gathered = [None] * 2 if rank == 1 else None
    dist.gather_object(rank * 11, gathered, group=group, group_dst=0)
    assert gathered is None or gathered == [11, 33]
    received = [None]
    dist.scatter_object_list(received, ["to 1", "to 3"] if rank == 3 else None, src=3, group=group)
    assert received == [f"to {rank}"]


def test_objects_in_a_subgroup():
    run_ranks(4, in_subgroup)


def cannot_be_pickled(rank):
    with pytest.raises((TypeError, AttributeError)):
        dist.all_gather_object([None, None], lambda: 0)
    gathered = [None, None]
    dist.all_gather_object(gathered, rank)  # the failed call used nothing of the group
    return torch.tensor(gathered)


def test_object_that_cannot_be_pickled():
    for gathered in run_ranks(2, cannot_be_pickled):
        torch.testing.assert_close(gathered, torch.tensor([0, 1]), **EXACT)
