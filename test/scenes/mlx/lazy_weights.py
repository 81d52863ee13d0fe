# Weights that are loaded lazily go straight into a compiled forward pass, from several threads.
import os
import tempfile
import threading

import mlx.core as mx

mx.random.seed(0)
folder = tempfile.mkdtemp()
path = os.path.join(folder, "weights.safetensors")
mx.save_safetensors(path, {f"w{i}": mx.random.normal((64, 64)) * 0.1 for i in range(4)})
x = mx.random.normal((8, 64))
mx.eval(x)


def forward(weights, x):
    for i in range(4):
        x = x + mx.tanh(mx.fast.rms_norm(x, None, 1e-5) @ weights[f"w{i}"])
    return x


compiled = mx.compile(forward)
right = forward(mx.load(path), x)
mx.eval(right)
wrong = []


def work():
    for _ in range(20):
        out = compiled(mx.load(path), x)  # the weights are not read yet
        mx.eval(out)
        if not mx.allclose(out, right, 1e-5, 1e-5).item():
            wrong.append(out)


threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
os.remove(path)
print("passes that were wrong:", len(wrong))
assert not wrong
