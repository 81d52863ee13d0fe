"""Loops and choices as values: a body is traced once, whatever the number of steps."""
from . import _core
from ._tree import as_value, flatten_numbers, flatten_values, own, unflatten


def scan(f, init, xs=None, length=None, reverse=False, recompute=None, truncate=None, tail=None):
    """carry, ys for `carry, y = f(carry, x)` over the rows x of xs: (the last carry, all y, stacked).

    init, xs and y may be trees; xs may be None if length, the number of steps, is given. Arrays of xs have as many rows each; a
    length that is less leaves the last out, with reverse the first. tail: only the y of the last so
    many steps are kept, and have memory; a y of None gives none. Of grad:
    recompute: it keeps the carries before every so many steps and computes those between again; 0: before as many as
    the square root of the steps. truncate: it goes back through the last so many steps only."""
    carries, carry_structure = flatten_values(init)
    rows, row_structure = flatten_numbers(xs)
    if not rows and length is None:
        raise ValueError("scan: the number of steps is missing")
    if tail is not None and tail < 0:
        raise ValueError(f"scan: tail={tail} is negative")
    rows = _same_length(rows)
    if reverse:
        rows = [_core.flip(row, 0) for row in rows]
    with _core.Scope("scan"):
        loop = _core.Loop(None if length is None else length)
        if recompute is not None:
            loop.recompute(recompute)
        if truncate is not None:
            loop.truncate(truncate)
        x = [loop.each(row) for row in rows]
        c = [loop.carry(carry) for carry in carries]
        result = f(own(carry_structure, c), own(row_structure, x))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError("scan: the body returns a pair, (carry, y); y may be None")
        _step("scan", loop, c, result[0], carry_structure)
        outs, out_structure = flatten_values(result[1])
        ys = [loop.all(out) if tail is None else _tail(loop, out, tail) for out in outs]
        last = [loop.last(name) for name in c]
        loop.close()
        if reverse:
            ys = [_core.flip(out, 0) for out in ys]
        if tail == 0:
            ys = [out[:0] for out in ys]
        return unflatten(carry_structure, last), unflatten(out_structure, ys)


def _same_length(rows):
    """The sequences, which have as many rows each. Sizes that are not known yet are taken to be equal, and fail if they are not."""
    if any(row.ndim == 0 for row in rows):
        raise ValueError("scan: a number in xs has no rows")
    sizes = [_core.size(row, 0) for row in rows]
    known = {n for n in map(_told, sizes) if n is not None}
    if len(known) > 1:
        raise ValueError("scan: the arrays of xs have other numbers of rows: " + ", ".join(str(_told(n)) for n in sizes))
    if not rows or all(_told(n) is not None for n in sizes):
        return rows
    return rows[:1] + [row.reshape((sizes[0], *(_core.size(row, k) for k in range(1, row.ndim)))) for row in rows[1:]]


def _told(size):
    n = size if isinstance(size, int) else _core.told(size)
    return None if isinstance(n, bool) else n


def _tail(loop, out, k):
    return loop.tail(out, max(k, 1))


def while_loop(cond, body, init, bound=None, recompute=None):
    """The first of init, body(init), body(body(init)), .. for which cond is false.

    bound: the most steps there may be. grad needs it, and keeps so many; or recompute, with or without a bound: it runs the
    loop once more to count the steps, keeps the carries before every so many of them and computes those between again."""
    carries, structure = flatten_values(init)
    with _core.Scope("while_loop"):
        begins = _one_bool("while_loop", cond(own(structure, carries)))
        loop = _core.Loop(_core.where(begins, 2**62 if bound is None else bound, 0))  # numbers: not below 0 for sure
        if recompute is not None:
            loop.recompute(recompute)
        c = [loop.carry(carry) for carry in carries]
        carry = _step("while_loop", loop, c, body(own(structure, c)), structure)
        loop.until(_core.logical_not(_one_bool("while_loop", cond(own(structure, carry)))))
        last = [loop.last(name) for name in c]
        loop.close()
        return unflatten(structure, last)


def cond(p, a, b, *operands):
    """a(*operands) if p, else b(*operands): one of them is computed. Both give the same tree, shapes and dtypes."""
    arrays, structure = flatten_numbers(operands)
    with _core.Scope("cond"):
        choice = _core.Cond(_one_bool("cond", p))
        left, left_structure = flatten_values(a(*own(structure, arrays)))
        right, right_structure = flatten_values(b(*own(structure, arrays)))
        if left_structure != right_structure:
            raise ValueError("cond: the two sides have different structures")
        for k, (x, y) in enumerate(zip(left, right)):
            if x.dtype != y.dtype:
                raise TypeError(f"cond: result {k} is {x.dtype.name} on one side and {y.dtype.name} on the other: "
                                "use astype on one")
        values = [choice.value(x, y) for x, y in zip(left, right)]
        choice.close()
        return unflatten(left_structure, values)


def _one_bool(who, p):
    if getattr(p, "ndim", 0):
        raise ValueError(f"{who}: the condition is one bool, not an array of {p.ndim} axes: weft.all or weft.any makes one of it")
    return p


def _step(who, loop, names, carry, structure):
    """Says what the carries become, and returns that. Python's numbers take dtype and shape of their carry."""
    numbers = {}

    def take(x):
        made = as_value(x)
        if type(x) in (bool, int, float, complex):
            numbers[id(made)] = made, x
        return made

    values, found = _core.flatten_tree(carry, take)
    if found != structure:
        raise ValueError(f"{who}: the carry that the body returns has another structure than the one it gets")
    for k, (name, value) in enumerate(zip(names, values)):
        if id(value) in numbers:
            value = values[k] = _core.where(True, numbers[id(value)][1], name)
        if value.dtype != name.dtype:
            raise TypeError(f"{who}: carry {k} begins as {name.dtype.name} and the body makes it {value.dtype.name}: begin with "
                            f"{value.dtype.name}, or return it with astype(weft.{name.dtype.name})")
        loop.next(name, value)
    return values
