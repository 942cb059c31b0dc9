"""Pipeline parallelism: stages that send activations forward and gradients back, on symccl as on gloo."""

import pytest
import torch
from against_gloo import EXACT, OTHER_ORDER, same_as_gloo
from ranks import run_ranks
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

MICROBATCHES = 8
SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}


def layers(count):
    torch.manual_seed(4)
    return [nn.Sequential(nn.Linear(9, 9), nn.Tanh()) for _ in range(count)]


def batch():
    generator = torch.Generator().manual_seed(8)
    return torch.randn(2 * MICROBATCHES, 9, generator=generator), torch.randn(2 * MICROBATCHES, 9, generator=generator)


def train(rank, size, schedule):
    """Returns the losses, which the last stage knows, and the parameters of this rank's stage."""
    module = layers(size)[rank]
    stage = PipelineStage(module, rank, size, torch.device("cpu"))
    pipeline = SCHEDULES[schedule](stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    x, y = batch()
    means = []
    for _ in range(3):
        losses = []
        if rank == 0:
            pipeline.step(x, target=y if size == 1 else None)
        else:
            pipeline.step(target=y if rank == size - 1 else None, losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        means.append(torch.stack(losses).mean().item() if losses else 0.0)
    return {"losses": means, "parameters": [parameter.detach() for parameter in module.parameters()]}


def train_alone(rank, size):
    model = nn.Sequential(*layers(size))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    x, y = batch()
    losses = []
    for _ in range(3):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [[parameter.detach() for parameter in stage.parameters()] for stage in model]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_pipeline(size, schedule):
    results = same_as_gloo(size, train, size, schedule, tolerance=EXACT)  # messages only: nothing is added up
    losses, parameters = run_ranks(1, train_alone, size, init=False)[0]
    torch.testing.assert_close(results[-1]["losses"], losses, **OTHER_ORDER)
    torch.testing.assert_close([result["parameters"] for result in results], parameters, **OTHER_ORDER)
