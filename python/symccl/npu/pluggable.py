"""A user's own allocator, from a library with two C functions."""

import ctypes

from .. import _npu

__all__ = ["NPUPluggableAllocator", "change_current_allocator", "get_allocator_backend"]


class NPUPluggableAllocator:
    """Allocates npu tensors by functions of a shared library, for change_current_allocator().

    Its memory need not lie in the device's heap, so collectives do not work on it in place.

    Args:
        path_to_so_file (str): the library.
        alloc_fn_name (str): `void* f(ssize_t bytes, int device, void* stream)`; null: there is no memory left.
        free_fn_name (str): `void f(void* address, ssize_t bytes, int device, void* stream)`.

    Raises:
        OSError: there is no such library.
        AttributeError: it has no such function.
    """

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        self._library = ctypes.CDLL(path_to_so_file)
        addresses = (
            ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value for name in (alloc_fn_name, free_fn_name)
        )
        self._allocator = _npu.PluggableAllocator(*addresses)

    def allocator(self):
        return self._allocator


def change_current_allocator(allocator):
    """Takes all npu tensors of this process from `allocator` from now on.

    Raises:
        RuntimeError: there has been an npu tensor.
    """
    _npu.change_current_allocator(allocator.allocator())


def get_allocator_backend():
    """ "native": the device's own allocator; "pluggable": a user's."""
    return _npu.allocator_backend()
