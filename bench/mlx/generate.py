"""mlx-lm, as it is, generates from a made-up 4-bit Llama (8 layers, 512 wide, random weights), on weft and on MLX itself.

    python bench/mlx/generate.py --both       # tokens and tokens a second of both
    python -m weft.mlx bench/mlx/generate.py  # on weft

mlx-lm and mlx must be installed. The weights are made once, by NumPy, and quantised by MLX's own mode."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def made_up(layers, width):
    import mlx.core as mx
    import mlx.nn as nn
    import numpy as np
    from mlx.utils import tree_map
    from mlx_lm.models import llama

    model = llama.Model(llama.ModelArgs(model_type="llama", hidden_size=width, num_hidden_layers=layers, intermediate_size=width * 2,
                                        num_attention_heads=8, num_key_value_heads=4, rms_norm_eps=1e-5, vocab_size=1000))
    rng = np.random.default_rng(3)
    model.update(tree_map(lambda p: mx.array((rng.standard_normal(p.shape) * 0.05).astype(np.float32)), model.parameters()))
    nn.quantize(model, group_size=64, bits=4)
    return model


def generate(n, layers, width, folder):
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    model = made_up(layers, width)
    path = os.path.join(folder, "weights.safetensors")
    model.save_weights(path)
    model.load_weights(path)
    mx.eval(model.parameters())
    prompt, tokens, taken = mx.array(list(range(10, 42))), [], []
    at, worked = [], []
    for token, _ in generate_step(prompt, model, max_tokens=n):
        tokens.append(int(token))
        at.append(time.perf_counter())  # the first without the prompt
        worked.append(time.process_time())
        taken.append(mx.get_peak_memory() - mx.get_active_memory())
        mx.reset_peak_memory()
    third = n // 3
    early, late = (sorted(part)[len(part) // 2] for part in (taken[third:2 * third], taken[2 * third:]))
    return tokens, (n - 1) / (at[-1] - at[0]), (worked[-1] - worked[0]) / (n - 1) * 1e3, early, late


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--both", action="store_true")
    arguments = parser.parse_args()
    more = ["--tokens", str(arguments.tokens), "--layers", str(arguments.layers), "--width", str(arguments.width)]
    if not arguments.both:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(generate(arguments.tokens, arguments.layers, arguments.width, folder)))
        return
    found = {}
    for name, prefix in (("weft", ["-m", "weft.mlx"]), ("MLX", [])):
        done = subprocess.run([sys.executable, *prefix, __file__, *more], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found[name] = json.loads(done.stdout.strip().splitlines()[-1])
        speed, work, early, late = found[name][1:]
        print(f"{name:5} {speed:8.1f} tokens/s, {work:.2f} ms of processors each; "
              f"a token takes {early} bytes beside what stays, later {late}")
    same = [a == b for a, b in zip(found["weft"][0], found["MLX"][0])]
    print(f"{sum(same)} of {len(same)} tokens are the same")


if __name__ == "__main__":
    main()
