"""Writes the tables expected_2.txt and expected_4.txt from what happens on this machine. Review the difference.

Runs gloo itself, then symccl under its own name and under gloo's: about four minutes. Needed when the pinned PyTorch
changes. A test that fails keeps the state `broken`, which no check accepts.
"""

from passes import AS_GLOO, FAILS, OWN, SKIPPED, WORLD_SIZES, Pass, table_path

HEADER = """\
# What PyTorch's DistributedTest does at {world_size} ranks. pin.py writes this; passes.py explains the states.
# gloo: what gloo itself does on the reference machine. state: what symccl must do. reason: why a test is skipped, or
# for `fails` the error's text.
# test | gloo | state | reason
"""
# DDP's log reports c10d's name for all plugins, 'custom', where the test wants the name given to init_process_group.
KNOWN_FAILURES = {"test_ddp_logging_data_cpu": "String comparison failed: 'custom' !="}


def state_of(test, own, as_gloo):
    outcomes = own["outcome"], as_gloo["outcome"]
    if outcomes[0] == "passed":
        return OWN, ""
    if outcomes == ("skipped", "passed"):
        return AS_GLOO, own["text"]
    if outcomes == ("failed", "failed") and all(KNOWN_FAILURES.get(test, "\0") in x["text"] for x in (own, as_gloo)):
        return FAILS, KNOWN_FAILURES[test]
    if outcomes == ("skipped", "skipped"):
        return SKIPPED, as_gloo["text"]
    return "broken", f"own name: {outcomes[0]}, as gloo: {outcomes[1]}"


def main():
    for world_size in WORLD_SIZES:
        stock, own, as_gloo = (Pass(name, world_size).wait() for name in ("stock", "symccl", "gloo"))
        rows = []
        for test in sorted(stock):
            gloo = {"passed": "pass", "skipped": "skip"}.get(stock[test]["outcome"], "broken")
            rows.append((test, gloo, *state_of(test, own[test], as_gloo[test])))
        width = max(len(row[0]) for row in rows)
        lines = (f"{test:{width}} {gloo:4} {state:7} {reason}".rstrip() for test, gloo, state, reason in rows)
        table_path(world_size).write_text(HEADER.format(world_size=world_size) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
