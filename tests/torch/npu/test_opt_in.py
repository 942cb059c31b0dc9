"""The device is there only for those who ask for it, and never beside a genuine torch_npu."""

import sys

import pytest
from launched import run, write

from symccl.npu import _activate

PYTHON = sys.executable


def test_import_of_symccl_leaves_pytorch_alone():
    code = """if True:
        import torch, symccl, importlib.util
        assert torch._C._get_privateuse1_backend_name() == "privateuseone" and not hasattr(torch, "npu")
        assert torch.accelerator.current_accelerator() is None
        assert importlib.util.find_spec("torch_npu") is None
        import sys
        assert not any(name.startswith(("symccl.npu", "symccl._npu")) for name in sys.modules)
    """
    run(PYTHON, "-c", code)


def test_device_of_somebody_else_is_refused():
    code = "import torch; torch.utils.rename_privateuse1_backend('rival'); import symccl.npu"
    result = run(PYTHON, "-c", code, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("ImportError: symccl.npu: ")
    assert "'rival' in this process" in result.stderr.splitlines()[-1]


def _genuine(folder):
    """A package that looks like an installed torch_npu."""
    (folder / "torch_npu").mkdir()
    write(folder / "torch_npu", "__version__ = '2.13.0'", "__init__.py")
    (folder / "torch_npu-2.13.0.dist-info").mkdir()
    write(
        folder / "torch_npu-2.13.0.dist-info", "Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n", "METADATA"
    )
    return str(folder)


@pytest.mark.parametrize("path", ["{genuine}", "{shim}:{genuine}"])
def test_installed_torch_npu_is_not_shadowed(path, tmp_path):
    path = path.format(genuine=_genuine(tmp_path), shim=_activate.SHIM)
    result = run(PYTHON, "-c", "import symccl.npu", check=False, PYTHONPATH=path)
    assert result.returncode == 1
    assert f"symccl.npu: torch_npu 2.13.0 is installed in {tmp_path}; " in result.stderr


def test_imported_torch_npu_is_not_replaced(tmp_path):
    (tmp_path / "torch_npu").mkdir()
    write(tmp_path / "torch_npu", "", "__init__.py")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch_npu, symccl.npu"
    result = run(PYTHON, "-c", code, check=False)
    assert f"symccl.npu: a torch_npu has been imported from {tmp_path / 'torch_npu'}; " in result.stderr


def test_import_twice_is_once():
    code = f"import sys; sys.path.insert(0, {str(_activate.SHIM)!r}); import torch_npu, symccl.npu, torch\n"
    code += "import torch_npu.npu; assert torch_npu.npu is symccl.npu is torch.npu"
    run(PYTHON, "-c", code)


def test_both_backends_and_devices_together():
    code = "import symccl, symccl.npu, torch\n"
    code += "p = symccl.MemPool()\nwith symccl.use_mem_pool(p): x = torch.ones(5)\n"
    code += "q = torch.npu.MemPool()\nwith torch.npu.use_mem_pool(q): y = x.npu() * 2\n"
    code += "def inside(p, t):\n"
    code += "    return any(s['address'] <= t.data_ptr() < s['address'] + s['total_size'] for s in p.snapshot())\n"
    code += "assert inside(p, x) and inside(q, y) and not inside(p, y) and y.sum().item() == 10"
    run(PYTHON, "-c", code)
