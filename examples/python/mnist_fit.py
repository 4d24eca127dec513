"""Trains a small CNN on MNIST by fit, and loads it again: mnist_fit.py DIRECTORY, the folder of `freight data get mnist`."""
import gzip
import pathlib
import sys

import numpy as np

import freight as fr
from freight import nn


def read(directory, part):
    """Images u8 (N, 1, 28, 28) and classes."""
    images, labels = (gzip.decompress(pathlib.Path(directory, f"{part}-{kind}-ubyte.gz").read_bytes())
                      for kind in ("images-idx3", "labels-idx1"))
    return np.frombuffer(images, "u1", offset=16).reshape(-1, 1, 28, 28), np.frombuffer(labels, "u1", offset=8)


def block(channels, width, kernel, **settings):
    return nn.Conv2d(channels, width, kernel, bias=False, init="he_normal", **settings), nn.BatchNorm2d(width), nn.ReLU()


def network():
    """`convnet`, which `freight train --data mnist` trains."""
    return nn.Sequential(*block(1, 8, 5, stride=2, padding=2), *block(8, 32, 3, stride=2, padding=1), *block(32, 32, 3),
                         nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(800, 10))


if __name__ == "__main__":
    train, test = read(sys.argv[1], "train"), read(sys.argv[1], "t10k")
    net = network()
    history = net.fit(*train, validation_data=test, epochs=4, lr=0.1, nesterov=True, weight_decay=5e-4, decay_norm_bias=False,
                      lr_scheduler="onecycle")
    print(f"{history.samples_per_second:,.0f} samples/s")
    net.save("mnist.safetensors")  # also for `freight eval`, `serve` and `export`
    print(fr.load("mnist.safetensors").evaluate(*test))
