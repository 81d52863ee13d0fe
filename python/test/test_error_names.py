"""Every public function is called wrongly, and what it says begins with its own name: not with that of a function it is made of."""
import inspect
import pickle
import random
import re

import pytest

import weft
import weft.mlx.core as mx

MODULES = {"weft": weft, "weft.linalg": weft.linalg, "weft.random": weft.random, "mx": mx, "mx.linalg": mx.linalg, "mx.fft": mx.fft,
           "mx.random": mx.random, "mx.fast": mx.fast}
STATE = set("""as_mlx async_eval clear_cache clear_streams compile device_info einsum_path eval export_to_dot fetch from_dlpack host load
    metal_kernel new_stream new_thread_local_stream plan save save_gguf save_safetensors savez savez_compressed seed set_blas set_cache_limit
    set_check set_default_device set_default_stream set_device set_halves set_memory_limit set_printoptions set_tf32 set_threads
    set_wired_limit show state stream synchronize wait
    FunctionExporter export_function exporter import_function""".split())  # those that change what others find, or have no such arguments
CALLABLE = set("checkpoint choose cond custom_function custom_vjp grad jvp scan value_and_grad vjp vmap while_loop".split())


def functions(module):
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        f = getattr(module, name)
        if not name.startswith("_") and name not in STATE | CALLABLE and callable(f) and not inspect.isclass(f):
            if inspect.getmodule(type(f)) in (None, inspect.getmodule(int), weft) or inspect.isfunction(f):
                yield name, f


def value(space, dice):
    def one():
        shape = dice.choice([(), (0,), (3,), (4,), (2, 3), (3, 4), (3, 3), (2, 3, 4)])
        return space.zeros(shape, dtype=dice.choice([space.float32, space.int32, space.bool_, space.complex64]))

    rest = [0, -7, 7, 1.5, "bad", None, (0, 1), (7,), (2, -3), True, space.int32, 1j, {}]
    kind = dice.random()
    return one() if kind < 0.6 else [one() for _ in range(dice.randrange(4))] if kind < 0.7 else dice.choice(rest)


def wrong_call(f, space, dice):
    args, kwargs = [], {}
    for p in inspect.signature(f).parameters.values():
        if p.name in ("stream", "device") or p.kind == p.VAR_KEYWORD or p.default is not p.empty and dice.random() < 0.5:
            if p.kind == p.POSITIONAL_ONLY:
                break
        elif p.kind == p.VAR_POSITIONAL:
            args += [value(space, dice) for _ in range(dice.randrange(3))]
        elif p.kind == p.KEYWORD_ONLY or kwargs or p.default is not p.empty and p.kind != p.POSITIONAL_ONLY:
            kwargs[p.name] = value(space, dice)
        else:
            args.append(value(space, dice))
    if dice.random() < 0.1:
        kwargs["nonsense"] = 1
    return args, kwargs


def own_frames(error):
    trace, n = error.__traceback__.tb_next, 0
    while trace:
        trace, n = trace.tb_next, n + 1
    return n


def is_said_by(names, error):
    """Python's own words, about an argument of a wrong type, come with the frame of the function that was called."""
    text = str(error)
    if re.match(rf"([a-z]+\.)*({'|'.join(map(re.escape, names))})(: |\(\) )", text):
        return not re.match(r"[\w.]+: [\w.]+: ", text)  # and nobody else
    return own_frames(error) > 0 and not re.match(r"[a-z_.0-9]+: ", text)


ALSO = {"absolute": "abs", "acos": "arccos", "acosh": "arccosh", "amax": "max", "amin": "min", "around": "round", "asin": "arcsin",
        "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_left_shift": "left_shift",
        "bitwise_not": "bitwise_invert", "bitwise_right_shift": "right_shift", "concat": "concatenate", "conjugate": "conj",
        "deg2rad": "radians", "fix": "trunc", "invert": "bitwise_invert", "mod": "remainder", "pow": "power", "rad2deg": "degrees",
        "true_divide": "divide"}


def test_functions_are_called_what_they_are():
    assert not [name for name, f in functions(weft) if f.__name__ != name]


@pytest.mark.parametrize("name", ALSO)
def test_a_function_of_two_names_says_the_one_that_was_typed(name):
    f, of = getattr(weft, name), getattr(weft, ALSO[name])
    assert f.__name__ == name and inspect.signature(f) == inspect.signature(of) and pickle.loads(pickle.dumps(f)) is f
    for wrong in ({}, []), ("a", [[1], [1, 2]]), ((1, 2), (1, 2, 3), 9, 9, 9):
        with pytest.raises((TypeError, ValueError), match=rf"^{name}(: |\(\) )"):
            f(*wrong)


@pytest.mark.parametrize("where", MODULES)
def test_what_is_wrong_is_said_by_the_function_that_was_called(where):
    dice, space = random.Random(1), mx if where.startswith("mx") else weft
    others, n_errors = [], 0
    for name, f in functions(MODULES[where]):
        for _ in range(12):
            args, kwargs = wrong_call(f, space, dice)
            try:
                f(*args, **kwargs)
            except (ValueError, TypeError, IndexError, NotImplementedError, AttributeError, RuntimeError) as error:
                n_errors += 1
                if not is_said_by({name, f.__name__}, error) or re.search(r"\b(weft_|WEFT_|[fiu](8|16|32|64)\b|c64\b|c128\b)", str(error)):
                    others.append(f"{where}.{name}: {type(error).__name__} {str(error)[:150]}")
            except (MemoryError, OverflowError):
                pass
    assert not others, "\n".join(others)
    assert n_errors > 30
