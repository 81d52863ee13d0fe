"""Programs as users of MLX write them, small, on weft and on MLX itself: what they compute, number by number, and what they raise.

    PYTHONPATH=build/release/python python bench/mlx/programs.py --both [--only text]

Each program draws its own numbers from mx.random, whose streams are the same on both. Beyond 1e-4 of a number (a few steps of training
amplify the last digit), or where one raises what the other does not, it is said."""

import argparse
import json
import math
import subprocess
import sys
import traceback
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_reduce, tree_unflatten

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def trained(model, loss, optimizer, batches):
    """Losses of some steps, and the sums of all parameters after them."""
    step, losses = nn.value_and_grad(model, loss), []
    for batch in batches:
        value, gradients = step(model, *batch)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(value.item())
    return losses, [p.sum() for _, p in tree_flatten(model.parameters())]


# ---- Models


class LlamaAttention(nn.Module):
    def __init__(self, dims, heads, groups):
        super().__init__()
        self.heads, self.groups, self.rope = heads, groups, nn.RoPE(dims // heads, traditional=True)
        self.q, self.k = nn.Linear(dims, dims, bias=False), nn.Linear(dims, dims // heads * groups, bias=False)
        self.v, self.o = nn.Linear(dims, dims // heads * groups, bias=False), nn.Linear(dims, dims, bias=False)

    def __call__(self, x, mask=None, cache=None):
        B, L, D = x.shape
        q = self.q(x).reshape(B, L, self.heads, -1).transpose(0, 2, 1, 3)
        k, v = (p(x).reshape(B, L, self.groups, -1).transpose(0, 2, 1, 3) for p in (self.k, self.v))
        if cache is not None:
            before_k, before_v = cache
            q, k = self.rope(q, offset=before_k.shape[2]), self.rope(k, offset=before_k.shape[2])
            k, v = mx.concatenate([before_k, k], axis=2), mx.concatenate([before_v, v], axis=2)
        else:
            q, k = self.rope(q), self.rope(k)
        many_k, many_v = (mx.repeat(z, self.heads // self.groups, axis=1) for z in (k, v))
        scores = (q * math.sqrt(1 / q.shape[-1])) @ many_k.transpose(0, 1, 3, 2)
        if mask is not None:
            scores = scores + mask
        scores = mx.softmax(scores.astype(mx.float32), axis=-1).astype(scores.dtype)
        return self.o((scores @ many_v).transpose(0, 2, 1, 3).reshape(B, L, -1)), (k, v)


class LlamaBlock(nn.Module):
    def __init__(self, dims, heads, groups, hidden):
        super().__init__()
        self.attention = LlamaAttention(dims, heads, groups)
        self.norm1, self.norm2 = nn.RMSNorm(dims), nn.RMSNorm(dims)
        self.up, self.gate, self.down = (
            nn.Linear(dims, hidden, bias=False),
            nn.Linear(dims, hidden, bias=False),
            nn.Linear(hidden, dims, bias=False),
        )

    def __call__(self, x, mask=None, cache=None):
        y, cache = self.attention(self.norm1(x), mask, cache)
        x = x + y
        y = self.norm2(x)
        a, b = self.up(y), self.gate(y)
        return x + self.down(a * mx.sigmoid(a) * b), cache


class Llama(nn.Module):
    def __init__(self, layers=2, dims=64, heads=4, groups=2, hidden=96, vocabulary=50):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(vocabulary, dims), [
            LlamaBlock(dims, heads, groups, hidden) for _ in range(layers)
        ]
        self.norm, self.out = nn.RMSNorm(dims), nn.Linear(dims, vocabulary, bias=False)

    def __call__(self, x):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1]).astype(self.embedding.weight.dtype)
        x = self.embedding(x)
        for layer in self.layers:
            x, _ = layer(x, mask)
        return self.out(self.norm(x))

    def generate(self, x, temperature=1.0):
        cache = []
        mask = nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1]).astype(self.embedding.weight.dtype)
        x = self.embedding(x)
        for layer in self.layers:
            x, c = layer(x, mask=mask)
            cache.append(c)
        y = mx.random.categorical(self.out(self.norm(x)[:, -1]) * (1 / temperature))
        yield y
        while True:
            x = self.embedding(y[:, None])
            for i in range(len(cache)):
                x, cache[i] = self.layers[i](x, mask=None, cache=cache[i])
            y = mx.random.categorical(self.out(self.norm(x)[:, -1]) * (1 / temperature))
            yield y


@program
def llama_generates():
    model, tokens = Llama(), []
    mx.eval(model.parameters())
    for token, _ in zip(model.generate(mx.array([[1, 9, 8, 4]]), 0.8), range(20)):
        tokens.append(token)
        if len(tokens) % 5 == 0:
            mx.eval(tokens)
    return [t.item() for t in tokens]


@program
def llama_trains_in_halves():
    model = Llama()
    model.set_dtype(mx.bfloat16)
    x = mx.random.randint(0, 50, (2, 13))
    loss = lambda model, x: nn.losses.cross_entropy(model(x[:, :-1]).astype(mx.float32), x[:, 1:], reduction="mean")
    return [round(v, 1) for v in trained(model, loss, optim.SGD(1e-2), [(x,)] * 3)[0]]


class LoRA(nn.Module):
    @staticmethod
    def of(linear, rank=4, scale=2.0):
        lora = LoRA(linear.weight.shape[1], linear.weight.shape[0], rank, scale)
        lora.linear = linear
        return lora

    def __init__(self, n_in, n_out, rank, scale):
        super().__init__()
        self.scale, self.linear = scale, nn.Linear(n_in, n_out, bias=False)
        self.a, self.b = mx.random.uniform(-1 / math.sqrt(n_in), 1 / math.sqrt(n_in), (n_in, rank)), mx.zeros((rank, n_out))

    def __call__(self, x):
        return self.linear(x) + (self.scale * ((x @ self.a) @ self.b)).astype(x.dtype)


@program
def lora_of_a_frozen_quantised_model():
    model = Llama()
    nn.quantize(model, group_size=32, bits=4, class_predicate=lambda path, m: isinstance(m, nn.Linear) and "out" not in path)
    model.freeze()
    for layer in model.layers:
        full = nn.Linear(64, 64, bias=False)
        layer.attention.q = LoRA.of(full)
        layer.attention.q.linear.freeze()
    n = sum(v.size for _, v in tree_flatten(model.trainable_parameters()))
    x = mx.random.randint(0, 50, (4, 10))
    loss = lambda model, x: nn.losses.cross_entropy(model(x[:, :-1]), x[:, 1:], reduction="mean")
    return n, trained(model, loss, optim.Adam(1e-2), [(x,)] * 6)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm(n_out)
        self.conv2, self.bn2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm(n_out)
        self.shortcut = (
            nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm(n_out)) if stride != 1 else nn.Identity()
        )

    def __call__(self, x):
        y = nn.relu(self.bn1(self.conv1(x)))
        return nn.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


@program
def resnet_of_cifar():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1),
        nn.BatchNorm(8),
        nn.ReLU(),
        Block(8, 8),
        Block(8, 16, 2),
        lambda x: mx.mean(x, axis=[1, 2]),
        nn.Linear(16, 10),
    )
    x, y = mx.random.normal((4, 16, 16, 3)), mx.random.randint(0, 10, (4,))

    def loss(model, x, y):
        return nn.losses.cross_entropy(model(x), y, label_smoothing=0.1, reduction="mean")

    schedule = optim.join_schedules([optim.linear_schedule(0, 1e-2, 3), optim.cosine_decay(1e-2, 10)], [3])
    out = trained(model, loss, optim.SGD(schedule, momentum=0.9, weight_decay=1e-4), [(x, y)] * 5)
    model.eval()
    return out, model(x), model.layers[1].running_mean


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.mean, self.log_var = nn.Conv2d(1, 8, 3, 2, 1), nn.Linear(8 * 16, 4), nn.Linear(8 * 16, 4)
        self.up, self.conv_up = nn.Linear(4, 8 * 16), nn.ConvTranspose2d(8, 1, 3, 2, 1, output_padding=1)

    def __call__(self, x):
        h = mx.flatten(nn.leaky_relu(self.conv(x)), start_axis=1)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mx.random.normal(mean.shape) * mx.exp(log_var * 0.5) + mean
        h = self.up(z).reshape(-1, 4, 4, 8)
        return mx.sigmoid(self.conv_up(h)), mean, log_var


@program
def variational_autoencoder():
    model, x = VAE(), mx.random.uniform(shape=(5, 8, 8, 1))
    optimizer = optim.AdamW(1e-2)
    state = [model.state, optimizer.state, mx.random.state]

    def loss(model, x):
        y, mean, log_var = model(x)
        return nn.losses.binary_cross_entropy(y, x, with_logits=False, reduction="sum") - 0.5 * mx.sum(
            1 + log_var - mean.square() - log_var.exp()
        )

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        value, gradients = nn.value_and_grad(model, loss)(model, x)
        optimizer.update(model, gradients)
        return value

    losses = []
    for _ in range(6):
        losses.append(step(x))
        mx.eval(state)
    return losses, model(x)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(8, 16), nn.Linear(16, 3), nn.Dropout(0.3)

    def __call__(self, x, adjacency):
        return adjacency @ self.b(self.drop(nn.relu(adjacency @ self.a(x))))


@program
def graph_network():
    edges = mx.random.randint(0, 20, (40, 2))
    adjacency = mx.eye(20)
    adjacency[edges[:, 0], edges[:, 1]] = 1.0
    adjacency = mx.maximum(adjacency, adjacency.T)
    degree = mx.diag(mx.power(adjacency.sum(1), -0.5))
    adjacency = degree @ adjacency @ degree
    x, y, known = mx.random.normal((20, 8)), mx.random.randint(0, 3, (20,)), mx.arange(10)

    def loss(model, x):
        out = model(x, adjacency)
        decay = tree_reduce(lambda total, p: total + (p * p).sum(), model.parameters(), mx.array(0.0))
        return mx.mean(nn.losses.cross_entropy(out[known], y[known])) + 1e-3 * decay

    out = trained(GCN(), loss, optim.Adam(1e-2), [(x,)] * 6)
    return out, adjacency


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(8, 16, 3, padding=1), nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.attention, self.norm, self.out = nn.MultiHeadAttention(16, 4), nn.LayerNorm(16), nn.Linear(16, 5)
        self.place = nn.SinusoidalPositionalEncoding(16)

    def __call__(self, x):
        x = nn.gelu(self.conv2(nn.gelu(self.conv1(x))))
        x = x + self.place(mx.arange(x.shape[1]))[None]
        y = self.norm(x)
        x = x + self.attention(y, y, y)
        return self.out(x.mean(axis=1))


@program
def speech_with_spectrogram():
    sound = mx.sin(mx.arange(2048) * mx.linspace(0.01, 0.2, 2048))
    frames = mx.as_strided(mx.pad(sound, (64, 64)), (60, 128), (32, 1)) * mx.array(
        [0.5 - 0.5 * math.cos(2 * math.pi * i / 128) for i in range(128)]
    )
    power = mx.abs(mx.fft.rfft(frames))[:, :64].square()
    filters = mx.maximum(0, 1 - mx.abs(mx.arange(64)[:, None] - mx.linspace(4, 60, 8)[None]) / 8)
    mel = mx.log10(mx.maximum(power @ filters, 0.1))
    mel = mx.maximum(mel, mel.max() - 8.0)
    x = mx.stack([mel, mel[::-1]])
    loss = lambda model, x, y: nn.losses.cross_entropy(model(x), y).mean()
    return mel, trained(
        Speech(), loss, optim.Adafactor(1e-2, relative_step=False, scale_parameter=False), [(x, mx.array([1, 3]))] * 4
    )


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self._mask, self.net = mask, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))

    def __call__(self, x, inverse=False):
        s, t = mx.split(self.net(x * self._mask), 2, axis=-1)
        s, t = mx.tanh(s) * (1 - self._mask), t * (1 - self._mask)
        return ((x - t) * mx.exp(-s), -s.sum(-1)) if inverse else (x * mx.exp(s) + t, s.sum(-1))


@program
def normalising_flow():
    flow = nn.Sequential(*[Coupling((mx.arange(4) % 2 == i % 2).astype(mx.float32)) for i in range(4)])

    def log_prob(flow, x):
        total = mx.zeros(x.shape[0])
        for layer in reversed(flow.layers):
            x, log_det = layer(x, inverse=True)
            total = total + log_det
        return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1) + total

    x = mx.random.normal((32, 4)) @ (mx.eye(4) * 0.5 + 0.2)
    out = trained(flow, lambda flow, x: -log_prob(flow, x).mean(), optim.Lion(1e-3), [(x,)] * 5)
    there, _ = flow.layers[0](x)
    back, _ = flow.layers[0](there, inverse=True)
    return out, mx.abs(back - x).max() < 1e-5


@program
def generative_adversarial():
    generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.BatchNorm(16), nn.Linear(16, 8), nn.Tanh())
    judge = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    optimizers = optim.Adam(2e-3, betas=[0.5, 0.999]), optim.Adam(2e-3, betas=[0.5, 0.999])
    real, losses = mx.random.normal((16, 8)), []

    def judge_loss(judge, real, noise):
        fake = mx.stop_gradient(generator(noise))
        return nn.losses.binary_cross_entropy(judge(real).squeeze(-1), mx.ones(16)) + nn.losses.binary_cross_entropy(
            judge(fake).squeeze(-1), mx.zeros(16)
        )

    def generator_loss(generator, noise):
        return nn.losses.binary_cross_entropy(judge(generator(noise)).squeeze(-1), mx.ones(16))

    for _ in range(4):
        a, g = nn.value_and_grad(judge, judge_loss)(judge, real, mx.random.normal((16, 4)))
        optimizers[0].update(judge, g)
        b, g = nn.value_and_grad(generator, generator_loss)(generator, mx.random.normal((16, 4)))
        optimizers[1].update(generator, g)
        mx.eval(judge.state, generator.state)
        losses += [a.item(), b.item()]
    return losses


@program
def recurrent_networks():
    x, out = mx.random.normal((2, 7, 5)), []
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        net = kind(5, 6)
        out += [net(x), net(x[0]), mx.grad(lambda z: mx.sum(net(z)[0] if kind is nn.LSTM else net(z)))(x)]
    return out


@program
def transformer_seq2seq():
    model = nn.Transformer(dims=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, mlp_dims=32)
    src, tgt = mx.random.normal((2, 5, 16)), mx.random.normal((2, 4, 16))
    causal = nn.MultiHeadAttention.create_additive_causal_mask(4)
    return model(src, tgt, None, causal, None), mx.grad(lambda s: model(s, tgt, None, causal, None).sum())(src)


@program
def quantised_layers():
    model, x, out = (
        nn.Sequential(nn.Embedding(16, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32)),
        mx.array([[1, 2, 3]]),
        [],
    )
    for bits, group in ((8, 64), (4, 32), (3, 64)):
        copy = nn.Sequential(*model.layers)
        nn.quantize(copy, group, bits)
        out += [copy(x), [tuple(p.shape) for _, p in tree_flatten(copy.parameters())]]
        model = nn.Sequential(nn.Embedding(16, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
    return out


@program
def every_optimizer():
    out = []
    for make in (
        lambda: optim.SGD(0.1, 0.9, nesterov=True),
        lambda: optim.RMSprop(0.01),
        lambda: optim.Adagrad(0.1),
        lambda: optim.AdaDelta(0.1),
        lambda: optim.Adam(0.1, bias_correction=True),
        lambda: optim.AdamW(0.1),
        lambda: optim.Adamax(0.1),
        lambda: optim.Lion(0.01),
        lambda: optim.Adafactor(),
        lambda: optim.Muon(0.02),
    ):
        mx.random.seed(7)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
        loss = lambda model, x: (model(x) - 1).square().mean()
        optimizer = make()
        out.append(trained(model, loss, optimizer, [(mx.random.normal((5, 6)),) for _ in range(4)]))
        out.append([v.sum() for _, v in tree_flatten(optimizer.state) if isinstance(v, mx.array)])
    return out


@program
def gradients_clipped_and_accumulated():
    model = nn.Linear(4, 3)
    x = mx.random.normal((12, 4)) * 10
    step = nn.value_and_grad(model, lambda model, x: model(x).square().mean())
    total = None
    for part in mx.split(x, 3):
        _, g = step(model, part)
        total = g if total is None else tree_map(mx.add, total, g)
    clipped, norm = optim.clip_grad_norm(total, 1.0)
    return clipped, norm


# ---- Transforms and state


@program
def custom_rules():
    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    @f.vjp
    def f_vjp(primals, cotangent, output):
        x, y = primals
        return cotangent * mx.cos(x) * y * 2, cotangent * mx.sin(x) + output

    @f.jvp
    def f_jvp(primals, tangents):
        return tangents[0] * mx.cos(primals[0]) * primals[1] * 3

    @f.vmap
    def f_vmap(inputs, axes):
        return mx.sin(inputs[0]) * inputs[1] + 1, 0

    x, y = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    return f(x, y), mx.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(x, y), mx.jvp(f, [x, y], [y, x])[1], mx.vmap(f)(x, y)


@program
def higher_derivatives():
    f = lambda x: mx.sin(x) * mx.exp(-x * x)
    out, g = [], f
    for _ in range(4):
        out.append(g(mx.array(0.7)))
        g = mx.grad(g)
    hessian = mx.vmap(mx.grad(lambda x, v: (mx.grad(lambda z: (z**3).sum() * z[0])(x) * v).sum()), in_axes=(None, 0))(
        mx.array([1.0, 2.0]), mx.eye(2)
    )
    jacobian = mx.vmap(
        lambda t: mx.jvp(lambda z: mx.stack([z[0] * z[1], mx.tanh(z).sum()]), [mx.array([0.3, 0.4])], [t])[1][0]
    )(mx.eye(2))
    return out, hessian, jacobian


@program
def maps_of_maps():
    a, b = mx.random.normal((3, 4, 5)), mx.random.normal((6, 5))
    distance = lambda u, v: mx.sqrt((u - v).square().sum())
    return (
        mx.vmap(mx.vmap(mx.vmap(distance, (None, 0)), (0, None)), (0, None))(a, b),
        mx.vmap(lambda x, i: x[i], (0, 0))(b, mx.arange(6) % 5),
        mx.vmap(mx.softmax, in_axes=1, out_axes=1)(b),
        mx.vmap(lambda x: mx.sort(x)[::-1])(b),
        mx.vmap(lambda q, k: q @ k.T, (0, None))(a, b),
    )


@program
def compiled_with_state():
    state, log = [mx.array(0.0), {"n": mx.array(0)}], []

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, scale=1.0):
        log.append(1)
        state[0] = state[0] * 0.9 + x.sum() * scale
        state[1]["n"] = state[1]["n"] + 1
        return state[0]

    out = [step(mx.array([1.0, i])) for i in range(4)] + [step(mx.ones(3), scale=2.0), step(mx.ones(3), scale=2.0)]
    return out, state, len(log)


@program
def random_state_captured():
    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def draw(x):
        return x + mx.random.uniform(shape=x.shape), mx.random.bernoulli(0.5, (4,))

    mx.random.seed(11)
    first = [draw(mx.zeros(3)) for _ in range(3)]
    mx.random.seed(11)
    again = [draw(mx.zeros(3)) for _ in range(3)]
    keys = mx.random.split(mx.random.key(5), 4)
    return first, again, [mx.random.normal((2,), key=k) for k in keys], mx.random.state


@program
def dropout_and_modes():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm(8), nn.Identity())
    x = mx.random.normal((6, 8))
    out = [model(x), model(x)]
    model.eval()
    return out, model(x), model(x), [m.training for m in model.layers]


@program
def indexed_updates():
    a = mx.zeros((5, 6))
    b = a
    a[1] = 2
    a[:, 3] += mx.arange(5)
    a[2:4, ::2] = mx.array([[1.0], [2.0]])
    a[..., -1] = a[..., 0] * 3
    a[mx.array([0, 4]), mx.array([1, 1])] = 7.0
    a[mx.array([0, 0, 0])] += 1
    a[a > 6] = -1.0
    c = a.at[mx.array([0, 0, 1])].add(1.0).at[:, 0].maximum(0.5).at[2, 1:3].multiply(10)
    b -= 1
    return a, b, c, a[None, 1:, [0, 2]], a[::-1, mx.newaxis, 2]


@program
def gradients_through_updates():
    def f(x, y):
        z = x * 1
        z[1:3] = y
        z[mx.array([0, 4])] *= 2
        return (z.at[mx.array([1, 1])].add(x[:2]) ** 2).sum()

    x, y = mx.arange(5.0), mx.array([3.0, 4.0])
    return mx.value_and_grad(f, argnums=(0, 1))(x, y)


@program
def trees():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    flat = tree_flatten(model.parameters())
    back = tree_unflatten(flat)
    names = [name for name, _ in flat]
    double = tree_map(lambda p: p * 2, model.parameters())
    model.update(double)
    model.apply(lambda p: p.astype(mx.float16), filter_fn=lambda m, k, v: k == "bias")
    modules = [name for name, _ in model.named_modules()]
    return [ord(c) for c in "".join(names + modules)], back, model.parameters(), len(flat)


@program
def weights_saved_and_loaded():
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "w"), []
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
        for suffix in (".npz", ".safetensors"):
            model.save_weights(path + suffix)
            other = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
            other.load_weights(path + suffix)
            out.append(other(mx.ones((1, 3))))
        mx.save_safetensors(path + "other", {"x": mx.arange(3), "h": mx.ones((2, 2), mx.bfloat16)}, {"made": "here"})
        arrays, notes = mx.load(path + "other.safetensors", return_metadata=True)
        return out, arrays, len(notes), [str(a.dtype) == "mlx.core.bfloat16" for a in arrays.values()].count(True)


@program
def streams_and_devices():
    s = mx.new_stream(mx.cpu)
    a = mx.add(mx.ones(3), 2, stream=mx.cpu)
    with mx.stream(s):
        b = a * 2
    with mx.stream(mx.cpu):
        c = mx.linalg.inv(mx.eye(3) * 4)
    mx.synchronize(s)
    mx.async_eval(b, c)
    mx.synchronize()
    return a, b, c


@program
def attention_by_hand_and_fast():
    q, k, v = (mx.random.normal((2, 4, 9, 16)) for _ in range(3))
    mask = mx.random.bernoulli(0.7, (9, 9)) | mx.eye(9, dtype=mx.bool_)
    fast = partial(mx.fast.scaled_dot_product_attention, scale=0.25)
    by_hand = mx.softmax(mx.where(mask, (q * 0.25) @ k.swapaxes(-1, -2), -mx.inf), -1) @ v
    return (
        by_hand,
        fast(q, k, v, mask=mask),
        fast(q, k[:, :2], v[:, :2], mask="causal"),
        mx.grad(lambda q: fast(q, k, v, mask=mask).sum())(q),
    )


@program
def beam_search():
    scores, beams = mx.random.normal((6, 10)), [([], 0.0)]
    for row in mx.log(mx.softmax(scores, -1)):
        best = [
            (path + [int(i)], total + row[i].item()) for path, total in beams for i in mx.argpartition(-row, 3)[:3].tolist()
        ]
        beams = sorted(best, key=lambda b: -b[1])[:3]
    return [p for p, _ in beams], [t for _, t in beams]


@program
def nucleus_sampling():
    logits = mx.random.normal((3, 20)) * 3
    order = mx.argsort(-logits, axis=-1)
    ordered = mx.take_along_axis(mx.softmax(logits, -1), order, axis=-1)
    kept = mx.where(mx.cumsum(ordered, -1) - ordered < 0.8, ordered, 0.0)
    choice = mx.random.categorical(mx.log(kept))
    return (
        mx.take_along_axis(order, choice[:, None], axis=-1),
        mx.topk(logits, 4, axis=-1).sum(-1),
        mx.put_along_axis(logits, order[:, 5:], mx.array(-mx.inf), -1),
    )


@program
def linear_regression_by_hand():
    w_star, X = mx.random.normal((10,)), mx.random.normal((100, 10))
    y, w = X @ w_star + 1e-2 * mx.random.normal((100,)), 1e-2 * mx.random.normal((10,))
    gradient = mx.grad(lambda w: 0.5 * mx.mean(mx.square(X @ w - y)))
    for _ in range(60):
        w -= 0.1 * gradient(w)
        mx.eval(w)
    return w, mx.sum(mx.square(w - w_star)).item() ** 0.5 < 0.2


@program
def diffusion_step():
    betas = mx.linspace(1e-4, 0.02, 50)
    bar = mx.cumprod(1 - betas)
    net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8))

    def loss(net, x):
        t, noise = mx.random.randint(0, 50, (x.shape[0],)), mx.random.normal(x.shape)
        a = bar[t][:, None]
        noisy = mx.sqrt(a) * x + mx.sqrt(1 - a) * noise
        return nn.losses.mse_loss(net(mx.concatenate([noisy, t[:, None] / 50], -1)), noise)

    return (
        trained(net, loss, optim.AdamW(optim.exponential_decay(1e-2, 0.9)), [(mx.random.normal((16, 8)),) for _ in range(5)]),
        bar,
    )


@program
def state_space_scan():
    a, b, h, out = mx.sigmoid(mx.random.normal((4,))), mx.random.normal((12, 4)), mx.zeros(4), []
    for x in b:
        h = a * h + x
        out.append(h)
    return mx.stack(out), mx.grad(lambda a: mx.stack([a**i for i in range(5)]).sum())(a)


@program
def k_means():
    x = mx.random.normal((60, 2)) + mx.repeat(mx.array([[0.0, 0], [5, 5], [-5, 5]]), 20, axis=0)
    centres = x[mx.array([0, 20, 40])]
    for _ in range(4):
        label = mx.argmin((x[:, None] - centres[None]).square().sum(-1), axis=1)
        sums = mx.zeros((3, 2)).at[label].add(x)
        centres = sums / mx.maximum(mx.zeros(3).at[label].add(1.0), 1)[:, None]
    return centres, label


@program
def checkpointed_layers():
    layers = [nn.Linear(6, 6) for _ in range(3)]
    model = nn.Sequential(*layers)

    def forward(x):
        for layer in layers:
            x = nn.utils.checkpoint(layer)(x)
        return x.sum()

    x = mx.random.normal((4, 6))
    return forward(x), mx.grad(forward)(x), nn.value_and_grad(model, lambda x: forward(mx.tanh(x)))(x)


@program
def numbers_of_all_kinds():
    import numpy as np

    a = mx.array([1, 2, 3], dtype=mx.int8)
    return (
        a + 1,
        a / 2,
        a // 2,
        a**2,
        a * 2.5,
        1 - a,
        a & 1,
        a << 2,
        mx.array(True) + mx.array(2),
        mx.array([1 + 2j]) * 2,
        a + np.array([0.5, 1.5, 2.5]),
        mx.array(np.float64(1.5)),
        mx.array([1, 2.5, True]),
        mx.array(3).astype(mx.float16) / 3,
        mx.array([250], mx.uint8) + mx.array([10], mx.uint8),
        [str(x.dtype) == "mlx.core.int32" for x in (a + 1, mx.array(True) + 1, mx.sum(a), mx.arange(3))],
    )


@program
def shapes_moved_about():
    x = mx.arange(24).reshape(2, 3, 4)
    return (
        x.transpose(2, 0, 1),
        x.moveaxis(0, -1),
        mx.expand_dims(x, (0, 2)).squeeze(),
        mx.split(x, [1, 3], axis=-1),
        mx.tile(x[0], (2, 1)),
        mx.roll(x, (1, -1), (0, 2)),
        mx.pad(x[0], [(1, 0), (0, 2)], constant_values=9),
        mx.pad(x[0], 1, mode="edge"),
        x.flatten(1),
        mx.unflatten(x, 2, (2, 2)),
        mx.meshgrid(mx.arange(2), mx.arange(3)),
        mx.broadcast_to(x[:, :1], (2, 3, 4)),
        mx.stack([x, x], 1).shape,
        x.reshape(-1, 6)[:, [5, 0]],
        mx.tri(3, 4, 1),
        mx.diagonal(x, 1, 0, 2),
        mx.concatenate([x, x], -2).shape,
        mx.as_strided(x, (3, 3), (5, 1), 2),
    )


@program
def pooling_and_resizing():
    x = mx.random.normal((2, 8, 8, 3))
    return (
        nn.MaxPool2d(2)(x),
        nn.AvgPool2d(3, 2, 1)(x),
        nn.MaxPool1d(2)(x[0]),
        nn.Upsample(2, "linear")(x),
        nn.Upsample((1.5, 2.0), "cubic")(x),
        nn.Upsample(2, "nearest")(x),
        nn.GroupNorm(3, 3)(x),
        nn.InstanceNorm(3)(x),
        nn.Conv3d(3, 2, 2)(x[None]),
        nn.ConvTranspose1d(3, 4, 3, 2)(x[0]),
    )


@program
def activations_and_losses():
    x, y = mx.random.normal((4, 5)), mx.random.uniform(shape=(4, 5))
    names = (
        "relu",
        "gelu",
        "gelu_approx",
        "gelu_fast_approx",
        "silu",
        "mish",
        "elu",
        "selu",
        "celu",
        "softplus",
        "softsign",
        "softmin",
        "hardswish",
        "hard_tanh",
        "log_sigmoid",
        "log_softmax",
        "leaky_relu",
        "relu6",
        "glu",
    )
    out = [getattr(nn, name)(x if name != "glu" else x[:, :4]) for name in names]
    losses = (
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "log_cosh_loss",
        "kl_div_loss",
        "hinge_loss",
        "gaussian_nll_loss",
        "cosine_similarity_loss",
    )
    for name in losses:
        more = (y + 0.1,) if name == "gaussian_nll_loss" else ()
        f = lambda x: mx.sum(getattr(nn.losses, name)(x, y, *more, reduction="none"))
        out += [f(x), mx.grad(f)(x)]
    return out, nn.losses.triplet_loss(x, y, x + 1, reduction="none")


@program
def printed():
    mx.random.seed(2)
    texts = [
        str(a)
        for a in (
            mx.array(1.5),
            mx.arange(20),
            mx.array([[True, False]]),
            mx.array([1 + 2j, -0.5j]),
            mx.zeros((3, 9)),
            mx.array([1e-8, 1e8, mx.nan, mx.inf]),
            mx.array([], mx.float16),
            mx.array([[1, 22], [333, 4]]),
            mx.array([0.1, 1 / 3], mx.bfloat16),
            mx.zeros((2, 2, 2), mx.int8),
        )
    ]
    texts += [
        repr(nn.Linear(2, 3)),
        str(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())),
        str(mx.float32),
        str(mx.cpu),
        f"{mx.array(2.5):.3f}",
        str(mx.array([1]).dtype),
    ]
    return [[ord(c) for c in text] for text in texts]


@program
def mistakes():
    """Which class each raises."""
    a, b = mx.ones((2, 3)), mx.ones((4, 5))
    wrong = (
        lambda: a + b,
        lambda: a @ b,
        lambda: a.reshape(4),
        lambda: mx.concatenate([a, b], 0),
        lambda: a[0, 0, 0],
        lambda: a.item(),
        lambda: mx.grad(lambda x: x)(a),
        lambda: nn.Linear(3, 2)(b),
        lambda: mx.load("no-such-file.npz"),
        lambda: mx.array([[1, 2], [3]]),
        lambda: mx.array("text"),
        lambda: mx.stack([a, b]),
        lambda: mx.split(a, 4, 1),
        lambda: nn.Linear(3, 2).load_weights([("x", a)]),
        lambda: a[1.5],
        lambda: a["x"],
        lambda: mx.vmap(lambda x, y: x + y)(a, b),
        lambda: mx.conv2d(a, b),
        lambda: mx.linalg.inv(a, stream=mx.cpu),
        lambda: mx.random.normal((2,), key=mx.array(3)),
        lambda: a.transpose(0, 0),
        lambda: mx.full((2,), a),
        lambda: int(a),
        lambda: mx.einsum("ij,jk->ik", a, a),
        lambda: mx.quantize(a),
        lambda: a.squeeze(0),
        lambda: optim.Adam("fast").update(nn.Linear(2, 2), {}),
        lambda: nn.losses.cross_entropy(a, mx.array([1.5, 2.0, 3.0])),
        lambda: mx.eval(lambda: a),
        lambda: bool(a),
    )
    out = []
    for f in wrong:
        try:
            f()
            out.append([0])
        except Exception as why:
            out.append([ord(c) for c in type(why).__name__])
    return out


def numbers(tree):
    """All numbers of a tree, in order."""
    import numpy as np

    if isinstance(tree, mx.array):
        a = np.array(tree.astype(mx.float32) if tree.dtype == mx.bfloat16 else tree).ravel()
        return [float(x) for x in (np.stack([a.real, a.imag], -1).ravel() if a.dtype.kind == "c" else a)]
    if isinstance(tree, dict):
        tree = [tree[key] for key in sorted(tree)]
    return [float(tree)] if isinstance(tree, (int, float)) else [x for item in tree for x in numbers(item)]


def results(only):
    found = {}
    for name, function in PROGRAMS.items():
        if only in name:
            mx.random.seed(42)
            try:
                found[name] = numbers(function())
            except Exception as why:
                found[name] = f"{type(why).__name__}: {why} | " + " < ".join(
                    f"{f.name}:{f.lineno}" for f in reversed(traceback.extract_tb(why.__traceback__))
                )
    return found


def apart(a, b):
    """How far two results are apart, of a number or of 1; inf: they are not comparable."""
    if isinstance(a, str) or isinstance(b, str) or len(a) != len(b):
        return math.inf
    same = lambda x, y: x == y or x != x and y != y
    return max(
        (
            0.0 if same(x, y) else abs(x - y) / max(abs(y), 1) if math.isfinite(x) and math.isfinite(y) else math.inf
            for x, y in zip(a, b)
        ),
        default=0.0,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--bound", type=float, default=1e-4)
    arguments = parser.parse_args()
    if not arguments.both:
        return print(json.dumps(results(arguments.only)))
    found = []
    for prefix in (["-m", "weft.mlx"], []):
        done = subprocess.run([sys.executable, *prefix, __file__, "--only", arguments.only], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    ours, theirs = found
    differ = [name for name in ours if not apart(ours[name], theirs[name]) <= arguments.bound]
    for name in ours:
        a, b = ours[name], theirs[name]
        print(
            f"{name:36}{len(a) if isinstance(a, list) else 0:6} numbers, {apart(a, b):8.1e} apart{'  DIFFERS' if name in differ else ''}"
        )
        if name in differ:
            at = (
                next((i for i, (x, y) in enumerate(zip(a, b)) if apart([x], [y]) > arguments.bound), 0)
                if isinstance(a, list) and isinstance(b, list)
                else 0
            )
            for who, x in (("weft", a), ("MLX", b)):
                print(f"    {who:5}", x if isinstance(x, str) else f"{len(x)} numbers, from {at} on {x[at:at + 5]}")
    print(f"{len(ours)} programs, {len(differ)} differ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
