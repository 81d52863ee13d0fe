"""Trainings of mlx.nn, on weft and on MLX itself: the same program, the same seeds. Prints losses and the time of a step.

    PYTHONPATH=build/release/python python -m weft.mlx bench/mlx/train.py    # on weft
    python bench/mlx/train.py                                                # on MLX
    python bench/mlx/train.py --both                                         # both, side by side, interleaved
    python bench/mlx/train.py --keep FILE                                    # on MLX: its losses, for a machine without it
    WEFT_DEVICE=1 python -m weft.mlx bench/mlx/train.py --against FILE       # on weft: how far its losses are from those kept
    WEFT_DEVICE=1 python -m weft.mlx bench/mlx/train.py --copies             # what a step copies from and to a GPU; needs torch

Parameters are made by NumPy, so that both begin with the same bits."""
import argparse
import json
import subprocess
import sys
import tempfile
import time

MODELS = ("mlp", "conv", "lstm", "transformer")


def build(name):
    import mlx.core as mx
    import mlx.nn as nn
    import numpy as np

    rng = np.random.default_rng(7)

    class Net(nn.Module):
        def __init__(self, **layers):
            super().__init__()
            for key, layer in layers.items():
                setattr(self, key, layer)

    def draw(*shape):
        return mx.array(rng.standard_normal(shape).astype(np.float32))

    if name == "mlp":  # 784-256-256-10, a batch of 64
        class Model(Net):
            def __call__(self, x):
                return self.c(nn.relu(self.b(nn.relu(self.a(x)))))
        model = Model(a=nn.Linear(784, 256), b=nn.Linear(256, 256), c=nn.Linear(256, 10))
        x, y = draw(64, 784), mx.array(rng.integers(0, 10, 64).astype(np.int32))
    elif name == "conv":  # two convolutions of 3 x 3 on 28 x 28, a batch of 16
        class Model(Net):
            def __call__(self, x):
                x = self.pool(nn.relu(self.a(x)))
                x = self.pool(nn.relu(self.b(x)))
                return self.c(x.reshape(x.shape[0], -1))
        model = Model(a=nn.Conv2d(1, 8, 3, padding=1), b=nn.Conv2d(8, 16, 3, padding=1), pool=nn.MaxPool2d(2, 2), c=nn.Linear(784, 10))
        x, y = draw(16, 28, 28, 1), mx.array(rng.integers(0, 10, 16).astype(np.int32))
    elif name == "lstm":  # 32 steps of 64, a batch of 8
        class Model(Net):
            def __call__(self, x):
                return self.c(self.a(x)[0][:, -1])
        model = Model(a=nn.LSTM(32, 64), c=nn.Linear(64, 10))
        x, y = draw(8, 32, 32), mx.array(rng.integers(0, 10, 8).astype(np.int32))
    else:  # two layers, 64 wide, 4 heads, 64 tokens, a batch of 4
        class Model(Net):
            def __call__(self, x):
                mask = nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1])
                return self.c(self.b(self.a(x), mask)).mean(1)
        model = Model(a=nn.Embedding(100, 64), b=nn.TransformerEncoder(2, 64, 4, 128), c=nn.Linear(64, 10))
        x, y = mx.array(rng.integers(0, 100, (4, 64)).astype(np.int32)), mx.array(rng.integers(0, 10, 4).astype(np.int32))

    from mlx.utils import tree_map
    model.update(tree_map(lambda p: mx.array((rng.standard_normal(p.shape) * 0.1).astype(np.float32)), model.parameters()))
    return model, x, y


def stepping(name, is_compiled):
    """A function without arguments that makes a step, evaluates it and returns its loss."""
    from functools import partial

    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim

    model, x, y = build(name)
    optimizer = optim.AdamW(learning_rate=1e-3)
    mx.eval(model.parameters())
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    def loss_of(model, x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    def step(x, y):
        loss, gradients = nn.value_and_grad(model, loss_of)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    if is_compiled:
        step = partial(mx.compile, inputs=state, outputs=state)(step)

    def whole():
        loss = step(x, y)
        mx.eval(state, loss)
        return loss

    return whole


def train(name, steps, is_compiled):
    """The losses of the steps asked for, and of a step, in ms, the shortest of as many in at least two seconds: the time elapsed, and
    the processor's, of all threads together. The shortest is what is left of a measurement on a machine that has other work."""
    step, losses, elapsed, work = stepping(name, is_compiled), [], float("inf"), float("inf")
    end = time.perf_counter() + 2
    while len(losses) < steps or time.perf_counter() < end:
        began, worked = time.perf_counter(), time.process_time()
        loss = step()
        elapsed, work = min(elapsed, time.perf_counter() - began), min(work, time.process_time() - worked)
        losses.append(loss.item())
    return losses[:steps], elapsed * 1000, work * 1000


def copies(name, is_compiled, steps=10):
    """{direction: (copies a step, bytes a step)} between host and GPU, as CUPTI sees them: all of this process."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")
    step = stepping(name, is_compiled)
    for _ in range(3):
        step().item()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            step().item()
        torch.cuda.synchronize()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        seen.export_chrome_trace(f"{folder}/trace.json")  # events as Python sees them have no sizes
        events = json.load(open(f"{folder}/trace.json"))["traceEvents"]
    for event in events:
        if event.get("cat") == "gpu_memcpy":
            key = event["name"].split(" (")[0]
            n, size = found.get(key, (0, 0))
            found[key] = n + 1, size + event["args"]["bytes"]
    return {key: (n / steps, size / steps) for key, (n, size) in found.items()}


def both(arguments):
    """Runs the program under weft and under MLX in turn, and prints a table."""
    print(f"{'the shortest step, ms':21}{'weft':>9}{'MLX':>9}{'':7}{'weft':>9}{'MLX':>9}{'':7}  last loss on weft and MLX; how far losses are apart")
    print(f"{'':21}{'elapsed':>18}{'ratio':>7}{'processor':>18}{'ratio':>7}")
    for name in arguments.models:
        for how in ("eager", "compiled"):
            found = {}
            for prefix in (["-m", "weft.mlx"], []):
                done = subprocess.run([sys.executable, *prefix, __file__, "--models", name, "--how", how, "--steps",
                                       str(arguments.steps), "--json"], capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stderr)
                found[bool(prefix)] = json.loads(done.stdout)
            (ours, mine, work), (theirs, other, more) = found[True], found[False]
            apart = max(abs(a - b) for a, b in zip(ours, theirs))
            print(f"{name:12}{how:9}{mine:9.2f}{other:9.2f}{other / mine:7.1f}{work:9.2f}{more:9.2f}{more / work:7.1f}  "
                  f"{ours[-1]:.6f} {theirs[-1]:.6f} {apart:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--how", default="compiled", choices=("eager", "compiled"))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--keep", metavar="FILE")
    parser.add_argument("--against", metavar="FILE")
    parser.add_argument("--copies", action="store_true")
    arguments = parser.parse_args()
    if arguments.both:
        return both(arguments)
    kept = json.load(open(arguments.against)) if arguments.against else {}
    for name in arguments.models:
        if arguments.copies:
            print(f"{name:12} {arguments.how:9}", *(f"{key} {n:g} of {size:g} bytes;" for key, (n, size) in
                                                    copies(name, arguments.how == "compiled").items()), "a step", flush=True)
            continue
        losses, ms, work = train(name, arguments.steps, arguments.how == "compiled")
        if name in kept:
            print(f"{name:12} losses are within {max(abs(a - b) for a, b in zip(losses, kept[name])):.1e} of those kept")
        elif arguments.keep:
            kept[name] = losses
        if arguments.json:
            print(json.dumps([losses, ms, work]))
        else:
            print(f"{name:12} {arguments.how:9} {ms:9.2f} ms elapsed, {work:9.2f} ms of processors; loss {losses[0]:.6f} to {losses[-1]:.6f}", flush=True)
    if arguments.keep:
        json.dump(kept, open(arguments.keep, "w"))


if __name__ == "__main__":
    main()
