"""One trace for all lengths: what is written with open sizes gives the bits of the same function traced with known ones, and what NumPy
says. Constructs are combined in pairs, differentiated and mapped."""
import itertools

import numpy as np
import pytest
import weft

LENGTHS = (0, 1, 2, 3, 17, 1000)


def n_of(x):
    return weft.size(x, 0)


def scan_sum(x):
    """Running sums by a loop over the rows."""
    return weft.scan(lambda c, e: (c + e, c + e), weft.array(0.0, dtype=weft.float64), x)[1]


def scan_counted(x):
    """As many steps as there are rows, and one more, that read none of them."""
    return weft.scan(lambda c, _: (c * 0.5 + x.sum(), c), weft.array(1.0, dtype=weft.float64), None, length=n_of(x) + 1)[1]


def np_counted(x):
    out, c = [], 1.0
    for _ in range(len(x) + 1):
        out.append(c)
        c = c * 0.5 + x.sum()
    return np.array(out)


def while_halved(x):
    """Halved as often as there are rows, at most 5 times."""
    steps = weft.minimum(n_of(x), 5)
    return weft.while_loop(lambda s: s[0] < steps, lambda s: (s[0] + 1, s[1] * 0.5), (weft.zeros_like(steps), x), bound=5)[1]


def masked(x):
    """A mask as a choice: where it is false there is 0."""
    return weft.where(x > 0, x, 0.0)


CONSTRUCTS = {
    "slice": (lambda x: x[1:n_of(x) - 1], lambda x: x[1:len(x) - 1]),
    "slice from the middle": (lambda x: x[n_of(x) // 2:], lambda x: x[len(x) // 2:]),
    "every other": (lambda x: x[:n_of(x):2], lambda x: x[::2]),
    "backwards": (lambda x: x[n_of(x) - 1::-1], lambda x: x[::-1]),
    "a bound below 0": (lambda x: x[:n_of(x) - 3], lambda x: x[:len(x) - 3]),
    "reshape": (lambda x: weft.concatenate([x, x, x], 0).reshape(3, n_of(x)).reshape(-1, 3).reshape(-1),
                lambda x: np.concatenate([x, x, x])),
    "rows and columns": (lambda x: weft.concatenate([x, x], 0).reshape(2, n_of(x)).T.reshape(n_of(x) * 2),
                         lambda x: np.concatenate([x, x]).reshape(2, len(x)).T.reshape(-1)),
    "zeros beside": (lambda x: weft.concatenate([x, weft.zeros((n_of(x) // 2,), dtype=weft.float64)], 0),
                     lambda x: np.concatenate([x, np.zeros(len(x) // 2)])),
    "arange": (lambda x: x * weft.arange(n_of(x)), lambda x: x * np.arange(len(x))),
    "broadcast": (lambda x: weft.broadcast_to(x, (3, n_of(x)))[1], lambda x: x),
    "take": (lambda x: x[weft.arange(n_of(x)) // 2], lambda x: x[np.arange(len(x)) // 2]),
    "put": (lambda x: x.at[n_of(x) // 2:].add(1.0), lambda x: np.concatenate([x[:len(x) // 2], x[len(x) // 2:] + 1.0])),
    "mask": (masked, lambda x: np.where(x > 0, x, 0.0)),
    "sum beside": (lambda x: x + x.sum(), None),
    "sort": (lambda x: weft.sort(x), np.sort),
    "cumsum": (lambda x: weft.cumsum(x, 0), None),
    "scan": (scan_sum, None),
    "scan counted": (scan_counted, np_counted),
    "while": (while_halved, lambda x: x * 0.5 ** min(len(x), 5)),
}


def values(n, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, n).astype("float64")  # sums of these are exact


class Counted:
    """A compiled function of one array, which counts its traces."""

    def __init__(self, f, **options):
        self.n = 0

        def counted(x):
            self.n += 1
            return f(x)

        self.call = weft.compile(counted, **options)

    def __call__(self, x):
        return np.asarray(self.call(weft.array(x)))


def same_bits(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check_all_lengths(f, plain=None):
    """One trace for all lengths, which gives what a trace for each gives, and what NumPy says."""
    everywhere = Counted(f, shapes=[(None,)])
    for n in LENGTHS:
        x = values(n, n)
        try:
            want = Counted(f)(x)
        except Exception as error:  # what cannot be said of so few elements
            assert n < 3
            with pytest.raises(type(error)):
                everywhere(x)
            continue
        got = everywhere(x)
        same_bits(got, want)
        if plain is not None:
            np.testing.assert_array_equal(got, plain(x))
    assert everywhere.n == 1


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_construct_has_one_trace_for_all_lengths(name):
    f, plain = CONSTRUCTS[name]
    check_all_lengths(f, plain)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_its_gradient_has_one(name):
    f, _ = CONSTRUCTS[name]
    check_all_lengths(weft.grad(lambda x: (f(x) * f(x)).sum()))


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_its_map_has_one(name):
    f, _ = CONSTRUCTS[name]
    rows = lambda x: weft.stack([x, x * 2.0, x - 1.0], 0)
    check_all_lengths(lambda x: weft.vmap(f)(rows(x)))
    check_all_lengths(lambda x: weft.vmap(weft.grad(lambda y: (f(y) * f(y)).sum()))(rows(x)))


@pytest.mark.parametrize("second", CONSTRUCTS)
@pytest.mark.parametrize("first", CONSTRUCTS)
def test_pairs_have_one(first, second):
    (f, plain_f), (g, plain_g) = CONSTRUCTS[first], CONSTRUCTS[second]
    plain = None if plain_f is None or plain_g is None or "scan counted" in (first, second) else lambda x: plain_g(plain_f(x))
    check_all_lengths(lambda x: g(f(x)), plain)
    check_all_lengths(weft.grad(lambda x: (g(f(x)) * g(f(x))).sum()))


def test_what_only_a_run_tells_has_one_trace_too():
    def f(x):
        kept = x[x > 0]
        return kept.sum(), weft.size(kept, 0), weft.nonzero(x)[0].sum(), kept[:weft.size(kept, 0) // 2].sum(), weft.unique(x).sum()

    n_traces = 0

    def counted(x):
        nonlocal n_traces
        n_traces += 1
        return f(x)

    g = weft.compile(counted, shapes=[(None,)])
    for n in LENGTHS:
        x = values(n, n)
        kept = x[x > 0]
        want = kept.sum(), len(kept), np.nonzero(x)[0].sum(), kept[:len(kept) // 2].sum(), np.unique(x).sum()
        assert [y.item() for y in g(weft.array(x))] == [float(w) for w in want]
    assert n_traces == 1


def test_who_cannot_says_so():
    f = weft.compile(lambda x: weft.eye(weft.size(x, 0)), shapes=[(None,)])
    with pytest.raises(weft.NoValueError):
        f(weft.array([1.0, 2.0]))
    with pytest.raises(weft.NoValueError):
        weft.compile(lambda x: x.shape, shapes=[(None,)])(weft.array([1.0]))


def test_sizes_that_do_not_go_together_are_an_error_of_the_call():
    f = weft.compile(lambda x: x.reshape(-1, 3), shapes=[(None,)])
    assert np.asarray(f(weft.array(values(6)))).shape == (2, 3)
    with pytest.raises(ValueError):
        weft.eval(f(weft.array(values(7))))
    g = weft.compile(lambda x: weft.zeros((weft.size(x, 0) - 2,)), shapes=[(None,)])
    assert np.asarray(g(weft.array(values(2)))).shape == (0,)
    with pytest.raises(ValueError):
        weft.eval(g(weft.array(values(1))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f, plain", [
    (weft.vander, np.vander), (lambda x: weft.delete(x, 0), lambda x: np.delete(x, 0)), (lambda x: weft.delete(x, -2), lambda x: np.delete(x, -2)),
    (lambda x: weft.delete(x, [0, 1]), lambda x: np.delete(x, [0, 1])), (lambda x: weft.insert(x, 2, 9.0), lambda x: np.insert(x, 2, 9.0)),
    (weft.cov, np.cov), (weft.corrcoef, np.corrcoef), (weft.gradient, np.gradient),
    (lambda x: weft.gradient(x, edge_order=2), lambda x: np.gradient(x, edge_order=2)),
    (lambda x: weft.linalg.lu_factor(x[:, None] * x + weft.diag(x))[0].sum(), lambda x: np.nan if len(x) else 0.0)])
def test_few_elements_are_as_many_or_refused_where_a_known_number_is(f, plain):
    """Not silently as many as there would be of more."""
    everywhere = weft.compile(f, shapes=[(None,)])
    for n in (5, 0, 1, 2, 3):
        x = values(n, 1) + 0.5
        try:
            want = np.asarray(plain(x))
        except (IndexError, ValueError):
            with pytest.raises((weft.CheckError, IndexError), match="outside of the axis|too short"):
                weft.eval(everywhere(weft.array(x)))
        else:
            got = np.asarray(everywhere(weft.array(x)))
            assert got.shape == want.shape and (np.isnan(want).all() or np.allclose(got, want, equal_nan=True))


def test_what_is_asserted_of_a_size_fails_in_the_words_of_whoever_did():
    f = weft.compile(lambda x: weft.zeros((weft.assert_(n_of(x), n_of(x) > 3, "more than three, please"),)), shapes=[(None,)])
    assert f(weft.array(values(4))).shape == (4,)
    g = weft.compile(lambda x: x * f(x), shapes=[(None,)])
    for h in (f, g):
        with pytest.raises(weft.CheckError, match="^more than three, please"):
            h(weft.array(values(3)))


def test_a_number_that_sizes_tell_is_told_before_the_call():
    seen = []

    def f(x):
        n = weft.size(x, 0)
        seen.append([weft._core.told(m) for m in (n, n - n, weft.size(weft.concatenate([x, x], 0), 0) - 2 * n + 5)])
        return x

    weft.compile(f, shapes=[(None,)])(weft.array(values(3)))
    assert seen == [[True, 0, 5]]


def test_later_calls_keep_their_plans():
    f = weft.compile(lambda x: scan_sum(x[1:weft.size(x, 0) - 1]).sum(), shapes=[(None,)])
    for n in (5, 9, 5, 9):
        x = values(n, n)
        assert f(weft.array(x)).item() == np.cumsum(x[1:-1]).sum()
