"""In which order a sum of products would be taken two by two. weft chooses its own; this is what MLX and NumPy say."""
import itertools
import math

from ._array import _expect


def _work(axes, sums, terms, size):
    """Multiplications and additions of one product over these axes."""
    return math.prod(size[k] for k in axes) * (max(1, terms - 1) + bool(sums))


def _contract(sets, pair, output):
    """The axes of the product of a pair, and those it runs over."""
    inside = set().union(*(sets[i] for i in pair))
    outside = set(output).union(*(s for i, s in enumerate(sets) if i not in pair))
    return inside & outside, inside


def _best(sets, output, size, most):
    """The pair that makes arrays smallest, then with the least work; pairs that share no axis only if no other is there."""
    pairs = list(itertools.combinations(range(len(sets)), 2))
    for candidates in ([p for p in pairs if sets[p[0]] & sets[p[1]]], pairs):
        found = []
        for pair in candidates:
            left, inside = _contract(sets, pair, output)
            volume = lambda axes: math.prod(size[k] for k in axes)
            gain = sum(volume(sets[i]) for i in pair) - volume(left)
            work = _work(inside, inside - left, 2, size)
            if work <= most:
                found.append(((-gain, work), pair, left))
        if found:
            return min(found, key=lambda item: item[0])
    return None


def _without_dots(names, output, operands):
    """The subscripts with a letter for each axis that the dots stand for: the last axes have the same letters in all operands."""
    free = [chr(k) for k in range(0x3B1, 0x3D0)]
    widest = max(operand.ndim - len(name.replace("...", "")) for name, operand in zip(names, operands))
    letters = lambda n: "".join(free[widest - n:widest])
    names = [name.replace("...", letters(operand.ndim - len(name.replace("...", "")))) for name, operand in zip(names, operands)]
    return names, output.replace("...", letters(widest))


def _parse(subscripts, operands):
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    names = left.split(",")
    if len(names) != len(operands):
        raise ValueError(f"einsum_path: {len(names)} subscripts for {len(operands)} operands")
    if "..." in left:
        if not arrow:
            once = sorted(k for k in set(left) - {",", "."} if left.count(k) == 1)
            arrow, output = "->", "..." + "".join(once)
        names, output = _without_dots(names, output, operands)
    if not arrow:
        output = "".join(sorted(k for k in set(left) - {","} if left.count(k) == 1))
    size = {}
    for name, operand in zip(names, operands):
        if len(name) != operand.ndim:
            raise ValueError(f"einsum_path: {name!r} for an array of {operand.ndim} axes")
        for k, n in zip(name, operand.shape):
            if size.setdefault(k, n) not in (n, 1) and n != 1:
                raise ValueError(f"einsum_path: {k} has sizes {size[k]} and {n}")
            size[k] = max(size[k], n)
    return [set(name) for name in names], set(output), size


def einsum_path(subscripts, *operands):
    """([which operands are multiplied, pair by pair; a product comes last], that as a text)

    >>> mx.einsum_path('ij,jk', mx.ones((2, 3)), mx.ones((3, 4)))[0]
    [(0, 1)]
    """
    for operand in operands:
        _expect("einsum_path", operand)
    sets, output, size = _parse(subscripts, operands)
    every = set().union(*sets)
    naive = _work(every, every - output, len(sets), size)
    path, spent = [], 0
    while len(sets) > 2:
        best = _best(sets, output, size, naive - spent)
        if best is None:
            break
        (_, work), pair, left = best
        path.append(pair)
        spent += work
        sets = [s for i, s in enumerate(sets) if i not in pair] + [left]
    path.append(tuple(range(len(sets))))
    text = f"Complete contraction: {subscripts}\nNaive work: {naive}\n" + "".join(f"{step}\n" for step in path)
    return path, text
