"""mlx.core, by weft."""
from math import e, inf, nan, pi

from ..._core import _mlx
from .. import _array, _device, _dtype, _einsum, _file, _quantised, _transform
from .._missing import add_missing as _add_missing

globals().update((row["name"], getattr(_mlx, row["name"])) for row in _mlx.names if not row["name"].startswith("_"))
globals().update((name, x) for name, x in vars(_mlx).items() if isinstance(x, _mlx.Dtype))
array, Dtype = _mlx.array, _mlx.Dtype
for _module in (_array, _device, _dtype, _einsum, _file, _quantised, _transform):
    globals().update((name, x) for name, x in vars(_module).items()
                     if not name.startswith("_") and getattr(x, "__module__", None) == _module.__name__)
from .._text import PrintOptions, get_printoptions, printoptions, set_printoptions  # noqa: E402
from .._device import (  # noqa: E402
    clear_cache, get_active_memory, get_cache_memory, get_peak_memory, reset_peak_memory)
from .._transform import checkpoint, custom_function  # noqa: E402

globals().update((kind.name, kind) for kind in DtypeCategory)  # noqa: F821
cpu, gpu = DeviceType.cpu, DeviceType.gpu  # noqa: F821
newaxis, euler_gamma = None, 0.57721566490153286
ArrayLike = object
ArrayIterator = type(iter(array([1])))

acos, acosh, asin, asinh, atan, atanh, atan2 = arccos, arccosh, arcsin, arcsinh, arctan, arctanh, arctan2  # noqa: F821
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift  # noqa: F821
cumulative_sum, cumulative_prod = cumsum, cumprod  # noqa: F821
concat, empty, empty_like, pow = concatenate, zeros, zeros_like, power  # noqa: F821
permute_dims = transpose  # noqa: F821

from . import cuda, distributed, fast, fft, linalg, metal, random  # noqa: E402
from .linalg import norm as matrix_norm  # noqa: E402

__version__ = "0.32.4"

_add_missing(globals(), "mlx.core", [
    "FunctionExporter", "export_function", "exporter", "import_function"])
_device._place_all(globals())
