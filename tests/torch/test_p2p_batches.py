"""Messages between ranks: batches in any order, tags, any source, sizes from nothing to megabytes."""

import itertools

import pytest
import torch
import torch.distributed as dist
from ranks import run_ranks

# Around the block sizes of a message queue: nothing, one element, primes, one more and one less than powers of two.
LENGTHS = (0, 1, 2, 13, 255, 257, 1023, 1024, 1025, 4099, 65537)


def message(source, target, number, length, dtype=torch.float32):
    """Values that tell source, target, number and place apart."""
    values = torch.arange(length) * 31 + source * 7 + target * 5 + number * 3
    return (values % 127).to(dtype) if dtype != torch.bool else values % 3 == 0


def exchange(rank, size, order, lengths):
    """Every rank sends to and receives from every other; `order` arranges each rank's list in its own way."""
    others = [other for other in range(size) if other != rank]
    operations, received = [], []
    for number, length in enumerate(lengths):
        for other in others:
            buffer = torch.full((length,), -1.0)
            received.append((buffer, message(other, rank, number, length)))
            operations.append(dist.P2POp(dist.irecv, buffer, other))
            operations.append(dist.P2POp(dist.isend, message(rank, other, number, length), other))
    receives = [op for op in operations if op.op is dist.irecv]
    sends = [op for op in operations if op.op is dist.isend]
    arranged = {
        "as written": operations,
        "sends first": sends + receives,
        "receives first": receives + sends,
        "mixed by rank": sends + receives if rank % 2 else receives + sends,
        "all sends first on one rank": sends + receives if rank == 0 else operations,
    }[order]
    assert len(arranged) == 2 * len(others) * len(lengths)
    for work in dist.batch_isend_irecv(arranged):
        work.wait()
    for buffer, expected in received:
        assert torch.equal(buffer, expected)


ORDERS = ["as written", "sends first", "receives first", "mixed by rank", "all sends first on one rank"]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_batch_in_any_order(size, order):
    run_ranks(size, exchange, size, order, LENGTHS)


@pytest.mark.parametrize("order", ORDERS)
def test_batch_of_large_messages_both_ways(order):
    """More than any buffer between the ranks holds: both must take in while they give out."""
    run_ranks(2, exchange, 2, order, (3_000_001, 5, 2_500_000))


def tags_in_any_order(rank):
    """Four messages with tags; received in each of the 24 orders."""
    tags = (11, 0, 5, 1 << 20)
    for number, order in enumerate(itertools.permutations(tags)):
        if rank == 0:
            works = [dist.isend(message(0, 1, number + tag, 33), 1, tag=tag) for tag in tags]
        else:
            buffers = {tag: torch.zeros(33) for tag in order}
            works = [dist.irecv(buffers[tag], 0, tag=tag) for tag in order]
        for work in works:
            work.wait()
        if rank == 1:
            assert all(torch.equal(buffers[tag], message(0, 1, number + tag, 33)) for tag in tags), order


def test_tags_in_any_order():
    run_ranks(2, tags_in_any_order)


def tagged_batch(rank):
    """In a batch, messages find their receives by tag, whatever the order of either."""
    other = 1 - rank
    tags = list(range(6))
    sends = [dist.P2POp(dist.isend, message(rank, other, tag, 10 + tag), other, tag=tag) for tag in tags]
    buffers = [torch.zeros(10 + tag) for tag in tags]
    receives = [dist.P2POp(dist.irecv, buffers[tag], other, tag=tag) for tag in reversed(tags)]
    for work in dist.batch_isend_irecv(sends + receives if rank else receives + sends):
        work.wait()
    for tag in tags:
        assert torch.equal(buffers[tag], message(other, rank, tag, 10 + tag))


def test_tagged_batch():
    run_ranks(2, tagged_batch)


def same_tag_keeps_the_order(rank):
    count = 200
    if rank == 0:
        for number in range(count):
            dist.send(message(0, 1, number, 1 + number % 9), 1)
    else:
        for number in range(count):
            buffer = torch.zeros(1 + number % 9)
            assert dist.recv(buffer, 0) == 0
            assert torch.equal(buffer, message(0, 1, number, 1 + number % 9)), number


def test_messages_of_one_tag_keep_their_order():
    run_ranks(2, same_tag_keeps_the_order)


def any_source(rank, size, length):
    if rank != 0:
        for number in range(3):
            dist.send(message(rank, 0, number, length), 0, tag=4)
        return None
    seen = {source: 0 for source in range(1, size)}
    for _ in range(3 * (size - 1)):
        buffer = torch.zeros(length)
        source = dist.recv(buffer, tag=4)
        assert torch.equal(buffer, message(source, 0, seen[source], length))
        seen[source] += 1
    return seen


@pytest.mark.parametrize("length", [1, 100_003])
def test_any_source(length):
    assert run_ranks(4, any_source, 4, length)[0] == {1: 3, 2: 3, 3: 3}


def around_the_ring(rank, size):
    """Each step's message is the one received before: a wrong byte would travel on."""
    x = message(rank, 0, 0, 1001)
    for step in range(size):
        y = torch.zeros(1001)
        works = [dist.isend(x, (rank + 1) % size), dist.irecv(y, (rank - 1) % size)]
        for work in works if step % 2 else reversed(works):
            work.wait()
        x = y
    assert torch.equal(x, message(rank, 0, 0, 1001))


@pytest.mark.parametrize("size", [2, 4])
def test_ring(size):
    run_ranks(size, around_the_ring, size)


DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16)
MORE_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2)


def every_type(rank):
    for number, dtype in enumerate(DTYPES + MORE_DTYPES):
        if rank == 0:
            dist.send(message(0, 1, number, 77, dtype), 1)
        else:
            buffer = torch.zeros(77, dtype=dtype)
            dist.recv(buffer, 0)
            expected = message(0, 1, number, 77, dtype)
            assert torch.equal(buffer.view(torch.uint8), expected.view(torch.uint8)), dtype


def test_types():
    run_ranks(2, every_type)


def between_collectives(rank):
    """Messages and collectives of one group do not disturb each other."""
    other = 1 - rank
    buffer = torch.zeros(5000)
    receive = dist.irecv(buffer, other)
    total = torch.full((3,), rank + 1.0)
    dist.all_reduce(total)
    reduced = torch.full((100_000,), rank + 1.0)
    work = dist.all_reduce(reduced, async_op=True)
    dist.send(message(rank, other, 0, 5000), other)
    receive.wait()
    work.wait()
    assert torch.equal(buffer, message(other, rank, 0, 5000))
    assert torch.equal(total, torch.full((3,), 3.0)) and torch.equal(reduced, torch.full((100_000,), 3.0))


def test_between_collectives():
    run_ranks(2, between_collectives)


def in_a_subgroup(rank):
    group = dist.new_group([1, 3])
    if rank in (1, 3):
        other = 4 - rank
        buffer = torch.zeros(64)
        send = dist.P2POp(dist.isend, message(rank, other, 0, 64), other, group=group)
        receive = dist.P2POp(dist.irecv, buffer, other, group=group)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        assert torch.equal(buffer, message(other, rank, 0, 64))
        received = torch.zeros(8)
        works = [dist.isend(message(rank, other, 1, 8), group_dst=1 - dist.get_rank(group), group=group)]
        works.append(dist.irecv(received, group_src=1 - dist.get_rank(group), group=group))
        for work in works:
            work.wait()
        assert torch.equal(received, message(other, rank, 1, 8))


def test_batch_in_a_subgroup():
    run_ranks(4, in_a_subgroup)


def posted_late(rank):
    """The message is there before its receive, and the receive before its message; both many times over."""
    other = 1 - rank
    for first_sender in (0, 1):
        works, buffers = [], [torch.zeros(1000) for _ in range(50)]
        if rank == first_sender:
            works = [dist.isend(message(rank, other, i, 1000), other) for i in range(50)]
            dist.barrier()
        else:
            dist.barrier()
            works = [dist.irecv(buffer, other) for buffer in buffers]
        for work in works:
            work.wait()
        if rank != first_sender:
            assert all(torch.equal(buffer, message(other, rank, i, 1000)) for i, buffer in enumerate(buffers))


def test_messages_before_their_receives():
    run_ranks(2, posted_late)


def not_contiguous(rank):
    """A buffer with gaps is filled, and only where it should be, or refused; never wrong."""
    if rank == 0:
        dist.send(message(0, 1, 0, 12).reshape(4, 3).contiguous(), 1)
        return "sent"
    whole = torch.full((4, 6), -1.0)
    try:
        dist.recv(whole[:, ::2], 0)
    except (ValueError, RuntimeError) as error:
        dist.recv(torch.zeros(4, 3), 0)
        assert "contiguous" in str(error)
        return "refused"
    assert torch.equal(whole[:, ::2], message(0, 1, 0, 12).reshape(4, 3))
    assert torch.equal(whole[:, 1::2], torch.full((4, 3), -1.0))
    return "filled"


def test_not_contiguous():
    assert run_ranks(2, not_contiguous)[1] in ("refused", "filled")
