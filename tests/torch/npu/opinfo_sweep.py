"""Runs PyTorch's own samples of every operator on npu and on the CPU, and compares what comes out.

python opinfo_sweep.py           prints the outcomes as opinfo_expected.txt pins them
python opinfo_sweep.py --json    prints all that is known of each, for test_opinfo.py
"""

import cmath
import contextlib
import dataclasses
import json
import signal
import sys
import warnings

import torch

SAMPLES = 60  # more, up to ten times as many, where none of these has values
SECONDS = 60  # for one entry
NOTICED = 5  # so many comparisons of each entry are also shown a wrong value
PREFERRED = (torch.float32, torch.int64, torch.complex64, torch.bool)

# Values are random, or not set at all: of these only device, type and shape can be compared.
WITHOUT_VALUES = set(
    """
    bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial
    new_empty new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.feature_alpha_dropout.with_train nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.rrelu nn.functional.scaled_dot_product_attention normal
    normal.in_place normal.number_mean pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank
    uniform
    """.split()
)


class Differs(Exception):
    pass


@dataclasses.dataclass
class Entry:
    """What became of one operator. `outcome` is compared, ran_only, not_applicable or failing."""

    name: str
    outcome: str = ""
    reason: str = ""
    ran: int = 0
    values: int = 0
    elements: int = 0
    gradients: int = 0
    identical: bool = True


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def to_npu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("npu:0").requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or value == "cpu" and isinstance(value, str):
        return torch.device("npu:0")
    if type(value) in (list, tuple):
        return type(value)(to_npu(item) for item in value)
    if type(value) is dict:
        return {key: to_npu(item) for key, item in value.items()}
    return value


def flat(value):
    if isinstance(value, list | tuple):
        for item in value:
            yield from flat(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    else:
        yield value


def bits(tensor):
    flat_copy = tensor.detach().reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat_copy.resolve_conj().resolve_neg().view(torch.uint8)


def compare(got, expected, tolerance):
    """Raises Differs unless two tensors on the CPU are close; returns whether they are equal to the bit."""
    if got.shape == expected.shape and torch.equal(bits(got), bits(expected)):
        return True
    if not expected.is_floating_point() and not expected.is_complex():
        tolerance = 0
    if expected.dtype.itemsize == 1 and expected.dtype.is_floating_point:
        got, expected = got.float(), expected.float()
    try:
        torch.testing.assert_close(got, expected, equal_nan=True, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        raise Differs(str(error).strip().splitlines()[0]) from None
    return False


def changed(tensor):
    """A copy whose last element is another one: by far, for types that are compared with a tolerance."""
    copy = tensor.detach().resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    if copy.is_floating_point() or copy.is_complex():
        value = complex(copy[-1].to(torch.complex128))
        copy[-1] = value.real + 1 + abs(value.real) if cmath.isfinite(value) else 0.0
    else:
        copy.view(torch.uint8)[-copy.dtype.itemsize] ^= 1
    return copy.view(tensor.shape)


def check_notices(got, expected, tolerance):
    """A comparison that would also pass for a wrong value compares nothing."""
    try:
        compare(changed(got), expected, tolerance)
    except Differs:
        return
    raise Differs("a changed element was not noticed")


def check_forward(entry, got, expected, with_values):
    got, expected = list(flat(got)), list(flat(expected))
    if len(got) != len(expected):
        raise Differs(f"{len(got)} results, {len(expected)} on the CPU")
    for n, c in zip(got, expected, strict=True):
        if isinstance(c, torch.Tensor):
            if (n.shape, n.dtype, n.layout) != (c.shape, c.dtype, c.layout):
                raise Differs(f"{n.dtype} {tuple(n.shape)} in place of {c.dtype} {tuple(c.shape)}")
            if n.device.type != "npu":
                raise Differs(f"the result lies on {n.device}")
            if c.layout != torch.strided or not with_values:
                continue
            n, c = n.detach().cpu(), c.detach()
            entry.identical &= compare(n, c, 1e-4)
            if c.numel():
                if entry.values < NOTICED:
                    check_notices(n, c, 1e-4)
                entry.values += 1
                entry.elements += c.numel()
        elif with_values:
            if n != c and not (n != n and c != c):
                raise Differs(f"{n} in place of {c}")
            entry.values += 1
            entry.elements += 1


def differentiable(values):
    return [v for v in flat(values) if isinstance(v, torch.Tensor) and v.requires_grad]


def gradients(results, inputs):
    loss = [(r.to_dense() if r.layout != torch.strided else r).abs().sum() for r in differentiable(results)]
    return torch.autograd.grad(loss, inputs, allow_unused=True)


def check_backward(entry, got, expected, npu_inputs, cpu_inputs):
    try:
        reference = gradients(expected, cpu_inputs)
    except Exception:
        return  # the CPU refuses too
    for n, c in zip(gradients(got, npu_inputs), reference, strict=True):
        if (n is None) != (c is None):
            raise Differs("a gradient on one side only")
        if c is not None and c.layout == torch.strided:
            compare(n.cpu(), c, 1e-3)
            entry.gradients += 1


def run_samples(entry, op, dtype):
    with_values = entry.name not in WITHOUT_VALUES
    with_gradients = with_values and op.supports_autograd and dtype == torch.float32
    for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=with_gradients)):
        if index >= SAMPLES and (entry.values or index >= 10 * SAMPLES):
            break
        given = [sample.input, sample.args, sample.kwargs]
        on_npu = [to_npu(part) for part in given]
        try:
            expected = op(given[0], *given[1], **given[2])
        except Exception:
            continue  # the CPU refuses too
        got = op(on_npu[0], *on_npu[1], **on_npu[2])
        entry.ran += 1
        check_forward(entry, got, expected, with_values)
        if with_gradients and differentiable(expected):
            check_backward(entry, got, expected, differentiable(on_npu), differentiable(given))


@contextlib.contextmanager
def time_limit(seconds):
    def late(*_):
        raise TimeoutError(f"not finished after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def examine(op):
    entry = Entry(name_of(op))
    if not op.dtypes:
        entry.outcome, entry.reason = "not_applicable", "has no type on the CPU"
        return entry
    dtype = next((d for d in PREFERRED if d in op.dtypes), None) or sorted(op.dtypes, key=str)[0]
    try:
        with time_limit(SECONDS):
            run_samples(entry, op, dtype)
    except Exception as error:
        entry.outcome, entry.reason = "failing", f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
        return entry
    entry.outcome = "compared" if entry.values else "ran_only" if entry.ran else "not_applicable"
    return entry


def sweep():
    """One Entry for each operator, in the order of PyTorch's database."""
    from torch.testing._internal.common_methods_invocations import op_db

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [examine(op) for op in op_db]


def main():
    import symccl.npu  # noqa: F401

    torch.set_num_threads(1)
    torch.manual_seed(0)
    entries = sweep()
    if sys.argv[1:] == ["--json"]:
        json.dump([dataclasses.asdict(entry) for entry in entries], sys.stdout)
        return
    for entry in entries:
        reason = f"# {entry.reason}" if entry.reason else ""
        print(entry.outcome, entry.name, "" if entry.identical else "close", reason)


if __name__ == "__main__":
    main()
