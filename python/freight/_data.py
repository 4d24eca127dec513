"""Data sets of images and arrays, read as the command reads them."""
import os

from . import _core


def load_data(data, *, data_dir=None):
    """The training set, the validation set and the names of the classes, as `freight train` has them:
    `(x, y), (x_val, y_val), classes = load_data("mnist")`. The validation set is the data's test set where it has one.

    data: a built-in data set, downloaded by `freight data get mnist`, or a path: a folder of MNIST's or CIFAR's files, .npy, .npz.
    data_dir: searched first for built-in data sets.

    x are images u8 (N, C, H, W), or arrays; y are classes i64 (N), or values, which have no names of classes.
    """
    return _core.load_data(os.fspath(data), os.fspath(data_dir or ""))
