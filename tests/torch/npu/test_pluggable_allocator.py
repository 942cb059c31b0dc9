"""What a pluggable allocator refuses. It is chosen for a whole process, so each test has one of its own."""

import subprocess
import sys

PRELUDE = """
import ctypes, gc, torch, symccl.npu
from symccl import _npu
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
live, sizes = {}, []
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def allocate(size, device, stream):
    if size > 1 << 30:
        return None
    address = libc.malloc(size)
    live[address] = (size, device)
    sizes.append(size)
    return address
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def free(address, size, device, stream):
    assert live.pop(address) == (size, device)
    libc.free(address)
addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in (allocate, free)]
"""


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr


def test_keeps_no_statistics():
    run("""
_npu.change_current_allocator(_npu.PluggableAllocator(*addresses))
x = torch.arange(1000.0, device="npu:1")
assert live[x.data_ptr()] == (4000, 1)
try:
    torch.accelerator.memory_stats(0)
except NotImplementedError as error:
    assert "keeps no statistics" in str(error)
else:
    raise AssertionError
del x
gc.collect()
assert not live and sizes
""")


def test_not_after_the_first_tensor():
    run("""
x = torch.ones(3, device="npu")
try:
    _npu.change_current_allocator(_npu.PluggableAllocator(*addresses))
except RuntimeError as error:
    assert "already initialized allocator" in str(error)
else:
    raise AssertionError
assert _npu.allocator_backend() == "native" and not sizes
""")


def test_needs_two_functions():
    run("""
try:
    _npu.PluggableAllocator(addresses[0], 0)
except ValueError as error:
    assert "addresses of two functions" in str(error)
else:
    raise AssertionError
""")
