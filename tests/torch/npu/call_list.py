"""The calls that scripts make, by name, and what comes of each on the npu beside the CPU.

A call is a function of a device that returns tensors and values, nested as it likes. outcome() runs it on the CPU and
on npu:0 and says in one line what it compared, or the sentence with which the npu refused. calls.txt pins these lines.
"""

import re

import torch

CALLS = {}
CHECKS = {}


def call(function=None, /, **named):
    """Registers calls: a decorated function by its name, or name=function."""
    if function is not None:
        named = {function.__name__: function}
    for name, each in named.items():
        assert name not in CALLS and name not in CHECKS, f"{name} is there twice"
        CALLS[name] = each
    return function


def check(function):
    """Registers a call that has no CPU counterpart (streams, memory, ...): it asserts by itself what must hold."""
    assert function.__name__ not in CALLS and function.__name__ not in CHECKS
    CHECKS[function.__name__] = function
    return function


def data(device, *shape, dtype=torch.float32):
    """A tensor whose elements all differ, of both signs, made on the CPU and moved."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count, dtype=torch.float64) * 7919) % max(count, 1) - count // 2  # 7919: prime, > count
    if dtype.is_floating_point or dtype.is_complex:
        numbers = numbers / max(count, 1) * 4
    numbers = numbers.reshape(shape)
    return (torch.complex(numbers, numbers / 3) if dtype.is_complex else numbers).to(dtype).to(device)


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield value


def _bits(tensor):
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.flatten().view(torch.uint8) if plain.numel() else plain


def _compare(expected, got):
    """0: other values, 1: close, 2: equal to the bit."""
    assert type(got) is type(expected), f"{type(got)} on npu, {type(expected)} on cpu"
    if not isinstance(expected, torch.Tensor):
        return 2 if got == expected or (got != got and expected != expected) else 0
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"npu: {got.dtype} {got.shape}"
    assert got.stride() == expected.stride() and got.requires_grad == expected.requires_grad
    if torch.equal(_bits(expected), _bits(got)):
        return 2
    return int(torch.allclose(expected.detach(), got.detach().cpu(), rtol=1e-4, atol=1e-5, equal_nan=True))


def _run(function, device):
    torch.manual_seed(1234)
    try:
        return list(_leaves(function(device))), None
    except Exception as error:
        return [], f"{type(error).__name__}: {str(error).splitlines()[0]}"


def outcome(name):
    if name in CHECKS:
        CHECKS[name]("npu:0")
        return "holds"
    expected, cpu_refusal = _run(CALLS[name], "cpu")
    got, refusal = _run(CALLS[name], "npu:0")
    if cpu_refusal is not None:
        alike = refusal is not None and re.sub(r"npu(\w+)Type", r"torch.\1Tensor", refusal) == cpu_refusal
        assert alike, f"npu: {refusal}, cpu: {cpu_refusal}"
        return f"refused as on the CPU: {refusal}"
    if refusal is not None:
        return f"refused: {refusal}"
    assert expected and len(got) == len(expected), f"{len(got)} results on npu, {len(expected)} on cpu"
    same = min(_compare(*pair) for pair in zip(expected, got, strict=True))
    on_npu = sum(isinstance(leaf, torch.Tensor) and leaf.device.type == "npu" for leaf in got)
    return f"{('different', 'close', 'equal')[same]}: {on_npu} on npu, {len(got) - on_npu} on host"
