"""gguf files: what is written is read, packed blocks are the numbers that the format says, and files that are cut or wrong are refused.
The oracle of blocks takes one number at a time, as the format is told."""
import io
import struct

import numpy as np
import pytest

import weft.mlx.core as mx

RANDOM = np.random.default_rng(11)


def _written(arrays, metadata=None):
    file = io.BytesIO()
    mx.save_gguf(file, arrays, metadata)
    return file.getvalue()


def _loaded(data):
    return mx.load(io.BytesIO(data), format="gguf", return_metadata=True)


def _same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and mx.array_equal(a, b).item() if isinstance(b, mx.array) else a == b


def test_arrays_and_metadata_are_read_as_they_were_written(tmp_path):
    arrays = {"f": mx.arange(15.0).reshape(3, 5) / 8, "h": mx.arange(24).reshape(4, 2, 3).astype(mx.float16), "i8": mx.arange(7).astype(mx.int8),
              "i16": mx.arange(6).astype(mx.int16).reshape(2, 3)[:, ::-1], "i": mx.array([[1, 2], [3, 4]]).T, "s": mx.array(2.5), "none": mx.zeros((0, 3))}
    metadata = {"general.name": "a text é", "empty": "", "texts": ["x", "", "yz"], "one": mx.array(True)}
    for dtype in (mx.uint8, mx.int8, mx.uint16, mx.int16, mx.uint32, mx.int32, mx.uint64, mx.int64, mx.float32, mx.bool_):
        metadata[f"{dtype} row"], metadata[f"{dtype}"] = mx.array([1, 0, 3]).astype(dtype), mx.array(1).astype(dtype)
    mx.save_gguf(str(tmp_path / "a"), arrays, metadata)
    for of in (str(tmp_path / "a.gguf"), tmp_path / "a.gguf"):
        said, told = mx.load(of, return_metadata=True)
        assert list(said) == list(arrays) and all(_same(said[k], arrays[k]) for k in arrays)
        assert list(told) == list(metadata) and all(_same(told[k], metadata[k]) for k in metadata)
    assert list(mx.load(tmp_path / "a.gguf")) == list(arrays)


def test_doubles_of_metadata_and_an_alignment_of_its_own_are_read():
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 3) + b"".join(
        struct.pack("<Q", len(name)) + name + value for name, value in (
            (b"general.alignment", struct.pack("<II", 4, 64)), (b"d", struct.pack("<Id", 12, 2.5)), (b"ds", struct.pack("<IIQdd", 9, 12, 2, 1.5, -1.0))))
    head += struct.pack("<Q", 1) + b"x" + struct.pack("<IQIQ", 1, 2, 0, 64)
    data = head.ljust(-(-len(head) // 64) * 64 + 64, b"\0") + struct.pack("<ff", 7, 8)
    arrays, metadata = _loaded(data)
    assert arrays["x"].tolist() == [7, 8]
    assert metadata["d"].dtype == mx.float32 and metadata["d"].item() == 2.5 and metadata["ds"].tolist() == [1.5, -1.0]


def _file_of(kind, length, blocks, rows=2):
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 8) + b"t.weight"
    head += struct.pack("<IQQIQ", 2, length * len(blocks) // rows, rows, kind, 0)
    return head.ljust(-(-len(head) // 32) * 32, b"\0") + blocks.tobytes()


def _half(block, at):
    return float(block[at:at + 2].view(np.float16)[0])


def _plain_q2(b):
    for k in range(256):
        scale, code = int(b[k // 16]), int(b[16 + k // 128 * 32 + k % 32])
        yield _half(b, 80) * (scale & 15) * (code >> (k % 128 // 32 * 2) & 3) - _half(b, 82) * (scale >> 4)


def _plain_q4(b):
    s = [int(x) for x in b[4:16]]
    for k in range(256):
        j, code = k // 32, int(b[16 + k // 64 * 32 + k % 32])
        scale, low = (s[j] & 63, s[j + 4] & 63) if j < 4 else (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
        yield _half(b, 0) * scale * (code >> 4 if j % 2 else code & 15) - _half(b, 2) * low


def _plain_q6(b):
    for k in range(256):
        half, row, i = k // 128, k % 128 // 32, k % 32
        low, high = int(b[half * 64 + row % 2 * 32 + i]), int(b[128 + half * 32 + i])
        yield _half(b, 208) * int(b[192 + k // 16].view(np.int8)) * ((low >> 4 if row > 1 else low & 15) + ((high >> 2 * row & 3) << 4) - 32)


PACKED = {"4 bits": (2, 32, 18, [0], 4, lambda b: (_half(b, 0) * ((b[2 + k % 16] >> k // 16 * 4 & 15) - 8.0) for k in range(32))),
          "4 bits, from the least": (3, 32, 20, [0, 2], 4, lambda b: (_half(b, 0) * (b[4 + k % 16] >> k // 16 * 4 & 15) + _half(b, 2) for k in range(32))),
          "8 bits": (8, 32, 34, [0], 8, lambda b: (_half(b, 0) * float(b[2 + k].view(np.int8)) for k in range(32))),
          "parts of 2": (10, 256, 84, [80, 82], 0, _plain_q2), "parts of 4": (12, 256, 144, [0, 2], 0, _plain_q4),
          "parts of 6": (14, 256, 210, [208], 0, _plain_q6)}


@pytest.mark.parametrize("name", PACKED)
def test_packed_blocks_are_the_numbers_that_the_format_says(name):
    kind, length, n_bytes, halves, bits, plain = PACKED[name]
    blocks = RANDOM.integers(0, 256, (4, n_bytes)).astype(np.uint8)
    for at in halves:
        blocks[:, at:at + 2] = (RANDOM.integers(-64, 65, (4, 1)) / 1024).astype(np.float16).view(np.uint8)
    want = np.array([list(plain(b)) for b in blocks]).reshape(2, -1)
    arrays, _ = _loaded(_file_of(kind, length, blocks))
    if bits:
        assert sorted(arrays) == ["t.biases", "t.scales", "t.weight"] and arrays["t.weight"].dtype == mx.uint32
        said = mx.dequantize(arrays["t.weight"], arrays["t.scales"], arrays["t.biases"], group_size=32, bits=bits)
    else:
        [said] = arrays.values()
        assert said.dtype == mx.float16
    np.testing.assert_allclose(np.array(said.astype(mx.float32)), want, rtol=2e-3, atol=1e-3)


def test_bfloat16_becomes_float16():
    numbers = mx.array([[1.5, -2.0], [0.25, 3.0]]).astype(mx.bfloat16)
    arrays, _ = _loaded(_file_of(30, 1, np.array(numbers.view(mx.uint16)).reshape(-1, 1)))
    assert arrays["t.weight"].dtype == mx.float16 and arrays["t.weight"].tolist() == numbers.tolist()


def test_a_file_that_is_cut_or_wrong_is_refused():
    """Wherever it ends: an OSError that is MLX's RuntimeError too, with what is wrong."""
    data = _written({"a": mx.arange(40.0), "b": mx.ones((2, 3), mx.int8)}, {"t": "text", "l": ["a", "bc"], "n": mx.array([1, 2])})
    for n in range(len(data) - 31):  # the last array, of 6 bytes, is padded to 32
        with pytest.raises(RuntimeError, match="load: "):
            _loaded(data[:n])
    many = data[:8] + struct.pack("<QQ", 2 ** 63, 2 ** 63) + data[24:]
    for wrong, why in ((b"GGML" + data[4:], "begin with GGUF"), (data[:4] + b"\x09" + data[5:], "version 9"), (many, "load: "),
                       (_file_of(7, 32, np.zeros((2, 24), np.uint8)), "of kind 7"), (_file_of(2, 32, np.zeros((3, 18), np.uint8)), "blocks of 32"),
                       (data.replace(b"\x01\0\0\0\0\0\0\0b", b"\x01\0\0\0\0\0\0\0a"), "two arrays")):
        with pytest.raises(OSError, match=why):
            _loaded(wrong)


def test_what_gguf_has_no_place_for_is_refused_and_the_file_that_was_there_stays(tmp_path):
    path = tmp_path / "a.gguf"
    mx.save_gguf(path, {"a": mx.ones(3)})
    for kind, arrays, metadata in ((RuntimeError, {"a": mx.ones(3, mx.bfloat16)}, {}), (RuntimeError, {"a": mx.ones((1,) * 9)}, {}),
                                   (ValueError, {}, {"m": mx.array(1, mx.float16)}), (RuntimeError, {}, {"m": mx.ones((2, 2))}),
                                   (TypeError, {}, {"m": 5}), (TypeError, {"a": [1, 2]}, {}), (TypeError, [mx.ones(3)], {}), (TypeError, {5: mx.ones(3)}, {})):
        with pytest.raises(kind, match="save_gguf: "):
            mx.save_gguf(path, arrays, metadata)
    assert mx.load(path)["a"].tolist() == [1, 1, 1] and [p.name for p in tmp_path.iterdir()] == ["a.gguf"]
    with pytest.raises(RuntimeError):
        mx.save_gguf(tmp_path / "none" / "a", {"a": mx.ones(3)})
    with pytest.raises(ValueError, match="no file"):
        mx.load(tmp_path / "none.gguf")
