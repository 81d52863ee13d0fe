"""Random numbers, by keys.

    key = weft.random.key(42)
    noise, more = weft.random.split(key)
    x = x + weft.random.normal(noise, like=x)

A draw is a function of a key, of the place of the element, and of nothing else: the same on every device and for any number of
threads, in loops, under vmap and in compiled functions. The same key gives the same numbers, so split one for every use. Keys,
bits, uniform, randint and bernoulli have the bits of MLX. Draws are computed where they are used, and have derivatives by
their parameters where they have any.

Parameters broadcast; the result has their shape and dtype unless shape, or like, an array of that shape, and dtype say otherwise.
Numbers that make no sense as parameters are a ValueError; such elements of arrays give nan, or -1 where integers are drawn.
"""
from . import _core

__all__ = [row["name"] for row in _core._random.names]
globals().update((name, getattr(_core._random, name)) for name in __all__)
