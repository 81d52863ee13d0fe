"""weft.taps against the contract read step by step: on NumPy arrays, and as a graph of weft written out."""
import numpy as np
import pytest
import weft
from weft.taps import ScanInfo, scan


# ---- the contract, step by step: buffers are lists of rows that rotate

def interpreted(xp, info, inner, outer):
    n, at = int(outer[0]), 1

    def take(k):
        nonlocal at
        at += k
        return list(outer[at - k:at])

    seqs = take(info.n_seqs)
    mit_mot = [list(b) for b in take(len(info.mit_mot_in_slices))]
    sot_taps = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    sot = [list(b) for b in take(len(sot_taps))]
    untraced = take(info.n_untraced_sit_sot)
    nit = [[None] * int(length) for length in take(info.n_nit_sot)]
    non_seqs = take(info.n_non_seqs)
    held = [-min(taps) for taps in sot_taps]
    i, stop = 0, False
    while i < n and not stop:
        args = [seq[i] for seq in seqs]
        for buffer, taps in zip(mit_mot, info.mit_mot_in_slices):
            args += [buffer[i + tap - min(taps)] for tap in taps]
        for buffer, taps, m in zip(sot, sot_taps, held):
            args += [buffer[(i + m + tap) % len(buffer)] for tap in taps]
        results = list(inner(xp, *args, *untraced, *non_seqs))
        if info.as_while:
            stop = bool(results.pop())
        for buffer, reads, writes in zip(mit_mot, info.mit_mot_in_slices, info.mit_mot_out_slices):
            for tap in writes:
                buffer[i + tap - min(reads)] = results.pop(0)
        for buffer, m in zip(sot + nit, held + [0] * len(nit)):
            if buffer:
                buffer[(i + m) % len(buffer)] = results[0]
            results.pop(0)
        untraced = results
        i += 1
    ordered = [in_order(xp, buffer, m + i, info.as_while) for buffer, m in zip(sot + nit, held + [0] * len(nit))]
    return [xp.stack(b, 0) for b in mit_mot] + ordered + untraced


def in_order(xp, buffer, written, is_while):
    length = len(buffer)
    if written > length:
        first = written % length
        buffer = buffer[first:] + buffer[:first]
    elif is_while:
        buffer = buffer[:written]
    else:
        buffer = buffer[:written] + [xp.zeros(buffer[0].shape, dtype=buffer[0].dtype)] * (length - written)
    return xp.stack(buffer, 0)


# ---- the kinds

def rows(rng, n, *shape, dtype=np.float64):
    return rng.uniform(-1, 1, (n, *shape)).astype(dtype)


N = 6


def sequence(rng):
    return ScanInfo(n_seqs=1, n_nit_sot=1), lambda xp, x: [x * x - 0.5 * x], [N, rows(rng, N, 3), N]


def sequences_with_taps(rng):
    x, y = rows(rng, N + 3, 2), rows(rng, N + 7, 2)  # taps are slices: x[-2], x[0], x[1], and y[0], longer than the steps
    return (ScanInfo(n_seqs=4, n_nit_sot=2), lambda xp, a, b, c, d: [a * b - c * d, b + d],
            [N, x[:N], x[2:], x[3:], y, N, N])


def sequence_backwards(rng):
    return ScanInfo(n_seqs=1, n_nit_sot=1), lambda xp, x: [x * 3.0], [N, rows(rng, N, 2)[::-1], N]


def sit_sot(length):
    def case(rng):
        return (ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),)), lambda xp, x, s: [s * x + 0.25],
                [N, rows(rng, N, 3), rows(rng, length, 3)])
    return case


def mit_sot(length, taps=(-3, -1)):
    def case(rng):
        def inner(xp, x, *s):
            total = x
            for k, part in enumerate(s):
                total = total + part * (0.5 - 0.75 * k) * part
            return [total]
        return ScanInfo(n_seqs=1, mit_sot_in_slices=(taps,)), inner, [N, rows(rng, N), rows(rng, length)]
    return case


def nit_sot(length):
    def case(rng):
        return (ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),), n_nit_sot=1),
                lambda xp, x, s: [s + x, s * x], [N, rows(rng, N, 2), rows(rng, N + 1, 2), length])
    return case


def untraced(rng):
    return (ScanInfo(n_seqs=1, n_untraced_sit_sot=2, n_nit_sot=1),
            lambda xp, x, count, state: [state * x, count + 1, state * 0.5 + x],
            [N, rows(rng, N, 2), np.array(3), rows(rng, 2), N])


def mit_mot(reads, writes, length):
    def case(rng):
        def inner(xp, x, *s):
            total = x
            for k, part in enumerate(s):
                total = total + part * (0.3 + 0.1 * k)
            return [total * (1.0 + 0.5 * k) + x * k for k in range(len(writes))]
        return (ScanInfo(n_seqs=1, mit_mot_in_slices=(reads,), mit_mot_out_slices=(writes,)), inner,
                [N, rows(rng, N, 2), rows(rng, length, 2)])
    return case


def non_sequences(rng):
    return (ScanInfo(sit_sot_in_slices=((-1,),), n_nit_sot=1, n_non_seqs=2),
            lambda xp, s, a, b: [s * a + b, s - b], [N, rows(rng, N + 1, 3), N, rows(rng, 3), rows(rng, 1).reshape(())])


def matrices(rng):
    return (ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),), n_non_seqs=1),
            lambda xp, x, s, w: [xp.matmul(s, w) + x], [N, rows(rng, N, 4, 3), rows(rng, N + 1, 4, 3), rows(rng, 3, 3)])


def until(bound, length, m=1):
    """Ends when the count reaches 4."""
    taps = tuple(range(-m, 0))

    def case(rng):
        return (ScanInfo(n_seqs=1, mit_sot_in_slices=(taps,), n_nit_sot=1, n_untraced_sit_sot=1, as_while=True),
                lambda xp, x, *s: [s[0] * x + s[m - 1], x * x, s[m] + 1, s[m] >= 3],
                [bound, rows(rng, 9, 2), rows(rng, length, 2), np.array(0), bound])
    return case


def until_mit_mot(rng):
    return (ScanInfo(mit_mot_in_slices=((0, 1),), mit_mot_out_slices=((1,),), n_untraced_sit_sot=1, as_while=True),
            lambda xp, a, b, count: [a * 0.5 + b, count + 1, count >= 2], [N, rows(rng, N + 3), np.array(0)])


def all_together(rng):
    return (ScanInfo(n_seqs=2, mit_mot_in_slices=((0, 1),), mit_mot_out_slices=((1,),), mit_sot_in_slices=((-3, -1),),
                     sit_sot_in_slices=((-1,), (-1,), ), n_nit_sot=2, n_untraced_sit_sot=2, n_non_seqs=1),
            lambda xp, x, y, b0, b1, m3, m1, s, r, c, u, w: [
                b0 * x + b1, m3 * 0.5 + m1 * x, s * w + 0.5, r + 1, b1 - m3, y * y, c + 1, u * x],
            [N, rows(rng, N, 2), rows(rng, N + 2), rows(rng, N + 1, 2), rows(rng, N + 3, 2), rows(rng, 2),
             np.arange(N + 1, dtype=np.int64), np.array(0), rows(rng, 2), N, 2, rows(rng, 1).reshape(())])


def narrow(rng):
    return (ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),)), lambda xp, x, s: [s * x + s],
            [N, rows(rng, N, 3, dtype=np.float32), rows(rng, N + 1, 3, dtype=np.float32)])


CASES = {
    "sequence": sequence, "sequences with taps, longer than the steps": sequences_with_taps,
    "a sequence backwards": sequence_backwards, "non-sequences": non_sequences, "untraced": untraced,
    "matrices": matrices, "f32": narrow, "all kinds together": all_together,
    "sit-sot, a row a step": sit_sot(N + 1), "sit-sot, the last row": sit_sot(1), "sit-sot, two rows": sit_sot(2),
    "sit-sot, rotated": sit_sot(N - 1), "sit-sot, rows not filled": sit_sot(N + 4),
    "mit-sot, a row a step": mit_sot(N + 3), "mit-sot, no row more than the taps": mit_sot(3),
    "mit-sot, one row more": mit_sot(4), "mit-sot, rotated": mit_sot(N + 1), "mit-sot, rows not filled": mit_sot(N + 5),
    "mit-sot, many taps": mit_sot(N + 4, (-4, -2, -3)), "mit-sot, long and rotated": mit_sot(N + 2, (-7, -1)),
    "nit-sot, a row a step": nit_sot(N), "nit-sot, the last row": nit_sot(1), "nit-sot, rotated": nit_sot(N - 2),
    "nit-sot, rows not filled": nit_sot(N + 2),
    "mit-mot, one tap read and written": mit_mot((0,), (0,), N),
    "mit-mot, of a sit-sot's gradient": mit_mot((0, 1), (1,), N + 1),
    "mit-mot, taps of both signs": mit_mot((-1, 0, 2), (0, 2), N + 3),
    "mit-mot, written beyond what is read": mit_mot((0, 1), (3,), N + 3),
    "mit-mot, read and written in any order": mit_mot((2, -2, 0), (0, 2, -2), N + 4),
    "mit-mot, longer than needed": mit_mot((0, 1), (1,), N + 5),
    "until, before the bound": until(7, 8), "until, the last row": until(7, 1), "until, rotated": until(7, 3),
    "until, the bound is first": until(3, 4), "until, two taps": until(7, 9, 2), "until, mit-mot": until_mit_mot,
}


# Gradients whose bits differ from those of the graph written out: what reaches a row through several taps or outputs, and
# a non-sequence in several steps, is added in another order; a matrix's steps are one product.
ADDED_IN_ANOTHER_ORDER = {
    "non-sequences", "matrices", "mit-sot, no row more than the taps", "mit-sot, one row more", "mit-sot, rotated",
    "mit-sot, long and rotated", "mit-mot, written beyond what is read", "mit-mot, read and written in any order", "until, rotated"}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(", ", ",").replace(" ", "-"))
def case(request, rng):
    return CASES[request.param](rng)


def on_weft(outer):
    return [weft.array(x) if isinstance(x, np.ndarray) else x for x in outer]


def floats(outer):
    return [k for k, x in enumerate(outer) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]


def scanned(info, inner, outer):
    return scan(info, lambda *args: inner(weft, *args), outer)


def cost_of(run, info, inner, outer, where):
    """A number that depends on every element of every output, as a function of the float inputs."""
    def cost(*xs):
        given = list(outer)
        for k, x in zip(where, xs):
            given[k] = x
        total = weft.array(0.0, dtype=weft.float64)
        for k, out in enumerate(run(info, inner, given)):
            if out.dtype in (weft.float32, weft.float64):
                weights = np.cos(np.arange(np.prod(out.shape, dtype=int)).reshape(out.shape) + k)
                total = total + (out.astype(weft.float64) * weft.array(weights)).sum()
        return total
    return cost


def written_out(info, inner, outer):
    return interpreted(weft, info, inner, outer)


def test_it_is_what_the_contract_says_bit_for_bit(case):
    info, inner, outer = case
    expected = interpreted(np, info, inner, outer)
    got = scanned(info, inner, on_weft(outer))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        if inner.__code__.co_names.count("matmul"):
            np.testing.assert_allclose(np.array(a), b, rtol=1e-13)
        else:
            assert np.array_equal(np.array(a), b) and a.shape == b.shape


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_graph_written_out(name, rng):
    info, inner, outer = CASES[name](rng)
    where = floats(outer)
    xs, by = [weft.array(outer[k]) for k in where], tuple(range(len(where)))
    got = weft.grad(cost_of(scanned, info, inner, on_weft(outer), where), by)(*xs)
    expected = weft.grad(cost_of(written_out, info, inner, on_weft(outer), where), by)(*xs)
    for a, b in zip(got, expected):
        if name in ADDED_IN_ANOTHER_ORDER:
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-13, atol=1e-13)
        else:
            assert np.array_equal(np.array(a), np.array(b))


def test_tangents_are_those_of_the_graph_written_out_bit_for_bit(case, rng):
    info, inner, outer = case
    where = floats(outer)
    xs = [weft.array(outer[k]) for k in where]
    dxs = [weft.array(np.array(rng.standard_normal(outer[k].shape), dtype=outer[k].dtype)) for k in where]
    got = weft.jvp(cost_of(scanned, info, inner, on_weft(outer), where), xs, dxs)[1]
    expected = weft.jvp(cost_of(written_out, info, inner, on_weft(outer), where), xs, dxs)[1]
    assert got[0].item() == expected[0].item()


@pytest.mark.parametrize("name", CASES)
def test_maps_are_every_row_by_itself(name, rng):
    info, inner, outer = CASES[name](rng)
    where = floats(outer)
    batch = [np.stack([outer[k], outer[k] * 1.25, -outer[k]]) for k in where]

    def f(*xs):
        given = on_weft(outer)
        for k, x in zip(where, xs):
            given[k] = x
        return scanned(info, inner, given)

    got = weft.vmap(f)(*[weft.array(x) for x in batch])
    for r in range(3):
        alone = f(*[weft.array(np.array(x[r])) for x in batch])
        for a, b in zip(got, alone):
            np.testing.assert_allclose(np.array(a)[r], np.array(b), rtol=1e-6 if a.dtype == weft.float32 else 1e-13)


def test_second_derivatives_are_those_of_the_graph_written_out(case):
    info, inner, outer = case
    where = floats(outer)[-1:]
    xs, tolerance = [weft.array(outer[k]) for k in where], 1e-4 if outer[1].dtype == np.float32 else 1e-10

    def curvature(run):
        slope = weft.grad(cost_of(run, info, inner, on_weft(outer), where))
        return weft.grad(lambda x: (slope(x) * slope(x)).sum())(*xs)

    np.testing.assert_allclose(curvature(scanned).tolist(), curvature(written_out).tolist(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("until")])
def test_no_steps_leave_what_was_there(name, rng):
    info, inner, outer = CASES[name](rng)
    got = scanned(info, inner, on_weft([0, *outer[1:]]))
    n_buffers, n_nit, n_untraced = len(got) - info.n_nit_sot - info.n_untraced_sit_sot, info.n_nit_sot, info.n_untraced_sit_sot
    given = outer[1 + info.n_seqs:]
    for out, buffer in zip(got[:len(info.mit_mot_in_slices)], given):
        assert np.array_equal(np.array(out), buffer)
    sots = range(len(info.mit_mot_in_slices), n_buffers)
    for k, taps in zip(sots, (*info.mit_sot_in_slices, *info.sit_sot_in_slices)):
        m = -min(taps)
        assert np.array_equal(np.array(got[k])[:m], given[k][:m]) and not np.array(got[k])[m:].any()
    for k in range(n_untraced):
        assert np.array_equal(np.array(got[n_buffers + n_nit + k]), given[n_buffers + k])


def test_the_gradient_scan_of_a_recurrence_is_its_gradient(rng):
    """s <- a s + x and the cost sum w s, as PyTensor hands over its gradient: taps negated, everything backwards."""
    x, w, a = rows(rng, N), rows(rng, N + 1), np.array(0.7)

    def cost(x, a):
        buffer = weft.concatenate([weft.array([0.3], dtype=weft.float64), weft.zeros(N, dtype=weft.float64)])
        return (scan(ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),), n_non_seqs=1), lambda x, s, a: [a * s + x],
                     [N, x, buffer, a])[0] * weft.array(w)).sum()

    dx, da = weft.grad(cost, (0, 1))(weft.array(x), weft.array(a))
    s = [0.3]
    for k in range(N):
        s.append(a * s[-1] + x[k])
    back = ScanInfo(n_seqs=1, mit_mot_in_slices=((0, 1),), mit_mot_out_slices=((1,),), sit_sot_in_slices=((-1,),),
                    n_nit_sot=1, n_non_seqs=1)
    ds, total, each = scan(back, lambda s, d, d_before, sum_a, a: [d_before + a * d, sum_a + d * s, d],
                           [N, weft.array(np.array(s[:N][::-1])), weft.array(w[::-1].copy()), weft.zeros(N + 1, dtype=weft.float64), N, weft.array(a)])
    np.testing.assert_allclose(np.array(each)[::-1], np.array(dx), rtol=1e-13)
    np.testing.assert_allclose(np.array(total)[-1], np.array(da), rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_it_is_compiled_with_every_array_as_a_name(name, rng):
    info, inner, outer = CASES[name](rng)
    where = [k for k, x in enumerate(outer) if isinstance(x, np.ndarray)]

    def f(*xs):
        given = list(outer)
        for k, x in zip(where, xs):
            given[k] = x
        return scanned(info, inner, given)

    for a, b in zip(weft.compile(f)(*[weft.array(outer[k]) for k in where]), scanned(info, inner, on_weft(outer))):
        np.testing.assert_array_equal(np.array(a), np.array(b))


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_steps_may_be_a_name(name, rng):
    info, inner, outer = CASES[name](rng)
    where = floats(outer)

    @weft.compile
    def f(n, *xs):
        given = [n, *on_weft(outer)[1:]]
        for k, x in zip(where, xs):
            given[k] = x
        for k, length in enumerate(given[1:], 1):
            if type(length) is int and name == "sequence":
                given[k] = n  # a row a step
        return scanned(info, inner, given)

    for n in (outer[0], outer[0] - 1, 1):
        expected = scanned(info, inner, [n, *(n if name == "sequence" and type(x) is int else x for x in on_weft(outer)[1:])])
        for a, b in zip(f(weft.array(n), *[weft.array(outer[k]) for k in where]), expected):
            np.testing.assert_array_equal(np.array(a), np.array(b))


@pytest.mark.parametrize("name", ["sit-sot, rotated", "mit-sot, rows not filled", "mit-mot, longer than needed", "until, rotated"])
def test_gradients_with_steps_that_are_a_name(name, rng):
    info, inner, outer = CASES[name](rng)
    k = floats(outer)[-1]

    def cost(n):
        return lambda x: sum((out * out).sum() for out in scanned(info, inner, [n, *on_weft(outer)[1:k], x, *on_weft(outer)[k + 1:]])
                             if out.dtype == weft.float64)
    x = weft.array(outer[k])
    got = weft.compile(lambda n, x: weft.grad(cost(n))(x))(weft.array(outer[0]), x)
    np.testing.assert_allclose(np.array(got), np.array(weft.grad(cost(outer[0]))(x)), rtol=1e-12)


def test_it_is_compiled_as_a_part_of_a_function(rng):
    info, inner, outer = all_together(rng)
    f = weft.compile(lambda x, b: scanned(info, inner, [N, x, *on_weft(outer)[2:3], b, *on_weft(outer)[4:]]))
    for a, b in zip(f(weft.array(outer[1]), weft.array(outer[3])), scanned(info, inner, on_weft(outer))):
        assert np.array_equal(np.array(a), np.array(b))


def test_nonsense_is_refused_and_says_what_it_is(rng):
    one = ScanInfo(n_seqs=1, sit_sot_in_slices=((-1,),))
    x, s = weft.zeros((N, 2)), weft.zeros((N + 1, 2))

    def add(x, s):
        return [x + s]

    with pytest.raises(IndexError, match="-1 steps"):
        scan(one, add, [-1, x, s])
    with pytest.raises(ValueError, match="sequence 0 has 6 rows, the scan 7 steps"):
        scan(one, add, [N + 1, x, s])
    with pytest.raises(ValueError, match="2 inputs, not 3"):
        scan(one, add, [N, x])
    with pytest.raises(ValueError, match="0 results, not 1"):
        scan(one, lambda x, s: [], [N, x, s])
    with pytest.raises(ValueError, match="buffer of 1 rows for a state of 2"):
        scan(ScanInfo(mit_sot_in_slices=((-2,),)), lambda s: [s], [N, weft.zeros(1)])
    with pytest.raises(ValueError, match="not all negative"):
        scan(ScanInfo(mit_sot_in_slices=((0,),)), lambda s: [s], [N, s])
    with pytest.raises(ValueError, match="rows, its taps need"):
        scan(ScanInfo(mit_mot_in_slices=((0, 1),), mit_mot_out_slices=((1,),)), lambda a, b: [a], [N, x])
    with pytest.raises(ValueError, match="below the taps"):
        scan(ScanInfo(mit_mot_in_slices=((0,),), mit_mot_out_slices=((-1,),)), lambda a: [a], [N, x])
    with pytest.raises(ValueError, match=r"becomes .* \(\)"):
        scan(one, lambda x, s: [s.sum()], [N, x, s])[0].tolist()
    with pytest.raises(TypeError, match="becomes .*float64"):
        scan(one, lambda x, s: [s.astype(weft.float64)], [N, x, s])[0].tolist()


def test_steps_that_are_no_integer_and_states_that_change_are_refused():
    info = ScanInfo(sit_sot_in_slices=((-1,),))
    for n in (3.0, weft.array(3.0), np.float64(3), True, None):
        with pytest.raises(TypeError, match="is not a number of steps"):
            scan(info, lambda c: [c], [n, weft.ones(4)])
    for n in (3, weft.array(3), np.uint8(3)):
        assert scan(info, lambda c: [c * 2], [n, weft.ones(4)])[0].tolist() == [1, 2, 4, 8]
    with pytest.raises(TypeError, match=r"a state of .*float32 \(\) becomes .*float64"):
        scan(info, lambda c: [c.astype(weft.float64)], [5, weft.ones(3)])
    with pytest.raises(ValueError, match=r"becomes .* \(2,\)"):
        scan(info, lambda c: [weft.stack([c, c])], [5, weft.ones(3)])


def test_the_last_rows_alone_need_no_memory_for_all_steps():
    n, width = 20000, 64
    info = ScanInfo(n_seqs=0, sit_sot_in_slices=((-1,),), n_nit_sot=1)
    weft.reset_peak_memory()
    before = weft.get_active_memory()
    state, last = scan(info, lambda s: [s * 0.5 + 1, s + 1], [n, weft.zeros((1, width)), 2])
    weft.eval(state, last)
    assert weft.get_peak_memory() - before < 100 * width * 4
    assert state.tolist()[0][0] == 2 and last.shape == (2, width)


# ---- random keys: an untraced state of integers, from which a counter-based generator makes numbers

def mixed(xp, z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64 if xp is np else weft.float64) * 2.0**-53


def noisy(xp, c, key, w):
    return [xp.tanh(w * c + mixed(xp, key)), key + np.uint64(0x9E3779B97F4A7C15)]


def test_a_random_key_is_an_untraced_state():
    info = ScanInfo(sit_sot_in_slices=((-1,),), n_untraced_sit_sot=1, n_non_seqs=1)
    key, start, w = np.array([1, 2**63 + 5, 7], np.uint64), np.zeros((N + 1, 3)), np.array([0.5, -0.25, 0.75])

    def run(w, key=weft.array(key)):
        return scan(info, lambda *a: noisy(weft, *a), [N, weft.array(start), key, w])

    trace, last = run(weft.array(w))
    with np.errstate(over="ignore"):
        want = [start[0]]
        for i in range(N):
            want.append(np.tanh(w * want[-1] + mixed(np, key + np.uint64(i) * np.uint64(0x9E3779B97F4A7C15))))
        assert np.array_equal(np.array(last), key + np.uint64(N) * np.uint64(0x9E3779B97F4A7C15))
    np.testing.assert_allclose(np.array(trace), want, rtol=1e-14)
    step = 1e-6
    slope = (np.array(run(weft.array(w + step))[0]) - np.array(run(weft.array(w - step))[0])).sum(0) / (2 * step)
    np.testing.assert_allclose(np.array(weft.grad(lambda w: run(w)[0].sum())(weft.array(w))), slope, rtol=1e-6)
    keys = weft.array(np.stack([key, key + np.uint64(9)]))
    mapped = weft.vmap(lambda k: run(weft.array(w), k)[0])(keys)
    assert all(np.array_equal(np.array(mapped[r]), np.array(run(weft.array(w), keys[r])[0])) for r in range(2))


def test_a_while_with_a_buffer_of_open_length_is_compiled():
    """The rows that are left are as many as the buffer has, or fewer where the scan ends before."""
    info = ScanInfo(sit_sot_in_slices=((-1,),), as_while=True)
    f = weft.compile(lambda b: scan(info, lambda s: [s * 2, s * 2 > 50], [20, b])[0], shapes="any")
    for rows, want in [(1, [64]), (2, [32, 64]), (3, [16, 32, 64]), (7, [1, 2, 4, 8, 16, 32, 64]), (9, [1, 2, 4, 8, 16, 32, 64])]:
        np.testing.assert_array_equal(f(weft.array([1.0] + [0.0] * (rows - 1))), want)
