"""NaN and other special numbers as constants of compiled functions and of loops, and the gradients of norms."""
import itertools

import scene

np, weft = scene.start("a NaN is printed into the text of a kernel, which then does not compile")

TYPES = {  # dtype: the bits of nan, three other nans (the last one signals), inf, -inf, -0, two denormals, 1/3
    "float16": (np.uint16, [0x7E00, 0x7E01, 0xFE55, 0x7D00, 0x7C00, 0xFC00, 0x8000, 1, 0x83FF, 0x3555]),
    "float32": (np.uint32, [0x7FC00000, 0x7FC00001, 0xFFD23456, 0x7FA00000, 0x7F800000, 0xFF800000, 0x80000000, 1,
                            0x807FFFFF, 0x3EAAAAAB]),
    "float64": (np.uint64, [0x7FF8 << 48, (0x7FF8 << 48) + 1, 0xFFFABCDEF0123456, 0x7FF4 << 48, 0x7FF0 << 48,
                            0xFFF0 << 48, 1 << 63, 1, 0x800FFFFFFFFFFFFF, 0x3FD5555555555555]),
}
ROWS, COLUMNS = 3, 11
n_constants = 0


def forms(word, bits, name):
    """The constant as users write it: what to use, and the NumPy array it stands for."""
    number = np.array(bits, word).view(name)
    cells = np.full((ROWS, COLUMNS), number)
    read_only = cells.copy()
    read_only.flags.writeable = False
    yield "0-d", weft.array(number), number
    yield "[1]", weft.array(number.reshape(1)), number
    yield "[1,1]", weft.array(number.reshape(1, 1)), number
    yield "array", weft.array(cells), cells
    yield "read-only", weft.asarray(read_only), cells
    yield "reversed", weft.asarray(cells[::-1, ::-1]), cells
    yield "broadcast", weft.asarray(np.broadcast_to(number, (ROWS, COLUMNS))), cells


def expect_bits(got, right, word, what):
    global n_constants
    n_constants += 1
    scene.expect(np.array_equal(np.asarray(got).view(word), right.view(word)), f"{what}: {np.asarray(got).view(word)}")


def use(name, word, bits):
    signs = np.where(np.arange(ROWS * COLUMNS) % 2, -1, 1).astype(name).reshape(ROWS, COLUMNS)
    x = weft.array(signs)
    for form, c, value in forms(word, bits, name):
        right = np.where(signs > 0, value, signs)
        what = f"{name} {bits:x} as {form}"
        expect_bits(weft.where(x > 0, c, x), right, word, what)
        expect_bits(weft.compile(lambda x: weft.where(x > 0, c, x))(x), right, word, f"{what}, compiled")
        rows = weft.broadcast_to(c, (ROWS, COLUMNS))
        _, y = weft.scan(lambda carry, row: (carry, weft.where(row[0] > 0, row[1], row[0])), weft.zeros(()), (x, rows))
        expect_bits(y, right, word, f"{what}, in a loop")


def moves(name, word, bits):
    a = np.array(bits, word).view(name)
    x, order = weft.array(a), np.array([7, 1, 9, 3, 0, 5, 2, 8, 6, 4])
    for what, y, right in [
            ("slice", x[::-1], a[::-1]),
            ("gather", x[weft.array(order)], a[order]),
            ("stack", weft.stack([x, x]), np.stack([a, a])),
            ("transpose", x.reshape(2, 5).T.reshape(10), a.reshape(2, 5).T.reshape(10)),
            ("where", weft.where(x == x, x, x), a)]:
        expect_bits(y, np.ascontiguousarray(right), word, f"{what} of {name}")


def brain_floats():
    """NumPy has no bfloat16: its values are seen through float32."""
    x = weft.array([1.0, -1.0, 1.0, -1.0], dtype=weft.bfloat16)
    for c in (float("nan"), float("inf"), -float("inf"), -0.0, 2.0**-133):
        y = weft.compile(lambda x: weft.where(x > 0, weft.array(c, dtype=weft.bfloat16), x))(x)
        right = np.array([c, -1, c, -1], np.float32)
        got = np.asarray(y.astype(weft.float32))
        is_right = np.array_equal(got, right, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(right))
        scene.expect(is_right, f"bfloat16 {c}")


def rms_norm(x):
    root = weft.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-3)
    return x * root / weft.square(root)


def layer_norm(x):
    return rms_norm(x - x.mean(axis=-1, keepdims=True))


def gradient(norm, name, tolerance):
    """Of sum(w norm(x)), against central differences in float64."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=COLUMNS)
    dtype, h, right = getattr(weft, name), 1e-6, np.zeros((ROWS, COLUMNS))

    def loss(x, w):
        return (norm(x) * w).sum()

    for i in itertools.product(range(ROWS), range(COLUMNS)):
        step = np.zeros_like(x)
        step[i] = h
        up, down = loss(weft.array(x + step), weft.array(w)), loss(weft.array(x - step), weft.array(w))
        right[i] = (up - down).item() / (2 * h)
    dx = weft.compile(weft.grad(loss))(weft.array(x).astype(dtype), weft.array(w).astype(dtype))
    error = np.abs(np.asarray(dx.astype(weft.float64)) - right).max()
    scene.expect(error < tolerance, f"the gradient of {norm.__name__} in {name} is off by {error}")


def square_of_root():
    z = np.array([4, 0, -1, np.inf, np.nan], np.float32)
    y = np.asarray(weft.compile(lambda z: weft.square(weft.sqrt(z)))(weft.array(z)))
    scene.expect(np.array_equal(y, [4, 0, np.nan, np.inf, np.nan], equal_nan=True), f"square(sqrt(z)): {y}")


for name, (word, numbers) in TYPES.items():
    if scene.backend == "gpu" and name != "float32":
        continue
    for bits in numbers:
        use(name, word, bits)
    moves(name, word, numbers)
if scene.backend != "gpu":
    brain_floats()
square_of_root()
for norm in (rms_norm, layer_norm):
    gradient(norm, "float32", 1e-5)
    if scene.backend != "gpu":
        gradient(norm, "float64", 1e-7)
        gradient(norm, "float16", 3e-2)
        gradient(norm, "bfloat16", 3e-1)
scene.end(f"{n_constants} uses of special constants keep every bit; the gradients of RMSNorm and LayerNorm are numbers")
