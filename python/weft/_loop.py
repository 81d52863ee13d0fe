"""Loops and choices as values: a body is traced once, whatever the number of steps."""
from . import _core
from ._tree import flatten_numbers, own, unflatten


def scan(f, init, xs=None, length=None, reverse=False, recompute=None, truncate=None, tail=None):
    """carry, ys for `carry, y = f(carry, x)` over the rows x of xs: (the last carry, all y, stacked).

    init, xs and y may be trees; xs may be None if length, the number of steps, is given. tail: only the y of the last so
    many steps are kept, and have memory; a y of None gives none. Of grad:
    recompute: it keeps the carries before every so many steps and computes those between again; 0: before as many as
    the square root of the steps. truncate: it goes back through the last so many steps only."""
    carries, carry_structure = flatten_numbers(init)
    rows, row_structure = flatten_numbers(xs)
    if not rows and length is None:
        raise ValueError("scan: the number of steps is missing")
    if reverse:
        rows = [_core.flip(row, 0) for row in rows]
    with _core.Scope():
        loop = _core.Loop(None if length is None else length)
        if recompute is not None:
            loop.recompute(recompute)
        if truncate is not None:
            loop.truncate(truncate)
        x = [loop.each(row) for row in rows]
        c = [loop.carry(carry) for carry in carries]
        carry, y = f(own(carry_structure, c), own(row_structure, x))
        _step(loop, c, carry, carry_structure)
        outs, out_structure = flatten_numbers(y)
        ys = [loop.all(out) if tail is None else loop.tail(out, tail) for out in outs]
        last = [loop.last(name) for name in c]
        loop.close()
        if reverse:
            ys = [_core.flip(out, 0) for out in ys]
        return unflatten(carry_structure, last), unflatten(out_structure, ys)


def while_loop(cond, body, init, bound=None, recompute=None):
    """The first of init, body(init), body(body(init)), .. for which cond is false.

    bound: the most steps there may be. grad needs it, and keeps so many; or recompute, with or without a bound: it runs the
    loop once more to count the steps, keeps the carries before every so many of them and computes those between again."""
    carries, structure = flatten_numbers(init)
    with _core.Scope():
        begins = cond(own(structure, carries))
        loop = _core.Loop(_core.where(begins, 2**62 if bound is None else bound, 0))  # numbers: not below 0 for sure
        if recompute is not None:
            loop.recompute(recompute)
        c = [loop.carry(carry) for carry in carries]
        carry = body(own(structure, c))
        _step(loop, c, carry, structure)
        loop.until(_core.logical_not(cond(carry)))
        last = [loop.last(name) for name in c]
        loop.close()
        return unflatten(structure, last)


def cond(p, a, b, *operands):
    """a(*operands) if p, else b(*operands): one of them is computed. Both give the same tree, shapes and dtypes."""
    arrays, structure = flatten_numbers(operands)
    with _core.Scope():
        choice = _core.Cond(p)
        left, left_structure = flatten_numbers(a(*own(structure, arrays)))
        right, right_structure = flatten_numbers(b(*own(structure, arrays)))
        if left_structure != right_structure:
            raise ValueError("cond: the two sides have different structures")
        values = [choice.value(x, y) for x, y in zip(left, right)]
        choice.close()
        return unflatten(left_structure, values)


def _step(loop, names, carry, structure):
    values, found = flatten_numbers(carry)
    if found != structure:
        raise ValueError("the carry that the body returns has another structure than the one it gets")
    for name, value in zip(names, values):
        loop.next(name, value)
