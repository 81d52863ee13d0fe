"""Trees of tuples, lists and dicts with arrays in them.

flatten gives the arrays in order and the structure: a hashable value that is equal for trees that differ in their arrays
alone. Whatever is no container and no array is part of the structure.
"""
from ._core import array

_LEAF = "leaf"


class _Constant:
    """A value in a structure: equal only to one of the same type and text, so that 0, 0.0, -0.0 and False differ."""

    __slots__ = ("value", "key")

    def __init__(self, value):
        self.value = value
        if value is None or isinstance(value, (bool, int, str, bytes)):
            self.key = (type(value), value)
        elif isinstance(value, (float, complex)):
            self.key = (type(value), repr(value))
        else:
            self.key = (type(value), id(value))  # alive as long as the structure, which holds it

    def __eq__(self, other):
        return isinstance(other, _Constant) and self.key == other.key

    def __hash__(self):
        return hash(self.key)


def flatten(tree):
    leaves = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree, leaves):
    kind = type(tree)
    if kind is array:
        leaves.append(tree)
        return _LEAF
    if isinstance(tree, (tuple, list)):
        return (kind, None) + tuple(_flatten(item, leaves) for item in tree)
    if isinstance(tree, dict):
        return (kind, tuple(tree)) + tuple(_flatten(item, leaves) for item in tree.values())
    return _Constant(tree)


def unflatten(structure, leaves):
    """The tree of a structure, with the arrays that the iterator gives."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure, leaves):
    if structure is _LEAF:
        return next(leaves)
    if isinstance(structure, _Constant):
        return structure.value
    kind, keys, items = structure[0], structure[1], [_unflatten(item, leaves) for item in structure[2:]]
    return _sequence(kind, items) if keys is None else _dict(kind, keys, items)


def _sequence(kind, items):
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _dict(kind, keys, items):
    result = {} if kind is dict else kind()
    result.update(zip(keys, items))
    return result


def convert(tree, leaf):
    """The tree with leaf(x) for everything in it that is no container."""
    if isinstance(tree, dict):
        return _dict(type(tree), tree, [convert(item, leaf) for item in tree.values()])
    if isinstance(tree, (tuple, list)):
        return _sequence(type(tree), [convert(item, leaf) for item in tree])
    return leaf(tree)


def arrays(*trees):
    """All arrays in the trees."""
    return flatten(trees)[0]


def spread(prefix, tree):
    """For every array of the tree, what a prefix of the tree says about it: in_axes=(0, None) and the like."""
    out = []
    _spread(prefix, tree, out)
    return out


def _spread(prefix, tree, out):
    if isinstance(prefix, (tuple, list)) and isinstance(tree, (tuple, list)):
        if len(prefix) != len(tree):
            raise ValueError(f"{len(prefix)} axes for {len(tree)} values")
        for p, t in zip(prefix, tree):
            _spread(p, t, out)
    elif isinstance(prefix, dict) and isinstance(tree, dict):
        for key in tree:
            _spread(prefix[key], tree[key], out)
    elif isinstance(prefix, (tuple, list, dict)):
        raise ValueError("the axes have another structure than the values")
    else:
        out.extend([prefix] * len(arrays(tree)))
