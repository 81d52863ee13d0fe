"""Random generators and what is drawn of them.

A generator is four words while a graph runs: 128 bits that name a stream. They are drawn from a copy of NumPy's generator, which
does not advance, so equal states give equal draws; they leave as Generator(Philox(words)). A draw and the next generator are two
children of the words. The distributions are NumPy's, the streams are weft's.
"""
import numpy as np
from numpy.random import Generator, Philox

WORDS = 4


def words_of(generator):
    """Of a generator, which stays as it is."""
    bits = generator.bit_generator
    before = bits.state
    words = generator.integers(0, 1 << 32, WORDS, dtype=np.uint32)
    bits.state = before
    return words


def generator_of(words):
    return Generator(Philox(key=np.asarray(words, np.uint32).view(np.uint64)))
