#!/usr/bin/env python3
"""What the emulated device adds to an operation: the same operation on npu and on the CPU, in turn, in one process.

    bench_npu.py [--rounds N] [--check]

Prints for each operation the medians of both, what npu adds, and the ratio, the latter two with the 95 % interval of
their median over the rounds (by order statistics). Each round times both, in changing order; at 16 MB there are as many
rounds as make the interval narrower than 5 %, for a minute at most. --check ends with 1 unless small operations are
less than 1.5 us dearer, and the interval of the ratio at 16 MB holds 1 or lies below it and is that narrow.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time

import torch

import symccl.npu  # noqa: F401  (the device)

SMALL_LIMIT = 1.5  # microseconds
WIDEST = 0.05  # an interval of the ratio at 16 MB
LONGEST = 60  # seconds for one operation


def operations(device):
    small = [torch.randn(16, device=device) for _ in range(2)]
    squares = [torch.randn(8, 8, device=device) for _ in range(2)]
    large = [torch.randn(4 << 20, device=device) for _ in range(2)]
    target = torch.zeros(4 << 20, device=device)
    in_place = torch.zeros(16, device=device)
    return {
        "add, 16 elements": lambda: small[0] + small[1],
        "add_, 16 elements": lambda: in_place.add_(small[1]),
        "mm, 8x8": lambda: squares[0] @ squares[1],
        "view, 16 elements": lambda: small[0].view(4, 4),
        "add, 16 MB": lambda: large[0] + large[1],
        "add into out, 16 MB": lambda: torch.add(large[0], large[1], out=target),
    }


def seconds(operation, calls):
    began = time.perf_counter()
    for _ in range(calls):
        operation()
    return (time.perf_counter() - began) / calls


def interval(values):
    """The median, and an interval that holds the true median in 95 % of cases."""
    values = sorted(values)
    reach = math.ceil(0.98 * math.sqrt(len(values)))
    middle = len(values) // 2
    return statistics.median(values), values[max(0, middle - reach)], values[min(len(values) - 1, middle + reach)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < 7:
        parser.error("--rounds: at least 7, for an interval")
    torch.set_num_threads(1)
    on_cpu, on_npu = operations("cpu"), operations("npu")
    failed = []
    print(f"{'operation':<22}{'cpu us':>9}{'npu us':>9}{'added us':>26}{'ratio':>24}")
    for name in on_cpu:
        large = name.endswith("MB")
        calls = 4 if large else 2000
        for operation in (on_cpu[name], on_npu[name]):
            seconds(operation, calls)
        pairs, until = [], time.monotonic() + LONGEST
        while True:
            for index in range(arguments.rounds):
                if index % 2:
                    there = seconds(on_npu[name], calls)
                    pairs.append((seconds(on_cpu[name], calls), there))
                else:
                    here = seconds(on_cpu[name], calls)
                    pairs.append((here, seconds(on_npu[name], calls)))
            ratio, low, high = interval([npu / cpu for cpu, npu in pairs])
            if not large or high - low <= WIDEST or time.monotonic() > until:
                break
        cpu, npu = (statistics.median(side) * 1e6 for side in zip(*pairs, strict=True))
        added, added_low, added_high = interval([(npu - cpu) * 1e6 for cpu, npu in pairs])
        print(
            f"{name:<22}{cpu:>9.2f}{npu:>9.2f}{added:>10.2f} [{added_low:.2f}, {added_high:.2f}]".ljust(68)
            + f"{ratio:>8.3f} [{low:.3f}, {high:.3f}]"
        )
        if large and low > 1:
            failed.append(f"{name}: the ratio's interval begins at {low:.3f} (accepted: at most 1)")
        if large and high - low > WIDEST:
            failed.append(
                f"{name}: the ratio's interval is {high - low:.3f} wide (accepted: {WIDEST}): too noisy to tell"
            )
        if not large and added >= SMALL_LIMIT:
            failed.append(f"{name}: npu adds {added:.2f} us (accepted: less than {SMALL_LIMIT})")
    for failure in failed:
        print(failure)
    return 1 if failed and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
