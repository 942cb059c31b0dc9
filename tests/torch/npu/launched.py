"""Starts programs the way users do: scripts of a test, with and without the launchers."""

import os
import subprocess
import sys
import textwrap

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def clean_environment(**more):
    """The environment without what a launcher, or this test process, has set."""
    ours = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {
        name: value for name, value in os.environ.items() if name not in ours and not name.startswith("TORCHELASTIC")
    }
    if "PYTHONPATH" in more and "PYTHONPATH" in kept:
        more["PYTHONPATH"] += os.pathsep + kept["PYTHONPATH"]
    return kept | {"OMP_NUM_THREADS": "1"} | more


def write(folder, text, name="script.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


def run(*command, timeout=150, cwd=None, check=True, **environment):
    """Runs a command to its end, or kills it and all its children."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, 9)
            raise
    result = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        assert result.returncode == 0, f"exit code {result.returncode}\n{out}\n{err}"
    return result
