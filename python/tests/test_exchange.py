"""Memory shared with NumPy, and torch where it is installed."""
import pytest

import freight as f

numpy = pytest.importorskip("numpy")

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
         "complex64", "complex128"]


@pytest.mark.parametrize("name", TYPES)
def test_numpy_and_freight_have_the_same_memory_both_ways(name):
    a = numpy.ones((3, 4), name)[::-1, ::2]
    for x in (f.asarray(a), f.from_dlpack(a)):
        assert x._address == a.ctypes.data and x.dtype.name == name and x.strides == a.strides
    x = f.ones((3, 4), dtype=getattr(f, name))[::-1, ::2]
    for a in (x.numpy(), numpy.asarray(x), numpy.from_dlpack(x), numpy.asarray(memoryview(x))):
        assert a.ctypes.data == x._address and a.dtype == name and a.strides == x.strides


def test_writes_go_through():
    a = numpy.zeros(3, "f4")
    x = f.asarray(a)
    a[0] = 3
    x[1] = 4
    assert x.tolist() == a.tolist() == [3, 4, 0]


def test_read_only_memory_stays_so():
    a = numpy.zeros(3)
    a.flags.writeable = False
    x = f.asarray(a)
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    assert not x.numpy().flags.writeable
    y = f.asarray(a, copy=True)
    y[0] = 1


@pytest.mark.parametrize("make", [lambda: numpy.zeros(2, ">f4"), lambda: numpy.array([object()]),
                                  lambda: numpy.array(["a"]), lambda: numpy.zeros(2, "f4,i4")])
def test_elements_that_have_no_type_here_are_a_type_error(make):
    with pytest.raises(TypeError):
        f.asarray(make())


def test_a_capsule_is_used_once():
    capsule = f.ones(3).__dlpack__()
    f.from_dlpack(capsule)
    with pytest.raises(ValueError, match="unused"):
        f.from_dlpack(capsule)


def test_dlpack_arguments():
    x = f.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    assert f.from_dlpack(x)._share_memory(x) and not f.from_dlpack(x, copy=True)._share_memory(x)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))


def test_numbers_of_numpy_count_as_python_numbers():
    x = f.ones(2)
    assert (x * numpy.float64(2)).dtype == f.float32 and (numpy.float32(2) * x).tolist() == [2, 2]


def test_the_memory_outlives_its_owner():
    x = f.asarray(numpy.arange(1000.0))
    a = f.arange(1000.0).numpy()
    f.zeros(1000), numpy.zeros(1000)
    assert x[999].item() == 999 and a[999] == 999


def test_bfloat16_becomes_float32_or_that_of_ml_dtypes():
    a = f.asarray([1.5], dtype=f.bfloat16).numpy()
    assert float(a[0]) == 1.5
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert a.dtype == ml_dtypes.bfloat16
    assert f.asarray(numpy.ones(2, ml_dtypes.bfloat16)).dtype == f.bfloat16


def test_torch_has_the_same_memory_both_ways():
    torch = pytest.importorskip("torch")
    for name in ("float32", "float64", "int64", "uint8", "bfloat16", "bool", "complex64"):
        t = torch.ones(3, dtype=getattr(torch, name))
        assert f.from_dlpack(t)._address == t.data_ptr()
        x = f.ones(3, dtype=getattr(f, name))
        assert torch.from_dlpack(x).data_ptr() == x._address
