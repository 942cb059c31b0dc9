"""Loads the extension that turns PyTorch's spare device type PrivateUse1 into `npu`: once a process, and not beside a
genuine torch_npu."""

import importlib.metadata
import pathlib
import sys

SHIM = pathlib.Path(__file__).resolve().parent / "shim"  # holds our `torch_npu`; on nobody's path by default


def _genuine_torch_npu():
    """What there is of a torch_npu that is not ours, as part of a sentence, or None."""
    imported = getattr(sys.modules.get("torch_npu"), "__file__", None)
    if imported is not None and SHIM not in pathlib.Path(imported).resolve().parents:
        return f"a torch_npu has been imported from {pathlib.Path(imported).parent}"
    for distribution in importlib.metadata.distributions(name="torch_npu"):
        folder = pathlib.Path(distribution.locate_file("")).resolve()
        if folder != SHIM:
            return f"torch_npu {distribution.version} is installed in {folder}"
    return None


def activate():
    """Raises ImportError where a genuine torch_npu, or another owner of PrivateUse1, is in this process."""
    genuine = _genuine_torch_npu()
    if genuine is not None:
        raise ImportError(f"symccl.npu: {genuine}; the emulated device takes its name and needs a Python without it")
    from .. import _npu  # noqa: F401  (refuses a PrivateUse1 that somebody else has claimed)
