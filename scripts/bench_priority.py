#!/usr/bin/env python3
"""Latency of a small all-reduce beside a bulk transfer of another group, with and without high priority.

    torchrun --standalone --nproc_per_node=2 scripts/bench_priority.py

Rank 0 prints, for the slowest rank, median, mean and 90th percentile of the small operations and the mean time of the
bulk transfers. Nothing else should run meanwhile.
"""

import time

import torch
import torch.distributed as dist

import symccl

BULK_BYTES, SMALL_BYTES = 128 << 20, 64 << 10
TRANSFERS, SMALL_EACH = 20, 10


def measure(group, bulk_group, bulk, small) -> tuple[float, ...]:
    """Microseconds: median, mean and 90th percentile of the small operations, mean of the transfers (0 without)."""
    times, transfers = [], []
    for _ in range(TRANSFERS):
        dist.barrier()
        began = time.perf_counter()
        transfer = bulk_group and dist.all_reduce(bulk, op=dist.ReduceOp.MAX, group=bulk_group, async_op=True)
        for _ in range(SMALL_EACH):
            start = time.perf_counter()
            dist.all_reduce(small, op=dist.ReduceOp.MAX, group=group)
            times.append((time.perf_counter() - start) * 1e6)
        if transfer:
            transfer.wait()
        transfers.append((time.perf_counter() - began) * 1e6 if transfer else 0.0)
    slowest = torch.tensor(times)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    small_ones = (slowest.median(), slowest.mean(), slowest.quantile(0.9))
    return *(one.item() for one in small_ones), sum(transfers) / len(transfers)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("symccl")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    urgent = symccl.Options()
    urgent.is_high_priority_stream = True
    groups = {"usual": dist.new_group(backend="symccl"), "high": dist.new_group(backend="symccl", pg_options=urgent)}
    bulk_group = dist.new_group(backend="symccl")

    pool = symccl.MemPool(backend.mem_allocator)
    for group in (*groups.values(), bulk_group):
        symccl.register_mem_pool(group, pool, symm=True)
    with symccl.use_mem_pool(pool):
        bulk, small = torch.ones(BULK_BYTES // 4), torch.ones(SMALL_BYTES // 4)

    rows = [("alone", measure(groups["usual"], None, bulk, small))]
    for priority, group in groups.items():
        measure(group, bulk_group, bulk, small)  # warm-up
        rows.append((f"beside bulk, {priority} priority", measure(group, bulk_group, bulk, small)))
    if dist.get_rank() == 0:
        print(f"{'all_reduce of 64 KiB':<32}{'median us':>12}{'mean us':>12}{'p90 us':>12}{'128 MiB us':>12}")
        for name, numbers in rows:
            print(f"{name:<32}" + "".join(f"{number:>12.0f}" for number in numbers))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
