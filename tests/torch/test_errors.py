"""What bad arguments get: the exception, its text, on every rank, and what the group can do afterwards."""

import re

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from group_state import finished, still_usable
from ranks import run_ranks
from reference import assert_bits

CPU = torch.device("cpu")


# --- refused before anything is announced -------------------------------------------------------------------------


def refused_arguments(rank):
    world = dist.group.WORLD
    size = dist.get_world_size()
    x, whole = torch.ones(4), torch.ones(4 * size)
    meta = torch.ones(4, device="meta")
    expanded = torch.ones(1).expand(4)
    scatter = dist.ReduceScatterOptions()
    gather, to_all = c10d.AllgatherOptions(), c10d.AllToAllOptions()
    broadcast = dist.BroadcastOptions()
    broadcast.rootRank = size
    float8 = torch.ones(4).to(torch.float8_e5m2)
    product = dist.AllreduceOptions()
    product.reduceOp = dist.ReduceOp.MAX
    bits = dist.AllreduceOptions()
    bits.reduceOp = dist.ReduceOp.BXOR
    sparse = torch.eye(3).to_sparse()
    backend = world._get_backend(CPU)
    cases = [
        (ValueError, "device meta .accepted: cpu.", lambda: backend.allreduce([meta])),
        (ValueError, "takes one tensor, got 2", lambda: backend.allreduce([x, x])),
        (ValueError, "share one place", lambda: backend.allreduce([expanded])),
        (ValueError, "rank 2 is not in the group of 2 ranks", lambda: backend.broadcast([x], broadcast)),
        (ValueError, "layout Sparse", lambda: backend.broadcast([sparse])),
        (ValueError, "only be reduced by ReduceOp.SUM", lambda: backend.allreduce([sparse], product)),
        (TypeError, "sum is not defined for torch.float8_e5m2", lambda: backend.allreduce([float8])),
        (TypeError, "max is not defined for torch.complex64", lambda: backend.allreduce([x.to(torch.cfloat)], product)),
        (TypeError, "float32 .accepted: sum, product, min, max", lambda: backend.allreduce([x], bits)),
        (TypeError, "quantized", lambda: backend.broadcast([torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)])),
        (ValueError, "output list has 1 tensors, the group has 2", lambda: backend.allgather([[x]], [x])),
        (ValueError, "output list has 3 elements, expected 4", lambda: backend.allgather([[x[:3]] * 2], [x])),
        (ValueError, "different dtypes, torch.float64 and torch.float32",
         lambda: backend.allgather([[x.double()] * 2], [x])),
        (ValueError, "output has 9 elements, expected 8", lambda: backend._allgather_base(torch.ones(9), x, gather)),
        (ValueError, "input has 7 elements, expected 8",
         lambda: backend._reduce_scatter_base(x, torch.ones(7), scatter)),
        (ValueError, "add up to 7, its dimension 0 is 8",
         lambda: backend.alltoall_base(whole, whole.clone(), [3, 4], [4, 4], to_all)),
        (ValueError, "cannot be negative, got -1",
         lambda: backend.alltoall_base(whole, whole.clone(), [4, 4], [9, -1], to_all)),
        (ValueError, "is 7, which the group's 2 ranks do not divide",
         lambda: backend.alltoall_base(torch.ones(7), torch.ones(7), [], [], to_all)),
        (ValueError, "2 outputs for 1 inputs",
         lambda: world.all_gather_single_coalesced([whole, whole], [x], c10d.AllgatherOptions())),
        (ValueError, "rank 9 is not in the group", lambda: backend.send([x], 9, 0)),
        (ValueError, "tag -3 is outside", lambda: backend.recv([x], 0, -3)),
        (ValueError, "only the root", lambda: backend.gather([[x] * 2], [x])),
    ]  # fmt: skip
    for exception, pattern, call in cases:
        if rank != 0 or pattern != "only the root":
            with pytest.raises(exception, match=pattern):
                call()
        # Nothing was announced and nothing sticks: the next operation of all ranks works.
        still_usable()
    # Only this rank's arguments are wrong: it alone raises, and may call again.
    if rank == 0:
        with pytest.raises(ValueError, match="different dtypes"):
            dist.group.WORLD._get_backend(CPU)._allgather_base(whole.double(), x, gather)
    still_usable()
    assert backend._get_sequence_number_for_group() == len(cases) + 1


def test_refused_arguments():
    run_ranks(2, refused_arguments)


# --- ranks that call different things -----------------------------------------------------------------------------

FLOAT, INT = torch.float32, torch.int64
MISMATCHES = {
    "count": (lambda rank: dist.all_reduce(torch.ones(100 + (rank == 1))), ["101", "100"]),
    "large count": (lambda rank: dist.all_reduce(torch.ones(100000 + (rank == 1))), ["100001", "100000"]),
    "type": (lambda rank: dist.all_reduce(torch.ones(100, dtype=INT if rank == 1 else FLOAT)), ["int64", "float32"]),
    "operation": (
        lambda rank: dist.all_reduce(torch.ones(100), dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM),
        ["max", "sum"],
    ),
    "root": (lambda rank: dist.broadcast(torch.ones(100), 1 if rank == 1 else 0), ["root 1", "root 0"]),
    "kind": (
        lambda rank: dist.broadcast(torch.ones(100), 0) if rank == 1 else dist.all_reduce(torch.ones(100)),
        ["broadcast", "all_reduce"],
    ),
    "list size": (
        lambda rank: dist.all_gather([torch.ones(3 + (rank == 1)), torch.ones(4), torch.ones(5)], torch.ones(3 + rank)),
        ["12", "16"],
    ),
    "splits": (
        lambda rank: dist.all_to_all_single(
            torch.ones(9), torch.ones(9), [3, 3, 3], [2, 4, 3] if rank == 1 else [3, 3, 3]
        ),
        ["8", "12"],
    ),
}


def mismatching(rank, name):
    call, _ = MISMATCHES[name]
    with pytest.raises(dist.DistBackendError) as caught:
        call(rank)
    finished(re.escape(str(caught.value).splitlines()[0][:60]))
    return str(caught.value)


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(name):
    """Every rank gets an error that names the rank that differs and what was called; it sticks."""
    for text in run_ranks(3, mismatching, name):
        assert "rank 1" in text.lower(), text
        for value in MISMATCHES[name][1]:
            assert value in text, f"{value!r} is not in: {text}"


def message_sizes(rank, sent, received):
    if rank == 0:
        try:
            dist.send(torch.ones(sent), 1)
        except dist.DistBackendError:
            pass
        return None
    with pytest.raises(dist.DistBackendError) as caught:
        dist.recv(torch.ones(received), 0)
    return str(caught.value)


@pytest.mark.parametrize("sent, received", [(10, 9), (9, 10), (100001, 100000), (100000, 100001)])
def test_message_sizes(sent, received):
    text = run_ranks(2, message_sizes, sent, received)[1]
    assert str(4 * sent) in text and str(4 * received) in text, text


def test_sparse_shapes():
    def body(rank):
        x = torch.eye(3 + rank).to_sparse()
        with pytest.raises(ValueError, match=r"rank \d has a sparse tensor of shape .*3, 3.*4, 4|4, 4.*3, 3"):
            dist.all_reduce(x)
        still_usable()
        assert_bits(x.to_dense(), torch.eye(3 + rank), "the refused tensor")

    run_ranks(2, body)
