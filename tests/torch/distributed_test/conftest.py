"""Closes the run with what the upstream tests amount to, so that pinned skips are seen in the summary."""

import re


def pytest_terminal_summary(terminalreporter):
    passed = [report.nodeid for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    for size in sorted(set(re.findall(r"test_upstream\.py::test_passes\[(\d+)-", "\n".join(passed)))):
        from passes import SKIPPED, read_table

        rows = read_table(size)
        own, as_gloo = (
            sum(f"test_passes[{size}-{run_pass}-" in nodeid for nodeid in passed) for run_pass in ("symccl", "gloo")
        )
        terminalreporter.write_line(
            f"DistributedTest, {size} ranks: {own} passed under our own name, {as_gloo} more under gloo's; "
            f"{sum(row.state == SKIPPED for row in rows)} pinned as skipped, of {len(rows)}. "
            f"Gloo itself passes {sum(row.gloo == 'pass' for row in rows)}."
        )
