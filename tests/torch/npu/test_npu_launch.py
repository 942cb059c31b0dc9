"""Every way to start an unmodified script."""

import json
import os
import re
import sys

import pytest
from launched import TORCHRUN, run, write

from symccl.npu import _activate
from symccl.npu.__main__ import main

SHIM = str(_activate.SHIM)
NPU = [sys.executable, "-m", "symccl.npu"]

# Works on its rank's device, by torch_npu's names, and says how it was started. Rank 0 leaves it to PyTorch to load
# torch_npu, rank 1 imports it before torch.
SCRIPT = """
    import json, os, sys
    rank = int(os.environ.get("LOCAL_RANK", 0))
    if rank == 1:
        import torch_npu
    import torch

    if __name__ == "__main__":
        torch.npu.set_device(rank)
        x = torch.arange(6.0).npu() * (rank + 1)
        names = [os.path.basename(path) for path in (sys.argv[0], __file__, sys.path[0])]
        main = sys.modules["__main__"].__dict__ is globals()
        result = json.dumps([rank, x.device.index, x.sum().item(), sys.argv[1:], *names, main])
        sys.stdout.write(f"RESULT {result}\\n")
"""
FORMS = {
    "torchrun_m": ([*TORCHRUN, "--nproc_per_node=2", "-m", "symccl.npu"], {}),
    "pythonpath": ([*TORCHRUN, "--nproc_per_node=2"], {"PYTHONPATH": SHIM}),
    "wrapped_torchrun": ([*NPU, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"], {}),
    "single": (NPU, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_form(form, tmp_path):
    command, environment = FORMS[form]
    folder = tmp_path / "folder of the script"
    folder.mkdir()
    script = write(folder, SCRIPT)
    out = run(*command, script, "--lr", "a b", **environment).stdout
    assert sorted(json.loads(line) for line in re.findall(r"RESULT (.*)", out)) == [
        [rank, rank, 15.0 * (rank + 1), ["--lr", "a b"], "script.py", "script.py", "folder of the script", True]
        for rank in range(1 if form == "single" else 2)
    ]


def test_path_is_a_folder_with_torch_npu():
    shown = run(*NPU, "--path").stdout
    assert shown == SHIM + "\n" and os.path.isfile(os.path.join(SHIM, "torch_npu", "__init__.py"))


def test_module_and_code(tmp_path):
    write(tmp_path, "import sys, torch; print(sys.argv[1:], torch.ones(2).npu().sum().item(), __name__)", "tool.py")
    assert run(*NPU, "-m", "tool", "x", cwd=tmp_path).stdout == "['x'] 2.0 __main__\n"
    code = "import sys, torch; print(sys.argv, torch.ones(3).npu().sum().item(), __name__)"
    assert run(*NPU, "-c", code, "y").stdout == "['-c', 'y'] 3.0 __main__\n"


def test_end_of_the_script_is_the_end_of_the_program(tmp_path):
    failing = write(tmp_path, "import sys; sys.exit(7)", "failing.py")
    assert run(*NPU, failing, check=False).returncode == 7
    raising = write(tmp_path, "import torch_npu\ntorch_npu.npu.set_device(99)", "raising.py")
    result = run(*NPU, raising, check=False)
    assert result.returncode == 1 and "raising.py" in result.stderr and "99" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["none.py"], "can't open file .*none.py': no such file"),
        (["--pth"], "unknown option --pth .accepted: a script, -m, -c, --path, --help"),
        (["-m"], "-m needs a value"),
    ],
)
def test_wrong_use_says_what_is_accepted(arguments, sentence, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["symccl.npu", *arguments])
    assert main() == 2 and re.search(sentence, capsys.readouterr().err)


@pytest.mark.parametrize("arguments, code", [(["--help"], 0), ([], 2)])
def test_help(arguments, code, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["symccl.npu", *arguments])
    assert main() == code and "-m module" in capsys.readouterr().out


SPAWNING = """
    import torch
    import torch.multiprocessing as mp
    from torch.utils.data import DataLoader, TensorDataset

    def work(rank, results):
        torch.npu.set_device(rank)
        results[rank] = (torch.full((3,), rank + 1.0, device="npu") @ torch.ones(3).npu()).item()

    if __name__ == "__main__":
        results = mp.get_context("spawn").Manager().dict()
        mp.spawn(work, args=(results,), nprocs=2)
        print("RESULT", sorted(results.items()))
        for method in ("fork", "spawn"):
            loader = DataLoader(TensorDataset(torch.arange(8.0)), 4, num_workers=1, multiprocessing_context=method)
            print("RESULT", method, [(batch.npu() * 2).tolist() for (batch,) in loader])
"""


@pytest.mark.parametrize("form", ["single", "pythonpath"])
def test_children(form, tmp_path):
    command, environment = (NPU, {}) if form == "single" else ([sys.executable], {"PYTHONPATH": SHIM})
    out = run(*command, write(tmp_path, SPAWNING), **environment).stdout
    batches = "[[0.0, 2.0, 4.0, 6.0], [8.0, 10.0, 12.0, 14.0]]"
    assert re.findall(r"RESULT (.*)", out) == [
        "[(0, 3.0), (1, 6.0)]",
        f"fork {batches}",
        f"spawn {batches}",
    ]


def test_fork_after_use(tmp_path):
    script = """
        import os, torch, torch_npu
        x = torch.arange(1000.0).npu()
        before = x.sum().item()
        pid = os.fork()
        if pid == 0:
            y = torch.ones(1000, device="npu:1") * 2
            fresh = torch.rand(100, 100).npu()
            good = y.sum().item() == 2000 and x.sum().item() == before and (fresh @ fresh).isfinite().all().item()
            os._exit(0 if good else 1)
        _, status = os.waitpid(pid, 0)
        print("RESULT", os.waitstatus_to_exitcode(status), x.sum().item() == before)
    """
    assert "RESULT 0 True" in run(*NPU, write(tmp_path, script)).stdout
