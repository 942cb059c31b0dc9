"""Every operator of PyTorch's own database on npu against the CPU, with the outcomes pinned by name.

opinfo_expected.txt: lines `outcome name`, with `close` behind them where values need not be equal to the bit. What
`opinfo_sweep.py` prints; a change there is a change of what the device can do.
"""

import json
import pathlib
import subprocess
import sys

import opinfo_sweep
import pytest
import torch

EXPECTED = pathlib.Path(__file__).with_name("opinfo_expected.txt")


@pytest.fixture(scope="module")
def entries():
    """In a process of its own, which takes time limits from signals."""
    command = [sys.executable, opinfo_sweep.__file__, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stderr
    return {entry["name"]: opinfo_sweep.Entry(**entry) for entry in json.loads(result.stdout)}


@pytest.fixture(scope="module")
def expected():
    lines = [line.split() for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#")]
    return {fields[1]: (fields[0], fields[2:] == ["close"]) for fields in lines}


def test_outcomes_are_the_pinned_ones(entries, expected):
    differing = [
        f"{name}: {entries[name].outcome if name in entries else 'is gone'} {getattr(entries.get(name), 'reason', '')}"
        f", pinned as {expected.get(name, ('nothing',))[0]}"
        for name in sorted(entries.keys() | expected.keys())
        if name not in entries or name not in expected or entries[name].outcome != expected[name][0]
    ]
    assert not differing, "\n".join(differing)


def test_nearly_all_are_compared(entries):
    outcomes = [entry.outcome for entry in entries.values()]
    assert outcomes.count("compared") >= 650 and outcomes.count("failing") <= 6, outcomes


def test_compared_means_that_values_were_compared(entries):
    """Comparisons of each entry were also shown a changed element, and noticed it: see check_notices."""
    empty = [entry.name for entry in entries.values() if entry.outcome == "compared" and not entry.elements]
    assert not empty
    assert sum(entry.values for entry in entries.values()) > 9000
    assert sum(entry.gradients for entry in entries.values()) > 9000


def test_values_are_the_cpus_to_the_bit(entries, expected):
    compared = [entry for entry in entries.values() if entry.outcome == "compared"]
    differing = [entry.name for entry in compared if not entry.identical and not expected[entry.name][1]]
    assert not differing
    assert sum(entry.identical for entry in compared) >= 650


def test_a_wrong_value_is_noticed():
    right = torch.arange(6.0)
    for wrong in (right + 1e-2, right.flip(0), right[:5], torch.full((6,), float("nan"))):
        with pytest.raises(opinfo_sweep.Differs):
            opinfo_sweep.compare(wrong, right, 1e-4)
    assert opinfo_sweep.compare(right.clone(), right, 1e-4)
    assert not opinfo_sweep.compare(right + 1e-6, right, 1e-4)
