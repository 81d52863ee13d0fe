"""The works of bench/device.c by PyTorch, eager and compiled, on the first GPU: a line of JSON each, medians of rounds of
many calls by events.

    python3 bench/device_torch.py [--eager | --compiled] [text ..]    one of the two; only works whose name contains a text
"""
import json
import sys
import torch

dev = "cuda"


def f(*dims, dtype=torch.float32):
    return (torch.rand(*dims, device=dev) * 2 - 1).to(dtype)


def indices(n, below):
    return torch.randint(0, below, (n,), device=dev)


def skewed(n, below):
    return (below * torch.rand(n, device=dev) ** 4).long().clamp_(max=below - 1)


def with_nan(*dims):
    """One in a hundred is NaN."""
    x = f(*dims)
    return torch.where(x > 0.98, torch.nan, x)


def definite(*dims):
    a = f(*dims)
    return a @ a.mT + dims[-1] * torch.eye(dims[-1], device=dev)


def rms(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def put(how):
    return lambda b, i, v: b.index_add(0, i, v) if how == "add" else b.scatter_reduce(0, i, v, "prod")


def half(*dims, scale=1.0):
    return (f(*dims) * scale).to(torch.bfloat16)


def attention(q, k, v, is_causal=True):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def heads():
    return tuple(half(8, 16, 4096, 64) for _ in range(3))


def attention_grad(q, k, v, dy):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return torch.autograd.grad(attention(q, k, v), (q, k, v), dy)


def block(x, g1, w_qkv, w_out, g2, w_up, w_down):
    norm = lambda t, g: torch.nn.functional.rms_norm(t, (768,), g, 1e-6)
    split = lambda t: t.reshape(8, 1024, 12, 64).transpose(1, 2)
    o = attention(*(split(t) for t in (norm(x, g1) @ w_qkv).chunk(3, -1)))
    x = x + o.transpose(1, 2).reshape(8, 1024, 768) @ w_out
    return x + torch.nn.functional.gelu(norm(x, g2) @ w_up, approximate="tanh") @ w_down


def block_grad(x, *weights):
    weights = [w.detach().requires_grad_() for w in weights]
    return torch.autograd.grad((block(x, *weights).float() ** 2).mean(), weights)


def weights():
    one = torch.ones(768, device=dev, dtype=torch.bfloat16)
    w = [half(m, n, scale=0.03) for m, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768))]
    return half(8, 1024, 768), one, w[0], w[1], one, w[2], w[3]


def stencil(x):
    return x[:-2, 1:-1] + x[2:, 1:-1] + (x[1:-1, :-2] + x[1:-1, 2:]) - 4 * x[1:-1, 1:-1]


def volume(x):
    y = x[1:-1, 1:-1, 1:-1]
    rows, columns = x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1], x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:]
    return x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + rows + columns - 6 * y


def adamw(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
    return 0.9999 * p - 1e-3 * m / (v.abs().sqrt() + 1e-8), m, v


def entropy(x, i):
    return torch.nn.functional.cross_entropy(x.float(), i)


def convolution(dtype):
    """Channels side by side, as in weft's row."""
    last = torch.channels_last
    return (lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
            lambda: (f(32, 64, 56, 56, dtype=dtype).to(memory_format=last), f(64, 64, 3, 3, dtype=dtype).to(memory_format=last)))


def depthwise(x, w):
    return torch.nn.functional.conv2d(x, w, padding=3, groups=96)


def channels(n):
    """Channels side by side, as in weft's row."""
    return f(n, 56, 56, 96).permute(0, 3, 1, 2), f(96, 1, 7, 7)


N = 1 << 26
works = {
    "copy-64M-f32": (torch.neg, lambda: (f(N),)),
    "fma-64M-f32": (lambda a, b, c: a * b + c, lambda: (f(N), f(N), f(N))),
    "gelu-residual-64M-f32": (lambda x, r, s: torch.nn.functional.gelu(x, approximate="tanh") * s + r, lambda: (f(N), f(N), f(1))),
    "gelu-residual-64M-bf16": (lambda x, r, s: torch.nn.functional.gelu(x, approximate="tanh") * s + r,
                               lambda: tuple(f(n, dtype=torch.bfloat16) for n in (N, N, 1))),
    "rmsnorm-8192x4096-f32": (rms, lambda: (f(8192, 4096), f(4096))),
    "rmsnorm-grad-8192x4096-f32": (torch.func.grad(lambda x, w: (rms(x, w) ** 2).sum(), argnums=(0, 1)), lambda: (f(8192, 4096), f(4096))),
    "softmax-8192x4096-f32": (lambda x: torch.softmax(x, -1), lambda: (f(8192, 4096),)),
    "softmax-65536x512-f32": (lambda x: torch.softmax(x, -1), lambda: (f(65536, 512),)),
    "softmax-2048x16384-f32": (lambda x: torch.softmax(x, -1), lambda: (f(2048, 16384),)),
    "softmax-1x128256-f32": (lambda x: torch.softmax(x, -1), lambda: (f(1, 128256),)),
    "softmax-1024x50257-f32": (lambda x: torch.softmax(x, -1), lambda: (f(1024, 50257),)),
    "sum-all-64M-f32": (torch.sum, lambda: (f(N),)),
    "sum-axis0-8192x4096": (lambda x: x.sum(0), lambda: (f(8192, 4096),)),
    "sum-axis1-8192x4096": (lambda x: x.sum(1), lambda: (f(8192, 4096),)),
    "logsumexp-axis0-8192x4096": (lambda x: torch.logsumexp(x, 0), lambda: (f(8192, 4096),)),
    "reverse-mul-64M-f32": (lambda x: 2 * torch.flip(x, (0,)), lambda: (f(N),)),
    "transpose-8192x8192-f32": (lambda x: (2 * x).T.contiguous(), lambda: (f(8192, 8192),)),
    "transpose-add-8192x8192-f32": (lambda x, y: x.T + y, lambda: (f(8192, 8192), f(8192, 8192))),
    "strided-128M-f32": (lambda x: 2 * x[::2], lambda: (f(2 * N),)),
    "channels-4194304x3-f32": (lambda x, m: (x - m) * 2, lambda: (f(4194304, 3), f(3))),
    "strided-columns-8192x16384-f32": (lambda x: 2 * x[:, ::2], lambda: (f(8192, 16384),)),
    "stencil-8192x8192-f32": (stencil, lambda: (f(8192, 8192),)),
    "stencil-8192x8192-bf16": (stencil, lambda: (f(8192, 8192, dtype=torch.bfloat16),)),
    "stencil-400x400x400-f32": (volume, lambda: (f(400, 400, 400),)),
    "differences-64M-f32": (lambda x: x[1:] - x[:-1], lambda: (f(N),)),
    "by-heads-8x4096x16x64-bf16": (lambda x: (2 * x).transpose(1, 2).contiguous(), lambda: (f(8, 4096, 16, 64, dtype=torch.bfloat16),)),
    "joined-8192x4096-f32": (lambda x, y: torch.cat((x, y), 1), lambda: (f(8192, 4096), f(8192, 4096))),
    "sum-axis1-8192x8192-bf16": (lambda x: x.sum(1), lambda: (f(8192, 8192, dtype=torch.bfloat16),)),
    "sum-axis1-8192x8193-bf16": (lambda x: x.sum(1), lambda: (f(8192, 8193, dtype=torch.bfloat16),)),
    "max-axis1-8192x8192-bf16": (lambda x: x.amax(1), lambda: (f(8192, 8192, dtype=torch.bfloat16),)),
    "argmax-8192x8192-f32": (lambda x: x.argmax(1), lambda: (f(8192, 8192),)),
    "batch-norm-32x64x112x112-f32": (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), lambda: (f(32, 64, 112, 112),)),
    "adamw-64M-f32": (adamw, lambda: (f(N), f(N), f(N), f(N))),
    "cross-entropy-8192x50257-bf16": (entropy, lambda: (f(8192, 50257, dtype=torch.bfloat16), indices(8192, 50257))),
    "cross-entropy-grad-8192x50257-bf16": (torch.func.grad(entropy), lambda: (f(8192, 50257, dtype=torch.bfloat16), indices(8192, 50257))),
    "softmax-axis0-8192x4096-f32": (lambda x: torch.softmax(x, 0), lambda: (f(8192, 4096),)),
    "softmax-393216x64-f32": (lambda x: torch.softmax(x, -1), lambda: (f(393216, 64),)),
    "argmax-axis0-8192x4096-f32": (lambda x: x.argmax(0), lambda: (f(8192, 4096),)),
    "cumsum-axis0-8192x4096-f32": (lambda x: x.cumsum(0), lambda: (f(8192, 4096),)),
    "max-pool-32x64x112x112-f32": (lambda x: torch.nn.functional.max_pool2d(x, 2), lambda: (f(32, 64, 112, 112),)),
    "batch-norm-32x112x112x64-f32": (lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
                                     lambda: (f(32, 64, 112, 112).to(memory_format=torch.channels_last),)),
    "query-8x16x1x64-of-2048-bf16": (lambda q, k: torch.softmax(q @ k.mT * 0.125, -1) @ k,
                                     lambda: (f(8, 16, 1, 64, dtype=torch.bfloat16), f(8, 16, 2048, 64, dtype=torch.bfloat16))),
    "matmul-65536x8x8-f32": (torch.matmul, lambda: (f(65536, 8, 8), f(65536, 8, 8))),
    "scatter-add-16M-into-1024": (put("add"), lambda: (f(1024), indices(1 << 24, 1024), f(1 << 24))),
    "scatter-add-16M-nan-into-1024": (put("add"), lambda: (f(1024), indices(1 << 24, 1024), with_nan(1 << 24))),
    "scatter-add-16M-into-1048576": (put("add"), lambda: (f(1 << 20), indices(1 << 24, 1 << 20), f(1 << 24))),
    "scatter-prod-16M-into-1024": (put("prod"), lambda: (f(1024), indices(1 << 24, 1024), f(1 << 24))),
    "scatter-prod-16M-nan-into-1024": (put("prod"), lambda: (f(1024), indices(1 << 24, 1024), with_nan(1 << 24))),
    "scatter-prod-16M-into-1048576": (put("prod"), lambda: (f(1 << 20), indices(1 << 24, 1 << 20), f(1 << 24))),
    "scatter-add-65536x768-into-1000": (put("add"), lambda: (f(1000, 768), indices(65536, 1000), f(65536, 768))),
    "scatter-add-65536x768-skewed-into-50257": (put("add"), lambda: (f(50257, 768), skewed(65536, 50257), f(65536, 768))),
    "depthwise-8x56x56x96-7x7-f32": (depthwise, lambda: channels(8)),
    "depthwise-1x56x56x96-7x7-f32": (depthwise, lambda: channels(1)),
    "gather-65536x768": (lambda e, i: e[i], lambda: (f(50257, 768), indices(65536, 50257))),
    "gather-16M-of-1M-f32": (lambda e, i: e[i], lambda: (f(1 << 20), indices(1 << 24, 1 << 20))),
    "cumsum-16M-f32": (lambda x: x.cumsum(0), lambda: (f(1 << 24),)),
    "cummax-16M-f32": (lambda x: x.cummax(0).values, lambda: (f(1 << 24),)),
    "cumsum-rows-4096x4096": (lambda x: x.cumsum(1), lambda: (f(4096, 4096),)),
    "sort-16M-f32": (lambda x: x.sort().values, lambda: (f(1 << 24),)),
    "argsort-16M-f32": (lambda x: x.argsort(stable=True), lambda: (f(1 << 24),)),
    "sort-rows-65536x256-f32": (lambda x: x.sort(1).values, lambda: (f(65536, 256),)),
    "topk-100-of-16M-f32": (lambda x: x.topk(100).values, lambda: (f(1 << 24),)),
    "histogram-100-of-16M-f32": (lambda x: torch.histc(x, 100, -1, 1), lambda: (f(1 << 24),)),
    "cholesky-2048-f32": (torch.linalg.cholesky, lambda: (definite(2048, 2048),)),
    "cholesky-4096x32x32-f32": (torch.linalg.cholesky, lambda: (definite(4096, 32, 32),)),
    "solve-2048x64-f32": (torch.linalg.solve, lambda: (definite(2048, 2048), f(2048, 64))),
    "uniform-64M-f32": (torch.rand_like, lambda: (f(N),)),
    "normal-64M-f32": (torch.randn_like, lambda: (f(N),)),
    "conv-32x56x56x64-3x3-f32": convolution(torch.float32),
    "conv-32x56x56x64-3x3-bf16": convolution(torch.bfloat16),
    "matmul-1x8192x8192-bf16": (torch.matmul, lambda: (f(1, 8192, dtype=torch.bfloat16), f(8192, 8192, dtype=torch.bfloat16))),
    "matmul-8x8192x8192-bf16": (torch.matmul, lambda: (f(8, 8192, dtype=torch.bfloat16), f(8192, 8192, dtype=torch.bfloat16))),
    "matmul-8x1x4096x14336-bf16": (torch.matmul, lambda: (f(8, 1, 4096, dtype=torch.bfloat16), f(4096, 14336, dtype=torch.bfloat16))),
    "matmul-8x4x1024x128-bf16": (torch.matmul, lambda: (f(8, 4, 1024, dtype=torch.bfloat16), f(8, 1024, 128, dtype=torch.bfloat16))),
    "matmul-20x1000000x20-f32": (torch.matmul, lambda: (f(20, 1000000), f(1000000, 20))),
    "matmul-4096x50257x768-bf16": (torch.matmul, lambda: (f(4096, 50257, dtype=torch.bfloat16), f(50257, 768, dtype=torch.bfloat16))),
    "matmul-1x8192x8192-f32": (torch.matmul, lambda: (f(1, 8192), f(8192, 8192))),
    "matmul-4096x64x64-f32": (torch.matmul, lambda: (f(4096, 64, 64), f(4096, 64, 64))),
    "matmul-4096x64x64-bf16": (torch.matmul, lambda: tuple(f(4096, 64, 64, dtype=torch.bfloat16) for _ in range(2))),
    "matmul-256x784x32-f32": (torch.matmul, lambda: (f(256, 784), f(784, 32))),
    "matmul-100000x147x64-f32": (torch.matmul, lambda: (f(100000, 147), f(147, 64))),
    "matmul-1024-f32": (torch.matmul, lambda: (f(1024, 1024), f(1024, 1024))),
    "matmul-4096-f32": (torch.matmul, lambda: (f(4096, 4096), f(4096, 4096))),
    "matmul-1024-f64": (torch.matmul, lambda: tuple(f(1024, 1024, dtype=torch.float64) for _ in range(2))),
    "matmul-8192-f32": (torch.matmul, lambda: (f(8192, 8192), f(8192, 8192))),
    "matmul-4096-tf32": (torch.matmul, lambda: (f(4096, 4096), f(4096, 4096))),
    "matmul-8192-tf32": (torch.matmul, lambda: (f(8192, 8192), f(8192, 8192))),
    "matmul-4096-bf16": (torch.matmul, lambda: tuple(f(4096, 4096, dtype=torch.bfloat16) for _ in range(2))),
    "matmul-8192-bf16": (torch.matmul, lambda: tuple(f(8192, 8192, dtype=torch.bfloat16) for _ in range(2))),
    "matmul-gelu-4096-bf16": (lambda a, b: torch.nn.functional.gelu(a @ b, approximate="tanh"),
                              lambda: tuple(f(4096, 4096, dtype=torch.bfloat16) for _ in range(2))),
    "attention-8x16x4096x64-bf16": (lambda q, k, v: attention(q, k, v, False), heads),
    "attention-causal-8x16x4096x64-bf16": (attention, heads),
    "attention-grad-8x16x4096x64-bf16": (attention_grad, lambda: heads() + (half(8, 16, 4096, 64),)),
    "attention-causal-8x16x1024x64-f32": (attention, lambda: tuple(f(8, 16, 1024, 64) for _ in range(3))),
    "block-8x1024x768-bf16": (block, weights),
    "block-grad-8x1024x768-bf16": (block_grad, weights),
    "layernorm-8192x4096-bf16": (lambda x: torch.nn.functional.layer_norm(x, (4096,)), lambda: (f(8192, 4096, dtype=torch.bfloat16),)),
    "cast-64M-f32-bf16": (lambda x: x.to(torch.bfloat16), lambda: (f(N),)),
    "cast-64M-bf16-f32": (lambda x: x.to(torch.float32), lambda: (f(N, dtype=torch.bfloat16),)),
    "matmul-1024-bf16": (torch.matmul, lambda: tuple(f(1024, 1024, dtype=torch.bfloat16) for _ in range(2))),
}


def round_ms(run, repeats):
    """Of one of so many calls, one enqueued after the other."""
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(repeats):
        run()
    b.record(), torch.cuda.synchronize()
    return a.elapsed_time(b) / repeats


def median_ms(run, rounds=7):
    """Rounds of as many calls as take 10 ms, 2 to 50, as bench/device has them."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    repeats = max(2, min(50, int(10 / round_ms(run, 1))))
    return sorted(round_ms(run, repeats) for _ in range(rounds))[rounds // 2]


def measure(system, wrap, texts):
    for name, (work, operands) in works.items():
        if not texts or any(t in name for t in texts):
            torch.set_float32_matmul_precision("high" if "tf32" in name else "highest")
            torch.backends.cudnn.allow_tf32 = "tf32" in name
            x, g = operands(), wrap(work)
            ms = median_ms(lambda: g(*x))
            print(json.dumps({"work": name, "system": system, "ms": round(ms, 4)}), flush=True)


texts = [t for t in sys.argv[1:] if not t.startswith("--")]
if "--compiled" not in sys.argv:
    measure("torch", lambda work: work, texts)
if "--eager" not in sys.argv:
    measure("torch.compile", torch.compile, texts)
