"""What comes of each of the calls that scripts make: pinned by name in calls.txt, values compared with the CPU's.

`python -m symccl.npu tests/torch/npu/test_calls.py` rewrites calls.txt; read the difference before you commit it.
"""

import pathlib

import pytest
import torch_npu  # noqa: F401

# ruff: isort: split
import calls_device  # noqa: F401
import calls_modules  # noqa: F401
import calls_tensors  # noqa: F401
import calls_training  # noqa: F401
from call_list import CALLS, CHECKS, outcome

PINNED = pathlib.Path(__file__).with_name("calls.txt")
NAMES = [*CALLS, *CHECKS]


def pinned():
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_call(name):
    expected, got = pinned()[name], outcome(name)
    # Where the CPU has a kernel that fuses what the npu composes, it depends on the machine whether they round alike.
    assert got == expected or (expected.startswith("close") and got == expected.replace("close", "equal"))


def test_list_is_complete():
    """Every pinned call exists; none is pinned as different from the CPU; most are compared to the last bit."""
    lines = pinned()
    assert set(lines) == set(NAMES)
    assert not [name for name, line in lines.items() if line.startswith("different")]
    compared = [line for line in lines.values() if line.startswith(("equal", "close"))]
    equal = [line for line in compared if line.startswith("equal")]
    assert len(compared) >= 270 and len(equal) >= 0.95 * len(compared)


if __name__ == "__main__":
    text = "".join(f"{name}: {outcome(name)}\n" for name in NAMES)
    PINNED.write_text("# name: what comes of it on npu beside cpu; see call_list.py\n" + text, encoding="utf-8")
