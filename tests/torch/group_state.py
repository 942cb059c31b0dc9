"""What a group can do after an error."""

import pytest
import torch
import torch.distributed as dist


def still_usable():
    """Asserts that a collective of all ranks works."""
    x = torch.full((5,), dist.get_rank() + 1.0)
    dist.all_reduce(x)
    assert x[0].item() == sum(range(1, dist.get_world_size() + 1))


def finished(pattern):
    """Asserts that the group's first error sticks: every later call raises it."""
    other = (dist.get_rank() + 1) % dist.get_world_size()
    for call in (lambda: dist.all_reduce(torch.ones(3)), dist.barrier, lambda: dist.send(torch.ones(1), other)):
        with pytest.raises(dist.DistBackendError, match=pattern):
            call()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS
