"""docs/performance.md from a file of results; no number in it comes from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Target:
    """What a row of a run has to reach: the least ratio to each peer ("mpi": to the faster MPI), the most walls."""

    run: str
    operation: str
    size: int
    ratios: dict[str, float] = field(default_factory=dict)
    walls: float | None = None


def against(gloo: float, mpi: float, staged: float | None = None) -> dict[str, float]:
    return {"gloo": gloo, "mpi": mpi} | ({"shm-staged": staged} if staged else {})


COLLECTIVES = ("reduce_scatter", "all_gather", "all_to_all", "broadcast")
TARGETS = [
    Target("all_reduce", "all_reduce", 8, against(300, 1.3, 1.3)),
    Target("all_reduce", "all_reduce", 4 * KIB, against(100, 2, 1.5)),
    Target("all_reduce", "all_reduce", 64 * KIB, against(25, 2, 1.5)),
    Target("all_reduce", "all_reduce", MIB, against(8, 3, 1.5)),
    Target("all_reduce", "all_reduce", 16 * MIB, against(8, 6, 2)),
    Target("all_reduce", "all_reduce", 64 * MIB, against(10, 9, 2.5), 0.85),
    Target("all_reduce, large", "all_reduce", 256 * MIB, against(10, 9, 2.5), 1.0),
    Target("all_reduce, large", "all_reduce", GIB, against(10, 9, 2.5), 1.0),
    Target("all_reduce, private", "all_reduce", 32 * MIB, against(6, 5, 1.5)),
    Target("all_reduce, private", "all_reduce", 8 * MIB, against(6, 5, 1.5)),
    *(
        Target("other collectives", name, size, {"gloo": 5, "mpi": 1.7})
        for name in COLLECTIVES
        for size in (MIB, 64 * MIB)
    ),
    *(
        Target(f"all_reduce, {name}", "all_reduce", size, {"gloo": 8})
        for name in ("bfloat16", "float16")
        for size in (MIB, 64 * MIB)
    ),
    Target("4 ranks", "all_reduce", 8, {"gloo": 200, "openmpi": 1.3}),
    Target("4 ranks", "all_reduce", MIB, {"gloo": 8, "openmpi": 1.3}),
    Target("torch", "all_reduce", 8, {"gloo": 30}),
    Target("send and receive", "sendrecv", 2 * MIB, {"gloo": 5, "mpi": 1.5}),
]


def bytes_text(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def ratio_text(peer: dict) -> str:
    return f"{peer['ratio']:.3g} ({peer['ratio_p10']:.3g}-{peer['ratio_p90']:.3g})"


def ratio_to(row: dict, name: str) -> float | None:
    names = ("openmpi", "mpich") if name == "mpi" else (name,)
    ratios = [row["peers"][n]["ratio"] for n in names if "ratio" in row["peers"].get(n, {})]
    return min(ratios, default=None)


def verdicts(runs: dict) -> Iterator[str]:
    yield "| run | operation | size | against | target | measured | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for target in TARGETS:
        rows = runs.get(target.run, {}).get("document", {}).get("rows", [])
        row = next((r for r in rows if r["operation"] == target.operation and r["size"] == target.size), None)
        head = f"| {target.run} | {target.operation} | {bytes_text(target.size)} |"
        for name, least in target.ratios.items():
            ratio = ratio_to(row, name) if row else None
            text = "not measured | " if ratio is None else f"{ratio:.3g} | {'reached' if ratio >= least else 'missed'}"
            yield f"{head} {name} | >= {least:g} | {text} |"
        if target.walls is not None:
            text = "not measured | "
            if row:
                walls = row["time_in_walls"]
                text = f"{walls:.2f} | {'reached' if walls <= target.walls else 'missed'}"
            yield f"{head} the wall | <= {target.walls:g} | {text} |"


def run_table(document: dict) -> Iterator[str]:
    rows = document["rows"]
    peers = list(rows[0]["peers"])
    titles = [
        "operation",
        "size",
        "median us",
        "p10-p90",
        "p99",
        "busbw GB/s",
        "of the wall",
        "walls",
        "path",
        "line ns",
    ]
    yield "| " + " | ".join(titles + [f"{name} / ours" for name in peers]) + " |"
    yield "|" + " --- |" * (len(titles) + len(peers))
    for row in rows:
        large = row["size"] >= 64 * KIB
        line = f"{row['before']['handoff_ns']:.0f}-{row['after']['handoff_ns']:.0f}"
        cells = [
            row["operation"],
            bytes_text(row["size"]),
            f"{row['median_us']:.2f}",
            f"{row['p10_us']:.2f}-{row['p90_us']:.2f}",
            f"{row['p99_us']:.2f}",
            f"{row['busbw_gbs']:.2f}",
            f"{100 * row['wall_share']:.0f} %" if large else "",
            f"{row['time_in_walls']:.2f}" if large else "",
            row["path"],
            line + (" (changed)" if row["regime_changed"] else ""),
        ]
        cells += [ratio_text(row["peers"][name]) if "ratio" in row["peers"][name] else "absent" for name in peers]
        yield "| " + " | ".join(cells) + " |"


def absences(document: dict) -> Iterator[str]:
    found = {}
    for row in document["rows"]:
        for name, peer in row["peers"].items():
            if "absent" in peer:
                found.setdefault((name, peer["absent"]), row["operation"])
    for (name, reason), operation in found.items():
        yield f"* {name}, {operation}: {reason}"


def versions(runs: dict) -> str:
    found = {}
    for run in runs.values():
        for row in run["document"]["rows"]:
            found |= {name: peer["version"] for name, peer in row["peers"].items() if peer.get("version")}
    return "; ".join(f"{name}: {text}" for name, text in sorted(found.items())) or "none"


def page(results: dict, source: str) -> str:
    runs = results["runs"]
    first = next(iter(runs.values()))["document"]
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` from `bench/results/{source}`; no number here is typed by hand.",
        "",
        f"Machine: {results['machine']}, {first['processor']}, {first['cpus']} CPUs, kernels {first['kernels']}. "
        f"SymCCL {first['version']} ({first['revision']}), {first['compiler']}. First run: {first['date']}.",
        f"Peers: {versions(runs)}.",
        "",
        "Times are those of the slowest rank in each iteration; inputs are written before and outputs read and checked "
        "after it. Peers take turns with SymCCL within one run; a ratio is the median over these turns of the peer's "
        "time to ours, with the range of eight in ten. *The wall*: the time in which every rank copies as many bytes "
        "at once with streaming stores, measured before and after each row; *of the wall*: the least traffic of the "
        "operation per time, against that of these copies. *line*: hand-off of a cache line between two ranks, before "
        "and after the row.",
        "",
        "## Targets",
        "",
        "`mpi` is the faster of the MPIs in that row.",
        "",
        *verdicts(runs),
    ]
    for name, run in runs.items():
        lines += ["", f"## {name}", "", f"    {run['command']}", "", *run_table(run["document"])]
        gone = list(absences(run["document"]))
        lines += ["", *gone] if gone else []
    return "\n".join(lines) + "\n"
