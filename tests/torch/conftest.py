"""For all tests of the PyTorch backend."""

# PyTorch loads these when DistributedDataParallel, FSDP or DTensor first need them. Loaded here once, they are there in
# every forked rank; a rank of its own takes seconds for them.
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor.parallel  # noqa: F401
