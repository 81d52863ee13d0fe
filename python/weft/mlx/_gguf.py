"""Arrays in gguf files: a table of texts and arrays in front, then arrays of numbers or of packed blocks, with sizes in reverse order.

Arrays that are packed as 4 or 8 bits with a scale in blocks of 32 become codes, scales and biases, as `quantize` has them; those
of other packings become float16. All of a file is read when it is loaded: nothing of it is mapped."""
import io
import math
import struct

from .. import _core

_mlx = _core._mlx
_VERSIONS, _ALIGNMENT = (2, 3), 32
_MOST_AXES = 8

# Kinds of metadata: the word of struct, and the dtype.
_TEXT, _LIST, _DOUBLE = 8, 9, 12
_VALUES = {0: ("B", _mlx.uint8), 1: ("b", _mlx.int8), 2: ("H", _mlx.uint16), 3: ("h", _mlx.int16), 4: ("I", _mlx.uint32), 5: ("i", _mlx.int32),
           6: ("f", _mlx.float32), 7: ("?", _mlx.bool_), 10: ("Q", _mlx.uint64), 11: ("q", _mlx.int64), _DOUBLE: ("d", _mlx.float32)}
_KINDS = {dtype: kind for kind, (_, dtype) in _VALUES.items() if kind != _DOUBLE}

# Kinds of arrays that are numbers as they stand.
_PLAIN = {0: _mlx.float32, 1: _mlx.float16, 24: _mlx.int8, 25: _mlx.int16, 26: _mlx.int32}
_PLAIN_KINDS = {dtype: kind for kind, dtype in _PLAIN.items()}


def _names(dtypes):
    return ", ".join(dtype.name for dtype in dtypes)


class _Reader:
    def __init__(self, file, fail):
        self.file, self.fail = file, fail
        self.n_bytes = file.seek(0, io.SEEK_END)
        file.seek(0)

    def bytes(self, n):
        if n > self.n_bytes - self.file.tell():
            self.fail("it ends too early")
        return self.file.read(n)

    def number(self, word):
        return struct.unpack("<" + word, self.bytes(struct.calcsize("<" + word)))[0]

    def text(self):
        try:
            return self.bytes(self.number("Q")).decode()
        except UnicodeDecodeError:
            self.fail("a text is not UTF-8")

    def value(self):
        kind = self.number("I")
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            word, dtype = self.word(kind)
            return _mlx.array(self.number(word), dtype)
        kind, n = self.number("I"), self.number("Q")
        if kind == _TEXT:
            return [self.text() for _ in range(min(n, self.n_bytes + 1))]
        word, dtype = self.word(kind)
        given = _bytes(self, n * struct.calcsize("<" + word))
        return given.view(_mlx.float64 if kind == _DOUBLE else dtype).astype(dtype)

    def word(self, kind):
        if kind not in _VALUES:
            self.fail(f"metadata of kind {kind}")
        return _VALUES[kind]


def read(file, fail):
    """Arrays and metadata of a file that is opened to be read. fail(text) raises."""
    r = _Reader(file, fail)
    if r.bytes(4) != b"GGUF":
        fail("it does not begin with GGUF")
    version = r.number("I")
    if version not in _VERSIONS:
        fail(f"version {version}")
    n_arrays, n_values = r.number("Q"), r.number("Q")
    metadata = {}
    for _ in range(n_values):
        name = r.text()
        metadata[name] = r.value()
    heads = [_head(r) for _ in range(n_arrays)]
    alignment = int(metadata.get("general.alignment", _ALIGNMENT))
    if alignment < 1:
        fail(f"an alignment of {alignment}")
    begin = -(-file.tell() // alignment) * alignment
    arrays = {}
    for head in heads:
        for name, a in _read(r, begin, *head):
            if name in arrays:
                fail(f"two arrays are called {name!r}")
            arrays[name] = a
    return arrays, metadata


def _head(r):
    name, rank = r.text(), r.number("I")
    if rank > _MOST_AXES:
        r.fail(f"{name!r} has {rank} axes")
    shape = [r.number("Q") for _ in range(rank)][::-1]
    return name, shape, r.number("I"), r.number("Q")


def _read(r, begin, name, shape, kind, offset):
    """Pairs of a name and an array."""
    n = math.prod(shape)
    if begin + offset > r.n_bytes or n > 8 * r.n_bytes:
        r.fail(f"{name!r} lies beyond its end")
    r.file.seek(begin + offset)
    if kind in _PLAIN:
        dtype = _PLAIN[kind]
        return [(name, _bytes(r, n * dtype.size).view(dtype).reshape(shape))]
    if kind not in _PACKED:
        r.fail(f"{name!r} is of kind {kind}, which is none of {sorted([*_PLAIN, *_PACKED])}")
    length, n_bytes, unpack = _PACKED[kind]
    if not shape or shape[-1] % length:
        r.fail(f"{name!r} of shape {tuple(shape)} is packed in blocks of {length}")
    blocks = _bytes(r, n // length * n_bytes).reshape((n // length, n_bytes))
    parts = unpack(blocks)
    if len(parts) == 1:
        return [(name, parts[0].reshape(shape))]
    stem = name.removesuffix(".weight")
    return [(called, a.reshape([*shape[:-1], a.shape[-1] * (shape[-1] // length)]))
            for called, a in zip((name, stem + ".scales", stem + ".biases"), parts)]


def _bytes(r, n):
    return _mlx.as_mlx(_core.asarray(memoryview(r.bytes(n)))) if n else _mlx.zeros((0,), _mlx.uint8)


# ---- Blocks: [n, bytes] -> the parts, [n, of a block]


def _half(blocks, at):
    return blocks[:, at:at + 2].view(_mlx.float16)


def _nibbles(q):
    """Codes of 4 bits, of which a byte has k and k + 16, with neighbours side by side."""
    even, odd = q[:, 0::2], q[:, 1::2]
    return _mlx.concatenate([(even & 15) | ((odd & 15) << 4), (even >> 4) | (odd & 240)], 1).view(_mlx.uint32)


def _q4_0(blocks):
    scales = _half(blocks, 0)
    return _nibbles(blocks[:, 2:]), scales, -8 * scales


def _q4_1(blocks):
    return _nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks):
    scales = _half(blocks, 0)
    return (blocks[:, 2:] ^ 128).view(_mlx.uint32), scales, -128 * scales


def _float(a):
    return a.astype(_mlx.float32)


def _as_half(parts):
    return [_mlx.concatenate(parts, 1).astype(_mlx.float16)]


def _q2_k(blocks):
    """16 parts of 16: 4 bits of scale, 4 of the least; codes of 2 bits, of which a byte has four that stand 32 apart."""
    scales, codes, d, least = blocks[:, :16], blocks[:, 16:80], _float(_half(blocks, 80)), _float(_half(blocks, 82))
    parts = []
    for k in range(16):
        at = k // 8 * 32 + k % 2 * 16
        q, s = (codes[:, at:at + 16] >> (k % 8 // 2 * 2)) & 3, scales[:, k:k + 1]
        parts.append(d * _float(s & 15) * _float(q) - least * _float(s >> 4))
    return _as_half(parts)


def _q4_k(blocks):
    """8 parts of 32, each with 6 bits of scale and 6 of the least, in 12 bytes; codes of 4 bits."""
    d, least, s, codes = _float(_half(blocks, 0)), _float(_half(blocks, 2)), blocks[:, 4:16], blocks[:, 16:]
    parts = []
    for k in range(8):
        a, b, c = s[:, k % 4:k % 4 + 1], s[:, k % 4 + 4:k % 4 + 5], s[:, k % 4 + 8:k % 4 + 9]
        scale, low = (a & 63, b & 63) if k < 4 else ((c & 15) | ((a >> 6) << 4), (c >> 4) | ((b >> 6) << 4))
        q = codes[:, k // 2 * 32:k // 2 * 32 + 32]
        parts.append(d * _float(scale) * _float(q >> 4 if k % 2 else q & 15) - least * _float(low))
    return _as_half(parts)


def _q6_k(blocks):
    """16 parts of 16, each with a scale of 8 bits; codes of 4 bits and 2 more."""
    low, high, scales, d = blocks[:, :128], blocks[:, 128:192], blocks[:, 192:208].view(_mlx.int8), _float(_half(blocks, 208))
    parts = []
    for k in range(16):
        half, row, side = k // 8, k % 8 // 2, k % 2 * 16
        q = low[:, half * 64 + row % 2 * 32 + side:][:, :16]
        more = (high[:, half * 32 + side:][:, :16] >> (2 * row)) & 3
        code = _float((q >> 4 if row > 1 else q & 15) | (more << 4)) - 32
        parts.append(d * _float(scales[:, k:k + 1]) * code)
    return _as_half(parts)


def _bf16(blocks):
    return [blocks.view(_mlx.bfloat16).astype(_mlx.float16)]


# Of each kind: numbers in a block, its bytes, what takes them apart.
_PACKED = {2: (32, 18, _q4_0), 3: (32, 20, _q4_1), 8: (32, 34, _q8_0), 10: (256, 84, _q2_k), 12: (256, 144, _q4_k),
           14: (256, 210, _q6_k), 30: (1, 2, _bf16)}


# ---- Writing


def _text(s):
    said = s.encode()
    return struct.pack("<Q", len(said)) + said


def _value(name, given):
    if isinstance(given, str):
        return struct.pack("<I", _TEXT) + _text(given)
    if isinstance(given, (list, tuple)) and all(isinstance(s, str) for s in given):
        return struct.pack("<IIQ", _LIST, _TEXT, len(given)) + b"".join(map(_text, given))
    if not isinstance(given, _core.array):
        raise TypeError(f"save_gguf: the metadata {name!r} is a text, a list of texts or an array, not {type(given).__name__}")
    if given.ndim > 1 or not given.size:
        raise RuntimeError(f"save_gguf: the metadata {name!r} has the shape {tuple(given.shape)}, and numbers or rows of them are written")
    if given.dtype not in _KINDS:
        raise ValueError(f"save_gguf: the metadata {name!r} is {given.dtype.name}, which is none of {_names(_KINDS)}")
    kind = _KINDS[given.dtype]
    head = struct.pack("<IIQ", _LIST, kind, given.size) if given.ndim else struct.pack("<I", kind)
    return head + memoryview(given).tobytes()


def _padding(n):
    return bytes(-n % _ALIGNMENT)


def write(file, arrays, metadata):
    """To a file that is opened to be written."""
    head = [b"GGUF", struct.pack("<IQQ", _VERSIONS[-1], len(arrays), len(metadata))]
    head += [_text(name) + _value(name, given) for name, given in metadata.items()]
    offset = 0
    for name, a in arrays.items():
        if a.dtype not in _PLAIN_KINDS:
            raise RuntimeError(f"save_gguf: {name!r} is {a.dtype.name}, which is none of {_names(_PLAIN_KINDS)}")
        if a.ndim > _MOST_AXES:
            raise RuntimeError(f"save_gguf: {name!r} has {a.ndim} axes, and {_MOST_AXES} are the most")
        head.append(_text(name) + struct.pack(f"<I{a.ndim}QIQ", a.ndim, *a.shape[::-1], _PLAIN_KINDS[a.dtype], offset))
        offset += a.nbytes + len(_padding(a.nbytes))
    head = b"".join(head)
    file.write(head + _padding(len(head)))
    for a in arrays.values():
        file.write(memoryview(a).tobytes())
        file.write(_padding(a.nbytes))
