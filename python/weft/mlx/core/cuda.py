"""Whether MLX's own CUDA back end is there."""


def is_available():
    """False: weft's GPU is not programmed in MLX's way.

    >>> mx.cuda.is_available()
    False
    """
    return False
