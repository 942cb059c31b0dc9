"""Collectives on symmetric memory: one heap that every rank of the host reads and writes in place.

    torchrun --standalone --nproc_per_node=8 examples/symmetric_pool.py

Each rank allocates a tensor from a registered pool and all-reduces it with no staging copy. Afterwards the zero-copy
path is compared with the staged one and with gloo, in the same run.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist

import symccl

SIZES = (64 << 10, 1 << 20, 16 << 20)  # bytes of the operation's largest buffer
ROUNDS = 6


def demonstrate() -> tuple[object, object]:
    """The three calls of the interface: `mem_allocator`, `register_mem_pool`, `deregister_mem_pool` (in main())."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(torch.ones(8))  # warm-up

    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    pool = symccl.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool, symm=True)
    with symccl.use_mem_pool(pool):
        x = torch.full((1024,), rank + 1.0)

    before = symccl.stats()["operations"]["all_reduce"]["zero_copy"]
    dist.all_reduce(x)
    zero_copy = symccl.stats()["operations"]["all_reduce"]["zero_copy"] - before

    expected = world_size * (world_size + 1) / 2
    torch.testing.assert_close(x, torch.full((1024,), expected))
    assert zero_copy == 1, f"the zero-copy path was not taken on rank {rank}"
    if rank == 0:
        print(
            f"all_reduce on registered memory: {x[0].item()} on {world_size} ranks, zero-copy operations: {zero_copy}"
        )
    return backend, pool


def operations(nbytes: int) -> dict:
    """Name -> a function of a group that runs one operation on buffers allocated here."""
    world_size = dist.get_world_size()
    count = nbytes // 4 // world_size * world_size
    big_in, big_out = torch.ones(count), torch.empty(count)
    small = torch.ones(count // world_size)
    return {
        "all_reduce": lambda group: dist.all_reduce(big_in, op=dist.ReduceOp.MAX, group=group),
        "all_gather": lambda group: dist.all_gather_single(big_out, small, group=group),
        "reduce_scatter": lambda group: dist.reduce_scatter_single(small, big_in, op=dist.ReduceOp.MAX, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(big_out, big_in, group=group),
    }


def microseconds(run, group, repeats: int) -> float:
    """Time of one operation: the slowest rank's, averaged over `repeats`."""
    run(group)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        run(group)
    elapsed = torch.tensor((time.perf_counter() - start) / repeats * 1e6)
    dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
    return elapsed.item()


def compare(pool) -> None:
    """One row an operation and size: the three variants in turn, medians over the rounds."""
    gloo = dist.new_group(backend="gloo")
    if dist.get_rank() == 0:
        columns = ("zero-copy us", "staged us", "gloo us", "vs staged", "vs gloo")
        print(f"\n{'operation':<15}{'size':>9}" + "".join(f"{column:>14}" for column in columns))
    for nbytes in SIZES:
        private = operations(nbytes)
        with symccl.use_mem_pool(pool):
            registered = operations(nbytes)
        repeats = max(1, min(20, (2 << 20) // nbytes))
        for name in private:
            variants = {
                "zero-copy": (registered[name], dist.group.WORLD),
                "staged": (private[name], dist.group.WORLD),
                "gloo": (private[name], gloo),
            }
            times = {variant: [] for variant in variants}
            for run, group in variants.values():
                run(group)  # warm-up
            for round_ in range(ROUNDS):
                # Another one goes first each time: gloo's threads are still busy when the next begins.
                order = sorted(variants, key=lambda variant: (list(variants).index(variant) + round_) % len(variants))
                for variant in order:
                    times[variant].append(microseconds(*variants[variant], repeats))
            zero_copy, staged, other = (statistics.median(times[variant]) for variant in variants)
            if dist.get_rank() == 0:
                size = f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"
                ratios = f"{staged / zero_copy:>13.2f}x{other / zero_copy:>13.1f}x"
                print(f"{name:<15}{size:>9}{zero_copy:>14.1f}{staged:>14.1f}{other:>14.1f}{ratios}", flush=True)
    dist.destroy_process_group(gloo)


def main() -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    dist.init_process_group("symccl")
    backend, pool = demonstrate()
    compare(pool)
    dist.barrier()
    backend.deregister_mem_pool(pool)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
