"""Calls on modules and functions of torch.nn, with the gradients of inputs and parameters."""

import torch
import torch.nn.functional as F
from call_list import call, data
from torch import nn


def _grads(d, module, *inputs):
    """Output of the module, and the gradients of a sum that weighs every element differently."""
    module = module.to(d)
    inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    result = module(*inputs)
    flat = [result] if isinstance(result, torch.Tensor) else [t for t in _tensors(result)]
    sum((t * data(d, *t.shape).to(t.dtype)).sum() for t in flat).backward()
    return [*flat, *(x.grad for x in inputs), *(p.grad for p in module.parameters())]


def _tensors(nested):
    for each in nested:
        if isinstance(each, torch.Tensor):
            yield each
        else:
            yield from _tensors(each)


def _fn(function):
    """A function as a module without parameters."""
    module = nn.Module()
    module.forward = function
    return module


def _ids(d, *shape, limit=10):
    return (torch.arange(torch.Size(shape).numel()) * 3 % limit).reshape(shape).to(d)


call(
    linear=lambda d: _grads(d, nn.Linear(5, 3), data(d, 4, 5)),
    linear_double=lambda d: _grads(d, nn.Linear(5, 3).double(), data(d, 4, 5, dtype=torch.float64)),
    bilinear=lambda d: _grads(d, nn.Bilinear(3, 4, 2), data(d, 5, 3), data(d, 5, 4)),
    conv1d=lambda d: _grads(d, nn.Conv1d(3, 4, 3, padding=1), data(d, 2, 3, 9)),
    conv2d=lambda d: _grads(d, nn.Conv2d(3, 4, 3, stride=2), data(d, 2, 3, 9, 8)),
    conv2d_groups=lambda d: _grads(d, nn.Conv2d(4, 4, 3, groups=2, dilation=2, bias=False), data(d, 2, 4, 9, 8)),
    conv2d_channels_last=lambda d: _grads(
        d, nn.Conv2d(3, 4, 3), data(d, 2, 3, 9, 8).contiguous(memory_format=torch.channels_last)
    ),
    conv3d=lambda d: _grads(d, nn.Conv3d(2, 3, 2), data(d, 1, 2, 4, 5, 4)),
    conv_transpose2d=lambda d: _grads(d, nn.ConvTranspose2d(3, 2, 3, stride=2, output_padding=1), data(d, 2, 3, 4, 4)),
    batch_norm=lambda d: _grads(d, nn.BatchNorm2d(3), data(d, 2, 3, 4, 4)),
    batch_norm_eval=lambda d: _grads(d, nn.BatchNorm1d(3).eval(), data(d, 5, 3)),
    batch_norm_statistics=lambda d: _running(d, nn.BatchNorm1d(3)),
    layer_norm=lambda d: _grads(d, nn.LayerNorm(6), data(d, 4, 6)),
    layer_norm_of_one=lambda d: _grads(d, nn.LayerNorm(1), data(d, 4, 1)),
    group_norm=lambda d: _grads(d, nn.GroupNorm(2, 4), data(d, 3, 4, 5)),
    instance_norm=lambda d: _grads(d, nn.InstanceNorm2d(3, affine=True), data(d, 2, 3, 4, 4)),
    rms_norm=lambda d: _grads(d, nn.RMSNorm(6), data(d, 4, 6)),
    embedding=lambda d: _grads(d, nn.Embedding(10, 4, padding_idx=0), _ids(d, 3, 5)),
    embedding_bag=lambda d: _grads(d, nn.EmbeddingBag(10, 4, mode="sum"), _ids(d, 3, 5)),
    lstm=lambda d: _grads(d, nn.LSTM(4, 5, num_layers=2), data(d, 6, 3, 4)),
    lstm_bidirectional=lambda d: _grads(d, nn.LSTM(4, 5, bidirectional=True, batch_first=True), data(d, 3, 6, 4)),
    lstm_cell=lambda d: _grads(d, nn.LSTMCell(4, 5), data(d, 3, 4)),
    gru=lambda d: _grads(d, nn.GRU(4, 5), data(d, 6, 3, 4)),
    gru_cell=lambda d: _grads(d, nn.GRUCell(4, 5), data(d, 3, 4)),
    rnn_tanh=lambda d: _grads(d, nn.RNN(4, 5), data(d, 6, 3, 4)),
    lstm_packed=lambda d: _packed(d),
    attention=lambda d: _grads(d, _fn(F.scaled_dot_product_attention), *(data(d, 2, 3, 5, 4) + i for i in range(3))),
    attention_causal=lambda d: _grads(
        d,
        _fn(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        *(data(d, 2, 3, 5, 4) + i for i in range(3)),
    ),
    attention_masked=lambda d: _grads(
        d,
        _fn(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(5, 5, device=d).tril().bool())
        ),
        *(data(d, 2, 3, 5, 4) + i for i in range(3)),
    ),
    multihead_attention=lambda d: _grads(
        d, nn.MultiheadAttention(8, 2, batch_first=True), *(data(d, 2, 5, 8) + i for i in range(3))
    ),
    transformer_layer=lambda d: _grads(
        d, nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), data(d, 2, 5, 8)
    ),
    transformer_layer_eval=lambda d: _inference(
        d, nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), data(d, 2, 5, 8)
    ),
    max_pool=lambda d: _grads(d, nn.MaxPool2d(2), data(d, 2, 3, 6, 6)),
    avg_pool=lambda d: _grads(d, nn.AvgPool2d(3, 2, 1), data(d, 2, 3, 6, 6)),
    adaptive_pool=lambda d: _grads(d, nn.AdaptiveAvgPool2d((1, 2)), data(d, 2, 3, 6, 5)),
    interpolate=lambda d: _grads(
        d, _fn(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")), data(d, 1, 2, 3, 4)
    ),
    grid_sample=lambda d: _grads(
        d, _fn(lambda x, g: F.grid_sample(x, g, align_corners=False)), data(d, 1, 2, 4, 4), data(d, 1, 3, 3, 2) / 2
    ),
    pixel_shuffle=lambda d: _grads(d, nn.PixelShuffle(2), data(d, 1, 8, 3, 3)),
    relu=lambda d: _grads(d, nn.ReLU(), data(d, 9)),
    relu_in_place=lambda d: _grads(d, _fn(lambda x: F.relu_(x * 2)), data(d, 9)),
    gelu=lambda d: _grads(d, nn.GELU(), data(d, 9)),
    gelu_tanh=lambda d: _grads(d, nn.GELU("tanh"), data(d, 9)),
    silu=lambda d: _grads(d, nn.SiLU(), data(d, 9)),
    softmax=lambda d: _grads(d, nn.Softmax(1), data(d, 3, 4)),
    log_softmax=lambda d: _grads(d, nn.LogSoftmax(1), data(d, 3, 4)),
    leaky_elu_softplus=lambda d: _grads(
        d, nn.Sequential(nn.LeakyReLU(0.1), nn.ELU(), nn.Softplus(), nn.Hardswish()), data(d, 9)
    ),
    glu=lambda d: _grads(d, nn.GLU(), data(d, 3, 4)),
    cross_entropy=lambda d: _grads(d, _fn(lambda x: F.cross_entropy(x, _ids(d, 5, limit=4))), data(d, 5, 4)),
    cross_entropy_smooth=lambda d: _grads(
        d,
        _fn(lambda x: F.cross_entropy(x, _ids(d, 5, limit=4), label_smoothing=0.1, ignore_index=2)),
        data(d, 5, 4),
    ),
    nll_loss=lambda d: _grads(d, _fn(lambda x: F.nll_loss(x.log_softmax(1), _ids(d, 5, limit=4))), data(d, 5, 4)),
    mse_loss=lambda d: _grads(d, _fn(F.mse_loss), data(d, 5, 4), data(d, 5, 4) + 1),
    l1_huber=lambda d: _grads(
        d, _fn(lambda x, y: F.l1_loss(x, y) + F.smooth_l1_loss(x, y)), data(d, 9), data(d, 9) * 2
    ),
    bce_with_logits=lambda d: _grads(
        d, _fn(lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).float(), reduction="none")), data(d, 9)
    ),
    kl_div=lambda d: _grads(d, _fn(lambda x, y: F.kl_div(x.log(), y, reduction="sum")), *_probabilities(d)),
    cosine_similarity=lambda d: _grads(d, _fn(F.cosine_similarity), data(d, 3, 4), data(d, 3, 4) + 1),
    ctc_loss=lambda d: _grads(
        d,
        _fn(lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2], [2, 3]], device=d), (6, 6), (2, 2))),
        data(d, 6, 2, 5),
    ),
    normalize=lambda d: _grads(d, _fn(lambda x: F.normalize(x, dim=1)), data(d, 3, 4)),
    dropout_off=lambda d: [F.dropout(data(d, 9), 0.5, training=False), F.dropout(data(d, 9), 0.0)],
    dropout_all=lambda d: F.dropout(data(d, 9), 1.0),
    weight_norm=lambda d: _grads(d, nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), data(d, 2, 4)),
    unfold_fold=lambda d: _grads(d, _fn(lambda x: F.fold(F.unfold(x, 2), (4, 4), 2)), data(d, 1, 2, 4, 4)),
)


def _running(d, module):
    module.to(d)
    module(data(d, 5, 3))
    module(data(d, 4, 3) * 2)
    return [module.running_mean, module.running_var, module.num_batches_tracked]


def _packed(d):
    lstm = nn.LSTM(4, 5, batch_first=True).to(d)
    packed = nn.utils.rnn.pack_padded_sequence(data(d, 3, 6, 4), torch.tensor([6, 4, 2]), batch_first=True)
    output, (h, c) = lstm(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    return [padded, lengths, h, c]


def _inference(d, module, x):
    module = module.to(d).eval()
    with torch.inference_mode():
        return module(x).clone()


def _probabilities(d):
    return data(d, 3, 4).softmax(1).detach(), (data(d, 3, 4) * 2).softmax(1).detach()


# --- Modules as such ---


@call
def module_to_and_state(d):
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(d)
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(d)
    result = other.load_state_dict(module.state_dict())
    return [other(data(d, 5, 3)), dict(other.state_dict()), len(result.missing_keys)]


@call
def module_half(d):
    return nn.Linear(4, 3).to(d).half()(data(d, 2, 4, dtype=torch.float16))


@call
def module_on_meta_then_empty(d):
    with torch.device("meta"):
        module = nn.Linear(4, 3)
    module = module.to_empty(device=d)
    for p in module.parameters():
        nn.init.constant_(p, 0.5)
    return module(data(d, 2, 4))


@call
def init_functions(d):
    weight = torch.empty(4, 5, device=d)
    return [
        nn.init.kaiming_uniform_(weight).clone(),
        nn.init.xavier_normal_(weight).clone(),
        nn.init.trunc_normal_(weight).clone(),
        nn.init.eye_(weight).clone(),
    ]


@call
def hooks(d):
    seen = []
    module = nn.Linear(4, 3).to(d)
    module.register_forward_hook(lambda m, i, o: seen.append(o.detach().clone()))
    module.register_full_backward_hook(lambda m, i, o: seen.append(o[0].clone()))
    module(data(d, 2, 4)).square().sum().backward()
    return seen


@call
def parameters_as_vector(d):
    module = nn.Linear(4, 3).to(d)
    vector = nn.utils.parameters_to_vector(module.parameters())
    nn.utils.vector_to_parameters(vector * 2, module.parameters())
    return [vector, *module.parameters()]
