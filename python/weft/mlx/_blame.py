"""Of a call that failed: whether an argument has a type that MLX takes for no such parameter. That is a TypeError there, whatever
else is wrong with the call; here more types are taken, and something else may have failed first. Parameters of one name are of one
kind."""
import os

from .. import _core

_mlx = _core._mlx

_LIKE = frozenset(  # functions whose arrays may be numbers and lists
    "abs acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh array_equal asarray asin asinh atan atan2 "
    "atanh broadcast_to bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil conj conjugate cos "
    "cosh degrees divide divmod equal erf erfinv exp expm1 floor floor_divide greater greater_equal imag isfinite isinf "
    "isnan isneginf isposinf left_shift less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or "
    "logical_xor maximum minimum multiply nan_to_num negative not_equal pow power radians real reciprocal remainder "
    "right_shift round rsqrt sigmoid sign sin sinh sqrt square subtract tan tanh where".split())


def _is_array(x):
    """Of others that say how they become arrays, what they raise is what is wrong."""
    kind = type(x)
    return isinstance(x, _core.array) or kind.__module__ != "numpy" and (hasattr(kind, "__array__") or hasattr(kind, "__mlx_array__"))


def _is_whole(x):
    """Of an array, weft's or NumPy's, whether its elements are integers."""
    return getattr(x.dtype, "name", "").lstrip("u").startswith("int")


def _is_int(x):
    if isinstance(x, _core.array) or type(x).__module__ == "numpy":
        return getattr(x, "ndim", 1) == 0 and _is_whole(x) and (isinstance(x, _core.array) or -2 ** 31 <= int(x) < 2 ** 31)
    return hasattr(type(x), "__index__") and (not isinstance(x, int) or -2 ** 31 <= x < 2 ** 31)


def _is_float(x):
    return (_is_int(x) or hasattr(type(x), "__float__")) and getattr(x, "size", 1) == 1


def _is_ints(x):
    if isinstance(x, _core.array) or type(x).__module__ == "numpy":
        return getattr(x, "ndim", 0) == 1 and _is_whole(x)
    return isinstance(x, (list, tuple, range)) and all(map(_is_int, x))


def _is_dtype(x):
    return isinstance(x, _mlx.Dtype)


def _one_or_more(x):
    return _is_int(x) or _is_ints(x)


_KINDS = {}
for _kind, _is, _names in (
    ("an array", _is_array,
     "a b c x y w v q weight input scales biases arr array indices values logits targets mean cov segments update "
     "start_indices sorted_sequence key lhs_indices rhs_indices mask_lhs mask_out mask_rhs window freqs bias stft_matrix "
     "global_scale global_scale_x global_scale_w sinks"),
    ("an int", _is_int,
     "M ddof decimals start_axis end_axis axis1 axis2 kth n m repeats group_size bits block_size groups num num_samples "
     "n_fft hop_length win_length length offset dims size k destination source"),
    ("a bool", lambda x: isinstance(x, bool),
     "keepdims reverse inclusive equal_nan precise transpose sorted_indices traditional upper endpoint allow_col_major flip "
     "center onesided return_index return_inverse return_counts compute_uv sparse"),
    ("a number", _is_float, "start stop step alpha beta atol rtol eps nan posinf neginf d base scale loc"),
    ("a string", lambda x: isinstance(x, str), "norm mode side pad_mode indexing subscripts UPLO"),
    ("a number or a string", lambda x: isinstance(x, str) or _is_float(x), "ord"),
    ("a dtype", _is_dtype, "dtype"),
    ("an int or several", _one_or_more, "axis padding stride dilation output_padding kernel_dilation input_dilation reps"),
    ("several ints", _is_ints, "shape strides axes s slice_size"),
    ("a list of arrays", lambda x: isinstance(x, (list, tuple)) and all(map(_is_array, x)), "arrays"),
):
    _KINDS.update((name, (_kind, _is)) for name in _names.split())
_EITHER = {  # parameters that are of another kind in these functions
    "k": {"scaled_dot_product_attention", "gated_delta_update"},
    "beta": {"gated_delta_update"},
    "x": {"permutation"},
    "scale": {"normal"},
    "loc": {"normal"},
    "offset": {"rope"},
    "mode": {"pad"},
    "shape": {"zeros", "ones", "full", "empty", "reshape"},
    "axes": {"fftshift", "ifftshift", "tensordot"},
    "padding": {"conv_general"},
    "upper": {"truncated_normal"},
}
_ONE_AXIS = frozenset(
    "argmax argmin sort argsort partition argpartition topk cumsum cumprod cummax cummin logcumsumexp concatenate concat "
    "stack split diff repeat take take_along_axis put_along_axis unflatten unstack vecdot categorical cross fft ifft rfft "
    "irfft".split())


_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SAID = (ValueError, TypeError, IndexError, AttributeError, NotImplementedError, _core.AxisError)


def said_by(function, error):
    """An error that arose in this package begins with the function that was called, in place of one that it called."""
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename.startswith(_FOLDER):
        trace = trace.tb_next
    if trace or type(error) not in _SAID or len(error.args) != 1 or str(error).startswith("["):
        return
    who, colon, rest = str(error).partition(": ")
    module = "random." if function.__module__.endswith(".random") else ""
    error.args = (f"{module}{function.__name__}: {rest if colon and who.replace('.', '_').isidentifier() else error}",)


def _shown(arg):
    return repr(arg) if isinstance(arg, int) else type(arg).__name__


def wrong_type(function, names, args):
    """A text that names the first argument of a wrong type; None: all are well."""
    for name, arg in zip(names, args):
        kind, is_right = _KINDS.get(name, (None, None))
        if name == "indices" and function == "take":
            kind, is_right = "an int or an array", lambda x: _is_int(x) or _is_array(x)
        if name == "shape" and function == "broadcast_to":  # there alone one number is no shape
            is_right = lambda x: not isinstance(x, int)
        if name == "axes" and function in ("transpose", "permute_dims"):  # methods take them one by one, too
            is_right = lambda x: not isinstance(x, int)
        if kind == "an array" and function in _LIKE or function in _EITHER.get(name, ()):
            continue
        if name == "axis" and function in _ONE_AXIS:
            kind, is_right = "an int", _is_int
        if kind and arg is not None and not is_right(arg):
            return f"{function}: {name} is {kind}{' of 32 bits' if isinstance(arg, int) else ''}, not {_shown(arg)}"
    return None

