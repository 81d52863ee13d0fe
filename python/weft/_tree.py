"""Trees of tuples, lists and dicts with arrays in them.

flatten gives the arrays in order and the structure: a hashable value that is equal for trees that differ in their
arrays alone. Whatever is no container and no array is part of the structure.
"""
import copy

from ._core import array, arrays, flatten_tree  # noqa: F401

_LEAF = "leaf"


class Constant:
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
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self):
        return hash(self.key)


def flatten(tree):
    return flatten_tree(tree, Constant)


def flatten_memory(tree):
    """As flatten, with NumPy arrays as arrays; numbers are constants."""
    return flatten_tree(tree, _memory)


def flatten_numbers(tree):
    """As flatten, with numbers and NumPy arrays as arrays, so that they can be varied."""
    return flatten_tree(tree, _number_or_memory)


def flatten_floats(tree):
    """As flatten, with floats and NumPy arrays as arrays: what can be differentiated by."""
    return flatten_tree(tree, _float_or_memory)


def _memory(x):
    return array(x) if hasattr(x, "__array_interface__") else Constant(x)


def _number_or_memory(x):
    return array(x) if isinstance(x, (int, float)) and not isinstance(x, bool) else _memory(x)


def flatten_values(tree):
    """As flatten, with all numbers, bools too, and NumPy arrays as arrays: what a traced body returns."""
    return flatten_tree(tree, as_value)


def _float_or_memory(x):
    return array(x) if isinstance(x, float) else _memory(x)


def as_value(x):
    return array(x) if isinstance(x, (bool, int, float, complex)) else _memory(x)


class Keys(tuple):
    """The keys of a dict that is more than a dict, and `like`: one of its kind, without items."""


def keys_of(tree):
    """Called for every dict of another class, to make its like: by copying, since its constructor may want anything."""
    keys = Keys(dict.keys(tree))
    keys.like = copy.copy(tree)
    for key in keys:
        del keys.like[key]
    return keys


def unflatten(structure, leaves):
    """The tree of a structure, with the arrays that the iterator gives."""
    return _unflatten(structure, iter(leaves))


def own(structure, leaves):
    """The tree for a function to work on: names of its own, so that x[i] = v in it leaves ours alone."""
    return unflatten(structure, [leaf.copy() for leaf in leaves])


def _unflatten(structure, leaves):
    if structure == _LEAF:
        return next(leaves)
    if isinstance(structure, Constant):
        return structure.value
    kind, keys, items = structure[0], structure[1], [_unflatten(item, leaves) for item in structure[2:]]
    return sequence(kind, items) if keys is None else _dict(kind, keys, items)


def without_constants(structure):
    """The structure with None for what is no array."""
    if structure == _LEAF:
        return structure
    if isinstance(structure, Constant):
        return Constant(None)
    return structure[:2] + tuple(map(without_constants, structure[2:]))


def sequence(kind, items):
    """A tuple, list or namedtuple of that kind."""
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def _dict(kind, keys, items):
    result = {} if kind is dict else copy.copy(keys.like)
    for key, item in zip(keys, items):
        result[key] = item
    return result


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
