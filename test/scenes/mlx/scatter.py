# Many updates of few places by multiplication, with a NaN among them.
import mlx.core as mx

n = 4096
idx = mx.arange(n) % 3
updates = mx.where(mx.arange(n) == 1000, mx.array(float("nan")), mx.array(1.0))
out = mx.ones((7,)).at[idx].multiply(updates)
mx.eval(out)
print(out)
assert mx.isnan(out).tolist() == [False, True, False, False, False, False, False]
assert out[0].item() == 1 and out[2].item() == 1
for dtype in (mx.float16, mx.bfloat16, mx.float32):
    for how in ("add", "multiply", "maximum", "minimum"):
        out = getattr(mx.ones((7,), dtype).at[idx], how)(updates.astype(dtype))
        assert mx.isnan(out).tolist() == [False, True, False, False, False, False, False], (dtype, how)
