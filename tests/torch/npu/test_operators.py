"""Operators whose way to the device is not the common one, and mistakes that must be refused."""

import copy
import io
import threading

import pytest
import torch
import torch.nn.functional as F

import symccl._npu as npu

NPU = torch.device("npu", 0)


def same(on_npu, on_cpu):
    assert on_npu.device.type == "npu" and on_npu.dtype == on_cpu.dtype and on_npu.shape == on_cpu.shape
    assert torch.equal(on_npu.cpu(), on_cpu), (on_npu.cpu(), on_cpu)


# --- Refused ---

MIXED = "Expected all tensors to be on the same device, but found at least two devices, "


@pytest.mark.parametrize(
    "mix",
    [
        lambda n, c: n + c,
        lambda n, c: c + n,
        lambda n, c: n.add_(c),
        lambda n, c: c.mul_(n),
        lambda n, c: n @ c,
        lambda n, c: torch.cat([n, c]),
        lambda n, c: torch.where(n > 0, n, c),
        lambda n, c: torch._foreach_add([n, n], [n, c]),
        lambda n, c: torch.add(n, n, out=c),
        lambda n, c: F.conv1d(n[None], c[None]),
        lambda n, c: F.linear(n, c),
        lambda n, c: c[n.long()],
        lambda n, c: n.masked_scatter(n > 0, c),
    ],
)
def test_cpu_and_npu_do_not_mix(mix):
    n, c = torch.ones(4, 4, device=NPU), torch.ones(4, 4)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device.*npu:0"):
        mix(n, c)
    assert torch.equal(n.cpu(), c)


@pytest.mark.parametrize("mix", [torch.add, torch.matmul, lambda a, b: torch.cat([a, b]), lambda a, b: a.add_(b)])
def test_two_devices_do_not_mix(mix):
    a, b = torch.ones(4, 4, device="npu:0"), torch.ones(4, 4, device="npu:1")
    with pytest.raises(RuntimeError, match=MIXED + "npu:0 and npu:1!"):
        mix(a, b)


def test_cpu_scalars_and_indices_may_come_along():
    n, c = torch.arange(12.0, device=NPU).view(3, 4), torch.arange(12.0).view(3, 4)
    same(n * torch.tensor(2.0), c * 2)
    same(torch.tensor(2.0) - n, 2 - c)
    same(n[torch.tensor([2, 0])], c[[2, 0]])
    same(n[:, torch.tensor([True, False, True, False])], c[:, ::2])
    n[torch.tensor([1])] = 5.0
    assert n[1].tolist() == [5.0] * 4


def test_copies_between_devices():
    c = torch.arange(12.0)
    a = c.to("npu:0")
    b = a.to("npu:3")
    assert b.device.index == 3 and torch.equal(b.cpu(), c)
    a.zero_().copy_(b)
    same(a, c)
    assert torch.equal(c.new_empty(12).copy_(b), c)
    b[::2].copy_(a.view(6, 2)[:, 1])
    assert torch.equal(b[::2].cpu(), c[1::2])


def test_sparse_is_refused_with_a_sentence():
    n = torch.eye(4, device=NPU)
    for make in (
        n.to_sparse,
        lambda: torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (3,), device="npu"),
        lambda: torch.empty(3, 3, layout=torch.sparse_csr, device="npu"),
    ):
        with pytest.raises((NotImplementedError, RuntimeError), match="npu|PrivateUse1|sparse"):
            make()


def test_operator_without_cpu_kernel():
    library = torch.library.Library("npu_test", "FRAGMENT")
    library.define("only_on_mars(Tensor x) -> Tensor")
    library.impl("only_on_mars", lambda x: x, "CUDA")
    with pytest.raises(NotImplementedError, match="npu_test::only_on_mars.*'npu' backend.*has none"):
        torch.ops.npu_test.only_on_mars(torch.ones(3, device=NPU))


def test_operator_that_came_later():
    library = torch.library.Library("npu_test", "FRAGMENT")
    library.define("twice(Tensor x, Tensor[] rest) -> (Tensor, Tensor[])")
    library.impl("twice", lambda x, rest: (x * 2, [r * 3 for r in rest]), "CPU")
    first, rest = torch.ops.npu_test.twice(torch.ones(3, device=NPU), [torch.ones(2, device=NPU)])
    same(first, torch.full((3,), 2.0))
    same(rest[0], torch.full((2,), 3.0))


def test_numpy_wants_a_copy_on_the_host():
    with pytest.raises(TypeError, match="npu"):
        torch.ones(3, device=NPU).numpy()


# --- Metadata in place ---


def test_changes_of_shape_and_memory_in_place():
    n, c = torch.arange(12.0, device=NPU), torch.arange(12.0)
    view = n.view(3, 4)
    for t in (n, c):
        t.unsqueeze_(0).resize_(4, 3).t_()
    same(n, c)
    assert n.stride() == c.stride()
    view.mul_(2)
    assert n.data_ptr() == view.data_ptr()
    for t in (n, c):
        t.resize_(100).fill_(3)
    same(n, c)
    n.set_(torch.arange(5.0, device=NPU))
    same(n, torch.arange(5.0))
    other = torch.empty(0, device=NPU)
    other.set_(n.untyped_storage(), 1, (2,), (2,))
    same(other, torch.tensor([1.0, 3.0]))
    n.untyped_storage().resize_(64)
    assert n.untyped_storage().nbytes() == 64 and n.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_views_share_memory():
    n = torch.zeros(4, 6, device=NPU)
    for view in (n[1], n.t(), n.view(-1), n[:, ::2], n.unfold(1, 2, 2), n.as_strided((2, 2), (6, 1), 3), n.diagonal()):
        assert view._base is not None and view.untyped_storage().data_ptr() == n.untyped_storage().data_ptr()
        assert view._is_view() and view.device == NPU
    for i, part in enumerate(n.split(2, dim=1)):
        part.fill_(i)
    assert n[0].tolist() == [0, 0, 1, 1, 2, 2]
    assert [row.data_ptr() for row in n.unbind()] == [n[i].data_ptr() for i in range(4)]


def test_out_arguments():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    out = torch.empty(0, device=NPU)
    assert torch.mm(a.to(NPU), b.to(NPU), out=out) is out
    same(out, torch.mm(a, b))
    values, indices = torch.empty(0, device=NPU), torch.empty(0, dtype=torch.long, device=NPU)
    torch.sort(a.to(NPU), out=(values, indices))
    same(values, a.sort().values)
    same(indices, a.sort().indices)
    part = torch.zeros(5, 14, device=NPU)[:, ::2]
    torch.add(a.to(NPU), 1, out=part)
    same(part, a + 1)


def test_overlapping_memory_is_seen():
    n = torch.ones(1, device=NPU).expand(4)
    with pytest.raises(RuntimeError, match="single memory location"):
        n.add_(1)
    m = torch.arange(10.0, device=NPU)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(m[:-1], 1, out=m[1:])


def test_versions_are_counted():
    x = torch.ones(3, device=NPU, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- The traps ---


def test_conjugate_and_negative_views():
    c = torch.randn(4, 3, dtype=torch.complex64)
    n = c.to(NPU)
    assert n.conj().is_conj() and n.conj().imag.is_neg()
    same(n.conj().clone(), c.conj().clone().resolve_conj())
    same(n.conj().resolve_conj(), c.conj().resolve_conj())
    same(n.conj().imag.resolve_neg(), c.conj().imag.resolve_neg())
    assert torch.equal(n.conj().cpu().resolve_conj(), c.conj().resolve_conj())
    same(n.mH @ n, c.mH @ c)
    same(torch.zeros_like(n).copy_(n.conj()), c.conj().resolve_conj())


def test_zeros_of_derivatives():
    for f in (torch.sgn, lambda x: torch.real(x).abs()):
        gradients = []
        for device in ("cpu", NPU):
            torch.manual_seed(1)
            x = torch.randn(5, dtype=torch.complex64).to(device).requires_grad_()
            gradients.append(torch.autograd.grad(torch.view_as_real(f(x) + 0j).sum(), x)[0])
        same(gradients[1], gradients[0])


def test_kernels_come_before_composites():
    """A composite would round differently: 7e-4 in place of 0 for a row of one element."""
    one = torch.randn(4, 1) * 1000
    same(F.layer_norm(one.to(NPU), (1,)), F.layer_norm(one, (1,)))
    x = torch.randn(2, 6, 5)
    same(F.group_norm(x.to(NPU), 3), F.group_norm(x, 3))
    m, a, b = torch.randn(3, 4), torch.randn(3), torch.randn(4)
    same(torch.addr(m.to(NPU), a.to(NPU), b.to(NPU), alpha=0.3), torch.addr(m, a, b, alpha=0.3))


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_and_its_gradients(transposed):
    module = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    on_cpu = module(4, 6, 3, padding=1, stride=2, groups=2)
    on_npu = copy.deepcopy(on_cpu).to(NPU)
    x = torch.randn(2, 4, 9, 9)
    a, b = x.clone().requires_grad_(), x.to(NPU).requires_grad_()
    ya, yb = on_cpu(a), on_npu(b)
    same(yb, ya)
    ya.square().sum().backward()
    yb.square().sum().backward()
    same(b.grad, a.grad)
    for p, q in zip(on_npu.parameters(), on_cpu.parameters(), strict=True):
        same(p.grad, q.grad)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent(kind, bias):
    on_cpu = kind(5, 7, num_layers=2, bidirectional=True, bias=bias)
    on_npu = copy.deepcopy(on_cpu).to(NPU)
    x = torch.randn(6, 3, 5)
    ya, yb = on_cpu(x)[0], on_npu(x.to(NPU))[0]
    torch.testing.assert_close(yb.cpu(), ya)
    ya.square().sum().backward()
    yb.square().sum().backward()
    for p, q in zip(on_npu.parameters(), on_cpu.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad)


def test_packed_sequences():
    lstm = torch.nn.LSTM(5, 7)
    lengths = [6, 4, 1]
    x = torch.randn(6, 3, 5)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
    expected = torch.nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])[0]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.to(NPU), lengths)
    got = torch.nn.utils.rnn.pad_packed_sequence(lstm.to(NPU)(packed)[0])[0]
    torch.testing.assert_close(got.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("affine", [True, False])
def test_sync_batch_norm_operators(dtype, affine):
    """Three ranks with 2, 0 and 5 rows, one after the other, against batch norm of all rows."""
    torch.manual_seed(3)
    x = torch.randn(7, 4, 3, 2).to(dtype)
    slope = torch.randn(7, 4, 3, 2).to(dtype)
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    weight = torch.rand(4, dtype=wide) + 0.5 if affine else None
    bias = torch.randn(4, dtype=wide) if affine else None
    mean0, variance0 = torch.randn(4, dtype=wide), torch.rand(4, dtype=wide) + 0.5

    reference = x.to(torch.float64, copy=True).requires_grad_()
    parameters = [p.to(torch.float64, copy=True).requires_grad_() for p in (weight, bias) if p is not None]
    running = [mean0.to(torch.float64, copy=True), variance0.to(torch.float64, copy=True)]
    y = F.batch_norm(reference, *running, *(parameters or (None, None)), training=True, momentum=0.3, eps=1e-3)
    y.backward(slope.double())

    on = lambda t: None if t is None else t.to(NPU)  # noqa: E731
    parts, slopes = [on(p) for p in x.split([2, 5])], [on(p) for p in slope.split([2, 5])]
    stats = [torch.batch_norm_stats(p, 1e-3) for p in parts]
    counts = torch.tensor([12.0, 30.0], dtype=wide, device=NPU)
    mean_all, invstd_all = (torch.stack(s) for s in zip(*stats, strict=True))
    running_npu = [on(mean0), on(variance0)]
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        parts[0], mean_all, invstd_all, *running_npu, 0.3, 1e-3, counts
    )
    got = [torch.batch_norm_elemt(p, on(weight), on(bias), mean, invstd, 1e-3) for p in parts]
    reduced = [
        torch.batch_norm_backward_reduce(s, p, mean, invstd, on(weight), True, affine, affine)
        for s, p in zip(slopes, parts, strict=True)
    ]
    total = [sum(r[i] for r in reduced) for i in range(2)]
    gradients = [
        torch.batch_norm_backward_elemt(s, p, mean, invstd, on(weight), *total, counts.int())
        for s, p in zip(slopes, parts, strict=True)
    ]
    loose = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    assert all(g.dtype == dtype and g.device == NPU for g in got + gradients)
    torch.testing.assert_close(torch.cat(got).cpu().double(), y.detach(), **loose)
    torch.testing.assert_close(torch.cat(gradients).cpu().double(), reference.grad, **loose)
    for r, e in zip(running_npu, running, strict=True):
        torch.testing.assert_close(r.cpu().double(), e, **loose)
    for i, p in enumerate(parameters):
        torch.testing.assert_close(sum(r[2 + i] for r in reduced).cpu().double(), p.grad, **loose)
    out = torch.empty(0, dtype=dtype, device=NPU)
    torch.batch_norm_elemt(parts[0], on(weight), on(bias), mean, invstd, 1e-3, out=out)
    assert torch.equal(out.cpu(), got[0].cpu())


# --- Random numbers ---


def test_random_numbers_are_the_devices():
    generator = npu.default_generator(0)
    host = torch.get_rng_state()
    generator.manual_seed(5)
    draws = [f() for f in (lambda: torch.rand(100, device=NPU), lambda: torch.randn(100, device=NPU),
                           lambda: torch.randperm(100, device=NPU), lambda: torch.empty(100, device=NPU).uniform_(),
                           lambda: F.dropout(torch.ones(100, device=NPU)),
                           lambda: torch.bernoulli(torch.full((100,), 0.5, device=NPU)),
                           lambda: torch.multinomial(torch.ones(50, device=NPU), 20))]  # fmt: skip
    assert torch.equal(torch.get_rng_state(), host)
    torch.default_generator.manual_seed(5)
    assert torch.equal(draws[0].cpu(), torch.rand(100)) and torch.equal(draws[1].cpu(), torch.randn(100))
    state = generator.get_state()
    again = torch.rand(10, device=NPU)
    generator.set_state(state)
    assert torch.equal(again.cpu(), torch.rand(10, device=NPU).cpu())


def test_generators_of_devices_are_apart():
    first, second = npu.default_generator(0), npu.default_generator(1)
    assert first.device == torch.device("npu", 0) and second.device == torch.device("npu", 1)
    before = second.get_state()
    torch.rand(10, device="npu:0")
    assert torch.equal(second.get_state(), before)
    own = torch.Generator(device="npu").manual_seed(9)
    x = torch.rand(10, device=NPU, generator=own)
    assert torch.equal(x.cpu(), torch.rand(10, generator=torch.Generator().manual_seed(9)))
    assert own.initial_seed() == 9
    with pytest.raises(RuntimeError, match="no offset"):
        own.get_offset()


def test_dropout_scales_what_it_keeps():
    x = torch.ones(20000, device=NPU, requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = y != 0
    assert 0.73 < kept.float().mean().item() < 0.77
    assert torch.equal(y[kept].cpu(), torch.full((int(kept.sum()),), 1 / 0.75))
    y.sum().backward()
    assert torch.equal((x.grad != 0).cpu(), kept.cpu())
    assert torch.equal(F.dropout(x, 0.25, training=False), x) and F.dropout(x, 1.0).sum().item() == 0


# --- Autograd, autocast, threads, inference ---


def test_training_is_the_cpus_bit_for_bit():
    def train(device):
        torch.manual_seed(7)
        model = torch.nn.Sequential(
            torch.nn.Linear(10, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 3)
        ).to(device)
        data, target = torch.randn(64, 10), torch.randint(3, (64,))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(10):
            optimizer.zero_grad()
            F.cross_entropy(model(data.to(device)), target.to(device)).backward()
            optimizer.step()
        return [p.detach().cpu() for p in model.parameters()]

    for a, b in zip(train("cpu"), train(NPU), strict=True):
        assert torch.equal(a, b)


def test_gradients_come_from_the_device_threads_too():
    outputs = []
    for device in (0, 1):
        x = torch.ones(10, device=f"npu:{device}", requires_grad=True)
        outputs.append((x, (x.to("npu:0") * (device + 2)).sum()))
    (outputs[0][1] + outputs[1][1]).backward()
    assert [x.grad.device.index for x, _ in outputs] == [0, 1]
    assert [x.grad.sum().item() for x, _ in outputs] == [20, 30]


def test_autocast():
    a, b = torch.randn(8, 8, device=NPU), torch.randn(8, 8, device=NPU)
    with torch.autocast("npu", dtype=torch.bfloat16):
        product = a @ b
        assert product.dtype == torch.bfloat16 and (product.float()).softmax(0).dtype == torch.float32
        assert product.exp().dtype == torch.float32 and torch.cat([product, a]).dtype == torch.float32
        with torch.autocast("npu", enabled=False):
            assert (a @ b).dtype == torch.float32
    assert (a @ b).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ b).dtype == torch.float32  # the CPU's autocast does not reach the kernels
    same(product, (a.cpu().bfloat16() @ b.cpu().bfloat16()))


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3, device=NPU)
        y = (x + 1).mul_(2).view(3, 1)
        assert x.is_inference() and y.is_inference() and y.sum().item() == 12
    with pytest.raises(RuntimeError, match="[Ii]nference"):
        x.add_(1)
    ordinary = torch.ones(3, device=NPU)
    with torch.inference_mode():
        ordinary.add_(1)
    assert not ordinary.is_inference() and ordinary.sum().item() == 6


def test_autograd_in_several_threads():
    results = {}

    def work(index):
        x = torch.full((100,), float(index), device=f"npu:{index}", requires_grad=True)
        for _ in range(20):
            (x * x).sum().backward()
        results[index] = x.grad.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: 100.0 * 40 * i for i in range(4)}


def test_saved_and_loaded():
    x = {"a": torch.arange(10.0, device="npu:1"), "b": torch.ones(3, device=NPU).t()}
    file = io.BytesIO()
    torch.save(x, file)
    for location, expected in ((None, [1, 0]), ("npu:2", [2, 2])):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert [t.device.index for t in loaded.values()] == expected
        assert torch.equal(loaded["a"].cpu(), torch.arange(10.0))
    file.seek(0)
    assert torch.load(file, map_location="cpu")["a"].device.type == "cpu"


def test_deepcopy_and_printing():
    x = torch.arange(4.0, device=NPU)
    assert "device='npu:0'" in repr(x)
    assert copy.deepcopy(x).data_ptr() != x.data_ptr() and copy.deepcopy(x).device == NPU
