"""SymCCL: collective communication with symmetric memory for PyTorch on CPU hosts.

Importing this package registers the torch.distributed backend "symccl":

    import torch, torch.distributed as dist, symccl

    dist.init_process_group("symccl")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    pool = symccl.MemPool(backend.mem_allocator)
    backend.register_mem_pool(pool, symm=True)
    with symccl.use_mem_pool(pool):
        x = torch.ones(1 << 20)
    dist.all_reduce(x)  # every rank works on the others' tensors in place
"""


def _autoload():
    """Registers the backend with torch.distributed. Called by PyTorch's entry points and by the import; idempotent.

    PyTorch calls it while this module may be half imported, so it stands before everything else.
    """
    import torch.distributed as dist

    if not dist.is_available() or "symccl" in dist.Backend.backend_list:
        return
    from . import _C

    dist.Backend.register_backend("symccl", _C.create, extended_api=True, devices=["cpu"])


import torch  # noqa: E402, F401  (loads the libraries that the extension needs)

_autoload()

import atexit  # noqa: E402

from . import _C  # noqa: E402
from ._C import MemPool, Options  # noqa: E402
from ._groups import (  # noqa: E402
    deregister_mem_pool,
    is_symmetric,
    register_mem_pool,
    stats,
    verify_pool,
)
from ._pools import use_mem_pool  # noqa: E402

# The groups' threads must have ended before the interpreter goes, also when destroy_process_group() was not called.
atexit.register(_C._end)

__version__ = _C.__version__
__all__ = [
    "MemPool",
    "Options",
    "deregister_mem_pool",
    "is_symmetric",
    "register_mem_pool",
    "stats",
    "use_mem_pool",
    "verify_pool",
]
