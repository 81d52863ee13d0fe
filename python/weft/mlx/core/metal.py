"""There is no Metal here."""
from .. import _device
from .._missing import add_missing as _add_missing


def is_available():
    """False.

    >>> mx.metal.is_available()
    False
    """
    return False


for _name in ("clear_cache", "device_info", "get_active_memory", "get_cache_memory", "get_peak_memory", "reset_peak_memory",
              "set_cache_limit", "set_memory_limit", "set_wired_limit"):
    globals()[_name] = getattr(_device, _name)
_add_missing(globals(), "mlx.core.metal", ["start_capture", "stop_capture"], "there is no Metal here")
