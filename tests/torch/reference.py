"""Inputs in which every element differs, and the results of reductions computed by numpy, element for element.

Sums run in rank order; float16 and bfloat16 are accumulated in float32 and rounded once: the promise of SymCCL, so that
results can be compared bit for bit.
"""

import functools

import numpy as np
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
]
COMPLEX = [torch.complex64, torch.complex128]
REDUCIBLE = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX]
MOVED = [*REDUCIBLE, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]

OPS = {
    "bool": ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"],
    "integer": ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"],
    "float": ["SUM", "AVG", "PRODUCT", "MIN", "MAX"],
    "complex": ["SUM", "AVG", "PRODUCT"],
}


def kind_of(dtype):
    if dtype == torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "integer"


def values(count, dtype, rank, seed=0):
    """`count` elements of `dtype`: neighbours, ranks and seeds differ (as far as the type has values)."""
    if count == 0:
        return torch.empty(0, dtype=dtype)
    numbers = (np.arange(count, dtype=np.uint64) * np.uint64(2 * rank + 3) + np.uint64(101 * rank + 977 * seed)) % 65521
    mixed = (numbers * np.uint64(40503)) % np.uint64(65521)
    if dtype == torch.bool:
        return torch.from_numpy((mixed // np.uint64(7)) % np.uint64(3) == 0)
    if dtype.itemsize == 1 and dtype.is_floating_point:
        # Bytes whose exponent is neither all ones nor the one pattern that stands for NaN.
        return torch.from_numpy((mixed % np.uint64(0x70)).astype(np.uint8) + np.uint8(1)).view(dtype)
    if dtype.is_complex:
        parts = [values(count, torch.float64, rank, seed + half) for half in (1, 2)]
        return torch.complex(*parts).to(dtype)
    if dtype.is_floating_point:
        return torch.from_numpy((mixed.astype(np.float64) - 32760) / 8192).to(dtype)
    bits = 8 * dtype.itemsize
    spread = mixed * np.uint64(0x9E3779B97F4A7C15) if bits == 64 else mixed * np.uint64(257)
    raw = (spread % np.uint64(2**bits - 1)).astype(f"u{dtype.itemsize}")
    return torch.from_numpy(raw).view(dtype)


def to_numpy(tensor):
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _wide(array, dtype):
    return array.astype(np.float32) if dtype in (torch.float16, torch.bfloat16) else array


def reduced(inputs, op, factors=None):
    """What every rank must get from the ranks' `inputs` under ReduceOp `op` ("SUM", ..., "PREMUL_SUM" with factors)."""
    dtype = inputs[0].dtype
    if op == "PREMUL_SUM":
        inputs = [scaled(tensor, factor) for tensor, factor in zip(inputs, factors, strict=True)]
        op = "SUM"
    arrays = [_wide(to_numpy(tensor), dtype) for tensor in inputs]
    with np.errstate(over="ignore", invalid="ignore"):
        result = _fold(arrays, op, kind_of(dtype))
    if dtype == torch.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(result)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(result.astype(to_numpy(inputs[0]).dtype)))


def scaled(tensor, factor):
    """Elements times factor, rounded to the element type."""
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return (tensor.float() * np.float32(factor)).to(tensor.dtype)
    if tensor.dtype in (torch.float32, torch.complex64):
        return torch.from_numpy(tensor.numpy() * np.float32(factor))
    return tensor * factor


def _fold(arrays, op, kind):
    if op in ("SUM", "AVG"):
        if kind == "bool":
            return functools.reduce(np.logical_or, arrays)
        total = functools.reduce(np.add, arrays)
        if op == "SUM":
            return total
        size = len(arrays)
        if kind == "integer":
            quotient = np.abs(total.astype(object)) // size  # toward zero, whatever the sign
            return np.where(total.astype(object) < 0, -quotient, quotient).astype(total.dtype)
        parts = total.view(total.real.dtype)
        return (parts / parts.dtype.type(size)).view(total.dtype)
    if op == "PRODUCT":
        multiply = {"bool": np.logical_and, "complex": _complex_product}.get(kind, np.multiply)
        return functools.reduce(multiply, arrays)
    function = {
        "MIN": np.minimum,
        "MAX": np.maximum,
        "BAND": np.bitwise_and,
        "BOR": np.bitwise_or,
        "BXOR": np.bitwise_xor,
    }[op]
    return functools.reduce(function, arrays)


def _complex_product(a, b):
    """Four products and two sums, each rounded; numpy's own may fuse them where the processor can."""
    product = np.empty_like(a)
    product.real = a.real * b.real - a.imag * b.imag
    product.imag = a.real * b.imag + a.imag * b.real
    return product


def bits(tensor):
    """The tensor's bytes, for comparisons that tell -0 from 0 and hold for float8."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8)
    return tensor.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)


def assert_bits(actual, expected, what):
    """Equal dtype, shape and bits; `what` says which case."""
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if torch.equal(bits(actual), bits(expected)):
        return
    wrong = (bits(actual) != bits(expected)).view(actual.numel(), -1).any(1).nonzero().view(-1)
    first = int(wrong[0])
    raise AssertionError(
        f"{what}: {len(wrong)} of {actual.numel()} elements differ, the first at {first}: "
        f"{actual.reshape(-1)[first].item()} instead of {expected.reshape(-1)[first].item()}"
    )
