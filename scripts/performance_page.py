"""docs/performance.md from a file of results; no number in it comes from anywhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


GROWTH = (2, 4, 8, 16, 32)  # ranks
MOST_GROWTH, LEAST_FOR_GROWTH = 1.3, 64 * KIB
MPIS = ("openmpi", "mpich")


@dataclass(frozen=True)
class Measure:
    """Something that a row is judged by: `value(row, runs)`, None where it was not measured."""

    title: str
    value: Callable[[dict, dict], float | None]
    at_least: bool = True  # else: at most
    form: str = "{:.3g}"


def ratio(*names: str, title: str = "", low: bool = False) -> Measure:
    """The fastest of these peers' time to ours; `low`: the upper end of the 95 % interval instead."""

    def value(row: dict, _runs: dict) -> float | None:
        key = "ratio_high" if low else "ratio"
        found = [row["peers"][name][key] for name in names if key in row["peers"].get(name, {})]
        return min(found, default=None)

    return Measure(title or f"{names[0]} / ours", value, form="{:.3g}x")


def number(key: str, title: str, form: str) -> Measure:
    return Measure(title, lambda row, _runs: row.get(key), at_least=False, form=form)


def to_float32(row: dict, runs: dict) -> float | None:
    twin = find(runs, "all_reduce", row["operation"], row["size"])
    return row["algbw_gbs"] / twin["algbw_gbs"] if twin and twin["algbw_gbs"] else None


def above_floor(row: dict, _runs: dict) -> float | None:
    floor = row["peers"].get("torch-floor", {}).get("median_us")
    return row["median_us"] - floor if floor else None


def hidden(row: dict, _runs: dict) -> float | None:
    """The share of the communication that computing hides."""
    if "exposed_us" not in row:
        return None
    return 1 - row["exposed_us"] / row.get("communication_us", row["median_us"])


GLOO, STAGED, OPENMPI = ratio("gloo"), ratio("shm-staged"), ratio("openmpi")
MPI = ratio(*MPIS, title="the faster MPI / ours")
PRIVATE, NOT_SLOWER = ratio("private"), ratio("private", title="private / ours, top of the 95 % interval", low=True)
OUT_OF_PLACE = ratio("out-of-place")
WALLS = number("time_in_walls", "time in walls", "{:.2f}")
HAND_OFF = Measure(
    "ns above one hand-off",
    lambda row, _runs: 1000 * row["median_us"] - (row["before"]["handoff_ns"] + row["after"]["handoff_ns"]) / 2,
    at_least=False,
    form="{:.0f} ns",
)
OF_BOUND = Measure("share of the wall", lambda row, _runs: row["wall_share"], form="{:.2f}")
OF_FLOAT32 = Measure("bytes/s against float32", to_float32, form="{:.2f}")
ABOVE_FLOOR = Measure("us above torch's floor", above_floor, at_least=False, form="{:.2f} us")
TIME = number("median_us", "time", "{:.2f} us")
ISSUE = number("issue_us", "time until the call returns", "{:.2f} us")
HIDDEN = Measure("communication hidden", hidden, form="{:.2f}")


@dataclass(frozen=True)
class Target:
    run: str
    operation: str
    size: int
    goals: tuple[tuple[Measure, float], ...]


def all_reduce(run: str, sizes: tuple[int, ...], *goals: tuple[Measure, float]) -> list[Target]:
    return [Target(run, "all_reduce", size, goals) for size in sizes]


COLLECTIVES = ("reduce_scatter", "all_gather", "all_to_all", "broadcast")
AGAINST_PRIVATE = "all_reduce, registered against private"
TARGETS = [
    *all_reduce("all_reduce", (8,), (GLOO, 300), (MPI, 1.3), (STAGED, 1.3), (HAND_OFF, 100)),
    *all_reduce("all_reduce", (4 * KIB,), (GLOO, 100), (MPI, 2), (STAGED, 1.5)),
    *all_reduce("all_reduce", (64 * KIB,), (GLOO, 25), (MPI, 2), (STAGED, 1.5)),
    *all_reduce("all_reduce", (MIB,), (GLOO, 8), (MPI, 3), (STAGED, 1.5)),
    *all_reduce("all_reduce", (16 * MIB,), (GLOO, 8), (MPI, 6), (STAGED, 2)),
    *all_reduce("all_reduce", (64 * MIB,), (GLOO, 10), (MPI, 9), (STAGED, 2.5), (WALLS, 0.85)),
    *all_reduce("all_reduce, large", (256 * MIB, GIB), (GLOO, 10), (MPI, 9), (STAGED, 2.5), (WALLS, 1.0)),
    *all_reduce("all_reduce, private", (16 * MIB,), (GLOO, 6), (MPI, 5), (STAGED, 1.5)),
    *all_reduce("all_reduce, private", (64 * MIB,), (GLOO, 6), (MPI, 5), (STAGED, 1.5), (WALLS, 1.7)),
    *all_reduce("all_reduce, in place", (MIB, 4 * MIB, 16 * MIB), (OUT_OF_PLACE, 1 / 0.65)),
    *all_reduce("all_reduce, in place", (64 * MIB,), (OUT_OF_PLACE, 1 / 0.8)),
    *(
        Target("other collectives", name, size, ((GLOO, 5), (MPI, 1.7), (OF_BOUND, 0.8)))
        for name in COLLECTIVES
        for size in (MIB, 8 * MIB, 64 * MIB)
    ),
    *(
        target
        for name in ("bfloat16", "float16")
        for target in all_reduce(
            f"all_reduce, {name}", (MIB, 8 * MIB, 64 * MIB), (GLOO, 8), (MPI, 3), (OF_FLOAT32, 0.9)
        )
    ),
    *all_reduce("4 ranks", (8,), (GLOO, 200), (OPENMPI, 1.3)),
    *all_reduce("4 ranks", (MIB,), (GLOO, 8), (OPENMPI, 1.3)),
    Target("4 ranks", "barrier", 0, ((TIME, 4),)),
    *all_reduce("torch", (8,), (GLOO, 30), (ABOVE_FLOOR, 2)),
    *all_reduce(AGAINST_PRIVATE, tuple(8 << i for i in range(17)), (NOT_SLOWER, 1)),
    *all_reduce(AGAINST_PRIVATE, tuple(MIB << i for i in range(7)), (PRIVATE, 1.8)),
    *all_reduce(f"{AGAINST_PRIVATE}, large", (256 * MIB, GIB), (PRIVATE, 1.8)),
    *(
        Target("other collectives, registered against private", name, size, ((PRIVATE, 1.4),))
        for name in COLLECTIVES
        for size in (MIB, 8 * MIB, 64 * MIB)
    ),
    *(
        Target("send and receive", "sendrecv", size, ((GLOO, 5), (MPI, 1.5)))
        for size in (MIB, 4 * MIB, 16 * MIB, 64 * MIB)
    ),
    Target("communicator, 2 ranks", "communicator", 0, ((TIME, 2000),)),
    Target("communicator, 8 ranks", "communicator", 0, ((TIME, 2000),)),
    *all_reduce("torch, asynchronous", (64 * MIB,), (ISSUE, 20)),
    Target("training step", "ddp_transformer", 0, ((HIDDEN, 0.5),)),
    Target("training step", "ddp_convolution", 0, ((HIDDEN, 0.5),)),
]


def find(runs: dict, run: str, operation: str, size: int) -> dict | None:
    rows = runs.get(run, {}).get("document", {}).get("rows", [])
    return next((row for row in rows if row["operation"] == operation and row["size"] == size), None)


def bytes_text(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def ratio_text(peer: dict) -> str:
    return f"{peer['ratio']:.3g} ({peer['ratio_p10']:.3g}-{peer['ratio_p90']:.3g})"


def bound_text(row: dict, ranks: int) -> str:
    """Beside the time: the least on this machine. Creations and training steps have none."""
    if row["operation"] == "communicator" or row["operation"].startswith("ddp_"):
        return ""
    return f"{bound_us(row, ranks):.3g} us; took {row['median_us']:.3g} us"


def bound_us(row: dict, ranks: int) -> float:
    """One hand-off, or the operation's least traffic at the best rate of copies."""
    hand_off = (row["before"]["handoff_ns"] + row["after"]["handoff_ns"]) / 2000
    if not row["size"]:
        return hand_off
    wall = (row["before"]["best_wall_us"] + row["after"]["best_wall_us"]) / 2
    return max(hand_off, wall * row["least_traffic"] / (2 * row["size"] * ranks))


def row_command(run: dict, row: dict) -> str:
    """The run's command, for this row alone."""
    words = run["command"].split()
    options = next(i for i, word in enumerate(words) if word.startswith("-"))
    through = [word for word in words[1:2] if word in ("torch", "ddp")]
    text = " ".join([words[0], *through, row["operation"].removeprefix("ddp_"), *words[options:]])
    return re.sub(r" -b \S+ -e \S+( -f \S+)?", f" -b {row['size']} -e {row['size']}", text)


def verdicts(runs: dict) -> Iterator[str]:
    yield "| operation | size | measured | target | result | | bound | command |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for target in TARGETS:
        row = find(runs, target.run, target.operation, target.size)
        size = bytes_text(target.size) if target.size else ""
        for measure, goal in target.goals:
            sign = ">=" if measure.at_least else "<="
            head = (
                f"| {target.run}: {target.operation} | {size} | {measure.title} | {sign} {measure.form.format(goal)} |"
            )
            value = measure.value(row, runs) if row else None
            if value is None:
                yield f"{head} not measured | | | |"
                continue
            reached = value >= goal if measure.at_least else value <= goal
            run = runs[target.run]
            bound = bound_text(row, run["document"]["ranks"])
            verdict = "reached" if reached else "**missed**"
            command = row_command(run, row)
            yield f"{head} {measure.form.format(value)} | {verdict} | {'' if reached else bound} | `{command}` |"


def growth_table(runs: dict) -> Iterator[str]:
    """Times by size and number of ranks; from the second column on also the growth against linear in ranks."""
    sizes = sorted({row["size"] for run in growth_runs(runs) for row in run["document"]["rows"]})
    yield "| size | " + " | ".join(f"{ranks} ranks" for ranks in GROWTH) + " | |"
    yield "|" + " --- |" * (len(GROWTH) + 2)
    for size in sizes:
        times = {}
        for run in growth_runs(runs):
            row = next((row for row in run["document"]["rows"] if row["size"] == size), None)
            if row:
                times[run["document"]["ranks"]] = row["median_us"]
        first = times.get(GROWTH[0])
        growth = {ranks: times[ranks] / first * GROWTH[0] / ranks for ranks in times if first}
        cells = [
            f"{times[n]:.3g} us" + (f" ({growth[n]:.2f})" if n in growth else "") if n in times else "" for n in GROWTH
        ]
        held = all(factor <= MOST_GROWTH for factor in growth.values())
        judged = size >= LEAST_FOR_GROWTH and len(growth) > 1
        verdict = "" if not judged else "reached" if held else "**missed**"
        yield "| " + " | ".join([bytes_text(size), *cells, verdict]) + " |"


def growth_runs(runs: dict) -> list[dict]:
    return [run for name, run in runs.items() if name.startswith("growth, ")]


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
    more = [key for key in ("issue_us", "exposed_us", "communication_us") if key in rows[0]]
    titles += [key.replace("_us", " us") for key in more]
    titles += [f"{name} / ours" for name in peers]
    titles += [f"{name} {key.replace('_us', ' us')}" for name in peers for key in more]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + " --- |" * len(titles)
    for row in rows:
        large = row["size"] >= 64 * KIB
        line = f"{row['before']['handoff_ns']:.0f}-{row['after']['handoff_ns']:.0f}"
        cells = [
            row["operation"],
            bytes_text(row["size"]) if row["size"] else "",
            f"{row['median_us']:.2f}",
            f"{row['p10_us']:.2f}-{row['p90_us']:.2f}",
            f"{row['p99_us']:.2f}",
            f"{row['busbw_gbs']:.2f}",
            f"{100 * row['wall_share']:.0f} %" if large else "",
            f"{row['time_in_walls']:.2f}" if large else "",
            row["path"],
            line + (" (changed)" if row["regime_changed"] else ""),
        ]
        cells += [f"{row[key]:.2f}" if key in row else "" for key in more]
        cells += [ratio_text(row["peers"][name]) if "ratio" in row["peers"][name] else "absent" for name in peers]
        cells += [
            f"{row['peers'][name][key]:.2f}" if key in row["peers"][name] else "" for name in peers for key in more
        ]
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


def page(results: dict, source: str, drawings: dict[str, str]) -> str:
    """`drawings`: the SVG file of a run, beside the page."""
    runs = results["runs"]
    first = next(iter(runs.values()))["document"]
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` from `bench/results/{source}`; no number here is typed by hand. How it is measured: "
        "[benchmark.md](benchmark.md).",
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
        "Of the MPIs, and of Debian's and pip's builds of each, the fastest in that row. *bound*, where a target is "
        "missed: the least time on this machine (one hand-off, or the operation's least traffic at the rate of "
        "streaming copies in four streams by all ranks), beside the time that was taken.",
        "",
        *verdicts(runs),
    ]
    if growth_runs(runs):
        lines += [
            "",
            "## Cost of growth",
            "",
            "All-reduce in place on the CPUs above. In brackets: the time against that of "
            f"{GROWTH[0]} ranks, per rank; at most {MOST_GROWTH} from {bytes_text(LEAST_FOR_GROWTH)} up.",
            "",
            *growth_table(runs),
        ]
    for name, run in runs.items():
        lines += ["", f"## {name}", "", f"    {run['command']}", ""]
        if name in drawings:
            lines += [f"![{name}: time over size]({drawings[name]})", ""]
        lines += run_table(run["document"])
        gone = list(absences(run["document"]))
        lines += ["", *gone] if gone else []
        if run["document"]["rows"][0]["operation"] == "communicator":
            lines += [
                "",
                f"The first communicator of these processes took {run['document']['first_communicator_us']:.0f} us.",
            ]
    return "\n".join(lines) + "\n"
