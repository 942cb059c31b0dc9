#!/usr/bin/env python3
"""Runs the standing comparison (about ten minutes on a quiet machine) and writes its page; `make bench` calls it.

    bench.py                  writes bench/results/<machine>.json, then docs/performance.md and its drawings from it
    bench.py --page-only      only the page and its drawings, from the results that are there
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
import tempfile
from pathlib import Path

import performance_page

ROOT = Path(__file__).resolve().parent.parent
GROWTH = performance_page.GROWTH
MPIS = "openmpi,mpich"
ALL = f"--peers gloo,{MPIS},oneccl,shm-staged"
OTHERS = f"--peers gloo,{MPIS}"
FOUR = "reduce_scatter all_gather all_to_all broadcast"

# What is measured: a name, and the arguments of symccl-bench.
RUNS = {
    "all_reduce": f"all_reduce -b 8 -e 64M -f 2 -n 40 {ALL}",
    "all_reduce, large": f"all_reduce -b 256M -e 1G -f 4 -n 5 -w 1 {OTHERS},shm-staged",
    "all_reduce, private": f"all_reduce -R 0 -b 16 -e 64M -f 4 -n 30 {OTHERS},shm-staged",
    "all_reduce, registered against private": "all_reduce -b 8 -e 64M -f 2 -n 60 --rounds 10 --peers private",
    "all_reduce, registered against private, large": (
        "all_reduce -b 256M -e 1G -f 4 -n 7 -w 1 --rounds 7 --peers private"
    ),
    "all_reduce, in place": "all_reduce --in-place -b 1M -e 64M -f 4 -n 40 --peers out-of-place",
    "all_reduce, bfloat16": f"all_reduce -d bfloat16 -b 1M -e 64M -f 8 -n 30 {OTHERS}",
    "all_reduce, float16": f"all_reduce -d float16 -b 1M -e 64M -f 8 -n 30 {OTHERS}",
    "other collectives": f"{FOUR} -b 1M -e 64M -f 8 -n 30 {OTHERS}",
    "other collectives, registered against private": f"{FOUR} -b 1M -e 64M -f 8 -n 40 --rounds 10 --peers private",
    "v kinds": f"all_gather_v reduce_scatter_v all_to_all_v -b 8 -e 16M -f 1448 -n 30 {OTHERS}",
    "send and receive": f"sendrecv -b 16 -e 64M -f 4 -n 30 {OTHERS}",
    "barrier": f"barrier -n 200 {OTHERS}",
    "4 ranks": f"all_reduce barrier -p 4 -b 8 -e 1M -f 131072 -n 40 {OTHERS}",
    "communicator, 2 ranks": "communicator -n 50",
    "communicator, 8 ranks": "communicator -p 8 -n 50",
    "torch": "torch all_reduce -b 8 -e 64M -f 8 -n 40 --peers gloo,torch-floor",
    "torch, asynchronous": "torch all_reduce --async -b 64K -e 64M -f 32 -n 20 --peers gloo",
    "training step": "ddp -n 20 -w 3 --peers gloo",
    **{f"growth, {ranks} ranks": f"all_reduce --in-place -p {ranks} -b 8 -e 256M -f 32 -n 5 -w 1" for ranks in GROWTH},
    **{
        f"growth, {ranks} ranks, 1 GiB": f"all_reduce --in-place -p {ranks} -b 1G -e 1G -n 3 -w 1"
        for ranks in GROWTH[:3]
    },
}
DRAWN = ("all_reduce", "all_reduce, private", "all_reduce, in place", "other collectives", "send and receive", "torch")
QUICK = "-b 4K -e 64K -f 16 -n 4 -w 1 --rounds 2"


def quick(arguments: str) -> str:
    """The same with small sizes: options that are given last would clash, so the old ones go."""
    for option in ("-b", "-e", "-f", "-n", "-w", "--rounds"):
        arguments = re.sub(rf" {option} \S+", "", arguments)
    return f"{arguments} {QUICK}"


def run(options: argparse.Namespace, arguments: str) -> dict:
    print("$ symccl-bench", arguments, flush=True)
    command = [options.program, *shlex.split(arguments), "--format", "json"]
    if options.python:
        command += ["--python", options.python]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1800)
    if done.returncode:
        sys.exit(f"bench: symccl-bench {arguments}: exit code {done.returncode}")
    return {"command": f"symccl-bench {arguments}", "document": json.loads(done.stdout)}


def draw(program: Path, runs: dict, folder: Path) -> dict[str, str]:
    """One drawing for each run of DRAWN that is there; their names by run."""
    folder.mkdir(parents=True, exist_ok=True)
    drawings = {}
    for name in DRAWN:
        if name not in runs:
            continue
        drawings[name] = re.sub(r"[^a-z0-9]+", "-", name) + ".svg"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as rows:
            json.dump(runs[name]["document"], rows)
            rows.flush()
            subprocess.run([program, "plot", rows.name, folder / drawings[name]], check=True)
    return drawings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build/tools/symccl-bench")
    parser.add_argument("--results", type=Path, help="the file of results (default: bench/results/<machine>.json)")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--machine", default=platform.node(), help="the name of this machine in results")
    parser.add_argument("--only", nargs="+", choices=RUNS, metavar="NAME", help=f"of: {'; '.join(RUNS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python", help="the Python that has torch (default: symccl-bench finds it)")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    results = options.results or ROOT / f"bench/results/{re.sub(r'[^A-Za-z0-9_.-]', '_', options.machine)}.json"

    if not options.page_only:
        runs = json.loads(results.read_text())["runs"] if options.only and results.exists() else {}
        for name in options.only or RUNS:
            runs[name] = run(options, quick(RUNS[name]) if options.quick else RUNS[name])
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps({"machine": options.machine, "runs": runs}, indent=1) + "\n")
    written = json.loads(results.read_text())
    folder = options.page.parent / "performance"
    drawings = draw(options.program, written["runs"], folder)
    options.page.write_text(
        performance_page.page(written, results.name, {n: f"{folder.name}/{d}" for n, d in drawings.items()})
    )
    print(f"bench: wrote {results} and {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
