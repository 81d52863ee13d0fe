"""What weft has not: a function that says so when it is called."""


def missing(package, name, why="weft does not have it yet"):
    def function(*args, **kwargs):
        raise NotImplementedError(f"{package}.{name}: {why}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = package
    function.__doc__ = f"Not there: {why}."
    return function


def add_missing(namespace, package, names, why="weft does not have it yet"):
    """Puts such functions where a module has nothing of that name."""
    for name in names:
        namespace.setdefault(name, missing(package, name, why))
