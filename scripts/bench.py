#!/usr/bin/env python3
"""Runs the standing comparison (about ten minutes on a quiet machine) and writes its page; `make bench` calls it.

    bench.py                  writes bench/results/<machine>.json, then docs/performance.md from it
    bench.py --quick          the same runs with few iterations of two small sizes, to see that they work
    bench.py --only NAME ...  only these runs; the results of the others stay

Nothing else should run meanwhile. A run that fails, or that finds wrong data, ends this program with exit code 1, and
nothing is written.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import performance_page

ROOT = Path(__file__).resolve().parent.parent
ALL = "--peers gloo,openmpi,mpich,shm-staged"
OTHERS = "--peers gloo,openmpi,mpich"

# What is measured: a name, and the arguments of symccl-bench.
RUNS = {
    "all_reduce": f"all_reduce -b 8 -e 64M -f 2 -n 100 {ALL}",
    "all_reduce, large": f"all_reduce -b 256M -e 1G -f 4 -n 5 -w 1 {ALL}",
    "all_reduce, private": f"all_reduce -R 0 -b 8 -e 64M -f 4 -n 50 {ALL}",
    "all_reduce, in place": f"all_reduce --in-place -b 1M -e 64M -f 4 -n 50 {OTHERS}",
    "all_reduce, bfloat16": f"all_reduce -d bfloat16 -b 1M -e 64M -f 8 -n 50 {OTHERS}",
    "all_reduce, float16": f"all_reduce -d float16 -b 1M -e 64M -f 8 -n 50 {OTHERS}",
    "other collectives": f"reduce_scatter all_gather all_to_all broadcast -b 1M -e 64M -f 8 -n 50 {OTHERS}",
    "other collectives, private": "reduce_scatter all_gather all_to_all broadcast -R 0 -b 1M -e 64M -f 8 -n 50",
    "send and receive": f"sendrecv -b 8 -e 64M -f 8 -n 50 {OTHERS}",
    "barrier": f"barrier -n 200 {OTHERS}",
    "4 ranks": f"all_reduce barrier -p 4 -b 8 -e 1M -f 131072 -n 50 {OTHERS}",
    "torch": "torch all_reduce -b 8 -e 64M -f 8 -n 50 --peers gloo",
}
QUICK = "-b 4K -e 64K -f 16 -n 4 -w 1 --rounds 2"


def quick(arguments: str) -> str:
    """The same with small sizes: options that are given last would clash, so the old ones go."""
    for option in ("-b", "-e", "-f", "-n", "-w"):
        arguments = re.sub(rf" {option} \S+", "", arguments)
    return f"{arguments} {QUICK}"


def run(program: Path, arguments: str) -> dict:
    print("$ symccl-bench", arguments, flush=True)
    done = subprocess.run(
        [program, *shlex.split(arguments), "--format", "json"], stdout=subprocess.PIPE, text=True, timeout=1800
    )
    if done.returncode:
        sys.exit(f"bench: symccl-bench {arguments}: exit code {done.returncode}")
    return {"command": f"symccl-bench {arguments}", "document": json.loads(done.stdout)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/tools/symccl-bench")
    parser.add_argument("--results", type=Path, help="the file of results (default: bench/results/<machine>.json)")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--machine", default=platform.node(), help="the name of this machine in results")
    parser.add_argument("--only", nargs="+", choices=RUNS, metavar="NAME", help=f"of: {'; '.join(RUNS)}")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    results = options.results or ROOT / f"bench/results/{re.sub(r'[^A-Za-z0-9_.-]', '_', options.machine)}.json"

    runs = json.loads(results.read_text())["runs"] if options.only and results.exists() else {}
    for name in options.only or RUNS:
        runs[name] = run(options.program, quick(RUNS[name]) if options.quick else RUNS[name])
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps({"machine": options.machine, "runs": runs}, indent=1) + "\n")
    options.page.write_text(performance_page.page(json.loads(results.read_text()), results.name))
    print(f"bench: wrote {results} and {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
