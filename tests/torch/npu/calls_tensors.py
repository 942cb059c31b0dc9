"""Calls on tensors: making, computing, looking at them in other ways, changing them in place."""

import copy
import io
import pickle

import torch
from call_list import call, data

F64, I32, I64, F16, BF16 = torch.float64, torch.int32, torch.int64, torch.float16, torch.bfloat16

# --- Making ---

call(
    zeros=lambda d: torch.zeros(3, 4, device=d),
    ones=lambda d: torch.ones(3, dtype=I64, device=d),
    full=lambda d: torch.full((2, 3), 1.5, device=d),
    empty_filled=lambda d: torch.empty(5, device=d).fill_(2.5),
    empty_strided=lambda d: torch.empty_strided((2, 3), (1, 2), device=d).copy_(data(d, 2, 3)),
    tensor_of_list=lambda d: torch.tensor([[1, -2], [3, 4]], device=d),
    tensor_of_scalar=lambda d: torch.tensor(4.25, dtype=F64, device=d),
    as_tensor=lambda d: torch.as_tensor([1.0, 2.0, 4.0], device=d),
    arange=lambda d: torch.arange(-3, 17, 2, device=d),
    linspace=lambda d: torch.linspace(-1, 2, 7, device=d),
    logspace=lambda d: torch.logspace(0, 3, 5, device=d),
    eye=lambda d: torch.eye(4, device=d),
    tril_indices=lambda d: torch.tril_indices(4, 3, device=d),
    meshgrid=lambda d: torch.meshgrid(data(d, 3), data(d, 4), indexing="ij"),
    zeros_like=lambda d: torch.zeros_like(data(d, 3, 2)),
    full_like=lambda d: torch.full_like(data(d, 3, 2), -7, dtype=I32),
    new_zeros=lambda d: data(d, 2).new_zeros((3, 2)),
    new_tensor=lambda d: data(d, 2).new_tensor([1, 2, 3]),
    from_numpy=lambda d: torch.from_numpy(data("cpu", 3, 5).numpy()).to(d),
    one_hot=lambda d: torch.nn.functional.one_hot(torch.tensor([0, 3, 1], device=d), 5),
    complex_=lambda d: torch.complex(data(d, 4), data(d, 4) + 1),
    hann_window=lambda d: torch.hann_window(9, device=d),
    empty_sizes=lambda d: [torch.empty(0, device=d), torch.empty(3, 0, 2, device=d).sum(1)],
)


@call
def default_device(d):
    with torch.device(d):
        return [torch.ones(3), torch.arange(4)]


# --- Moving between devices and types ---

call(
    to_device=lambda d: data("cpu", 3, 4).to(d),
    to_device_non_blocking=lambda d: data("cpu", 3, 4).to(d, non_blocking=True),
    to_cpu=lambda d: data(d, 3, 4).cpu(),
    to_dtype=lambda d: data(d, 7).to(F16),
    to_other=lambda d: data("cpu", 7).to(data(d, 2, dtype=F64)),
    bfloat16_and_back=lambda d: data(d, 9).bfloat16().float(),
    long_of_float=lambda d: (data(d, 9) * 10).long(),
    copy_from_cpu=lambda d: torch.zeros(4, device=d).copy_(data("cpu", 4)),
    copy_broadcast=lambda d: torch.zeros(3, 4, device=d).copy_(data(d, 4)),
    copy_strided=lambda d: torch.zeros(4, 3, device=d).copy_(data(d, 3, 4).t()),
    item=lambda d: [data(d, 3)[1].item(), torch.tensor(5, device=d).item()],
    tolist=lambda d: data(d, 2, 3).tolist(),
    numpy_after_cpu=lambda d: data(d, 4).cpu().numpy().tolist(),
    float_and_bool=lambda d: [float(data(d, 1)), bool(torch.ones(1, device=d)), int(torch.tensor(3, device=d))],
    sizes_in_bytes=lambda d: [data(d, 2).element_size(), data(d, 3, 4).nbytes, data(d, 2).layout == torch.strided],
    deepcopy=lambda d: copy.deepcopy(data(d, 5)),
    pickle_tensor=lambda d: pickle.loads(pickle.dumps(data(d, 5))),
    clone_channels_last=lambda d: data(d, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
)


@call
def save_and_load(d):
    file = io.BytesIO()
    torch.save({"x": data(d, 3, 4), "step": 7}, file)
    file.seek(0)
    first = torch.load(file)
    file.seek(0)
    return [first, torch.load(file, map_location="cpu"), torch.load(io.BytesIO(file.getvalue()), map_location=d)]


@call
def load_from_cpu_file(d):
    file = io.BytesIO()
    torch.save(data("cpu", 6), file)
    file.seek(0)
    return torch.load(file, map_location=d)


# --- Arithmetic ---

call(
    add=lambda d: data(d, 3, 4) + data(d, 4),
    add_alpha=lambda d: torch.add(data(d, 5), data(d, 5), alpha=-2),
    subtract_scalar=lambda d: 1 - data(d, 5),
    multiply_mixed_types=lambda d: data(d, 5) * data(d, 5, dtype=I32),
    divide=lambda d: data(d, 5) / 3,
    floor_divide=lambda d: data(d, 8, dtype=I32) // 3,
    remainder=lambda d: data(d, 8, dtype=I32) % 3,
    power=lambda d: data(d, 6) ** 2,
    matmul=lambda d: data(d, 5, 7) @ data(d, 7, 3),
    matmul_half=lambda d: data(d, 5, 7, dtype=F16) @ data(d, 7, 3, dtype=F16),
    matmul_bfloat16=lambda d: data(d, 5, 7, dtype=BF16) @ data(d, 7, 3, dtype=BF16),
    matmul_integer=lambda d: data(d, 5, 7, dtype=I64) @ data(d, 7, 3, dtype=I64),
    matmul_batched=lambda d: torch.bmm(data(d, 2, 5, 7), data(d, 2, 7, 3)),
    addmm=lambda d: torch.addmm(data(d, 3), data(d, 5, 7), data(d, 7, 3), beta=0.5),
    einsum=lambda d: torch.einsum("bij,bkj->bik", data(d, 2, 3, 4), data(d, 2, 5, 4)),
    outer_and_dot=lambda d: [torch.outer(data(d, 3), data(d, 4)), torch.dot(data(d, 5), data(d, 5))],
    unary=lambda d: [f(data(d, 9)) for f in (torch.exp, torch.sin, torch.tanh, torch.abs, torch.sigmoid, torch.neg)],
    roots_and_logs=lambda d: [f(data(d, 9).abs() + 1) for f in (torch.sqrt, torch.rsqrt, torch.log, torch.log1p)],
    clamp=lambda d: data(d, 9).clamp(-1, 0.5),
    where=lambda d: torch.where(data(d, 9) > 0, data(d, 9), torch.zeros((), device=d)),
    where_scalar=lambda d: torch.where(data(d, 9) > 0, 1.0, -1.0),
    compare=lambda d: [data(d, 9) > 0, data(d, 9).eq(data(d, 9)), torch.equal(data(d, 9), data(d, 9))],
    isfinite=lambda d: torch.isfinite(data(d, 5) / torch.tensor([1.0, 0, 2, 0, 1], device=d)),
    sum_=lambda d: [data(d, 3, 4).sum(), data(d, 3, 4).sum(0), data(d, 3, 4).sum((0, 1), keepdim=True)],
    mean_var_std=lambda d: [data(d, 3, 4).mean(1), data(d, 3, 4).var(0), data(d, 3, 4).std()],
    norm=lambda d: [data(d, 3, 4).norm(), torch.linalg.vector_norm(data(d, 3, 4), ord=1, dim=1)],
    max_min=lambda d: [data(d, 3, 4).max(), *data(d, 3, 4).max(1), *data(d, 3, 4).min(0)],
    argmax=lambda d: [data(d, 3, 4).argmax(), data(d, 3, 4).argmin(1)],
    any_all=lambda d: [(data(d, 9) > 1).any(), (data(d, 9) < 9).all()],
    cumsum=lambda d: [data(d, 3, 4).cumsum(1), data(d, 5).cumprod(0)],
    logsumexp=lambda d: torch.logsumexp(data(d, 3, 4), 1),
    sort=lambda d: [*data(d, 3, 7).sort(1, descending=True), data(d, 7).argsort()],
    topk=lambda d: list(data(d, 3, 7).topk(2, 1)),
    unique=lambda d: list(torch.unique(data(d, 9, dtype=I64) // 3, return_counts=True)),
    bincount=lambda d: torch.bincount(torch.tensor([0, 3, 3, 1], device=d), minlength=6),
    histc=lambda d: torch.histc(data(d, 20), 5),
    nonzero=lambda d: [data(d, 9).gt(0).nonzero(), *torch.nonzero(data(d, 3, 3) > 0, as_tuple=True)],
    bitwise=lambda d: [data(d, 9, dtype=I32) & 6, data(d, 9, dtype=I32) << 2, ~data(d, 9, dtype=I32)],
    complex_product=lambda d: [data(d, 5, dtype=torch.complex64) * 2j, data(d, 5, dtype=torch.complex64).abs()],
    conj=lambda d: data(d, 3, 5, dtype=torch.complex64).conj() @ data(d, 5, 2, dtype=torch.complex64),
    fft=lambda d: [torch.fft.fft(data(d, 8)), torch.fft.irfft(torch.fft.rfft(data(d, 8)))],
    linalg=lambda d: [torch.linalg.inv(data(d, 3, 3) + 9 * torch.eye(3, device=d)), torch.linalg.det(data(d, 3, 3))],
    qr=lambda d: list(torch.linalg.qr(data(d, 5, 3))),
    cholesky=lambda d: torch.linalg.cholesky(data(d, 4, 4) @ data(d, 4, 4).T + torch.eye(4, device=d)),
    solve=lambda d: torch.linalg.solve(data(d, 3, 3) + 9 * torch.eye(3, device=d), data(d, 3, 2)),
    cdist=lambda d: torch.cdist(data(d, 3, 4), data(d, 5, 4)),
    foreach=lambda d: torch._foreach_add([data(d, 3), data(d, 4)], 1.5),
)

# --- Looking at the same memory in another way ---

call(
    view=lambda d: data(d, 3, 4).view(2, 6),
    reshape_copying=lambda d: data(d, 3, 4).t().reshape(12),
    transpose=lambda d: [data(d, 3, 4).t(), data(d, 2, 3, 4).transpose(0, 2), data(d, 2, 3, 4).mT],
    permute=lambda d: data(d, 2, 3, 4).permute(2, 0, 1),
    slice_=lambda d: [data(d, 6, 5)[1:5:2, -2:], data(d, 6)[3], data(d, 6, 5)[..., None, 0]],
    index_by_tensor=lambda d: data(d, 6, 5)[torch.tensor([4, 0, 4], device=d)],
    index_by_cpu_tensor=lambda d: data(d, 6, 5)[torch.tensor([4, 0, 4])],
    index_by_mask=lambda d: data(d, 6, 5)[data(d, 6, 5) > 0],
    index_select=lambda d: data(d, 6, 5).index_select(1, torch.tensor([4, 0], device=d)),
    gather=lambda d: data(d, 3, 4).gather(1, torch.tensor([[0], [3], [2]], device=d)),
    masked_select=lambda d: torch.masked_select(data(d, 9), data(d, 9) < 0),
    take_along_dim=lambda d: torch.take_along_dim(data(d, 3, 4), data(d, 3, 4).argsort(1), 1),
    expand=lambda d: data(d, 1, 4).expand(3, 4),
    repeat=lambda d: [data(d, 2, 3).repeat(2, 1), data(d, 3).repeat_interleave(2)],
    squeeze=lambda d: [data(d, 1, 3, 1).squeeze(), data(d, 3).unsqueeze(1)],
    flatten=lambda d: [data(d, 2, 3, 4).flatten(1), data(d, 6).unflatten(0, (2, 3))],
    chunk_split=lambda d: [*data(d, 7, 2).chunk(3), *data(d, 7).split([2, 5])],
    unbind=lambda d: list(data(d, 3, 2).unbind()),
    cat_stack=lambda d: [torch.cat([data(d, 2, 3), data(d, 1, 3)]), torch.stack([data(d, 3), data(d, 3)], 1)],
    flip_roll=lambda d: [data(d, 3, 4).flip(0), data(d, 6).roll(2)],
    triu_tril=lambda d: [data(d, 4, 4).triu(1), data(d, 4, 4).tril()],
    diagonal=lambda d: [data(d, 4, 4).diagonal(1), torch.diag(data(d, 3))],
    as_strided=lambda d: data(d, 12).as_strided((3, 2), (4, 1), 1),
    unfold=lambda d: data(d, 9).unfold(0, 4, 2),
    narrow=lambda d: data(d, 6, 2).narrow(0, 2, 3),
    movedim=lambda d: data(d, 2, 3, 4).movedim(0, -1),
    real_imag=lambda d: [data(d, 4, dtype=torch.complex64).real, data(d, 4, dtype=torch.complex64).imag],
    view_as_real=lambda d: torch.view_as_real(data(d, 4, dtype=torch.complex64)),
    view_dtype=lambda d: data(d, 4).view(I32),
    pad=lambda d: torch.nn.functional.pad(data(d, 2, 3), (1, 2), value=-1.0),
)


@call
def view_shares_memory(d):
    x = data(d, 3, 4)
    x.view(12)[5] = 42
    x.t()[0, 2] = 43
    x[:, 3].add_(1)
    return [x, x.view(2, 6).data_ptr() == x.data_ptr(), x[1].storage_offset(), x.t().is_contiguous()]


@call
def detach_shares_memory(d):
    x = data(d, 4).requires_grad_()
    x.detach().mul_(2)
    x.data.add_(1)
    return x


# --- In place ---

call(
    add_=lambda d: data(d, 4).add_(data(d, 4), alpha=3),
    mul_chain_=lambda d: data(d, 4).mul_(2).sub_(1).div_(3).clamp_(-1, 1).neg_(),
    fill_zero_=lambda d: [data(d, 4).fill_(3), data(d, 4).zero_()],
    addcmul_=lambda d: data(d, 4).addcmul_(data(d, 4), data(d, 4), value=0.5),
    lerp_=lambda d: data(d, 4).lerp_(data(d, 4) + 1, 0.25),
    masked_fill_=lambda d: data(d, 9).masked_fill_(data(d, 9) > 0, -100),
    scatter_=lambda d: torch.zeros(3, 5, device=d).scatter_(1, torch.tensor([[0], [3], [1]], device=d), data(d, 3, 1)),
    scatter_add_=lambda d: torch.zeros(4, device=d).scatter_add_(0, torch.tensor([1, 1, 3], device=d), data(d, 3)),
    index_add_=lambda d: torch.zeros(4, 2, device=d).index_add_(0, torch.tensor([1, 3], device=d), data(d, 2, 2)),
    index_copy_=lambda d: torch.zeros(4, 2, device=d).index_copy_(0, torch.tensor([1, 3], device=d), data(d, 2, 2)),
    index_put_=lambda d: torch.zeros(5, device=d).index_put_(
        (torch.tensor([1, 1, 4], device=d),), data(d, 3), accumulate=True
    ),
    out_argument=lambda d: torch.add(data(d, 4), 1, out=torch.empty(4, device=d)),
    out_of_other_size=lambda d: torch.cat([data(d, 4), data(d, 3)], out=torch.empty(0, device=d)),
    resize_=lambda d: data(d, 6).resize_(2, 2),
    transpose_=lambda d: [data(d, 2, 3).t_(), data(d, 1, 3).squeeze_(), data(d, 3).unsqueeze_(0)],
    swap_data=lambda d: _with_data(data(d, 3), data(d, 2, 2)),
    tril_=lambda d: data(d, 4, 4).tril_(),
    foreach_=lambda d: _foreach_in_place([data(d, 3), data(d, 2, 2)]),
    setitem=lambda d: _setitem(data(d, 5, 4)),
)


def _with_data(x, other):
    x.data = other
    return x


def _foreach_in_place(tensors):
    torch._foreach_mul_(tensors, 3.0)
    torch._foreach_addcdiv_(tensors, tensors, [t.abs() + 1 for t in tensors], value=0.5)
    return tensors


def _setitem(x):
    x[1] = 9
    x[2, 1:3] = x[0, :2]
    x[x < 0] = 0
    x[torch.tensor([0, 4], device=x.device)] = torch.ones(4, device=x.device)
    return x


@call
def resize_keeps_values(d):
    x = data(d, 6)
    x.resize_(12)[6:] = 5
    storage = x.untyped_storage()
    storage.resize_(storage.nbytes() * 2)
    return [x, storage.nbytes()]


@call
def storage_freed_and_back(d):
    x = data(d, 6)
    x.untyped_storage().resize_(0)
    empty = x.untyped_storage().nbytes()
    x.untyped_storage().resize_(24)
    return [x.copy_(data(d, 6)), empty]


@call
def set_storage(d):
    x, y = data(d, 6), torch.empty(0, device=d)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    y.add_(100)
    return [x, y, x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()]


# --- Refused ---

call(
    cpu_mixed_with_device=lambda d: data(d, 3) + data("cpu", 3),
    cpu_matrix_mixed=lambda d: data("cpu", 2, 3) @ data(d, 3, 2),
    cpu_scalar_is_no_mix=lambda d: data(d, 3) * torch.tensor(2.0),
    numpy_of_device=lambda d: data(d, 3).numpy().tolist(),
    sparse=lambda d: data(d, 3, 3).to_sparse(),
    dlpack=lambda d: torch.from_dlpack(data(d, 3)),
    shared_between_processes=lambda d: data(d, 3).share_memory_(),
    wrong_shapes=lambda d: data(d, 3) + data(d, 4),
    index_out_of_range=lambda d: data(d, 3)[5],
    in_place_on_leaf=lambda d: data(d, 3).requires_grad_().add_(1),
)
