#!/usr/bin/env python3
"""Samples where the time of an all-reduce goes and writes docs/profile.md; `make profile` calls it.

Needs perf (Debian: linux-perf) and the right to use it. The samples are those of the CPU clock, so that it works in
virtual machines too; the benchmark's own functions are left out. Nothing else should run meanwhile.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "profile.md"
BENCH = "build/tools/symccl-bench"

# What is sampled: a title, and the arguments of symccl-bench.
RUNS = {
    "8 B, 2 ranks": "all_reduce -p 2 -b 8 -e 8 -n 20000 -w 1000",
    "64 KiB, 2 ranks, registered": "all_reduce -p 2 -b 64K -e 64K -n 20000 -w 1000",
    "64 MiB, 2 ranks, registered": "all_reduce -p 2 -b 64M -e 64M -n 100 -w 5",
    "64 MiB, 2 ranks, private": "all_reduce -p 2 -R 0 -b 64M -e 64M -n 100 -w 5",
    "64 KiB, 8 ranks, registered": "all_reduce -p 8 -b 64K -e 64K -n 2000 -w 100",
}
OPTIONS = "--reuse-buffers -c 0"

# The first group whose pattern is found in a symbol's name has it.
GROUPS = {
    "waits for other ranks": r"awaitEach|awaitSteps|SlowWait|waitUntil|sched_yield|clock_gettime|steady_clock|futex",
    "moves and combines bytes": r"symccl::(avx512|avx2|portable)::|streamCopy|copyWith|memmove|memcpy|memset",
    "kernel: scheduling, page tables and the rest": r"^\[k\]",
    "announces, compares, plans, counts": r"",
}
RANK = "exe"  # the ranks' name: the benchmark starts itself as /proc/self/exe
SAMPLE = re.compile(r"\s*([\d.]+)%\s+(\[[.k]\])\s+(.+?)\s*$")


def sampled(arguments: str) -> list[tuple[float, str]]:
    """(percent of the samples, symbol) of one run, the largest first, without the benchmark's own functions."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "4000", "-o", data, "--", BENCH]
        subprocess.run([*record, *arguments.split(), *OPTIONS.split()], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        report = subprocess.run(
            ["perf", "report", "-i", data, "--comm", RANK, "--sort", "symbol", "--stdio", "-w", "0,0,200"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    rows = [SAMPLE.match(line) for line in report.splitlines() if not line.startswith("#")]
    named = [(float(row[1]), f"{row[2]} {row[3]}") for row in rows if row]
    kept = [(share, name) for share, name in named if not re.search(r"symccl::bench::|std::__introsort", name)]
    whole = sum(share for share, _ in kept)
    if whole == 0:
        sys.exit(f"profile.py: no samples of {BENCH} {arguments}")
    return [(share * 100 / whole, name.split("  ")[0]) for share, name in kept]


def group_of(symbol: str) -> str:
    return next(group for group, pattern in GROUPS.items() if re.search(pattern, symbol))


def short(symbol: str) -> str:
    name = symbol.replace("[.] ", "").replace("[k] ", "kernel: ").replace("symccl::", "")
    return re.sub(r"<.*|\(.*", "", name) or name


def main() -> None:
    if not shutil.which("perf"):
        sys.exit("profile.py: perf is needed (Debian: apt-get install linux-perf)")
    lines = [
        "# Where the time goes",
        "",
        "Written by `make profile`: samples of the CPU clock over all ranks of an all-reduce of float32, without the",
        f"benchmark's own functions (`perf record -e cpu-clock {BENCH} ... {OPTIONS}`). Shares, not times: what",
        "an operation takes is what `make bench` measures.",
    ]
    for title, arguments in RUNS.items():
        print(f"profile.py: {title}", file=sys.stderr)
        samples = sampled(arguments)
        shares = Counter()
        for share, symbol in samples:
            shares[group_of(symbol)] += share
        lines += ["", f"## {title}", "", f"`symccl-bench {arguments}`", "", "| part | share |", "| --- | --- |"]
        lines += [f"| {group} | {shares[group]:.0f} % |" for group in GROUPS]
        largest = ", ".join(f"`{short(symbol)}` {share:.0f} %" for share, symbol in samples[:6])
        lines += ["", f"Largest: {largest}."]
    PAGE.write_text("\n".join(lines) + "\n")
    print(f"profile.py: wrote {PAGE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
