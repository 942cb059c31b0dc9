"""Calls of training: autograd, optimizers, mixed precision, checkpointing, function transforms, random numbers."""

import contextlib

import torch
from call_list import call, data
from torch import nn
from torch.utils.checkpoint import checkpoint

# --- Autograd ---


@call
def backward_twice(d):
    x = data(d, 5).requires_grad_()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@call
def second_derivative(d):
    x = data(d, 5).requires_grad_()
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return [g, h]


@call
def gradient_of_views(d):
    x = data(d, 4, 4).requires_grad_()
    y = x * 1
    y[1:3, ::2] *= 3
    y.t()[0] = 7
    (y.view(2, 8).square().sum()).backward()
    return x.grad


@call
def custom_function(d):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x.exp() * factor

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.exp() * ctx.factor, None

    x = data(d, 5).requires_grad_()
    Scaled.apply(x, 3).sum().backward()
    return x.grad


@call
def tensor_hooks(d):
    x = data(d, 5).requires_grad_()
    seen = []
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    x.square().sum().backward()
    return [x.grad, *seen]


@call
def no_grad_and_inference(d):
    x = data(d, 5).requires_grad_()
    with torch.no_grad():
        a = x * 2
    with torch.inference_mode():
        b = x * 3
        flags = [b.is_inference(), b.requires_grad]
        b = b.cpu().tolist()
    return [a, b, *flags]


@call
def saved_tensor_hooks(d):
    x = data(d, 5).requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        y = x.exp()
    y.sum().backward()
    return x.grad


@call
def anomaly_detection(d):
    x = data(d, 5).requires_grad_()
    with torch.autograd.detect_anomaly(check_nan=True):
        x.abs().sqrt().sum().backward()
    return x.grad


@call
def gradcheck(d):
    x = data(d, 3, dtype=torch.float64).requires_grad_()
    return torch.autograd.gradcheck(lambda x: (x.sin() * x).sum(), (x,))


@call
def backward_error(d):
    return (data(d, 5) * 2).sum().backward()


@call
def modified_in_place_error(d):
    x = data(d, 5).requires_grad_()
    y = x.exp()
    y.add_(1)
    return y.sum().backward()


# --- Optimizers ---


def _model(d):
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(d)


def _steps(d, make, closure=False):
    model = _model(d)
    optimizer = make(model.parameters())
    losses = []
    for step in range(5):

        def loss(step=step):
            optimizer.zero_grad()
            value = (model(data(d, 4, 6) + step) - data(d, 4, 3)).square().mean()
            value.backward()
            return value

        value = loss()
        optimizer.step(loss) if closure else optimizer.step()
        losses.append(value.item())
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    return [losses, list(model.parameters()), state]


call(
    sgd=lambda d: _steps(d, lambda p: torch.optim.SGD(p, 0.1)),
    sgd_momentum=lambda d: _steps(d, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    sgd_fused=lambda d: _steps(d, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True)),
    adam=lambda d: _steps(d, lambda p: torch.optim.Adam(p, 0.01)),
    adam_foreach=lambda d: _steps(d, lambda p: torch.optim.Adam(p, 0.01, foreach=True)),
    adam_fused=lambda d: _steps(d, lambda p: torch.optim.Adam(p, 0.01, fused=True)),
    adamw=lambda d: _steps(d, lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
    adamw_foreach=lambda d: _steps(d, lambda p: torch.optim.AdamW(p, 0.01, foreach=True)),
    adamw_fused=lambda d: _steps(d, lambda p: torch.optim.AdamW(p, 0.01, fused=True)),
    adamw_amsgrad=lambda d: _steps(d, lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True)),
    adagrad=lambda d: _steps(d, lambda p: torch.optim.Adagrad(p, 0.1)),
    adadelta=lambda d: _steps(d, lambda p: torch.optim.Adadelta(p)),
    rmsprop=lambda d: _steps(d, lambda p: torch.optim.RMSprop(p, 0.01)),
    rprop=lambda d: _steps(d, lambda p: torch.optim.Rprop(p)),
    adamax=lambda d: _steps(d, lambda p: torch.optim.Adamax(p)),
    nadam=lambda d: _steps(d, lambda p: torch.optim.NAdam(p)),
    lbfgs=lambda d: _steps(d, lambda p: torch.optim.LBFGS(p, max_iter=3), closure=True),
)


@call
def optimizer_state_round_trip(d):
    model = _model(d)
    first = torch.optim.AdamW(model.parameters(), 0.01)
    model(data(d, 4, 6)).sum().backward()
    first.step()
    second = torch.optim.AdamW(model.parameters(), 0.01)
    second.load_state_dict(first.state_dict())
    second.step()
    return [list(model.parameters()), [s["exp_avg"] for s in second.state.values()]]


@call
def scheduler(d):
    model = _model(d)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
    rates = []
    for _ in range(4):
        model(data(d, 4, 6)).sum().backward()
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    return [rates, list(model.parameters())]


@call
def clip_gradients(d):
    model = _model(d)
    model(data(d, 4, 6)).sum().backward()
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    return [total, [p.grad for p in model.parameters()]]


@call
def averaged_model(d):
    model = _model(d)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)
    average.update_parameters(model)
    average.update_parameters(model)
    return list(average.parameters())


# --- Mixed precision ---


@call
def autocast_bfloat16(d):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(d)
    with torch.autocast(torch.device(d).type, dtype=torch.bfloat16):
        y = model(data(d, 4, 6))
        loss = y.float().square().mean()
    loss.backward()
    return [y, loss, [p.grad for p in model.parameters()]]


@call
def autocast_float16(d):
    with torch.autocast(torch.device(d).type, dtype=torch.float16):
        product = data(d, 4, 6) @ data(d, 6, 3)
        return [product, torch.nn.functional.linear(data(d, 4, 6), data(d, 3, 6))]


@call
def autocast_nested_and_off(d):
    kind = torch.device(d).type
    with torch.autocast(kind, dtype=torch.bfloat16):
        a = data(d, 3, 4) @ data(d, 4, 2)
        with torch.autocast(kind, enabled=False):
            b = data(d, 3, 4) @ data(d, 4, 2)
        on = torch.is_autocast_enabled(kind)
    return [a, b, on, torch.is_autocast_enabled(kind)]


def _scaled_steps(d, poison=None, **options):
    model = _model(d)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler(torch.device(d).type, init_scale=1024.0, growth_interval=2, **options)
    scales = []
    for step in range(4):
        optimizer.zero_grad()
        loss = model(data(d, 4, 6)).square().mean()
        scaler.scale(loss).backward()
        if step == poison:
            next(model.parameters()).grad[0, 0] = float("inf")
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return [scales, list(model.parameters())]


call(
    grad_scaler=lambda d: _scaled_steps(d),
    grad_scaler_skips_infinities=lambda d: _scaled_steps(d, poison=1),
    grad_scaler_disabled=lambda d: _scaled_steps(d, enabled=False),
)

# --- Checkpointing, transforms ---


@call
def checkpoint_reentrant(d):
    model, x = _model(d), data(d, 4, 6).requires_grad_()
    checkpoint(model, x, use_reentrant=True).square().sum().backward()
    return [x.grad, [p.grad for p in model.parameters()]]


@call
def checkpoint_keeps_random_state(d):
    model, x = nn.Sequential(_model(d), nn.Dropout(0.5)).to(d), data(d, 4, 6).requires_grad_()
    y = checkpoint(model, x, use_reentrant=False)
    y.sum().backward()
    kept = (y != 0).float()  # the second forward must have dropped the same elements
    z = x.detach().clone().requires_grad_()
    (model[0](z) * kept * 2).sum().backward()
    return torch.allclose(x.grad, z.grad)


call(
    vmap=lambda d: torch.vmap(torch.dot)(data(d, 3, 4), data(d, 3, 4)),
    func_grad=lambda d: torch.func.grad(lambda x: (x.sin() * x).sum())(data(d, 5)),
    jacrev=lambda d: torch.func.jacrev(lambda x: x.square() @ data(d, 3, 2))(data(d, 3)),
    jvp=lambda d: list(torch.func.jvp(torch.sin, (data(d, 5),), (data(d, 5),))),
    hessian=lambda d: torch.func.hessian(lambda x: (x**3).sum())(data(d, 3)),
    vmap_of_grad=lambda d: torch.vmap(torch.func.grad(lambda x: x.square().sum()))(data(d, 3, 4)),
)


@call
def functional_call(d):
    model = _model(d)
    return torch.func.functional_call(model, {n: p * 2 for n, p in model.named_parameters()}, (data(d, 4, 6),))


@call
def forward_mode(d):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(data(d, 5), torch.ones(5, device=d))
        return torch.autograd.forward_ad.unpack_dual(dual.exp()).tangent.clone()


@call
def fake_tensor(d):
    with torch._subclasses.FakeTensorMode():
        y = torch.empty(3, 4, device=d) @ torch.empty(4, 5, device=d)
        return [tuple(y.shape), y.device.type == torch.device(d).type]


@call
def dispatch_mode(d):
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            seen.append(str(function))
            return function(*arguments, **(options or {}))

    with Log():
        y = data(d, 3).mul(2) + 1
    return [y, [name for name in seen if "_to_copy" not in name and "arange" not in name][-2:]]


@call
def compile_eager(d):
    return torch.compile(lambda x: (x.sin() + 1).sum(0), backend="eager")(data(d, 3, 4))


@call
def compile_aot_eager(d):
    x = data(d, 3, 4).requires_grad_()
    torch.compile(lambda x: (x.sin() * x).sum(), backend="aot_eager")(x).backward()
    return x.grad


@call
def profiler(d):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        y = data(d, 3, 4) @ data(d, 4, 2)
    return [y, any(event.key == "aten::mm" for event in profile.key_averages())]


# --- Random numbers: the device has a generator of its own, with the CPU's algorithm ---

call(
    rand=lambda d: [torch.rand(5, device=d), torch.randn(3, 4, device=d), torch.randn(40, device=d)],
    randint=lambda d: [torch.randint(-5, 9, (20,), device=d), torch.randperm(9, device=d)],
    normal=lambda d: [torch.normal(data(d, 5), 2.0), torch.empty(5, device=d).normal_(1, 3)],
    bernoulli=lambda d: [torch.bernoulli(torch.full((20,), 0.3, device=d)), torch.empty(9, device=d).bernoulli_(0.5)],
    in_place_random=lambda d: [
        torch.empty(9, device=d).uniform_(-1, 1),
        torch.empty(9, device=d).exponential_(2),
        torch.empty(9, device=d).geometric_(0.3),
    ],
    multinomial=lambda d: torch.multinomial(data(d, 7).abs() + 0.1, 4),
    like=lambda d: [torch.rand_like(data(d, 4)), torch.randn_like(data(d, 4)), torch.randint_like(data(d, 4), 9)],
    generator=lambda d: torch.randn(5, device=d, generator=torch.Generator(d).manual_seed(7)),
    distributions=lambda d: [
        torch.distributions.Normal(data(d, 3), 1.0).log_prob(data(d, 3) + 1),
        torch.distributions.Categorical(logits=data(d, 3, 4)).entropy(),
    ],
)


@call
def fork_rng(d):
    with contextlib.ExitStack() as stack:
        if d != "cpu":
            stack.enter_context(torch.random.fork_rng(devices=[d], device_type="npu"))
        else:
            stack.enter_context(torch.random.fork_rng(devices=[]))
        torch.manual_seed(5)
        inside = torch.rand(3, device=d)
    return [inside, torch.rand(3, device=d)]
