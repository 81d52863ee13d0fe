"""Ten models that PyTensor's users write: inputs, the log density and its gradient, and a point."""
import numpy as np
import pytensor
import pytensor.tensor as pt


def data(seed=0):
    return np.random.default_rng(seed)


def with_gradient(inputs, density, point):
    return inputs, [density, *pytensor.grad(density, inputs)], point


def scan(step, **options):
    return pytensor.scan(step, return_updates=False, **options)


def logistic(n=10000, d=20):
    """Logistic regression."""
    rng = data()
    x, y = pytensor.shared(rng.normal(size=(n, d))), pytensor.shared((rng.random(n) < 0.5).astype(float))
    a, b = pt.dscalar("a"), pt.dvector("b")
    eta = a + x @ b
    return with_gradient([a, b], pt.sum(y * eta - pt.softplus(eta)) - 0.5 * pt.sum(b ** 2), [np.array(0.1), rng.normal(size=d)])


def schools():
    """Eight schools, hierarchical, not centred."""
    y, s = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mu, log_tau, z = pt.dscalar("mu"), pt.dscalar("log_tau"), pt.dvector("z")
    tau = pt.exp(log_tau)
    density = (-0.5 * pt.sum(((y - mu - tau * z) / s) ** 2) - 0.5 * pt.sum(z ** 2) - 0.5 * (mu / 5) ** 2
               - pt.log1p((tau / 5) ** 2) + log_tau)
    return with_gradient([mu, log_tau, z], density, [np.array(4.0), np.array(0.7), data().normal(size=8)])


def gaussian_process(n=200):
    """Of n points: a Cholesky factor, and solutions with it."""
    rng = data()
    x, y = np.sort(rng.uniform(0, 10, n)), rng.normal(size=n)
    d2, y = pytensor.shared((x[:, None] - x) ** 2), pytensor.shared(y)
    scale, noise = pt.dscalar("scale"), pt.dscalar("noise")
    c = pt.linalg.cholesky(pt.exp(-0.5 * d2 / scale ** 2) + noise ** 2 * pt.eye(n))
    r = pt.linalg.solve_triangular(c, y, lower=True)
    return with_gradient([scale, noise], -0.5 * pt.sum(r ** 2) - pt.sum(pt.log(pt.diag(c))), [np.array(1.2), np.array(0.4)])


def hidden_markov(t=1000, k=4):
    rng = data()
    emitted = pytensor.shared(rng.normal(size=(t, k)))
    moves, start = pt.dmatrix("moves"), pt.dvector("start")
    forward = scan(lambda b, a, m: pt.logsumexp(a[:, None] + m, axis=0) + b, sequences=[emitted[1:]], non_sequences=[moves],
                   outputs_info=[start + emitted[0]])
    return with_gradient([moves, start], pt.logsumexp(forward[-1]),
                         [np.log(rng.dirichlet(np.ones(k), size=k)), np.log(rng.dirichlet(np.ones(k)))])


def autoregression(t=1000):
    """AR(2)."""
    noise = pytensor.shared(data().normal(size=t))
    phi, first, s = pt.dvector("phi"), pt.dvector("first"), pt.dscalar("s")
    y = scan(lambda e, y1, y2, p: p[0] * y1 + p[1] * y2 + e, sequences=[noise], non_sequences=[phi],
             outputs_info=[dict(initial=first, taps=[-1, -2])])
    return with_gradient([phi, first, s], -0.5 * pt.sum((y / s) ** 2) - t * pt.log(s),
                         [np.array([0.5, 0.2]), np.array([0.1, 0.2]), np.array(1.3)])


def garch(t=2000):
    r = pytensor.shared(data().normal(size=t))
    a, b, c = (pt.dscalar(name) for name in "abc")
    variance = scan(lambda r, h, a, b, c: a + b * r ** 2 + c * h, sequences=[r], outputs_info=[a / (1 - b - c)], non_sequences=[a, b, c])
    density = -0.5 * pt.sum(pt.log(variance[:-1]) + r[1:] ** 2 / variance[:-1])
    return with_gradient([a, b, c], density, [np.array(0.1), np.array(0.2), np.array(0.6)])


def kalman(t=1000, n=4):
    rng = data()
    y, h = pytensor.shared(rng.normal(size=t)), pytensor.shared(np.eye(n)[0])
    a, q, r = pt.dmatrix("a"), pt.dscalar("q"), pt.dscalar("r")

    def step(y, m, p, a, q, r, h):
        m, p = a @ m, a @ p @ a.T + q * pt.eye(n)
        s, v = h @ p @ h + r, y - h @ m
        k = (p @ h) / s
        return m + k * v, p - pt.outer(k, k) * s, -0.5 * (pt.log(2 * np.pi * s) + v * v / s)

    _, _, each = scan(step, sequences=[y], outputs_info=[pt.zeros(n), pt.eye(n), None], non_sequences=[a, q, r, h])
    return with_gradient([a, q, r], each.sum(), [0.9 * np.eye(n) + 0.01 * rng.normal(size=(n, n)), np.array(0.1), np.array(0.5)])


def lstm(t=200, n=32):
    """An LSTM cell."""
    rng = data()
    x, w, u = pytensor.shared(rng.normal(size=(t, n))), pt.dmatrix("w"), pt.dmatrix("u")

    def step(x, h, c, w, u):
        gates = x @ w + h @ u
        i, f, o, g = (gates[k * n:(k + 1) * n] for k in range(4))
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(c), c

    h, _ = scan(step, sequences=[x], outputs_info=[pt.zeros(n), pt.zeros(n)], non_sequences=[w, u])
    return with_gradient([w, u], pt.sum(h[-1] ** 2), [0.2 * rng.normal(size=(n, 4 * n)), 0.2 * rng.normal(size=(n, 4 * n))])


def lotka_volterra(t=500, dt=0.02):
    """Two species, by Runge and Kutta."""
    seen = pytensor.shared(np.abs(data().normal(size=(t, 2))) + 0.5)
    p, start = pt.dvector("p"), pt.dvector("start")
    slope = lambda z, p: pt.stack([z[0] * (p[0] - p[1] * z[1]), z[1] * (p[2] * z[0] - p[3])])

    def step(z, p):
        k1 = slope(z, p)
        k2 = slope(z + 0.5 * dt * k1, p)
        k3 = slope(z + 0.5 * dt * k2, p)
        return z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(z + dt * k3, p))

    z = scan(step, outputs_info=[start], non_sequences=[p], n_steps=t)
    return with_gradient([p, start], -0.5 * pt.sum((pt.log(seen) - pt.log(z)) ** 2), [np.array([1.0, 0.5, 0.4, 0.8]), np.array([1.5, 1.0])])


def mixture(n=1000, k=5):
    """Of k normal distributions."""
    rng = data()
    x = pytensor.shared(rng.normal(size=n) * 3)
    w, mu, log_s = pt.dvector("w"), pt.dvector("mu"), pt.dvector("log_s")
    each = pt.log(pt.special.softmax(w)) - log_s - 0.5 * ((x[:, None] - mu) / pt.exp(log_s)) ** 2
    return with_gradient([w, mu, log_s], pt.sum(pt.logsumexp(each, axis=1)), [rng.normal(size=k), rng.normal(size=k) * 3, 0.1 * rng.normal(size=k)])


MODELS = {f.__name__: f for f in (logistic, schools, gaussian_process, hidden_markov, autoregression, garch, kalman, lstm, lotka_volterra,
                                  mixture)}
