"""Runs a script of torch_npu and HCCL on the emulated device.

python -m symccl.npu script.py [arguments]       a script
python -m symccl.npu -m module [arguments]       a module, such as torch.distributed.run
python -m symccl.npu -c 'code' [arguments]       a line of code
python -m symccl.npu --path                      prints the folder that makes `import torch_npu` work: for PYTHONPATH
"""

import os
import runpy
import sys

from . import _activate

SHIM = str(_activate.SHIM)


def _open_torch_npu():
    """Makes `import torch_npu` work in this process and in those that it starts."""
    sys.path.insert(1, SHIM)
    paths = os.environ.get("PYTHONPATH", "")
    if SHIM not in paths.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [SHIM, paths]))
    import torch_npu  # noqa: F401  (scripts may rely on PyTorch having loaded it)


def _first_on_path(folder):
    """Puts `folder` where Python puts the folder of a script; `-m symccl.npu` has put the working directory there."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments else 2
    first, rest = arguments[0], arguments[1:]
    if first == "--path":
        print(SHIM)
        return 0
    if first in ("-m", "-c") and not rest:
        print(f"symccl.npu: {first} needs a value", file=sys.stderr)
        return 2
    if first.startswith("-") and first not in ("-m", "-c"):
        print(f"symccl.npu: unknown option {first} (accepted: a script, -m, -c, --path, --help)", file=sys.stderr)
        return 2
    if first not in ("-m", "-c") and not os.path.exists(first):
        print(f"symccl.npu: can't open file {os.path.abspath(first)!r}: no such file", file=sys.stderr)
        return 2

    _open_torch_npu()
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        sys.argv = arguments
        _first_on_path(os.path.dirname(os.path.realpath(first)))
        runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
