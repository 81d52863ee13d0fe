"""Memory of a GPU exchanged with other libraries. Without a GPU nothing here runs; tools/gpu runs it where there is one, and
the driver of test/driver serves for what needs no torch."""

import gc

import pytest

import weft


def on_device(values):
    try:
        x = weft.to_device(weft.array(values), 1) + 0
        weft.eval(x)
    except RuntimeError as e:
        pytest.skip(f"no device: {e}")
    if x.__dlpack_device__() == (1, 0):
        pytest.skip("no device")
    return x


def test_an_array_on_a_device_is_shown_there():
    x = on_device([1.0, 2.0, 3.0])
    assert x.__dlpack_device__() == (2, 0)
    y = weft.from_dlpack(x)
    assert y.__dlpack_device__() == (2, 0)
    assert (weft.to_device(y, 1) * 2).tolist() == [2, 4, 6]
    assert y.tolist() == [1, 2, 3]
    del x
    gc.collect()
    assert (y + 1).tolist() == [2, 3, 4]


def test_what_others_have_on_a_device_is_shown_to_the_host_as_a_copy():
    numpy = pytest.importorskip("numpy")
    x = on_device([1.0, 2.0, 3.0])
    y = weft.from_dlpack(x)
    for a in (x, y, x * 1):
        assert numpy.asarray(a).tolist() == [1, 2, 3]
        assert numpy.array(a[1:]).tolist() == [2, 3]
        assert memoryview(a).tolist() == [1, 2, 3]
    assert numpy.from_dlpack(x, device="cpu").tolist() == [1, 2, 3]
    assert y.__dlpack_device__() == (2, 0)


def test_another_device_is_refused():
    x = on_device([1.0])
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 7))
    with pytest.raises(TypeError):
        x.__dlpack__(dl_device=3)
    assert x.__dlpack__(dl_device=(1, 0)) is not None


class Claims:
    """Says that memory of the host is a GPU's."""

    def __init__(self, device):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        raise AssertionError("nobody should ask")


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(BufferError):
        weft.from_dlpack(Claims((2, 15)))


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    on_device([1.0])
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


def test_torch_uses_memory_of_weft_where_it_is(torch):
    x = on_device([[float(i * 7 + j) for j in range(7)] for i in range(5)])
    t = torch.from_dlpack(x)
    u = torch.from_dlpack(x)
    assert t.is_cuda and t.shape == (5, 7) and t.data_ptr() == u.data_ptr()
    assert (t * 2).sum().item() == 2 * sum(range(35))
    del x, u
    gc.collect()
    assert t[4, 6].item() == 34


def test_weft_uses_memory_of_torch_where_it_is(torch):
    t = torch.arange(24, dtype=torch.float32, device="cuda").reshape(4, 6)
    x = weft.from_dlpack(t)
    assert x.__dlpack_device__() == (2, 0)
    assert torch.from_dlpack(x).data_ptr() == t.data_ptr()
    t += 1  # in place: weft sees it, since nothing was copied
    torch.cuda.synchronize()
    assert (weft.to_device(x, 1) * 2).tolist() == (t * 2).tolist()
    across = weft.from_dlpack(t.t()[::2])
    assert across.tolist() == t.t()[::2].tolist()
    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool, torch.complex64):
        s = torch.ones(3, dtype=dtype, device="cuda")
        assert (weft.to_device(weft.from_dlpack(s), 1) + 0).tolist() == s.tolist()


def test_streams_wait_for_each_other(torch):
    side = torch.cuda.Stream()
    n = 1 << 24
    for i in range(20):
        with torch.cuda.stream(side):
            t = torch.full((n,), float(i), device="cuda")
            for _ in range(20):
                t = t + 1  # a while, on a stream of torch's own
            x = weft.from_dlpack(t)
            y = weft.to_device(x, 1) * 2
            back = torch.from_dlpack(y)
            assert back.min().item() == back.max().item() == 2 * (i + 20)
            lazy = back + 1  # still reads memory of weft when that is given back
            del back, y, x, t
            gc.collect()
            other = weft.to_device(weft.array([5.0]), 1) + weft.zeros(n)  # may take that memory
            weft.eval(other)
            assert lazy.min().item() == lazy.max().item() == 2 * (i + 20) + 1


def test_an_address_of_the_host_is_refused_for_a_device(torch):
    t = torch.zeros(4)

    class Lies:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **unused):
            return t.__dlpack__()

    assert weft.from_dlpack(Lies()).tolist() == [0, 0, 0, 0]
