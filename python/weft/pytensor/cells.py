"""Cells of shared variables: what is in them when somebody looks.

A cell holds an array of NumPy's. Where the function that updates it has run on a device it holds the array of weft, which stays there,
and so it does while a function overwrites it (python/src/cells.c); it becomes one of NumPy's as soon as PyTensor, or its user, looks.
"""
import numpy as np
import weft
from pytensor.link.basic import Container


def settled(cell):
    """What is in a cell, as an array of NumPy's that may be written to."""
    value = cell[0]
    if type(value) is weft.array:
        value = np.array(value)  # a copy: a function of another thread may be about to overwrite the memory
        if type(cell[0]) is weft.array:
            cell[0] = value
    return value


def get(container):
    return settled(container.storage)


def copied(container, memo, deepcopy=Container.__deepcopy__):
    settled(container.storage)
    return deepcopy(container, memo)


def reduced(container, protocol, reduce=Container.__reduce_ex__):
    settled(container.storage)
    return reduce(container, protocol)


if Container.__deepcopy__ is not copied:
    Container.data = Container.value = property(get, Container.__set__)
    Container.__deepcopy__, Container.__reduce_ex__ = copied, reduced
