# NaN and infinities as constants of a compiled function, and the gradient of a norm at 0.
import math

import mlx.core as mx

nan, inf = mx.array(float("nan")), mx.array(float("inf"))


@mx.compile
def mask(x):
    return mx.where(x > 0, x, nan) + mx.where(x > 2, inf, mx.array(0.0))


out = mask(mx.array([-1.0, 1.0, 3.0]))
print(out)
assert mx.isnan(out).tolist() == [True, False, False] and out[1].item() == 1 and math.isinf(out[2].item())

safe = mx.compile(lambda x: mx.nan_to_num(x, nan=0.0, posinf=1e4, neginf=-1e4))
assert safe(mx.array([float("nan"), float("inf"), 1.0])).tolist() == [0.0, 1e4, 1.0]

g = mx.compile(mx.grad(lambda x: mx.linalg.norm(x)))(mx.array([3.0, 4.0]))
print(g)
assert mx.allclose(g, mx.array([0.6, 0.8]))
