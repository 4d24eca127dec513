"""freight.load_data against the files that it reads, and what it refuses."""
import gzip
import os
import pathlib

import numpy
import pytest

import freight as fr
from freight import nn

DATA = pathlib.Path(os.environ.get("FREIGHT_TEST_DATA", "build/data"))


def test_the_built_in_digits_train_a_network():
    (x, y), held_out, classes = fr.load_data("digits")
    assert x.shape == (20000, 1, 28, 28) and x.dtype == fr.uint8 and y.shape == (20000,) and y.dtype == fr.int64
    assert held_out[0].shape == (4000, 1, 28, 28) and classes == [str(k) for k in range(10)]
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    history = net.fit(x, y, validation_data=held_out, epochs=3, lr=0.1)
    assert history.history["val_accuracy"][-1] > 0.8


def test_mnist_is_what_its_files_have():
    if not (DATA / "mnist").is_dir():
        pytest.skip(f"no {DATA / 'mnist'}: tests/unpack_data.sh makes it")
    by_path, by_name = fr.load_data(DATA / "mnist"), fr.load_data("mnist", data_dir=DATA)
    for part, a, b in zip(("train", "t10k"), by_path, by_name):
        images, labels = (gzip.decompress((DATA / "mnist" / f"{part}-{kind}-ubyte.gz").read_bytes()) for kind in ("images-idx3", "labels-idx1"))
        for got_x, got_y in (a, b):
            assert numpy.array_equal(numpy.asarray(got_x).ravel(), numpy.frombuffer(images, "u1", offset=16))
            assert numpy.array_equal(numpy.asarray(got_y), numpy.frombuffer(labels, "u1", offset=8))


def test_arrays_of_a_file_are_values_where_they_are_floats(tmp_path):
    x, y = numpy.arange(12.0, dtype="f4").reshape(6, 2), numpy.arange(6.0, dtype="f4")
    numpy.savez(tmp_path / "a.npz", x_train=x[:4], y_train=y[:4], x_test=x[4:], y_test=y[4:])
    (x_train, _), (_, y_test), classes = fr.load_data(tmp_path / "a.npz")
    assert numpy.array_equal(numpy.asarray(x_train), x[:4]) and numpy.array_equal(numpy.asarray(y_test), y[4:]) and classes == []


def test_what_has_no_arrays_is_refused(tmp_path):
    with pytest.raises(Exception, match="mnst"):
        fr.load_data("mnst")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Exception, match="t.csv"):
        fr.load_data(tmp_path / "t.csv")
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(5):
            (tmp_path / "photos" / name / f"{k}.ppm").write_bytes(b"P6 2 2 255\n" + bytes(12))
    with pytest.raises(Exception, match="photos.*batch by batch: fit"):
        fr.load_data(tmp_path / "photos")
