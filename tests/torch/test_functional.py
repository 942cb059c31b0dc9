"""Functional collectives, eager, with gradients and under torch.compile: the values of gloo."""

import pytest
import torch
import torch._inductor.compile_fx  # noqa: F401  (loaded before the ranks are forked: they load it slowly)
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.distributed.nn.functional as dist_nn
from against_gloo import EXACT, OTHER_ORDER, same_as_gloo
from ranks import run_ranks

SIZES = (2, 4)
GROUP = "0"  # the name of WORLD


def numbered(rank, *shape):
    """Small integers, different everywhere: sums of them are exact in any order."""
    return torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float32).reshape(shape) + 100 * rank


def every_collective(x, size):
    """Each functional collective once, on the rows of x; x has 2 * size rows."""
    splits = [2] * size
    return {
        "all_reduce": fc.all_reduce(x, "sum", GROUP),
        "all_reduce avg": fc.all_reduce(x, "avg", GROUP),
        "all_reduce max": fc.all_reduce(x, "max", GROUP),
        "all_gather": fc.all_gather_single(x, 0, GROUP),
        "all_gather columns": fc.all_gather_single(x, 1, GROUP),
        "reduce_scatter": fc.reduce_scatter_single(x, "sum", 0, GROUP),
        "reduce_scatter columns": fc.reduce_scatter_single(torch.cat([x] * size, 1), "sum", 1, GROUP),
        "all_to_all": fc.all_to_all_single(x, splits, splits, GROUP),
        "broadcast": fc.broadcast(x, 1, GROUP),
        "permute": fc.permute_tensor(x.flatten(), [(i + 1) % size for i in range(size)], dist.group.WORLD),
        "all_reduce_coalesced": fc.all_reduce_coalesced([x, x[:1] + 1], "sum", GROUP),
        "all_gather_coalesced": fc.all_gather_into_tensor_coalesced([x, x[:1] + 1], GROUP),
        "reduce_scatter_coalesced": fc.reduce_scatter_tensor_coalesced([x, 2 * x], "sum", [0, 0], GROUP),
    }


def plain(values):
    """Without the wrapper that waits when a result is first used."""

    def wait(value):
        value = [wait(part) for part in value] if isinstance(value, list) else value
        return value.wait() if isinstance(value, fc.AsyncCollectiveTensor) else value

    return {name: wait(value) for name, value in values.items()}


def eager(rank, size):
    return plain(every_collective(numbered(rank, 2 * size, 3), size))


@pytest.mark.parametrize("size", SIZES)
def test_eager(size):
    results = same_as_gloo(size, eager, size, tolerance=EXACT)
    total = sum(numbered(rank, 2 * size, 3) for rank in range(size))
    for rank, result in enumerate(results):
        assert torch.equal(result["all_reduce"], total)
        assert torch.equal(result["reduce_scatter"], total[2 * rank : 2 * rank + 2])
        assert torch.equal(result["permute"], numbered((rank - 1) % size, 2 * size, 3).flatten())


def used_without_waiting(rank, size):
    x = numbered(rank, 4, 3)
    first = fc.all_reduce(x, "sum", GROUP)
    second = fc.all_reduce(x * 2, "sum", GROUP)
    assert isinstance(first, fc.AsyncCollectiveTensor)
    return (second - first) + x


@pytest.mark.parametrize("size", SIZES)
def test_results_are_waited_for_when_used(size):
    same_as_gloo(size, used_without_waiting, size, tolerance=EXACT)


def gradients(rank, size):
    x = numbered(rank, 2 * size, 3).requires_grad_()
    weights = torch.arange(1.0, 1 + 2 * size * size)[:, None]
    gathered = fc.all_gather_tensor_autograd(x, 0, GROUP)
    scattered = fc.reduce_scatter_tensor_autograd(x * x, "sum", 0, GROUP)
    exchanged = fc.all_to_all_single_autograd(x, [2] * size, [2] * size, GROUP)
    loss = (gathered * weights).sum() + (scattered * (rank + 1)).sum() + (exchanged * (rank + 2)).sum()
    loss.backward()
    return x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", SIZES)
def test_gradients(size):
    same_as_gloo(size, gradients, size, tolerance=EXACT)


def gradients_through_in_place_collectives(rank, size):
    """torch.distributed.nn.functional: the collectives that autograd knows."""
    x = numbered(rank, size, 3).requires_grad_()
    weight = float(rank + 1)
    group = dist.group.WORLD
    loss = (dist_nn.all_reduce(x * 1, group=group) * weight).sum()
    loss = loss + (torch.stack(dist_nn.all_gather(x * 2, group=group)) * weight).sum()
    loss = loss + (dist_nn.reduce_scatter(torch.zeros(3), list((x * 3).unbind()), group=group) * weight).sum()
    loss = loss + (dist_nn.all_to_all_single(torch.zeros(size, 3), x * 4, group=group) * weight).sum()
    loss = loss + (dist_nn.broadcast(x * 5, src=1, group=group) * weight).sum()
    loss.backward()
    return loss.detach(), x.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", SIZES)
def test_gradients_through_in_place_collectives(size):
    same_as_gloo(size, gradients_through_in_place_collectives, size, tolerance=EXACT)


def compiled(rank, size):
    def model(x, weight):
        y = torch.relu(x @ weight)
        values = every_collective(y, size)
        return values, fc.all_reduce(y * 3, "sum", GROUP) + 1

    x, weight = numbered(rank, 2 * size, 5) / 64, numbered(0, 5, 3) / 8  # sums and products stay exact
    values, following = torch.compile(model, backend="aot_eager", fullgraph=True)(x, weight)
    expected, expected_following = model(x, weight)
    torch.testing.assert_close(plain(values), plain(expected), **EXACT)
    torch.testing.assert_close(following, expected_following, **EXACT)
    return plain(values)


def test_compiled_graph():
    same_as_gloo(2, compiled, 2, tolerance=EXACT)


def compiled_by_inductor(rank):
    def model(x, weight):
        # Products only: they need no kernel of the compiler's own, and so no C++ compiler takes its time.
        y = fc.all_reduce(x @ weight, "sum", GROUP)
        parts = fc.reduce_scatter_single(y, "sum", 0, GROUP) @ weight.t()
        return fc.all_gather_single(parts, 0, GROUP) @ weight, parts

    x, weight = numbered(rank, 4, 5) / 64, numbered(0, 5, 3) / 8
    actual = torch.compile(model, fullgraph=True)(x, weight)
    torch.testing.assert_close(actual, model(x, weight), **EXACT)
    return list(actual)


def test_compiled_by_inductor(tmp_path):
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    same_as_gloo(2, compiled_by_inductor, tolerance=EXACT, environment=environment, timeout=120)


def traced_collectives(rank):
    """torch.distributed's in-place functions, which torch.compile rewrites into functional ones."""

    def model(x):
        dist.all_reduce(x)
        parts = torch.empty(2 * x.shape[0], x.shape[1])
        dist.all_gather_into_tensor(parts, x)
        return parts * 2

    x = numbered(rank, 3, 5)
    expected = model(x.clone())
    actual = torch.compile(model, backend="aot_eager", fullgraph=True)(x.clone())
    torch.testing.assert_close(actual, expected, **EXACT)
    return actual


@pytest.mark.filterwarnings("ignore")
def test_compiled_in_place_collectives():
    same_as_gloo(2, traced_collectives, tolerance=EXACT)


def compiled_ddp(rank):
    torch.manual_seed(3)
    layers = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.ReLU(), torch.nn.Linear(11, 2))
    model = torch.compile(torch.nn.parallel.DistributedDataParallel(layers), backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.sin(numbered(rank, 4, 7) + step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_compiled_ddp():
    same_as_gloo(2, compiled_ddp, tolerance=OTHER_ORDER)


def test_unwaited_results_do_no_harm():
    """A program may end, and a group be destroyed, with results that nobody used."""

    def body(rank):
        for _ in range(5):
            fc.all_reduce(numbered(rank, 3, 3), "sum", GROUP)
        return fc.all_reduce(numbered(rank, 3, 3), "sum", GROUP).wait()

    assert torch.equal(run_ranks(2, body)[1], numbered(0, 3, 3) + numbered(1, 3, 3))
