"""torch.npu.NPUPluggableAllocator: tensors from a library of the user. It comes before a process has tensors."""

import shutil
import subprocess
import sys

import pytest
from launched import run, write

import symccl.npu

NPU = [sys.executable, "-m", "symccl.npu"]

# Hands out one arena from the bottom up, and remembers what it was asked.
LIBRARY = """
    #include <stddef.h>
    #include <sys/types.h>
    static _Alignas(64) char arena[1 << 20];
    static size_t used;
    size_t allocated, freed;
    int last_device = -1;
    char* arena_begin(void) { return arena; }
    void* take(ssize_t bytes, int device, void* stream) {
      size_t size = ((size_t)bytes + 63) & ~(size_t)63;
      if (stream != NULL || used + size > sizeof arena) return NULL;
      used += size;
      allocated += (size_t)bytes;
      last_device = device;
      return arena + used - size;
    }
    void give(void* address, ssize_t bytes, int device, void* stream) { freed += (size_t)bytes; }
"""

SCRIPT = """
    import ctypes, gc, sys
    import torch, torch_npu

    assert torch.npu.get_allocator_backend() == "native"
    allocator = torch_npu.npu.NPUPluggableAllocator(sys.argv[1], "take", "give")
    torch_npu.npu.change_current_allocator(allocator)
    assert torch.npu.get_allocator_backend() == "pluggable"
    library = ctypes.CDLL(sys.argv[1])
    library.arena_begin.restype = ctypes.c_void_p
    begin = library.arena_begin()
    count = lambda name: ctypes.c_size_t.in_dll(library, name).value

    x = torch.arange(30.0, device="npu:2").reshape(5, 6)
    results = [x, x * 2, x @ x.T, x.sort(1, descending=True)[0], x[x > 7], torch.nn.functional.softmax(x, 1)]
    cpu = x.cpu()
    expected = [cpu, cpu * 2, cpu @ cpu.T, cpu.sort(1, descending=True)[0], cpu[cpu > 7], torch.softmax(cpu, 1)]
    for got, want in zip(results, expected):
        assert torch.equal(got.cpu(), want) and begin <= got.data_ptr() < begin + (1 << 20)
    assert ctypes.c_int.in_dll(library, "last_device").value == 2
    try:
        torch.empty(1 << 20, device="npu")
        raise AssertionError("no error")
    except torch.OutOfMemoryError as error:
        print("RESULT", error)
    del x, results, got
    gc.collect()
    assert count("allocated") == count("freed") > 0
    try:
        torch_npu.npu.change_current_allocator(allocator)
        raise AssertionError("no error")
    except RuntimeError as error:
        print("RESULT", error)
"""


def _library(folder):
    compiler = shutil.which("cc") or shutil.which("gcc")
    source, library = write(folder, LIBRARY, "own.c"), str(folder / "libown.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return library


def test_tensors_come_from_the_library(tmp_path):
    out = run(*NPU, write(tmp_path, SCRIPT), _library(tmp_path)).stdout
    memory, change = [line for line in out.splitlines() if line.startswith("RESULT")]
    assert "npu" in memory and str(4 << 20) in memory
    assert "allocator" in change


def test_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(AttributeError, match="undefined symbol: takes"):
        symccl.npu.NPUPluggableAllocator(_library(tmp_path), "takes", "give")
    with pytest.raises(OSError, match=r"none\.so"):
        symccl.npu.NPUPluggableAllocator(str(tmp_path / "none.so"), "take", "give")
