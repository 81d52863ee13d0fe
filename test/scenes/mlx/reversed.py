# A compiled function reads a view that runs backwards, and writes into one.
import mlx.core as mx

x = mx.array([1.0, 2.0, 3.0, 4.0])
fn = mx.compile(lambda x: 2 * x[::-1])
out = fn(x)
print(out)
assert mx.array_equal(out, mx.array([8.0, 6.0, 4.0, 2.0])), out


@mx.compile
def update(a, b):
    a[::-1] += 3 * b
    return a


out = update(mx.zeros((4,)), x)
print(out)
assert mx.array_equal(out, mx.array([12.0, 9.0, 6.0, 3.0])), out
print(mx.grad(lambda x: (fn(x) * mx.arange(4)).sum())(x))
