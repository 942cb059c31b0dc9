"""For the tests of the emulated device `npu`: a session of its own, `pytest tests/torch/npu`.

Loading the device renames PrivateUse1 for the whole process; ../conftest.py leaves this folder out of other sessions.
"""

import sys

import pytest
import torch

import symccl.npu  # noqa: F401
from symccl.npu import _activate

sys.path.insert(0, str(_activate.SHIM))  # `import torch_npu`, as behind `python -m symccl.npu`
torch.set_num_threads(1)  # values do not depend on the machine


@pytest.fixture(autouse=True)
def clean():
    """Each test begins on npu:0 with equal seeds."""
    torch.npu.set_device(0)
    torch.manual_seed(0)


def pytest_collection_modifyitems(items):
    """Tests that fork ranks come first: once this process has run backward() on the device, its children cannot."""
    items.sort(key=lambda item: not hasattr(item.module, "run_npu"))
