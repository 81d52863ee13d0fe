"""A group of one."""


class Group:
    """Processes that work together: this one."""

    def rank(self):
        return 0

    def size(self):
        return 1

    def split(self, color, key=-1):
        raise RuntimeError("distributed: a group of one cannot be split")


def is_available(backend="any"):
    """False: there is one process.

    >>> mx.distributed.is_available()
    False
    """
    return False


def init(strict=False, backend="any", **options):
    """The group of one.

    >>> mx.distributed.init().size()
    1
    """
    if strict:
        raise RuntimeError("distributed: weft has no communication between processes yet")
    return Group()


def _same(name):
    def function(x, *, group=None, stream=None):
        return x

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"x: there is one process.\n\n    >>> mx.distributed.{name}(mx.array([1, 2])).tolist()\n    [1, 2]\n"
    return function


all_sum, all_max, all_min, all_gather, sum_scatter = map(_same, ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter"))


def _alone(name):
    def function(*args, **kwargs):
        raise ValueError(f"distributed.{name}: there is nobody else in a group of one")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not there: {name} needs another process."
    return function


send, recv, recv_like = map(_alone, ("send", "recv", "recv_like"))
