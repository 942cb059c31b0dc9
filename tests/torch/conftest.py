"""For all tests of the PyTorch backend."""

import pathlib

# PyTorch loads these when DistributedDataParallel, FSDP or DTensor first need them. Loaded here once, they are there in
# every forked rank; a rank of its own takes seconds for them.
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel  # noqa: F401


def pytest_ignore_collect(collection_path, config):
    """Tests of the emulated device npu rename PrivateUse1 for their whole process: they run only by themselves."""
    npu = pathlib.Path(__file__).parent / "npu"
    if collection_path != npu:
        return None
    asked = [(config.invocation_params.dir / each.split("::")[0]).resolve() for each in config.args]
    return None if all(npu in (path, *path.parents) for path in asked) else True
