"""Devices, streams and memory, on those of weft: mx.cpu is weft's device 0, the gpu its device 1 where there is one. A stream is a
name of its device: weft orders work by what it needs. What is not the default device's work, by stream= or in `with stream(..)`, gets
its operands brought there (python/src/place.c)."""
import enum
import functools
import operator
import sys
import threading
import types
import weakref

from .. import _core, _run


class DeviceType(enum.Enum):
    """The kinds of devices."""

    cpu = 0
    gpu = 1

    def __eq__(self, other):
        if isinstance(other, Device):
            return other.type is self and other.index == 0
        return self is other

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"DeviceType.{self.name}"


class Device:
    """A place to compute: its type, cpu or gpu, and a number."""

    def __init__(self, type, index=0):
        self.type, self.index = type, index

    def __eq__(self, other):
        if isinstance(other, DeviceType):
            return self.type is other and self.index == 0
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __repr__(self):
        return f"Device({self.type.name}, {self.index})"


class Stream:
    """Work in order on a device."""

    def __init__(self, device, index, thread=None):
        self.device, self.index, self._thread = device, index, thread

    def __eq__(self, other):
        return type(self) is type(other) and (self.device, self.index) == (other.device, other.index)

    def __hash__(self):
        return hash((self.device, self.index))

    def __repr__(self):
        return f"{type(self).__name__}({self.device!r}, {self.index})"


class ThreadLocalStream(Stream):
    """A stream of its own in every thread."""


def _at_first():
    n = _core.get(_run._DEVICE)  # the environment's WEFT_DEVICE
    return Device(DeviceType.gpu, n - 1) if n > 0 else Device(DeviceType.cpu)


_default = [_at_first()]
_local = threading.local()
_lock = threading.Lock()
_n_streams = [2]  # 0 and 1 are the defaults of cpu and gpu


def _as_device(device):
    if isinstance(device, Stream):
        return device.device
    if isinstance(device, DeviceType):
        return Device(device)
    if not isinstance(device, Device) and hasattr(type(device), "__index__") and operator.index(device) in (0, 1):
        return Device(DeviceType.gpu if operator.index(device) else DeviceType.cpu)  # the numbers of the types, which MLX takes
    if not isinstance(device, Device):
        raise TypeError(f"a device or a stream is expected, not {type(device).__name__}")
    return device


def is_available(device):
    """Whether there is such a device. The cpu is always there.

    >>> mx.is_available(mx.cpu)
    True
    """
    device = _as_device(device)
    return device.index < device_count(device.type)


def device_count(device_type):
    """How many devices of a type there are.

    >>> mx.device_count(mx.cpu)
    1
    """
    return 1 if device_type == DeviceType.cpu else _run.device_count() - 1


def device_info(d=None):
    """What is known of a device, as a dict.

    >>> 'device_name' in mx.device_info(mx.cpu)
    True
    """
    device = _as_device(d) if d is not None else default_device()
    if not is_available(device):
        raise ValueError(f"device_info: there is no {device!r}")
    if device.type is DeviceType.cpu:
        import platform

        return {"device_name": platform.processor() or platform.machine(), "architecture": platform.machine()}
    return {"device_name": "cuda", "architecture": "cuda"}


def default_device():
    """Where work runs unless something else is said.

    >>> mx.default_device()
    Device(cpu, 0)
    """
    return getattr(_local, "device", None) or _default[0]


def set_default_device(device):
    """Where work of this thread runs from here on, or in a stream's block up to its end.

    >>> mx.set_default_device(mx.cpu)
    """
    device = _there(device)
    if getattr(_local, "device", None) is not None:
        _local.device = device
        _core._mlx._set_place(_number(device))
        return
    _default[0] = device
    _run.set_device(0 if device.type is DeviceType.cpu else 1 + device.index)


def _number(s):
    """weft's number of the device of a stream; -1: this thread's work runs there anyway, or there is no such device."""
    device = _as_device(s)
    number = 0 if device.type is DeviceType.cpu else 1 + device.index
    return -1 if number == max(_core.get(_run._DEVICE), 0) or not is_available(device) else number


def _parameters(function):
    code = function.__code__
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _flags(function):
    """[(place, name)] of the parameters whose default is True or False; what has no place is named."""
    code, by_name = function.__code__, function.__kwdefaults__ or {}
    first = code.co_argcount - len(function.__defaults__ or ())
    found = [(first + k, code.co_varnames[first + k]) for k, value in enumerate(function.__defaults__ or ()) if isinstance(value, bool)]
    return found + [(sys.maxsize, name) for name, value in by_name.items() if isinstance(value, bool)]


def _anywhere(function):
    """The function with its stream= seen to, which then is not its matter."""
    names = _parameters(function)
    at = names.index("stream") if "stream" in names[:function.__code__.co_argcount] else sys.maxsize
    flags = _flags(function)

    @functools.wraps(function)
    def placed(*args, stream=None, **kwargs):
        if len(args) > at:
            args, stream = args[:at] + args[at + 1:], args[at]
        for k, name in flags:  # True and False alone, as there
            given = args[k] if k < len(args) else kwargs.get(name, False)
            if given is not True and given is not False:
                raise TypeError(f"{function.__name__}: {name} is True or False, not {type(given).__name__}")
        device = _core._mlx._place(stream)
        try:
            return function(*args, **kwargs) if device < 0 else _core._mlx._run_at(device, function, args, kwargs)
        except (ValueError, LookupError, AttributeError, OverflowError, TypeError, NotImplementedError) as error:
            from ._blame import said_by, wrong_type

            named = tuple(zip(names[:function.__code__.co_argcount], args)) + tuple(kwargs.items())
            text = wrong_type(function.__name__, [name for name, _ in named], [value for _, value in named])
            if text is None or isinstance(error, (TypeError, NotImplementedError)):
                said_by(function, error)
                raise
            raise TypeError(text) from error

    return placed


def _place_all(namespace):
    """Does that to the functions of a module that have it."""
    for name, f in list(namespace.items()):
        if isinstance(f, types.FunctionType) and f.__module__ != __name__ and "stream" in _parameters(f):
            namespace[name] = _anywhere(f)


def _there(device):
    device = _as_device(device)
    if not is_available(device):
        raise ValueError(f"there is no {device!r}")
    return device


def _defaults():
    if not hasattr(_local, "streams"):
        _local.streams = {}
    return _local.streams


def default_stream(device):
    """The stream of a device that work goes to.

    >>> mx.default_stream(mx.cpu).device == mx.cpu
    True
    """
    device = _there(device)
    return _defaults().get(device) or Stream(device, 0 if device.type is DeviceType.cpu else 1)


def set_default_stream(stream):
    """Makes a stream the default of its device.

    >>> mx.set_default_stream(mx.default_stream(mx.cpu))
    """
    _defaults()[stream.device] = stream


def _new(kind, device, thread=None):
    device = _there(device)
    with _lock:
        _n_streams[0] += 1
        return kind(device, _n_streams[0] - 1, thread)


def new_stream(device):
    """A new stream of a device, for this thread.

    >>> mx.new_stream(mx.cpu).device == mx.cpu
    True
    """
    return _new(Stream, device, threading.get_ident())


def new_thread_unsafe_stream(device):
    """A new stream of a device, for several threads.

    >>> mx.new_thread_unsafe_stream(mx.cpu).device == mx.cpu
    True
    """
    return _new(Stream, device)


def new_thread_local_stream(device):
    """A new stream of a device in each thread that uses it.

    >>> mx.new_thread_local_stream(mx.cpu).device == mx.cpu
    True
    """
    return _new(ThreadLocalStream, device)


def clear_streams():
    """Forgets the default streams of this thread.

    >>> mx.clear_streams()
    """
    _defaults().clear()


class StreamContext:
    """with stream(s): s is the default, and so is its device."""

    def __init__(self, s):
        if s is None:
            raise RuntimeError("stream: a stream or a device is expected, not None")
        self._device, self._stream = _as_device(s), s if isinstance(s, Stream) else None

    def __enter__(self):
        if self._stream is not None and self._stream._thread not in (None, threading.get_ident()):
            raise RuntimeError(f"stream: {self._stream!r} is another thread's")
        device = _there(self._device)
        self._before = getattr(_local, "device", None), default_stream(device), _core._mlx._set_place(_number(device))
        _local.device = device
        if self._stream is not None:
            set_default_stream(self._stream)

    def __exit__(self, *why):
        _local.device, stream, place = self._before
        set_default_stream(stream)
        _core._mlx._set_place(place)


def stream(s):
    """with stream(s): work goes to the stream, or to the device.

    >>> mx.stream(mx.cpu).__enter__() is not None
    False
    """
    return StreamContext(s)


_started = []  # weak references to arrays whose computation async_eval has started


def _note_started(arrays):
    _started[:] = [r for r in _started if _is_running(r())] + [weakref.ref(x) for x in arrays]


def _is_running(x):
    return x is not None and _core.state(x) == "running"


def synchronize(stream=None):
    """Waits for what async_eval has started, of this thread all, of others what somebody still holds, and raises what made it fail. The
    stream says nothing: all are one here.

    >>> mx.synchronize()
    """
    waiting, _started[:] = [r() for r in _started], []
    _core.wait_all()
    for x in waiting:
        if x is not None and _core.state(x) in ("running", "failed"):
            _core.wait([x], -1.0)


get_active_memory, get_peak_memory = _run.get_active_memory, _run.get_peak_memory
reset_peak_memory, get_cache_memory, clear_cache = _run.reset_peak_memory, _run.get_cache_memory, _run.clear_cache
_limits = {"wired": 0, "memory": None}


def set_memory_limit(limit):
    """So many bytes are to be used at most: a guideline, as in MLX, beyond which nothing is kept for reuse. weft.set_memory_limit is one
    that holds. Returns the limit before.

    >>> mx.set_memory_limit(mx.set_memory_limit(1 << 40)) == 1 << 40
    True
    """
    before = get_memory_limit()
    _limits["memory"] = limit
    if _run.get_active_memory() + _run.get_cache_memory() > limit:
        _run.clear_cache()
    return before


def get_memory_limit():
    """The limit of set_memory_limit.

    >>> mx.get_memory_limit() > 0
    True
    """
    return _core.get(_run._LIMIT) if _limits["memory"] is None else _limits["memory"]


def set_cache_limit(limit):
    """The most bytes to keep for reuse. Returns the limit before.

    >>> mx.set_cache_limit(mx.set_cache_limit(1 << 40)) == 1 << 40
    True
    """
    return _run.set_cache_limit(limit)


def set_wired_limit(limit):
    """Nothing is wired here. Returns the limit before.

    >>> mx.set_wired_limit(0)
    0
    """
    before, _limits["wired"] = _limits["wired"], limit
    return before
