"""Views that run backwards: read by compiled functions, written by fused updates, differentiated, and in loops."""
import itertools

import scene

np, weft = scene.start("compile(2 x[::-1]) gives zeros; a fused write into a[::-1] writes one element")
n_views = 0


def backwards(rank):
    """Every index that reverses at least one axis."""
    for axes in itertools.product([False, True], repeat=rank):
        if any(axes):
            yield tuple(slice(None, None, -1) if axis else slice(None) for axis in axes)


def expect_equal(got, right, what):
    scene.expect(np.array_equal(np.asarray(got), right), f"{what}: {np.asarray(got)}")


def read(a, index):
    x = weft.array(a)
    expect_equal(weft.compile(lambda x: 2 * x[index])(x), 2 * a[index], f"2 x[{index}]")
    expect_equal(weft.compile(lambda x: 2 * x[index] + x)(x), 2 * a[index] + a, f"2 x[{index}] + x")
    expect_equal(2 * weft.asarray(a[index]), 2 * a[index], f"2 x, x = NumPy's a[{index}]")


def write(a, index):
    x, v, right = weft.array(a), weft.array(a), a.copy()
    right[index] += 3 * a
    x[index] += 3 * v
    expect_equal(x, right, f"x[{index}] += 3 v")

    def update(x, v):
        x[index] += 3 * v
        return x * 2
    expect_equal(weft.compile(update)(weft.array(a), v), 2 * right, f"x[{index}] += 3 v, compiled")


def differentiate(a, index):
    w = np.arange(a.size, dtype=np.float32).reshape(a.shape)
    dx = weft.grad(lambda x: (2 * x[index] * weft.array(w)).sum())(weft.array(a))
    expect_equal(dx, 2 * w[index], f"the gradient of x[{index}]")


def loop_gradient(steps):
    """h_t = tanh(a h_{t-1} + x_t): the gradient walks the trace from its end."""
    x, w, a = np.sin(np.arange(steps)), np.cos(3 * np.arange(steps)), 0.7

    def loss(x, a):
        def step(h, x_t):
            h = weft.tanh(a * h + x_t)
            return h, h
        return (weft.scan(step, weft.zeros((), dtype=x.dtype), x)[1] * weft.array(w).astype(x.dtype)).sum()

    dx, da = weft.grad(loss, argnums=(0, 1))(weft.array(x.astype(np.float32)), weft.array(np.float32(a)))
    h = np.zeros(steps + 1)
    for t in range(steps):
        h[t + 1] = np.tanh(a * h[t] + x[t])
    back, right = 0.0, np.zeros(steps)
    for t in reversed(range(steps)):
        right[t] = (back + w[t]) * (1 - h[t + 1] ** 2)
        back = right[t] * a
    by_a = right @ h[:-1]
    scene.expect(np.abs(np.asarray(dx) - right).max() < 1e-4, f"the gradient of {steps} steps by x")
    scene.expect(abs(da.item() - by_a) < 1e-3 * (1 + abs(by_a)), f"the gradient of {steps} steps by a")


for shape in [(7,), (67,), (5, 6), (3, 67), (2, 3, 4), (4, 5, 67)]:
    a = np.random.default_rng(1).integers(-50, 50, size=shape).astype(np.float32)
    for index in backwards(len(shape)):
        n_views += 1
        read(a, index)
        write(a, index)
        differentiate(a, index)
for steps in (1, 2, 37, 1000):
    loop_gradient(steps)
scene.end(f"{n_views} reversed views are read, written and differentiated element by element, and the trace of a loop")
