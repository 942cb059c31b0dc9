"""PyTorch's own DistributedTest, from the installed wheel, against symccl: at 2 and 4 ranks, in two passes.

What each test must do is pinned in expected_2.txt and expected_4.txt (states: passes.py); pin.py writes them anew.
"""

import collections

import pytest
from passes import AS_GLOO, FAILS, OWN, SKIPPED, WORLD_SIZES, Pass, read_table

TABLES = {size: read_table(size) for size in WORLD_SIZES}
# Under gloo's name run the tests that cannot pass under our own: a second run of the others would show little more.
IN_PASS = {"symccl": (OWN, AS_GLOO, FAILS, SKIPPED), "gloo": (AS_GLOO, FAILS, SKIPPED)}
PASSES = [(size, run_pass) for size in WORLD_SIZES for run_pass in IN_PASS]


def expected_rows(world_size, run_pass, states):
    return [row for row in TABLES[world_size] if row.state in states and row.state in IN_PASS[run_pass]]


def all_passing():
    """The tests that must pass, by pass."""
    for size, run_pass in PASSES:
        for row in expected_rows(size, run_pass, (OWN,) if run_pass == "symccl" else (AS_GLOO,)):
            yield pytest.param(size, run_pass, row.test, id=f"{size}-{run_pass}-{row.test}")


@pytest.fixture(scope="module")
def running(request):
    """running(world_size, run_pass): that pass, started on first use with the tests that this session needs of it."""
    needed = collections.defaultdict(set)
    for item in request.session.items:
        parameters = item.callspec.params if item.module is request.module and hasattr(item, "callspec") else {}
        size, run_pass, test = (parameters.get(name) for name in ("world_size", "run_pass", "test"))
        if test:
            needed[size, run_pass].add(test)
        elif run_pass:
            needed[size, run_pass].update(row.test for row in expected_rows(size, run_pass, (AS_GLOO, FAILS, SKIPPED)))
    passes = {}

    def start(size, run_pass):
        if (size, run_pass) not in passes:
            order = [row.test for row in TABLES[size] if row.test in needed[size, run_pass]]
            passes[size, run_pass] = Pass(run_pass, size, order)
        return passes[size, run_pass]

    yield start
    for started in passes.values():
        started.close()


@pytest.mark.parametrize("world_size, run_pass, test", list(all_passing()))
def test_passes(running, world_size, run_pass, test):
    result = running(world_size, run_pass).result(test)
    assert result["outcome"] == "passed", f"{test} {result['outcome']}: {result['text']}"


@pytest.mark.parametrize("world_size, run_pass", PASSES, ids=lambda value: str(value))
def test_the_rest_is_as_pinned(running, world_size, run_pass):
    """Nothing is skipped that is not on the list, for no other reason, and nothing on the list runs after all.

    Under our own name a test of the list may be skipped for an earlier reason than under gloo's.
    """
    wrong = []
    rows = expected_rows(world_size, run_pass, (FAILS, SKIPPED) if run_pass == "gloo" else (AS_GLOO, FAILS, SKIPPED))
    for row in rows:
        result = running(world_size, run_pass).result(row.test)
        outcome = "failed" if row.state == FAILS else "skipped"
        reason = "" if row.state == SKIPPED and run_pass == "symccl" else row.reason
        if result["outcome"] != outcome or reason not in result["text"]:
            wrong.append(f"{row.test}: expected {outcome} ({reason}), was {result['outcome']}: {result['text'][:2000]}")
    assert rows
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_table_holds_every_upstream_test(running, world_size):
    """A test that a new PyTorch brings, or one that it drops, is noticed."""
    names = running(world_size, "symccl").upstream_tests()
    assert [row.test for row in TABLES[world_size]] == sorted(names)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_every_test_that_gloo_passes_is_required(world_size):
    rows = TABLES[world_size]
    assert {row.state for row in rows} == {OWN, AS_GLOO, FAILS, SKIPPED}
    # DDP's log names the backend by c10d's type, which is 'custom' for every plugin.
    assert [row.test for row in rows if row.state == FAILS] == ["test_ddp_logging_data_cpu"]
    assert not [row.test for row in rows if row.gloo == "pass" and row.state == SKIPPED]
