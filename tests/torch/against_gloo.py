"""Runs the same function on gloo and on symccl and compares what every rank returns."""

import torch
from ranks import run_ranks

# Why two results may differ at all: gloo adds in the order of its ring, which depends on the segment, symccl in the
# order of the ranks. With two ranks there is only one order and the results are the same bits.
OTHER_ORDER = {"rtol": 1e-5, "atol": 1e-6}
EXACT = {"rtol": 0, "atol": 0}


def same_as_gloo(size, fn, *args, tolerance=None, **options):
    """Asserts that fn(rank, *args) returns the same on both backends, and returns symccl's results, one per rank.

    fn returns tensors and numbers, also nested in lists, tuples and dictionaries. tolerance: rtol and atol of
    torch.testing.assert_close; the default is equality for two ranks, else OTHER_ORDER.
    """
    expected = run_ranks(size, fn, *args, backend="gloo", **options)
    actual = run_ranks(size, fn, *args, backend="symccl", **options)
    if tolerance is None:
        tolerance = EXACT if size <= 2 else OTHER_ORDER
    for rank in range(size):
        torch.testing.assert_close(
            actual[rank],
            expected[rank],
            **tolerance,
            equal_nan=True,
            msg=lambda text, rank=rank: f"rank {rank}: {text}",
        )
    return actual


def assert_same_on_all_ranks(results):
    """Asserts that the ranks returned the same bits."""
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], **EXACT, equal_nan=True)
