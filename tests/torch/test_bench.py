"""symccl-bench through torch.distributed: the operations, the asynchronous mode, training steps, wrong data."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "build/tools/symccl-bench"


def rows(arguments: str, code: int = 0) -> dict[str, dict]:
    """The rows by operation; every peer in them is there."""
    command = [BENCH, *arguments.split(), "--python", sys.executable, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == code, done.stderr
    return {row["operation"]: row for row in json.loads(done.stdout)["rows"]}


def test_every_operation_is_right():
    found = rows("torch all -b 4K -e 4K -n 2 -w 0 --peers private")
    assert len(found) == 16
    for row in found.values():
        assert row["wrong"] == 0 and row["median_us"] > 0
        assert row["peers"]["private"]["wrong"] == 0 and row["peers"]["private"]["median_us"] > 0


def test_gloo_and_the_floor_take_turns():
    row = rows("torch all_reduce -b 64K -e 64K -n 4 -w 1 --rounds 2 --peers gloo,torch-floor")["all_reduce"]
    assert row["peers"]["gloo"]["wrong"] == 0 and row["peers"]["gloo"]["ratio"] > 0
    assert 0 < row["peers"]["torch-floor"]["median_us"] < row["median_us"]


def test_asynchronous_calls_return_before_they_end():
    row = rows("torch all_reduce --async -b 16M -e 16M -n 4 -w 1 --peers gloo,hccl")["all_reduce"]
    for library in (row, *row["peers"].values()):
        assert library["wrong"] == 0
        assert 0 < library["issue_us"] < library["median_us"]
        assert library["exposed_us"] >= 0


@pytest.mark.parametrize("model", ["transformer", "convolution"])
def test_training_steps_have_the_right_gradients(model):
    row = rows(f"ddp {model} -n 2 -w 1 --peers gloo")[f"ddp_{model}"]
    for library in (row, row["peers"]["gloo"]):
        assert library["wrong"] == 0
        assert library["median_us"] > library["communication_us"] > 0
