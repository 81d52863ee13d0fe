import json
import struct

import numpy as np
import pytest
import weft


def test_npy_goes_both_ways(tmp_path, rng):
    x = rng.standard_normal((3, 4)).astype(np.float32)
    weft.save(tmp_path / "x", weft.array(x)[:, ::-1])
    assert np.array_equal(np.load(tmp_path / "x.npy"), x[:, ::-1])
    for y in [x, x.astype(np.float64), np.asfortranarray(x), (x * 10).astype(np.int32), x > 0, np.float32(3), x[:0]]:
        np.save(tmp_path / "y.npy", y)
        assert np.array_equal(np.array(weft.load(tmp_path / "y.npy")), y)


def test_safetensors_keep_names_order_dtypes_and_metadata(tmp_path):
    arrays = {"b": weft.arange(6).reshape(2, 3), "a": weft.array([1.5, 2.5], dtype=weft.bfloat16), "empty": weft.zeros((0, 2))}
    weft.save_safetensors(tmp_path / "w.safetensors", arrays, {"key": "value", "ключ": "значение"})
    back, metadata = weft.load(tmp_path / "w.safetensors", return_metadata=True)
    assert sorted(back) == ["a", "b", "empty"] and metadata == {"key": "value", "ключ": "значение"}
    for name, a in arrays.items():
        assert back[name].dtype is a.dtype and back[name].shape == a.shape and back[name].tolist() == a.tolist()


def test_a_loaded_array_is_lazy_and_outlives_the_file(tmp_path):
    weft.save_safetensors(tmp_path / "w", {"x": weft.arange(1000).astype(weft.float32)})
    x = weft.load(tmp_path / "w.safetensors")["x"]
    y = (x * 2).sum()
    (tmp_path / "w.safetensors").unlink()
    assert y.item() == 999000


def test_a_file_can_be_written_over_while_it_is_loaded(tmp_path):
    path = tmp_path / "w.safetensors"
    weft.save_safetensors(path, {"x": weft.arange(4)})
    for _ in range(3):
        x = weft.load(path)["x"]
        weft.save_safetensors(path, {"x": x + 1})
    assert weft.load(path)["x"].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("content", [b"", b"nonsense", struct.pack("<Q", 2**60), struct.pack("<Q", 4) + b"null",
                                     struct.pack("<Q", 100) + json.dumps({"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}).ljust(100).encode()])
def test_wrong_files_are_refused(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(OSError):
        weft.eval(weft.load(path))


def test_a_failed_save_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "w.safetensors"
    weft.save_safetensors(path, {"x": weft.arange(3)})
    with pytest.raises(IndexError):
        weft.save_safetensors(path, {"x": weft.arange(3)[weft.array([9])]})
    assert weft.load(path)["x"].tolist() == [0, 1, 2]
    with pytest.raises(OSError):
        weft.save(tmp_path / "missing" / "x", weft.arange(3))


@pytest.mark.parametrize("kind, bits", [("e4m3", "F8_E4M3"), ("e5m2", "F8_E5M2")])
def test_floats_of_8_bits_are_read_and_written(tmp_path, kind, bits):
    import json
    import struct
    data = bytes(range(256))
    head = json.dumps({"w": {"dtype": bits, "shape": [16, 16], "data_offsets": [0, 256]}}).encode()
    path = tmp_path / "f8.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)
    w = weft.load(str(path))["w"]
    assert w.dtype.name.startswith("float8_" + kind) and w.shape == (16, 16)
    exponent, digits, bias = (4, 3, 7) if kind == "e4m3" else (5, 2, 15)

    def value(b):
        sign, e, m = -1.0 if b & 128 else 1.0, b >> digits & (1 << exponent) - 1, b & (1 << digits) - 1
        if kind == "e4m3" and b & 127 == 127 or kind == "e5m2" and e == 31:
            return sign * np.inf if kind == "e5m2" and m == 0 else np.nan
        return sign * (m / 2 ** digits * 2.0 ** (1 - bias) if e == 0 else (1 + m / 2 ** digits) * 2.0 ** (e - bias))
    np.testing.assert_array_equal(np.asarray(w).ravel(), np.float32([value(b) for b in range(256)]))
    for name in ("again.safetensors", "again.npy"):
        weft.save_safetensors(str(tmp_path / name), {"w": w}) if name.endswith("s") else weft.save(str(tmp_path / name), w)
        again = weft.load(str(tmp_path / name))
        again = again["w"] if isinstance(again, dict) else again
        assert again.dtype == w.dtype and again.view(weft.uint8).tolist() == w.view(weft.uint8).tolist()
        assert data in (tmp_path / name).read_bytes()
