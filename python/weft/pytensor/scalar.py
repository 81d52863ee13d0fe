"""Operations on scalars, element by element: one row each, by how they treat dtypes."""
import operator
from functools import reduce

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as pm
import weft
from pytensor.graph.basic import Constant
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.math import MulWithoutZeros
from weft import special

from .plane import COMPLEX, COMPLEX_ORDER
from .value import NoRow, array, dtype_of, known, rank, shape

half_away_from_zero = lambda x: weft.where(weft.abs(x - weft.trunc(x)) < 0.5, weft.trunc(x), weft.trunc(x) + weft.sign(x))
clip = lambda x, low, high: weft.where(x < low, low, weft.where(x > high, high, x))
modulo = lambda x, y: weft.remainder(x, y) if y.dtype.name.startswith("f") else weft.where(y == 0, weft.zeros_like(x), weft.remainder(x, y))
without_zeros = lambda x, y: weft.where(x == 0, y, weft.where(y == 0, x, x * y))

scaled_bessel = lambda order, x: weft.where(weft.isinf(x), np.nan, weft.ive(order, x))  # as SciPy has it; its limit is 0



def ndtri_of_exp(x):
    """The y with log ndtr(y) = x. Far below 0 by Newton's method: log ndtr has the slope sqrt(2 / pi) / erfcx(-y / sqrt(2)), and begins
    near -sqrt(t - log t), t = -2 x - log(2 pi); beyond 1e14 that is all there is to know. Near 0 it is that of the other tail."""
    t = -2 * weft.minimum(x, -2.0) - np.log(2 * np.pi)
    y = -weft.sqrt(t - weft.log(weft.minimum(t, 1e300)))
    far = y
    for _ in range(5):
        far = far - (weft.log_ndtr(far) - x) * weft.erfcx(far * -np.sqrt(0.5)) * np.sqrt(np.pi / 2)
    far = weft.where(x > -1e14, far, y)
    return weft.where(x < -2, far, weft.where(x < -0.1, weft.ndtri(weft.exp(x)), -weft.ndtri(-weft.expm1(x))))


# Operands are cast to the dtype of the result first.
IN_RESULT_DTYPE = {
    ps.Add: lambda *x: reduce(operator.add, x), ps.Mul: lambda *x: reduce(operator.mul, x), ps.Sub: weft.subtract,
    ps.TrueDiv: weft.divide, ps.IntDiv: weft.floor_divide, ps.Mod: modulo, ps.Pow: weft.power,
    ps.Maximum: weft.maximum, ps.Minimum: weft.minimum, ps.Clip: clip, MulWithoutZeros: without_zeros,
    ps.Identity: weft.positive, ps.Cast: weft.positive, ps.Neg: weft.negative, ps.Sqr: weft.square,
    ps.Reciprocal: weft.reciprocal, ps.Sign: weft.sign, ps.Conj: weft.conj,
    ps.Ceil: weft.ceil, ps.Floor: weft.floor, ps.Trunc: weft.trunc, ps.RoundHalfToEven: weft.round,
    ps.RoundHalfAwayFromZero: half_away_from_zero,
    ps.Sqrt: weft.sqrt, ps.Exp: weft.exp, ps.Exp2: weft.exp2, ps.Expm1: weft.expm1, ps.Log: weft.log, ps.Log2: weft.log2,
    ps.Log10: weft.log10, ps.Log1p: weft.log1p,
    ps.Sin: weft.sin, ps.Cos: weft.cos, ps.Tan: weft.tan, ps.ArcSin: weft.arcsin, ps.ArcCos: weft.arccos,
    ps.ArcTan: weft.arctan, ps.ArcTan2: weft.arctan2, ps.Sinh: weft.sinh, ps.Cosh: weft.cosh, ps.Tanh: weft.tanh,
    ps.ArcSinh: weft.arcsinh, ps.ArcCosh: weft.arccosh, ps.ArcTanh: weft.arctanh,
    ps.OR: weft.bitwise_or, ps.XOR: weft.bitwise_xor, ps.AND: weft.bitwise_and, ps.Invert: weft.bitwise_invert,
    pm.Erf: weft.erf, pm.Erfc: weft.erfc, pm.Erfcx: weft.erfcx, pm.Erfinv: weft.erfinv, pm.Erfcinv: weft.erfcinv,
    pm.Gamma: weft.gamma, pm.GammaLn: weft.lgamma, pm.Psi: weft.digamma, pm.TriGamma: weft.trigamma,
    pm.PolyGamma: weft.polygamma, pm.GammaInc: weft.gammainc, pm.GammaIncC: weft.gammaincc, pm.BetaInc: weft.betainc,
    pm.GammaIncInv: weft.gammaincinv, pm.GammaIncCInv: weft.gammainccinv, pm.BetaIncInv: weft.betaincinv,
    pm.NdtriExp: ndtri_of_exp, pm.Hyp2F1: weft.hyp2f1, pm.Ive: scaled_bessel, pm.Jv: weft.jv, pm.Kve: weft.kve, pm.Owens_t: weft.owens_t,
    pm.J0: weft.j0, pm.J1: weft.j1, pm.I0: weft.i0, pm.I1: weft.i1,
    pm.Sigmoid: weft.sigmoid, pm.Softplus: weft.softplus, pm.Log1mexp: weft.log1mexp,
}
# Operands are cast to NumPy's common dtype; the result is bool.
COMPARING = {ps.LT: weft.less, ps.GT: weft.greater, ps.LE: weft.less_equal, ps.GE: weft.greater_equal, ps.EQ: weft.equal,
             ps.NEQ: weft.not_equal}
# Operands stay as they are.
AS_IT_IS = {ps.IsNan: weft.isnan, ps.IsInf: weft.isinf, ps.Abs: weft.abs, ps.Real: weft.real, ps.Imag: weft.imag}


def switch(node, values):
    dtype = node.outputs[0].type.dtype
    condition, a, b = values
    return [weft.where(array(condition) != 0, array(a, dtype), array(b, dtype))]


def second(node, values):
    like, value = values
    return [weft.broadcast_to(array(value, node.outputs[0].type.dtype), np.broadcast_shapes(shape(like), shape(value)))]


def composite(node, values):
    inner = node.op.fgraph if isinstance(node.op, ps.Composite) else node.op.scalar_op.fgraph
    return inner_graph(inner, values)


def inner_graph(fgraph, values):
    """The values of the outputs of a graph of scalars."""
    there = dict(zip(fgraph.inputs, values))
    get = lambda v: v.data if isinstance(v, Constant) else there[v]
    for node in fgraph.toposort():
        there.update(zip(node.outputs, apply(node.op, node, [get(v) for v in node.inputs])))
    return [get(v) for v in fgraph.outputs]


def loop(node, values):
    """Elements go through the same steps; one whose condition has become true stays as it is."""
    op = node.op if isinstance(node.op, ScalarLoop) else node.op.scalar_op
    graph, n = op.fgraph, len(op.fgraph.outputs) - op.is_while
    steps, *state = [array(v) for v in values]
    size = np.broadcast_shapes(*(shape(v) for v in values))
    most = 0 if 0 in size else np.max(known(values[0])) if rank(values[0]) == 0 else None
    state, constants = [weft.broadcast_to(v, size) for v in state[:n]], state[n:]
    state = [v.astype(array(np.zeros((), o.type.dtype)).dtype) for v, o in zip(state, graph.outputs)]
    with weft._core.Scope("ScalarLoop"):
        body = weft._core.Loop(int(most) if most is not None else weft.max(steps))
        at, done = body.carry(weft.zeros((), weft.int64)), body.carry(weft.full(size, False, weft.bool_))
        carries = [body.carry(v) for v in state]
        results = [array(r, o.type.dtype) for r, o in zip(inner_graph(graph, [*carries, *constants]), graph.outputs)]
        rests = weft.logical_or(done, at >= steps)
        for carry, result in zip(carries, results):
            body.next(carry, weft.where(rests, carry, result))
        until = weft.logical_or(done, weft.broadcast_to(results[-1], size)) if op.is_while else done
        body.next(done, weft.where(at >= steps, done, until))
        body.next(at, at + 1)
        if op.is_while:
            body.until(weft.all(until))
        lasts = [body.last(carry) for carry in carries]
        ended = body.last(done)
        body.close()
    return [*lasts, weft.logical_or(ended, steps <= 0)] if op.is_while else lasts


OTHERS = {ps.Switch: switch, ps.Second: second, ps.Composite: composite, ScalarLoop: loop,
          ps.Complex: lambda node, values: [array(weft.complex(array(values[0]), array(values[1])), node.outputs[0].type.dtype)]}


TABLES = (IN_RESULT_DTYPE, COMPARING, AS_IT_IS, OTHERS)


def checked(op, node, values, trace):
    """The operands, where NumPy refuses some of their values."""
    is_whole = node.outputs[0].type.dtype.startswith(("int", "uint"))
    if isinstance(op, ps.Pow) and is_whole and node.inputs[1].type.dtype.startswith("int"):
        x, exponent = values
        return [x, trace.require(exponent, lambda e: e >= 0, ValueError, "Integers to negative integer powers are not allowed.")]
    return values


def kind_of(op):
    """The class that its row is of: Grad2F1Loop, for one, is a ScalarLoop and nothing more."""
    return ScalarLoop if isinstance(op, ScalarLoop) else type(op)


def named_special(op):
    """The function of weft.special by the name of SciPy's that an Op of somebody else's says it is, as PyMC's I0e does; None: none."""
    spec = getattr(op, "nfunc_spec", None) if not any(type(op) in table for table in TABLES) else None
    module, _, name = spec[0].rpartition(".") if spec else ("", "", "")
    is_named = module == "scipy.special" and name in dir(special) and spec[1:] == (op.nin, 1)
    return getattr(special, name) if is_named else None


def has_row(op):
    if isinstance(op, (ps.Composite, ScalarLoop)):
        return all(has_row(node.op) for node in op.fgraph.toposort())
    return any(type(op) in table for table in TABLES) or named_special(op) is not None


def apply(op, node, values):
    """The results of a scalar Op, of arrays that broadcast. The node tells the dtypes; its Op may be an Elemwise of this one."""
    kind, dtype = kind_of(op), node.outputs[0].type.dtype
    if kind in IN_RESULT_DTYPE:
        function = COMPLEX.get(kind) if dtype.startswith("complex") else None
        return [array((function or IN_RESULT_DTYPE[kind])(*(array(v, dtype) for v in values)), dtype)]
    if kind in COMPARING:
        common = np.result_type(*(np.dtype(dtype_of(v)) for v in values)).name
        function = COMPLEX_ORDER.get(kind) if common.startswith("complex") else None
        return [(function or COMPARING[kind])(*(array(v, common) for v in values))]
    if kind in AS_IT_IS:
        return [array(AS_IT_IS[kind](array(values[0])), dtype)]
    if kind in OTHERS:
        return OTHERS[kind](node, values)
    scalar_op = getattr(op, "scalar_op", op)
    if named_special(scalar_op) is not None and dtype in ("float32", "float64"):
        return [array(named_special(scalar_op)(*(array(v, dtype) for v in values)), dtype)]
    raise NoRow(op)
